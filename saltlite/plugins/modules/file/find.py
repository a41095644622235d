"""Find files by criteria, and act on them."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import pinned, shown

from .permissions import owner_numbers
from .stats import absolute, get_hash, gid_to_group, uid_to_user

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


# --- Criteria ---

KINDS = {
    "b": stat.S_IFBLK, "c": stat.S_IFCHR, "d": stat.S_IFDIR, "f": stat.S_IFREG, "l": stat.S_IFLNK, "p": stat.S_IFIFO,
    "s": stat.S_IFSOCK,
}  # fmt: skip
"""Letter -> file type."""

_UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

_SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}

_LINE_BYTES = 1024 * 1024
"""Longer lines are searched in pieces."""


class Entry:
    """A found entry: its path, its status, and the open folder and name to reach it."""

    def __init__(self, path: str, status: os.stat_result, folder_fd: int, name: str) -> None:
        self.path = path
        self.status = status
        self.folder_fd = folder_fd
        self.name = name


Criterion = Callable[[Entry], bool]


def criteria(options: dict[str, Any]) -> list[Criterion]:
    """Return the criteria, cheapest first. Raises SaltInvocationError for an invalid value."""
    made = []
    for option, make in _MAKERS.items():
        if option in options:
            value = options[option]
            if value in (None, "", False):
                raise SaltInvocationError(f"missing value for '{option}' option")
            made.append(make(str(value)))
    return made


def kinds(letters: str) -> frozenset[int]:
    """Return the file types of letters such as `f` or `d,l`; `a` is all. Raises SaltInvocationError."""
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
    """Expand `a{b,c}` to `ab` and `ac`."""
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
    # A number without a unit is in days.
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
        return False  # unreadable
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


Action = Callable[[Entry], Any]
"""Acts on an entry and returns its result, or None."""


class _Options(TypedDict, total=False):
    name: str
    iname: str
    regex: str
    iregex: str
    type: str
    owner: str
    user: str
    group: str
    size: str | int
    mtime: str | int
    grep: str
    delete: str
    exec: str
    print: str
    maxdepth: int
    mindepth: int
    test: bool


def find(path: str, *args: str, **kwargs: Unpack[_Options]) -> list[Any]:
    """Return the paths below a folder, or below a glob of folders, that match all criteria; links are not followed.

    - ``name``, ``iname``: glob of the base name, with ``{a,b}``; ``i`` ignores case
    - ``regex``, ``iregex``: regular expression for the start of the base name
    - ``type``: ``f`` file, ``d`` folder, ``l`` link, ``p`` pipe, ``s`` socket, ``b`` and ``c`` devices
    - ``owner``, ``group``: names or numbers
    - ``size``: ``10m``; ``+10m`` or more; ``-10m`` or less; units ``b k m g t``
    - ``mtime``: ``3d`` or ``+3d``: changed longer ago; ``-3d``: changed since then; units ``w d h m s``
    - ``grep``: regular expression for a line of the content
    - ``mindepth``, ``maxdepth``: the entries of the folder itself have depth 1

    Actions: ``print`` selects columns: ``group md5 mode mtime name path size type user``. ``exec`` runs a command
    without a shell, with the path instead of ``{}``. ``delete`` removes entries of these types, by default files. With
    ``test=True`` nothing is removed or run, and the paths are returned.

    CLI Example::

        saltlite '*' file.find / type=f name='*.bak' size=+10m
        saltlite '*' file.find /var mtime=+30d size=+10m print=path,size,mtime
        saltlite '*' file.find /var/log name='*.[0-9]' mtime=+30d size=+10m delete
    """
    from glob import glob

    options: dict[str, Any] = {**kwargs}
    unknown = sorted(set(options) - set(_Options.__annotations__))
    if unknown or set(args) - {"delete", "print"}:
        raise SaltInvocationError(f'invalid option "{(unknown or sorted(set(args) - {"delete", "print"}))[0]}"')
    test, removed = bool(options.get("test")), _Removal()
    for word, value in (("delete", "f"), ("print", "path")):
        if word in args:
            options[word] = value
    depths = _depth(options, "mindepth") or 0, _depth(options, "maxdepth")
    wanted = criteria(options)
    actions = list(_actions(options, removed, test=test))
    found = [
        result
        for top in sorted(glob(absolute(path)))
        for entry in _walk(top, wanted, depths)
        for action in actions
        if (result := action(entry)) is not None
    ]
    if removed.kept:
        raise CommandExecutionError("Not everything could be removed: " + "; ".join(removed.kept))
    try:
        return sorted(found)
    except TypeError:  # mixed columns of text and numbers
        return found


class _Removal:
    """Removes entries and collects failures."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def remove(self, entry: Entry) -> str | None:
        if os.path.samestat(entry.status, os.stat("/")):
            raise SaltInvocationError("The root folder is not removed: mindepth=1 leaves it out.")
        try:
            if stat.S_ISDIR(entry.status.st_mode):
                shutil.rmtree(entry.name, dir_fd=entry.folder_fd)
            else:
                os.unlink(entry.name, dir_fd=entry.folder_fd)
        except OSError as error:
            self.kept.append(f"{shown(entry.path)}: {error.strerror or error}")
            return None
        return entry.path


