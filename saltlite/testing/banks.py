"""The cache banks in memory, in place of `saltlite.master.store.banks`, for tests and the simulator.

All processes of a master share one `MemoryCache`; each has its own `MemoryBanks` over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from saltlite.errors import StoreError, UsageError
from saltlite.targeting.banks import Changes, Value, check_bank, check_digest, decoded, encoded

FEED_ENTRIES = 10_000
"""Changes of one bank that are remembered; the older half goes when there are more."""


@dataclass(frozen=True, slots=True)
class _Entry:
    data: bytes
    digest: str
    changed_at: float


@dataclass(slots=True)
class _Rows:
    entries: dict[str, _Entry] = field(default_factory=dict)
    feed: list[str] = field(default_factory=list)
    base: int = 0
    """Changes that were forgotten."""


class MemoryCache:
    """What the banks of one master hold. `now` says the seconds since 1970; `full` makes the next puts fail."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.full = False
        self._rows: dict[str, _Rows] = {}

    def rows(self, name: str) -> _Rows:
        return self._rows.setdefault(name, _Rows())


class MemoryBank:
    """The port `saltlite.targeting.banks.Bank` over memory."""

    def __init__(self, shared: MemoryCache, name: str) -> None:
        self._room = check_bank(name)
        self._shared = shared
        self._rows = shared.rows(name)

    def get(self, key: str) -> Value | None:
        entry = self._rows.entries.get(_key(key))
        return None if entry is None else decoded(entry.data, *self._room)

    def put(self, key: str, value: Mapping[str, Any], digest: str = "") -> None:
        entry = _Entry(encoded(value, *self._room), check_digest(digest), self._shared.now())
        _key(key)
        if self._shared.full:
            raise StoreError("the cache cannot be written: the disk is full")
        self._rows.entries[key] = entry
        self._changed(key)

    def digest(self, key: str) -> str:
        entry = self._rows.entries.get(_key(key))
        return "" if entry is None else entry.digest

    def delete(self, key: str) -> bool:
        if self._rows.entries.pop(_key(key), None) is None:
            return False
        self._changed(key)
        return True

    def keys(self) -> list[str]:
        return sorted(self._rows.entries)

    def changed_at(self, key: str) -> float | None:
        entry = self._rows.entries.get(_key(key))
        return None if entry is None else entry.changed_at

    def changes(self, cursor: str) -> Changes:
        rows = self._rows
        end = str(rows.base + len(rows.feed))
        since = int(cursor) - rows.base if cursor.isdecimal() else -1
        if 0 <= since <= len(rows.feed):
            return Changes(frozenset(rows.feed[since:]), end)
        return Changes(frozenset(rows.entries), end, whole=True)

    def _changed(self, key: str) -> None:
        rows = self._rows
        rows.feed.append(key)
        if len(rows.feed) > FEED_ENTRIES:
            gone = len(rows.feed) // 2
            del rows.feed[:gone]
            rows.base += gone


class MemoryBanks:
    """The port `saltlite.targeting.banks.Banks` over memory."""

    def __init__(self, shared: MemoryCache) -> None:
        self._shared = shared

    def bank(self, name: str) -> MemoryBank:
        return MemoryBank(self._shared, name)

    def look_again(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing is held."""


def _key(key: str) -> str:
    if not key:
        raise UsageError("a key of the cache cannot be empty")
    return key
