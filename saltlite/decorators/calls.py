"""`memoize` and `timing`."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

log = logging.getLogger(__name__)

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def memoize(function: Decorated) -> Decorated:
    """Remember what the function returned for the same arguments, for as long as its module is loaded: one job.

    Arguments are the same when they are equal and of the same type; with one that cannot be hashed the function is
    called.
    """
    known: dict[Any, Any] = {}

    @functools.wraps(function)
    def remembered(*args: Any, **kwargs: Any) -> Any:
        key = (
            tuple((type(value), value) for value in args),
            tuple((name, type(kwargs[name]), kwargs[name]) for name in sorted(kwargs)),
        )
        try:
            if key not in known:
                known[key] = function(*args, **kwargs)
        except TypeError:
            if _hashable(key):
                raise  # the function's own
            return function(*args, **kwargs)
        return known[key]

    return cast(Decorated, remembered)


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def timing(function: Decorated) -> Decorated:
    """Log, for debugging, how long each call takes."""

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        try:
            return function(*args, **kwargs)
        finally:
            log.debug("Function %s took %.6f seconds to execute", function.__name__, time.monotonic() - began)

    return cast(Decorated, timed)
