"""Absolute paths and modes as callers give them, and what the kernel refused, as sentences."""

from __future__ import annotations

import os
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, shown


def absolute(path: Any, what: str = "File path") -> str:
    """The absolute path as text, with `~` expanded. Raises SaltInvocationError for a relative one."""
    text = checked_path(path)
    if not os.path.isabs(text):
        raise SaltInvocationError(f"{what} must be absolute: {shown(text)}")
    return text


def own_name(name: str) -> str:
    """The path without slashes at its end, which would follow a link. Raises SaltInvocationError for no name at all."""
    plain = name.rstrip("/")
    if not plain:
        raise SaltInvocationError("This is the root folder, which is neither removed nor moved nor replaced.")
    if os.path.basename(plain) in {".", ".."}:
        raise SaltInvocationError(f"{shown(name)} names a folder by its place: give its own name.")
    return plain


def failed(what: str, error: OSError) -> CommandExecutionError:
    """The error to raise for what the kernel refused; `what` is a clause such as "/a cannot be read"."""
    where = shown(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else ""
    # In a tree it may be another path than the one that the caller gave.
    inside = f" ({where})" if where and where not in what else ""
    return CommandExecutionError(f"{what}: {error.strerror or error}{inside}.")


def octal(mode: Any) -> int:
    """The mode of octal digits, such as 644, "0644" or "0o644". Raises SaltInvocationError."""
    digits = str(mode).strip("\"'").lower().lstrip("0o") or "0"
    if len(digits) > 4 or not set(digits) <= set("01234567"):
        raise SaltInvocationError(f"Invalid Mode {mode}: give up to four octal digits, such as 0644.")
    return int(digits, 8)


def octal_text(mode: int) -> str:
    """A mode as Salt writes it: four octal digits."""
    return f"{mode & 0o7777:04o}"
