"""The name that somebody probably meant; for messages about unknown options, verbs and functions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is most like `name`, or None when nothing is like it."""
    matches = difflib.get_close_matches(name, known, n=1)
    return matches[0] if matches else None
