"""Plug-in folders of installed Python packages: the entry point groups `salt.loader` and `saltlite.loader`.

    [saltlite.loader]
    mine = mypackage                 a package: its folder `<type>` is one
    mine = mypackage.places:folders  a function that returns {type: [folder, …]}
    module_dirs = mypackage:old      the older form, named after the option: a function that returns [folder, …]

A package is found without being imported; a function has to be imported and called, where the index is made. One that
fails is logged once and left out. The group `saltlite.loader` goes before what ships, `salt.loader` behind it.

What is installed is read from the metadata folders on `sys.path`. (`importlib.metadata` does the same, and costs every
process the import of the mail, zip and csv libraries.)
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from saltlite.loader.deadline import DeadlineError, load_deadline

log = logging.getLogger(__name__)

OURS = "saltlite.loader"
SALTS = "salt.loader"
GROUPS = (OURS, SALTS)

_METADATA = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class Contribution:
    """The folders of one entry point: `packages` have a folder for each type, the others are given outright."""

    name: str
    packages: Sequence[str] = ()
    by_type: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_option: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def folders(self, kind: str, option: str) -> list[str]:
        """Its folders for plug-ins of the type, whose option `<type>_dirs` is `option`."""
        inside = [os.path.join(package, kind) for package in self.packages]
        given = [*self.by_type.get(kind, ()), *self.by_option.get(option, ())]
        return [folder for folder in inside if os.path.isdir(folder)] + [str(folder) for folder in given]


def entry_folders(group: str, kind: str, option: str) -> list[tuple[str, str]]:
    """(name, folder) of every entry point of the group that has a folder of the type, in the order of their names."""
    return [(one.name, folder) for one in _contributions(group, installed()) for folder in one.folders(kind, option)]


def any_entries(group: str) -> bool:
    """Whether an installed package has an entry point of the group; runs nothing of it."""
    return any(found == group for found, _, _ in _lines_of(installed()))


def installed() -> tuple[tuple[str, int], ...]:
    """What tells whether something was installed or removed: the folders of `sys.path` and their times."""
    stamps = []
    for folder in sys.path:
        try:
            stamps.append((folder, os.stat(folder or ".").st_mtime_ns))
        except OSError:
            continue  # a path entry may well be no folder, or not exist
    return tuple(stamps)


@functools.lru_cache(maxsize=1)
def _lines_of(stamps: tuple[tuple[str, int], ...]) -> list[tuple[str, str, str]]:
    """(group, name, value) of all entry points of GROUPS, sorted."""
    return sorted(_entry_points([folder for folder, _ in stamps]))


@functools.lru_cache(maxsize=len(GROUPS))
def _contributions(group: str, stamps: tuple[tuple[str, int], ...]) -> list[Contribution]:
    """One for each entry point of the group that works; the first of a name counts."""
    found: dict[str, Contribution] = {}
    for its_group, name, value in _lines_of(stamps):
        if its_group != group or name in found:
            continue
        try:
            with load_deadline():
                found[name] = _contribution(name, value)
        except KeyboardInterrupt:
            raise
        except (Exception, SystemExit, DeadlineError) as error:  # noqa: BLE001 - supervision point: foreign packages
            log.warning("Entry point %s = %s is left out: %s: %s", name, value, type(error).__name__, error)
    return list(found.values())


def _contribution(name: str, value: str) -> Contribution:
    module, _, attribute = value.partition(":")
    if not attribute:
        spec = importlib.util.find_spec(module)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {module!r}")
        if spec.submodule_search_locations is None:
            raise TypeError(f"{module} is a module; a package or a function is expected")
        return Contribution(name, packages=tuple(spec.submodule_search_locations))
    loaded: Any = importlib.import_module(module)
    for part in attribute.split("."):
        loaded = getattr(loaded, part)
    if isinstance(loaded, ModuleType):
        return Contribution(name, packages=tuple(getattr(loaded, "__path__", ())))
    answer = loaded()
    if isinstance(answer, Mapping):
        return Contribution(name, by_type={str(kind): tuple(folders) for kind, folders in answer.items()})
    if isinstance(answer, list | tuple):
        return Contribution(name, by_option={name: tuple(answer)})
    raise TypeError(f"it returned a {type(answer).__name__} in place of {{type: [folder]}}")


def _entry_points(folders: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(group, name, value) of the lines of GROUPS."""
    for folder in folders:
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith(_METADATA))
        except OSError:
            continue  # as above
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8", errors="replace") as stream:
                    text = stream.read()
            except OSError:
                continue  # most packages have none
            yield from _lines(text)


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group in GROUPS and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            # Behind the object may stand the names of extras: `package:object [extra]`.
            yield group, name.strip(), value.partition("[")[0].strip()