def _depth(options: dict[str, Any], name: str) -> int | None:
    value = options.get(name)
    if value is not None and (isinstance(value, bool) or not str(value).isdecimal()):
        raise SaltInvocationError(f"{name} is a number of folders, not {value!r}.")
    return None if value is None else int(value)


def _walk(top: str, wanted: list[Criterion], depths: tuple[int, int | None]) -> Iterator[Entry]:
    """Iterate over matching entries, the folder itself first. Folders stay open while they are read."""
    least, most = depths
    if least < 1:
        yield from _itself(top, wanted)
    if not os.path.isdir(top) or most == 0:
        return
    with pinned(top) as place:
        for folder, folders, files, fd in os.fwalk(place.name, follow_symlinks=False, dir_fd=place.folder):
            below = os.path.relpath(folder, place.name)
            depth = 1 if below == "." else below.count("/") + 2
            shown_folder = top if below == "." else os.path.join(top, below)
            for name in sorted((*folders, *files)):
                if depth >= least:
                    yield from _entry(os.path.join(shown_folder, name), name, fd, wanted)
            if most is not None and depth >= most:
                folders.clear()


def _itself(top: str, wanted: list[Criterion]) -> Iterator[Entry]:
    # Inaccessible entries are skipped.
    with contextlib.suppress(OSError), pinned(top, follow_symlinks=False) as place:
        yield from _entry(top, place.name, place.folder, wanted)


def _entry(path: str, name: str, fd: int, wanted: list[Criterion]) -> Iterator[Entry]:
    try:
        entry = Entry(path, os.stat(name, dir_fd=fd, follow_symlinks=False), fd, name)
    except OSError:
        return  # removed meanwhile
    if all(criterion(entry) for criterion in wanted):
        yield entry


def _actions(options: dict[str, Any], removed: _Removal, *, test: bool) -> Iterator[Action]:
    if options.get("print"):
        yield _printer(str(options["print"]))
    if options.get("exec"):
        yield (lambda entry: entry.path) if test else _runner(str(options["exec"]))
    if options.get("delete"):
        wanted = kinds(str(options["delete"]))
        remove: Action = (lambda entry: entry.path) if test else removed.remove
        yield lambda entry: remove(entry) if stat.S_IFMT(entry.status.st_mode) in wanted else None
    if not any(options.get(word) for word in ("print", "exec", "delete")):
        yield lambda entry: entry.path


def _printer(text: str) -> Action:
    names = text.replace(",", " ").split()
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown:
        raise SaltInvocationError(f'invalid print option "{unknown[0]}": there are {", ".join(_COLUMNS)}.')
    columns = [_COLUMNS[name] for name in names]
    return lambda entry: columns[0](entry) if len(columns) == 1 else [column(entry) for column in columns]


def _runner(command: str) -> Action:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SaltInvocationError(f"The command cannot be split into words: {error}.") from error

    def run(entry: Entry) -> str:
        # Split before the path is inserted, so that it stays one argument.
        argv = [word.replace("{}", entry.path) for word in words]
        done = __salt__["cmd.run_all"](argv, python_shell=False, ignore_retcode=True)
        if done["retcode"]:
            return f"{entry.path}: Failed"
        return f"{shlex.join(argv)}:\n{done['stdout']}\n"

    return run


def _md5(entry: Entry) -> str:
    return get_hash(entry.path, "md5") if stat.S_ISREG(entry.status.st_mode) else ""


_LETTERS = {kind: letter for letter, kind in KINDS.items()}

_COLUMNS: dict[str, Action] = {
    "path": lambda entry: entry.path,
    "name": lambda entry: os.path.basename(entry.path),
    "size": lambda entry: entry.status.st_size,
    "type": lambda entry: _LETTERS.get(stat.S_IFMT(entry.status.st_mode), "?"),
    "mode": lambda entry: entry.status.st_mode & 0o777,
    "mtime": lambda entry: int(entry.status.st_mtime),
    "user": lambda entry: uid_to_user(entry.status.st_uid),
    "owner": lambda entry: uid_to_user(entry.status.st_uid),
    "group": lambda entry: gid_to_group(entry.status.st_gid),
    "md5": _md5,
}
