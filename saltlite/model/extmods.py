"""Filters of a plug-in sync: the options and keywords `extmod_whitelist` and `extmod_blacklist`.

Both are maps from a type of plug-in to globs of names, as in `{modules: [plain, 'web*'], grains: [site]}`; contract:
Salt's `salt.utils.extmods`. A map does not limit types that it does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from saltlite.errors import UsageError

MINION_TYPES = ("executors", "grains", "interfaces", "modules", "output", "resources", "utils")
"""Types of plug-ins that are synced to a minion."""

MASTER_TYPES = ("clouds", "grains", "interfaces", "modules", "output", "returners", "runners", "utils")
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
    """Told the names that go, before anything is changed."""


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
    near = get_close_matches(str(name)[:40], types, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(types)}"
    raise UsageError(f"{str(name)[:40]!r} is no type of plug-ins that is synced here; {hint}")


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
