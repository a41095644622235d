"""Names of files on the master's file server (environments, paths, `salt://` addresses), and filters of a plug-in sync.

Nothing here touches a disk. Paths come from people and minions, so a valid path is still opened component by component
below its root. Contract of the addresses: Salt's `salt://path?saltenv=name`; of the filters, the options and keywords
`extmod_whitelist` and `extmod_blacklist`: Salt's `salt.utils.extmods`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from saltlite.errors import UsageError, nearest
from saltlite.model.dataclass import dataclass

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
    for what no file can be called: a component over 255 bytes, text that is not UTF-8, more than 1024 bytes in all.
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
        raise UsageError(f"{str(text)[:80]!r} is not a file of the master: write salt://path")
    path, query, named = text.removeprefix(SCHEME).partition(_QUERY)
    return FileAddress(parse_path(path.lstrip("/")), parse_env(named if query else env))


# -- Filters of a plug-in sync: maps from a type of plug-in to globs of names, as in `{modules: [plain, 'web*']}`. A map
# does not limit types that it does not name


MINION_TYPES = ("beacons", "executors", "grains", "interfaces", "modules", "output", "resources", "utils")
"""Types of plug-ins that are synced to a minion."""

MASTER_TYPES = ("clouds", "grains", "interfaces", "modules", "output", "pillar", "returners", "runners", "utils")
"""Types of plug-ins that are synced to the machine of a master."""

GLOBS_MAX = 1000
"""Globs for one type: each name of a plug-in is compared with all of them."""

NAMES_SHOWN = 10
"""Plug-ins that a sentence names; the others are counted."""

EXAMPLE = "{modules: [plain, 'web*']}"

Globs = Mapping[str, Sequence[str]]
"""Type -> globs of names."""


@dataclass(frozen=True, slots=True)
class SyncRules:
    """How a sync makes the new set of plug-ins of one type."""

    clean: bool = True
    """Whether what is not among the wanted files is removed."""
    chosen: Callable[[str], bool] = lambda _name: True
    """Whether a file of the master is wanted, by its name without the type."""
    may_empty: bool = False
    """Whether `chosen` may leave nothing of a type of which there is something here and on the master."""
    removing: Callable[[Sequence[str]], None] = lambda _names: None
    """Called with the names that go, before anything is changed."""


@dataclass(frozen=True, slots=True)
class ExtmodFilter:
    """What a whitelist and a blacklist let through."""

    whitelist: Globs
    blacklist: Globs

    def chooser(self, kind: str) -> Callable[[str], bool]:
        """Whether a plug-in of this type is brought, by its name; a glob may also name the package that it is in."""
        allowed, barred = self.whitelist.get(kind), self.blacklist.get(kind, ())

        def chosen(name: str) -> bool:
            names = (name, name.partition(".")[0])
            return not _any_matches(barred, names) and (allowed is None or _any_matches(allowed, names))

        return chosen


def read_filter(opts: Mapping[str, Any], types: tuple[str, ...], kind: str, *lists: Any) -> ExtmodFilter:
    """The filter of one sync: the keywords `extmod_whitelist` and `extmod_blacklist`, or the options of these names.

    A keyword that is not None takes the place of its option. It is a map; for a sync of one type, `kind`, it may be a
    list or a text with commas. Raises UsageError for anything else.
    """
    options = (("extmod_whitelist", True), ("extmod_blacklist", False))
    found = []
    for (option, whitelist), given in zip(options, lists, strict=True):
        value = opts.get(option, {}) if given is None else given
        try:
            found.append(_read(value, types, kind, whitelist=whitelist))
        except UsageError as error:
            raise UsageError(f"{option}: {error}") from error
    return ExtmodFilter(*found)


def _read(value: Any, types: tuple[str, ...], kind: str, *, whitelist: bool) -> dict[str, list[str]]:
    if kind and isinstance(value, str | list | tuple):
        return {kind: checked_globs(kind, value, whitelist=whitelist)}
    if not isinstance(value, Mapping):
        lists = ", a list or a text with commas" if kind else ""
        raise UsageError(f"write a map from types of plug-ins to lists of globs, as in {EXAMPLE}{lists}")
    return {known_type(name, types): checked_globs(name, globs, whitelist=whitelist) for name, globs in value.items()}


def known_type(name: object, types: tuple[str, ...]) -> str:
    """`name`, if it is one of these types. Raises UsageError."""
    if isinstance(name, str) and name in types:
        return name
    near = nearest(str(name)[:40], types)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(types)}"
    raise UsageError(f"{str(name)[:40]!r} is not a type of plug-ins that is synced here; {hint}")


def checked_globs(kind: str, value: object, *, whitelist: bool) -> list[str]:
    """The globs in a list or a text with commas. Raises UsageError.

    An empty `whitelist` is refused: it could mean all or none.
    """
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(glob, str) for glob in listed):
        raise UsageError(f"the globs for {kind} are a list of texts, as in {EXAMPLE}")
    globs = [glob.strip() for glob in listed]
    if not all(globs) or (whitelist and not globs):
        raise UsageError(f"an empty glob or whitelist for {kind} names nothing: leave {kind} out to bring all of them")
    if len(globs) > GLOBS_MAX:
        raise UsageError(f"there are {len(globs)} globs for {kind}, and there may be {GLOBS_MAX}")
    return globs


def names_text(names: Sequence[str]) -> str:
    """The first NAMES_SHOWN names, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _any_matches(globs: Iterable[str], names: tuple[str, str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs for name in names)
