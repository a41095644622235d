"""Reads and edits files of this machine below `/proc`, `/sys` and `/etc`, with errors that name the file.

Every path is mapped by `place`, so that tests can set another `ROOT`.
"""

from __future__ import annotations

import os
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import write_whole

ROOT = "/"
"""The folder that is used as `/`."""


def place(path: str) -> str:
    """The path of a file of this machine below `ROOT`. Raises SaltInvocationError if it is not absolute."""
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise SaltInvocationError(f"{path!r} is not the absolute path of a file.")
    return path if ROOT == "/" else os.path.join(ROOT, path.lstrip("/"))


def read(path: str) -> str:
    """The text of a file; `replace` writes invalid UTF-8 back unchanged. Raises CommandExecutionError."""
    try:
        with open(place(path), encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except (OSError, ValueError) as error:
        raise CommandExecutionError(f"{path} cannot be read: {_why(error)}.") from error


def read_if_there(path: str) -> str:
    """The text of a file, or an empty string if there is none. Raises CommandExecutionError for other failures."""
    try:
        return read(path)
    except CommandExecutionError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return ""
        raise


def names_in(folder: str) -> list[str]:
    """The names in a folder, sorted; an empty list if it does not exist or cannot be read."""
    try:
        return sorted(os.listdir(place(folder)))
    except OSError:
        return []


def number(text: str) -> Any:
    """An int or a float if the text is one, otherwise the text."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return text


def replace(path: str, text: str, mode: int = 0o644) -> None:
    """Write a file atomically, or create it with `mode`, and its folder.

    Mode, owner and labels are kept, and links are followed. Raises CommandExecutionError; the old content then stays.
    """
    target = place(path)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        write_whole(target, text.encode("utf-8", "surrogateescape"), new_mode=mode)
    except (OSError, CommandExecutionError) as error:
        reason = error.__cause__ if isinstance(error, CommandExecutionError) else error
        if reason is None:
            raise
        raise CommandExecutionError(f"{path} cannot be written, and is unchanged: {_why(reason)}.") from error


def _why(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)
