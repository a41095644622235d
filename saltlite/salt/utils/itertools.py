"""`salt.utils.itertools`: iterating over large texts and files."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Any

from saltlite.salt.utils.files import fopen


def split(orig: str, sep: str | None = None) -> Iterator[str]:
    """The parts of a text, one at a time: between separators, or between white space. An empty part at the end does
    not count."""
    place = 0
    for found in re.finditer(r"\s+" if sep is None else re.escape(sep), orig):
        if place < found.start() or sep is not None:
            yield orig[place : found.start()]
        place = found.end()
    if place < len(orig):
        yield orig[place:]


def read_file(fh_: Any, chunk_size: int = 1048576) -> Iterator[Any]:
    """The blocks of an open file, or of a path in bytes; the file is closed in the end. Raises ValueError for a size
    that is no number."""
    try:
        size = int(chunk_size)
    except ValueError:
        size = -1
    if size != chunk_size:
        raise ValueError("chunk_size must be an integer")
    with fh_ if hasattr(fh_, "read") else fopen(fh_, "rb") as file:
        while block := file.read(size):
            yield block


def fnmatch_multiple(candidates: Any, pattern: str) -> Any:
    """The first candidate that matches the glob, or None."""
    if not isinstance(candidates, Iterable):
        return None
    return next((one for one in candidates if isinstance(one, str) and fnmatch.fnmatch(one, pattern)), None)
