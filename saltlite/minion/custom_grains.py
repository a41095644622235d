"""Custom grains: each function of a file in `_grains` or a grains folder returns a dict of grains.

`saltlite call` imports this in each run, so it imports nothing of the minion's processes.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import signal
import traceback
from collections.abc import Collection, Iterator, Mapping
from types import FrameType
from typing import Any

from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import GRAINS, SHIPPED, search_layers

log = logging.getLogger(__name__)

FUNCTION_S = 10.0
"""Seconds that one function may take."""
AGAIN_S = 1.0
"""Seconds between two alarms for a function that swallows them."""


class LateError(BaseException):
    """The function did not end in time. Not an Exception, so that `except Exception` in it does not swallow it."""


def custom_grains(opts: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The grains of each function, in the order of their names; `known` are those found before. Main thread only."""
    layers = [layer for layer in search_layers(opts, GRAINS) if layer.name != SHIPPED]
    grains = dict(known)
    loader = Loader(build_index([layer for layer in layers if not layer.salt]), opts, grains, {})
    names = sorted(loader)
    for name in names:
        found = _found(loader, name, grains)
        grains.update(found)
        loader.refresh(grains, {})
        yield found
    for file, sentence in loader.not_loaded().items():
        log.warning("grains of %s are missing: %s", file, sentence)
    if any(layer.salt for layer in layers):
        yield from _of_salt(Loader(build_index(layers), opts, grains, {}), names, grains)


def _of_salt(loader: Loader, others: Collection[str], grains: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Grains of Salt's functions that no other function has found."""
    for name in sorted(set(loader).difference(others)):
        # Salt's own functions return None for no grains.
        given = _found(loader, name, grains, of_none=logging.DEBUG)
        found = {grain: value for grain, value in given.items() if grain not in grains}
        grains.update(found)
        loader.refresh(grains, {})
        yield found


def _found(loader: Loader, name: str, grains: Mapping[str, Any], *, of_none: int = logging.WARNING) -> dict[str, Any]:
    """The result of the function; `of_none` is the log level for a function that returned nothing."""
    try:
        function = loader[name]
        wants = "grains" in inspect.signature(function).parameters
        with _at_most(FUNCTION_S):
            found = function(grains=dict(grains)) if wants else function()
    except LateError:
        log.warning("grains of %s are missing: it did not end within %g s", name, FUNCTION_S)
    except BaseException as error:  # noqa: BLE001 - supervision point: one bad grain, SystemExit included, costs its own
        *_, last = traceback.extract_tb(error.__traceback__)
        kind = type(error).__name__
        log.warning("grains of %s are missing: %s: %s (%s:%s)", name, kind, error, last.filename, last.lineno)
    else:
        if isinstance(found, dict):
            return found
        level = of_none if found is None else logging.WARNING
        log.log(level, "grains of %s are missing: it returned %s, and not a dict", name, type(found).__name__)
    return {}


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise LateError inside the block when it takes longer."""
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ring(_signum: int, _frame: FrameType | None) -> None:
    raise LateError
