"""What `file.find` can ask of one entry of a folder: its name, kind, owner, size, age and content.

Contract: the options of Salt's `file.find`. Links are not followed: they are entries of their own kind. Everything is
asked through the folder that is open, so that nothing can be exchanged for a link on the way.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from saltlite.errors import SaltInvocationError

from .owning import owner_numbers

KINDS = {
    "b": stat.S_IFBLK, "c": stat.S_IFCHR, "d": stat.S_IFDIR, "f": stat.S_IFREG, "l": stat.S_IFLNK, "p": stat.S_IFIFO,
    "s": stat.S_IFSOCK,
}  # fmt: skip
"""Letter -> file type."""

_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

_SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}

_LINE_BYTES = 1024 * 1024
"""A longer line is searched in pieces."""


class Entry(NamedTuple):
    """One entry: its path, what the kernel knows of it, and the open folder and the name by which to reach it."""

    path: str
    status: os.stat_result
    folder_fd: int
    name: str


Criterion = Callable[[Entry], bool]


def criteria(options: dict[str, Any]) -> list[Criterion]:
    """What an entry has to fulfil, the cheapest first. Raises SaltInvocationError for a value that makes no sense."""
    made = []
    for option, make in _MAKERS.items():
        if option in options:
            value = options[option]
            if value in (None, "", False):
                raise SaltInvocationError(f"missing value for '{option}' option")
            made.append(make(str(value)))
    return made


def kinds(letters: str) -> frozenset[int]:
    """The file types of letters such as `f` or `d,l`; `a` is all. Raises SaltInvocationError."""
    wanted = set("".join(letters.replace(",", " ").split()))
    if "a" in wanted:
        return frozenset(KINDS.values())
    unknown = sorted(wanted - set(KINDS))
    if unknown:
        raise SaltInvocationError(f'invalid file type "{unknown[0]}": there are {", ".join(KINDS)}, and a for all.')
    return frozenset(KINDS[letter] for letter in wanted)


def _glob(text: str, flags: int = 0) -> Criterion:
    patterns = [re.compile(fnmatch.translate(each.replace("[^", "[!")), flags) for each in _without_braces(text)]
    return lambda entry: any(pattern.match(entry.name) for pattern in patterns)


def _without_braces(text: str) -> Iterator[str]:
    """`a{b,c}` as `ab` and `ac`."""
    match = re.search(r"\{([^{}]*)\}", text)
    if match is None:
        yield text
        return
    for part in match[1].split(","):
        yield from _without_braces(text[: match.start()] + part + text[match.end() :])


def _regex(text: str, flags: int = 0) -> Criterion:
    pattern = _compiled(text, flags)
    return lambda entry: pattern.match(entry.name) is not None


def _compiled(text: str, flags: int) -> re.Pattern[str]:
    try:
        return re.compile(text, flags)
    except re.error as error:
        raise SaltInvocationError(f'invalid regular expression: "{text}": {error}') from error


def _type(text: str) -> Criterion:
    wanted = kinds(text)
    return lambda entry: stat.S_IFMT(entry.status.st_mode) in wanted


def _owner(text: str) -> Criterion:
    wanted = {_number(name, owner_numbers(name, None)) for name in text.replace(",", " ").split()}
    return lambda entry: entry.status.st_uid in wanted


def _group(text: str) -> Criterion:
    wanted = {_number(name, owner_numbers(None, name)[1:]) for name in text.replace(",", " ").split()}
    return lambda entry: entry.status.st_gid in wanted


def _number(name: str, found: tuple[Any, ...]) -> int:
    if name.isdecimal():
        return int(name)
    if found[-1]:
        raise SaltInvocationError(f'no such user or group: "{name}"')
    return int(found[0])


def _size(text: str) -> Criterion:
    match = re.fullmatch(r"([+-]?)\s*(\d+(?:\.\d*)?)\s*([bkmgt]?)", text.strip(), re.IGNORECASE)
    if match is None:
        raise SaltInvocationError(f'invalid size: "{text}"')
    unit = _UNITS[match[3].lower() or "b"]
    size = int(float(match[2]) * unit)
    if match[1] == "+":
        return lambda entry: entry.status.st_size >= size
    if match[1] == "-":
        return lambda entry: entry.status.st_size <= size
    return lambda entry: size <= entry.status.st_size < size + unit


def _mtime(text: str) -> Criterion:
    # A number without a unit is days.
    match = re.fullmatch(r"\s*([+-]?)\s*((?:\d+(?:\.\d*)?\s*[wdhms]\s*)+|\d+(?:\.\d*)?\s*)", text, re.IGNORECASE)
    if match is None:
        raise SaltInvocationError(f"invalid time interval: '{text}'")
    parts = re.findall(r"(\d+(?:\.\d*)?)\s*([wdhms]?)", match[2], re.IGNORECASE)
    moment = time.time() - sum(float(count) * _SECONDS[unit.lower() or "d"] for count, unit in parts)
    if match[1] == "-":
        return lambda entry: entry.status.st_mtime >= moment
    return lambda entry: entry.status.st_mtime <= moment


def _grep(text: str) -> Criterion:
    _compiled(text, 0)
    pattern = re.compile(os.fsencode(text))
    return lambda entry: _contains(entry, pattern)


def _contains(entry: Entry, pattern: re.Pattern[bytes]) -> bool:
    if not stat.S_ISREG(entry.status.st_mode):
        return False
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(entry.name, flags, dir_fd=entry.folder_fd), "rb") as stream:
            while line := stream.readline(_LINE_BYTES):
                if pattern.search(line):
                    return True
    except OSError:
        return False  # what cannot be read has no content that could be found
    return False


_MAKERS: dict[str, Callable[[str], Criterion]] = {
    "name": _glob,
    "iname": lambda text: _glob(text, re.IGNORECASE),
    "regex": _regex,
    "iregex": lambda text: _regex(text, re.IGNORECASE),
    "type": _type,
    "owner": _owner,
    "user": _owner,
    "group": _group,
    "size": _size,
    "mtime": _mtime,
    "grep": _grep,
}
