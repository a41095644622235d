"""Names of files on the master's file server: environments, paths and `salt://` addresses.

Nothing here touches a disk. Paths come from people and minions, so a valid path is still opened component by component
below its root. Contract of the addresses: Salt's `salt://path?saltenv=name`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from saltlite.errors import UsageError

SCHEME = "salt://"
BASE_ENV = "base"
ENV_MAX = 64
PATH_BYTES_MAX = 1024
NAME_BYTES_MAX = 255
"""Bytes of one component of a path, as Linux has it (NAME_MAX)."""

_ENV = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{ENV_MAX - 1}}}", re.ASCII)
_AREA = re.compile(r"copy-[0-9a-f]{32}", re.ASCII)
_QUERY = "?saltenv="


@dataclass(frozen=True, slots=True)
class FileAddress:
    """A file on the file server: a path of `parse_path`, and its environment."""

    path: str
    env: str


@dataclass(frozen=True, slots=True)
class FileStat:
    """What is known of a served file. `sha256` is 32 bytes, `mode` the permission bits, `mtime` seconds since 1970."""

    size: int
    sha256: bytes
    mode: int
    mtime: int


def parse_env(text: object) -> str:
    """The name of an environment: 1 to 64 of `A-Z a-z 0-9 _ . -`, no dot or hyphen in front. Raises UsageError."""
    if isinstance(text, str) and _ENV.fullmatch(text):
        return text
    raise UsageError(f"{str(text)[:ENV_MAX]!r} is not the name of an environment: use letters, digits, _ . -")


def parse_path(text: object) -> str:
    """A relative path in its one normal form: components joined by single slashes, none of them `.` or empty.

    "" is the root itself. Raises UsageError for anything that could lead elsewhere: `..`, an absolute path, NUL; and
    for what no file can be called: a component over 255 bytes, text that is no UTF-8, more than 1024 bytes in all.
    """
    if not isinstance(text, str):
        raise UsageError(f"a path is text, not {type(text).__name__}")
    shown = repr(text[:80])
    if "\0" in text:
        raise UsageError(f"{shown} is not a path: it holds a NUL")
    if text.startswith("/"):
        raise UsageError(f"{shown} is absolute: paths of the file server begin at its root, as in a/b")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise UsageError(f"{shown} leads out of its folder: '..' is not allowed here")
    try:
        lengths = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        raise UsageError(f"{shown} is not UTF-8") from None
    if sum(lengths) + len(lengths) > PATH_BYTES_MAX + 1 or max(lengths, default=0) > NAME_BYTES_MAX:
        raise UsageError(f"{shown} is too long for a path")
    return "/".join(parts)


def is_area(text: str) -> bool:
    """Whether this is the name of an environment made for one `saltlite cp`: in no list, and not to be guessed."""
    return _AREA.fullmatch(text) is not None


def is_address(text: object) -> bool:
    """Whether the text begins with `salt://`."""
    return isinstance(text, str) and text.startswith(SCHEME)


def parse_address(text: object, env: str = BASE_ENV) -> FileAddress:
    """The file in `salt://path`, in `env` unless it ends with `?saltenv=name`. Raises UsageError."""
    if not isinstance(text, str) or not text.startswith(SCHEME):
        raise UsageError(f"{str(text)[:80]!r} is no file of the master: write salt://path")
    path, query, named = text.removeprefix(SCHEME).partition(_QUERY)
    return FileAddress(parse_path(path.lstrip("/")), parse_env(named if query else env))
