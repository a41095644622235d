"""Settings with where each one stands, and one map of several levels of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str, ...]
"""Keys of maps in one another."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What one place of a file says. `origins` has `file:line` of the keys of `values`, `where` that of the whole."""

    values: Mapping[str, Any]
    origins: Mapping[str, str] = field(default_factory=dict)
    where: str = ""

    def origin(self, key: str) -> str:
        """`file:line` of a key; that of the whole where it is not known."""
        return self.origins.get(key, self.where)

    def over(self, other: Settings) -> Settings:
        """These settings over `other`: maps become one map, everything else is replaced."""
        return Settings(
            merged(self.values, other.values), {**other.origins, **self.origins}, where=self.where or other.where
        )

    def without(self, *keys: str) -> Settings:
        """All but these keys."""
        return Settings({key: one for key, one in self.values.items() if key not in keys}, self.origins, self.where)


@dataclass(frozen=True, slots=True)
class Level:
    """Settings that come from one kind of place: `label` is such as `profile small`."""

    label: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Explained:
    """One value that holds, its path, and the levels that it comes from, the one that counts first."""

    path: Path
    value: Any
    origins: tuple[str, ...]


def merged(near: Mapping[str, Any], far: Mapping[str, Any]) -> dict[str, Any]:
    """`near` over `far`, as copies: maps at the same place become one map, everything else of `near` replaces."""
    found = copy.deepcopy(dict(far))
    for key, value in near.items():
        below = found.get(key)
        found[key] = (
            merged(value, below) if isinstance(value, Mapping) and isinstance(below, Mapping) else copy.deepcopy(value)
        )
    return found


def flattened(levels: Sequence[Level]) -> dict[str, Any]:
    """What holds when the first level wins over the second and so on."""
    found: dict[str, Any] = {}
    for level in reversed(levels):
        found = merged(level.settings.values, found)
    return found


def explained(levels: Sequence[Level]) -> list[Explained]:
    """Every value that holds, and every level that says something of it, sorted by path."""
    holds = flattened(levels)
    rows = []
    for path, value in _leaves(holds):
        said = [_said(level, path) for level in levels if _has(level.settings.values, path)]
        rows.append(Explained(path, value, tuple(said)))
    return sorted(rows, key=lambda row: row.path)


def _said(level: Level, path: Path) -> str:
    origin = level.settings.origin(path[0])
    return f"{level.label} ({origin})" if origin else level.label


def _has(values: Mapping[str, Any], path: Path) -> bool:
    found: Any = values
    for part in path:
        if not isinstance(found, Mapping) or part not in found:
            return False
        found = found[part]
    return True


def _leaves(values: Mapping[str, Any], before: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*before, key))
        else:
            yield (*before, key), value
