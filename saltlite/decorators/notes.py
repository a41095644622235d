"""Sentences for the person who called a function, that are no part of what it returns."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar

log = logging.getLogger(__name__)

NOTES_MAX = 20
"""Notes of one call; what a function says in a loop is said often enough by then."""

_notes: ContextVar[dict[str, None]] = ContextVar("notes")


@contextlib.contextmanager
def collecting() -> Iterator[dict[str, None]]:
    """The notes that are made until the end of the block: sentences in order, each once."""
    token = _notes.set({})
    try:
        yield _notes.get()
    finally:
        _notes.reset(token)


def note(sentence: str) -> None:
    """Tell the caller; where nobody collects (a thread that a function started), the log is told."""
    notes = _notes.get(None)
    if notes is None:
        log.warning("%s", sentence)
    elif len(notes) < NOTES_MAX:
        notes[sentence] = None
