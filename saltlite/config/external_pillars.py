"""The value of `ext_pillar`, for the options and for whoever evaluates pillars."""

from __future__ import annotations

from typing import Any

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ExternalPillar:
    """One entry of `ext_pillar`: the name of a plug-in, and its argument, list or map of arguments."""

    name: str
    arguments: Any


def read_external(written: Any) -> tuple[ExternalPillar, ...]:
    """The value of `ext_pillar`. Raises UsageError."""
    if not isinstance(written, list) or not all(isinstance(one, dict) and len(one) == 1 for one in written):
        raise UsageError("ext_pillar is a list of maps from one plug-in to its arguments, as in [{cmd_yaml: 'cat x'}]")
    return tuple(ExternalPillar(str(name), arguments) for one in written for name, arguments in one.items())
