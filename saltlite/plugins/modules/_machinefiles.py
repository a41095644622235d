"""Files of this machine that modules read and edit: below `/proc`, `/sys` and `/etc`.

What belongs here: reading them with an error that is a sentence, and giving them a new text. It knows nothing of what
the files mean. Every path goes through `place`, so that one constant moves them all.
"""

from __future__ import annotations

import os
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import write_whole

ROOT = "/"
"""The folder that stands for `/`."""


def place(path: str) -> str:
    """Where a file of this machine is. Raises SaltInvocationError for what is no absolute path, a number for one."""
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise SaltInvocationError(f"{path!r} is not the absolute path of a file.")
    return path if ROOT == "/" else os.path.join(ROOT, path.lstrip("/"))


def read(path: str) -> str:
    """The text of a file; bytes that are no UTF-8 survive `replace`. Raises CommandExecutionError."""
    try:
        with open(place(path), encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except (OSError, ValueError) as error:
        raise CommandExecutionError(f"{path} cannot be read: {_why(error)}.") from error


def read_if_there(path: str) -> str:
    """The text of a file, or an empty one when there is none. Raises CommandExecutionError for other failures."""
    try:
        return read(path)
    except CommandExecutionError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return ""
        raise


def names_in(folder: str) -> list[str]:
    """The names in a folder, sorted; none when it is not there or may not be read."""
    try:
        return sorted(os.listdir(place(folder)))
    except OSError:
        return []


def number(text: str) -> Any:
    """An int or a float where the text is one, otherwise the text."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return text


def replace(path: str, text: str, mode: int = 0o644) -> None:
    """Give a file a new content, or make it with `mode`; its folder is made too.

    A reader sees the old content or the new one. Mode, owner and labels stay, links are followed. Raises
    CommandExecutionError, and then the old content is there.
    """
    target = place(path)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        write_whole(target, text.encode("utf-8", "surrogateescape"), new_mode=mode)
    except (OSError, CommandExecutionError) as error:
        reason = error.__cause__ if isinstance(error, CommandExecutionError) else error
        if reason is None:
            raise
        raise CommandExecutionError(f"{path} cannot be written, it is as it was: {_why(reason)}.") from error


def _why(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)
