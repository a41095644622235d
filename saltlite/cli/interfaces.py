"""Interfaces that a command line names: by the virtual name of one that ships, or by a file."""

from __future__ import annotations

import os

from saltlite.errors import UsageError
from saltlite.lint.run import by_module, shipped_interfaces
from saltlite.lint.source import SourceInterface, read_interfaces, read_tree


def read_interface(word: str) -> SourceInterface:
    """The interface that a word means. Raises UsageError when there is none, or a file has several."""
    shipped = shipped_interfaces()
    if not os.path.exists(word):
        parts = by_module(shipped).get(word)
        if parts is None:
            known = ", ".join(sorted(by_module(shipped)))
            raise UsageError(f"there is no file {word}, and no interface of that name ships: use a file, or {known}")
        return parts[0]
    try:
        found = read_interfaces(word, read_tree(word), {one.name: one for one in shipped})
    except SyntaxError as error:
        raise UsageError(f"{word}:{error.lineno or 1}: {error.msg}") from error
    if len(found) != 1:
        raise UsageError(f"{word} declares {len(found)} interfaces: name a file with one")
    return found[0]
