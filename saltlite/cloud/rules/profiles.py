"""What a machine is made of: who says what, and who wins.

The documented order: machine (of a map, or of the command line), profile, provider, global.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.cloud.rules.minionconfig import minion_id
from saltlite.cloud.rules.names import check_machine_name
from saltlite.cloud.rules.providers import Profile
from saltlite.cloud.rules.settings import Explained, Level, Settings, explained, flattened

COMMAND_LINE = "command line"
GLOBAL = "global"

_OF_THE_CORE = frozenset({"name", "profile", "provider", "driver", "extends", "requires", "join_token"})
"""What is decided here, and by no setting."""


def levels_of(
    profile: Profile, machine: Settings | None, everywhere: Settings, given: Mapping[str, Any]
) -> list[Level]:
    """All levels, the nearest first. `machine` is what a map says of it, `given` what the command line does."""
    levels = [Level(COMMAND_LINE, Settings(dict(given)))] if given else []
    if machine is not None:
        levels.append(Level("map", machine))
    levels += [*profile.levels(), Level(GLOBAL, everywhere)]
    return [Level(one.label, one.settings.without(*_OF_THE_CORE)) for one in levels]


def composed(name: str, profile: Profile, levels: list[Level]) -> dict[str, Any]:
    """The machine as drivers get it, `vm_`: every setting that holds, and who it is. Raises UsageError for its name."""
    check_machine_name(name)
    vm_ = {
        **flattened(levels),
        "name": name,
        "profile": profile.name,
        "provider": profile.provider.name,
        "driver": profile.provider.driver,
    }
    vm_.setdefault("deploy", True)
    # From here on it has one place: what the settings `grains` and `minion: {grains}` say together.
    minion = dict(vm_.get("minion") or {})
    vm_["minion"] = {**minion, "id": minion_id(vm_)}
    return vm_


def explanation(profile: Profile, levels: list[Level]) -> list[Explained]:
    """Every value that a machine of this profile gets, with its origins."""
    return [
        Explained(("provider",), profile.provider.name, (f"profile {profile.name}",)),
        *explained(levels),
    ]
