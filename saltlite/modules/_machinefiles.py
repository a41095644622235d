"""Files of this machine that modules read and edit: below `/proc`, `/sys` and `/etc`.

What belongs here: reading them with an error that is a sentence, and putting an edited one in its place whole or not
at all. It knows nothing of what the files mean. Every path goes through `place`, so that one constant moves them all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from typing import Any

from saltlite.errors import CommandExecutionError

ROOT = "/"
"""The folder that stands for `/`."""


def place(path: str) -> str:
    """Where a file of this machine is."""
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

    A reader sees the old content or the new one. Mode and owner stay, links are followed. Raises CommandExecutionError,
    and then the old content is there.
    """
    target = os.path.realpath(place(path))
    data = text.encode("utf-8", "surrogateescape")
    temporary = ""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        old = os.stat(target) if os.path.exists(target) else None
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise CommandExecutionError(f"{path} is no regular file, so it cannot be edited.")
        descriptor, temporary = tempfile.mkstemp(prefix=".saltlite-", dir=os.path.dirname(target))
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            if old is not None:
                _keep_attributes(target, stream.fileno())
            if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(stream.fileno(), old.st_uid, old.st_gid)
            os.fchmod(stream.fileno(), mode if old is None else stat.S_IMODE(old.st_mode))
            os.fsync(stream.fileno())
        _exchange(temporary, target, data)
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be written, it is as it was: {_why(error)}.") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _keep_attributes(target: str, descriptor: int) -> None:
    """Labels and access lists of the old file; those that this user, or this file system, cannot set are left."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(target):
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(target, name))


def _exchange(temporary: str, target: str, data: bytes) -> None:
    try:
        os.replace(temporary, target)
    except OSError as error:
        # Something is mounted on the file, as on /etc/hosts in a container: it cannot be exchanged.
        if error.errno != errno.EBUSY:
            raise
        _pour(target, data)


def _pour(target: str, data: bytes) -> None:
    """Write over a file; its room on the disk is taken before its first byte changes."""
    with open(target, "r+b") as stream:
        size = os.fstat(stream.fileno()).st_size
        if len(data) > size:
            os.posix_fallocate(stream.fileno(), size, len(data) - size)
        stream.write(data)
        stream.truncate()
        stream.flush()
        os.fsync(stream.fileno())


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
