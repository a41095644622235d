"""Maps: which machines there are to be, of which profiles, and in which order they can be made.

Contract: Salt's map files. `requires` names machines that must be there before; machines that do not wait for each
other are one wave. A file may `include` others; what it says itself wins over them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saltlite.cloud.rules.names import check_machine_name
from saltlite.cloud.rules.settings import Settings
from saltlite.errors import ConfigError

INCLUDE = "include"
MACHINES_MAX = 10_000
"""Machines of one map, includes counted."""


@dataclass(frozen=True, slots=True)
class MapMachine:
    """One machine of a map, with what the map says of it alone."""

    name: str
    profile: str
    settings: Settings
    requires: tuple[str, ...] = ()


def machines_of(written: Mapping[str, Any], where: Mapping[str, str], path: str) -> list[MapMachine]:
    """The machines of one file: `{profile: [name | {name: settings}] | {name: settings}}`.

    `where` has `file:line` of each profile, `path` is the file. Raises ConfigError.
    """
    found: list[MapMachine] = []
    for profile, entries in written.items():
        if profile == INCLUDE:
            continue
        place = where.get(profile, path)
        for name, said in _entries(profile, entries, place):
            found.append(_machine(name, profile, said, place))
    return found


def one_map(files: Sequence[Sequence[MapMachine]]) -> list[MapMachine]:
    """The machines of several files as one map; of two with one name the one of the later file counts.

    Raises ConfigError for a name that stands twice in one file, and for more than MACHINES_MAX.
    """
    found: dict[str, MapMachine] = {}
    for machines in files:
        here: set[str] = set()
        for machine in machines:
            if machine.name in here:
                raise ConfigError(f"{machine.settings.where}: the map has {machine.name} twice; remove one of them")
            here.add(machine.name)
            found[machine.name] = machine
    if len(found) > MACHINES_MAX:
        raise ConfigError(f"a map has at most {MACHINES_MAX} machines, this one has {len(found)}")
    return list(found.values())


def waves(machines: Sequence[MapMachine], there: Collection[str] = ()) -> list[list[MapMachine]]:
    """The machines to make, those first that wait for none; within a wave in the order of the map.

    `there` are names of machines that are there already. Raises ConfigError for a circle, and for a requirement that is
    neither there nor in the map.
    """
    by_name = {machine.name: machine for machine in machines}
    for machine in machines:
        for name in machine.requires:
            if name not in by_name and name not in there:
                raise ConfigError(
                    f"{machine.settings.where}: {machine.name} requires {name}, which is neither there nor in the map"
                )
    left = [machine for machine in machines if machine.name not in there]
    done = set(there)
    found: list[list[MapMachine]] = []
    while left:
        wave = [machine for machine in left if all(name in done for name in machine.requires)]
        if not wave:
            raise ConfigError(f"{left[0].settings.where}: {_circle(left)}")
        found.append(wave)
        done.update(machine.name for machine in wave)
        left = [machine for machine in left if machine not in wave]
    return found


def _circle(left: Sequence[MapMachine]) -> str:
    by_name = {machine.name: machine for machine in left}
    path = [left[0].name]
    while True:
        name = next(one for one in by_name[path[-1]].requires if one in by_name)
        if name in path:
            return f"the machines wait for each other: {' requires '.join([*path[path.index(name) :], name])}"
        path.append(name)


def _entries(profile: str, entries: object, place: str) -> Iterator[tuple[str, object]]:
    if isinstance(entries, Mapping):
        yield from entries.items()
        return
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ConfigError(f"{place}: under the profile {profile} there must be a list of machines")
    for entry in entries:
        if isinstance(entry, Mapping) and len(entry) == 1:
            yield from entry.items()
        elif isinstance(entry, str | int) and not isinstance(entry, bool):
            yield str(entry), {}
        else:
            raise ConfigError(f"{place}: a machine of a map is a name, or one name with its settings as a map")


def _machine(name: str, profile: str, said: object, place: str) -> MapMachine:
    check_machine_name(name)
    if said is None:
        said = {}
    if not isinstance(said, Mapping):
        raise ConfigError(f"{place}: the settings of {name} must be a map")
    requires = said.get("requires") or ()
    if isinstance(requires, str):
        requires = (requires,)
    if not isinstance(requires, Sequence) or not all(isinstance(one, str) for one in requires):
        raise ConfigError(f"{place}: requires of {name} must be a list of names")
    settings = Settings({key: one for key, one in said.items() if key != "requires"}, where=place)
    return MapMachine(name, profile, settings, tuple(requires))
