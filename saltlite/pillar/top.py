"""Top files: which files of which environment a minion's pillar is made of.

    base:                     the environment
      '*':                    a target
        - users               a file: users.sls or users/init.sls
      'os:Debian':
        - match: grain        how the target is read; compound unless this says otherwise, as in Salt
        - apt.sources         apt/sources.sls
        - ignore_missing: true

Contract: Salt's top files for pillar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.errors import RenderError
from saltlite.model.job import Target, TargetKind

_KINDS: dict[str, TargetKind] = {
    **{str(kind): kind for kind in TargetKind},
    "grains": TargetKind.GRAIN,
    "grains_pcre": TargetKind.GRAIN_PCRE,
}
_OPTIONS = ("match", "ignore_missing", "order")


@dataclass(frozen=True, slots=True)
class Entry:
    """One target of a top file with its files. `ignore_missing`: a file that is not there is no mistake."""

    target: Target
    names: tuple[str, ...]
    ignore_missing: bool = False


def targets_of(top: Any, env: str) -> Mapping[Any, Any]:
    """The targets that a top file has for an environment, as they stand there. Raises RenderError."""
    if top is None:
        return {}
    section = _map(top, "a top file is a map of environments").get(env) or {}
    return _map(section, f"the environment {env!r} of a top file is a map of targets")


def read_entry(expression: str, listed: Any) -> Entry:
    """One of them. Raises RenderError."""
    if not isinstance(listed, list):
        raise RenderError(f"the target {expression!r} of the top file has no list of files")
    names: list[str] = []
    options: dict[str, Any] = {}
    for item in listed:
        if isinstance(item, str) and item:
            names.append(item)
        elif isinstance(item, dict) and set(item) <= set(_OPTIONS):
            options.update(item)
        else:
            raise RenderError(
                f"the target {expression!r} of the top file lists something that is neither the name of a file nor one "
                f"of {', '.join(_OPTIONS)}"
            )
    kind = _KINDS.get(str(options.get("match", TargetKind.COMPOUND)))
    if kind is None:
        raise RenderError(f"the target {expression!r} of the top file has a match that is not known: say {_kinds()}")
    return Entry(Target(expression, kind), tuple(names), options.get("ignore_missing") is True)


def _kinds() -> str:
    return ", ".join(sorted(_KINDS))


def _map(value: Any, sentence: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise RenderError(sentence)
    return value
