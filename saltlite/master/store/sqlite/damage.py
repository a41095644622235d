"""Rows that cannot be read: damaged on disk, or written by a version that stored something else.

One such row costs itself. Who asks for it by its name gets DamagedError; who asks for many gets the others, and the log
names it, once in the life of a process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import DamagedError

log = logging.getLogger(__name__)

NAMED_MAX = 1000
"""Rows that a process names in its log: a store that is damaged all over must not fill the disk with that."""

_ERRORS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, msgpack.UnpackException)
_Made = TypeVar("_Made")
_named: dict[str, None] = {}


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Around the reading of one row. Raises DamagedError, which names it, where its values are none."""
    try:
        yield
    except _ERRORS as error:
        raise DamagedError(
            f"{what} in the store cannot be read ({type(error).__name__}: {error}): it is damaged, or "
            "another version wrote it"
        ) from error


def readable(rows: Iterable[Any], make: Callable[[Any], _Made], name: Callable[[Any], str]) -> list[_Made]:
    """What `make` makes of the rows; those that cannot be read are left out, and named by `name` in the log."""
    found = []
    for row in rows:
        try:
            with reading(name(row)):
                found.append(make(row))
        except DamagedError as error:
            leave_out(error)
    return found


def leave_out(error: DamagedError) -> None:
    """Name a row that is left out, unless this process has done so."""
    text = str(error)
    if text not in _named and len(_named) < NAMED_MAX:
        _named[text] = None
        log.error("%s; it is left out", text)
