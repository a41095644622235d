"""Reads and edits files of this machine below `/proc`, `/sys` and `/etc`, with errors that name the file.

Every path is mapped by `place`, so that tests can set another `ROOT`.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError

ROOT = "/"
"""The folder that is used as `/`."""
_FIRST_LINE_MAX = 1024
"""Characters of a first line that are read."""


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
    from saltlite.plugins.modules._safe_files import write_whole

    target = place(path)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        write_whole(target, text.encode("utf-8", "surrogateescape"), new_mode=mode)
    except (OSError, CommandExecutionError) as error:
        reason = error.__cause__ if isinstance(error, CommandExecutionError) else error
        if reason is None:
            raise
        raise CommandExecutionError(f"{path} cannot be written, and is unchanged: {_why(reason)}.") from error


def refuse_other(path: str, first_line: str, what: str) -> None:
    """Raise CommandExecutionError if there is a file whose first line does not match the expression `first_line`."""
    from saltlite.plugins.modules._safe_files import regular

    target = place(path)
    try:
        if regular(target) is None:
            return
        with open(target, encoding="utf-8", errors="replace") as stream:
            line = stream.readline(_FIRST_LINE_MAX)
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {_why(error)}.") from error
    if re.match(first_line, line.rstrip("\n")) is None:
        raise CommandExecutionError(f"{path} is not replaced: it does not contain {what}.")


def _why(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)


# --- Mounts: /proc/self/mountinfo, and the escapes of white space there and in fstab ---

_WRITTEN = str.maketrans({" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"})


class Mount(NamedTuple):
    """A mount, with unescaped texts."""

    mountid: str
    parentid: str
    major: str
    minor: str
    root: str
    point: str
    options: list[str]
    fstype: str
    device: str
    superoptions: list[str]


def mounts() -> list[Mount]:
    """Return all mounts of this process in mount order. Raises CommandExecutionError."""
    found = []
    for line in read("/proc/self/mountinfo").splitlines():
        columns = line.split(" ")
        dash = columns.index("-", 6)
        major, _, minor = columns[2].partition(":")
        fstype, device, superoptions = [*columns[dash + 1 : dash + 4], "", ""][:3]
        found.append(
            Mount(
                mountid=columns[0],
                parentid=columns[1],
                major=major,
                minor=minor,
                root=plain(columns[3]),
                point=plain(columns[4]),
                options=plain(columns[5]).split(","),
                fstype=plain(fstype),
                device=plain(device),
                superoptions=plain(superoptions).split(","),
            )
        )
    return found


def by_point() -> dict[str, Mount]:
    """Mount point -> the visible mount, which is the last one there."""
    return {mount.point: mount for mount in mounts()}


def options_of(mount: Mount) -> list[str]:
    """Return the options as `/proc/self/mounts` has them: of the mount, then of the file system, without repetition."""
    return list(dict.fromkeys([*mount.options, *(each for each in mount.superoptions if each not in {"rw", "ro"})]))


def plain(text: str) -> str:
    """Unescape a column: `a\\040b` becomes `a b`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def written(text: str) -> str:
    r"""Escape a column: `a b` becomes `a\040b`. Text that has an escape stays."""
    return text if re.search(r"\\[0-7]{3}", text) else text.translate(_WRITTEN)
