"""Grains that somebody wrote: every function of a file in `_grains` or a folder of grains returns a dict of them.

They are found after the shipped ones, which they see as `__grains__` (and as the argument of a parameter `grains`), and
win over them. A file or function that fails, or does not end, costs its own grains only, and is logged with its place.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import signal
import traceback
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from saltlite.loader.finder import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.places import SHIPPED, search_layers

log = logging.getLogger(__name__)

GRAINS = "grains"
FUNCTION_S = 10.0
"""How long one function may take."""
AGAIN_S = 1.0
"""A function that swallows the alarm hears it again after so long."""


class LateError(BaseException):
    """The function did not end in time. No Exception, so that its own `except Exception` does not swallow it."""


def custom_grains(opts: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The grains of each function, in the order of their names; `known` are those found before. Main thread only."""
    layers = [layer for layer in search_layers(opts, GRAINS) if layer.name != SHIPPED]
    index = build_index(layers)
    if not index.files:
        return
    grains = dict(known)
    loader = Loader(index, opts, grains, {})
    for name in sorted(loader):
        found = _found(loader, name, grains)
        grains.update(found)
        loader.refresh(grains, {})
        yield found
    for file, sentence in loader.not_loaded().items():
        log.warning("grains of %s are missing: %s", file, sentence)


def _found(loader: Loader, name: str, grains: Mapping[str, Any]) -> dict[str, Any]:
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
        log.warning("grains of %s are missing: it returned %s, and not a dict", name, type(found).__name__)
    return {}


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises LateError inside the block when it takes longer."""
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ring(_signum: int, _frame: FrameType | None) -> None:
    raise LateError
