"""Keys as file names: nothing of a key is ever a path, a hidden file or one of the driver's own files."""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

from saltlite.errors import UsageError

NAME_MAX = 240
"""Bytes of a file name, at most: prefixes of the driver's own fit before it."""


def file_name(key: str) -> str:
    """The name of the file of that key. Letters, digits and `_ . - ~` are themselves, all else is `%XX`, as is a dot in
    front. Raises UsageError for an empty key, and for one whose name gets too long.
    """
    try:
        name = quote(key, safe="")
    except UnicodeEncodeError:
        name = ""
    if name.startswith("."):
        name = "%2E" + name[1:]
    if not 0 < len(name) <= NAME_MAX:
        raise UsageError(f"{key[:40]!r} cannot be a key of the cache: use 1 to {NAME_MAX} letters, digits, _ . and -")
    return name


def key_of(name: str) -> str | None:
    """The key that has this file name, None for a file of another origin."""
    try:
        key = unquote_to_bytes(name).decode()
        return key if file_name(key) == name else None
    except (UnicodeError, UsageError):
        return None
