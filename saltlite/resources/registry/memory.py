"""The registry's rows in memory: the twin of `saltlite.resources.registry.mmap`, for tests and the simulator.

All processes of a master share one `MemoryRows`; each has a `MemoryPrimary` over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from saltlite.errors import StoreError
from saltlite.resources.registry.layout import Change, capacity_for, encoded
from saltlite.resources.registry.primary import Figures, Follower, Verification


class MemoryRows:
    """The content of one registry, with all changes since the last compaction."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.log: list[Change] = []
        self.first = 0
        """Number of the oldest change in `log`: older ones are in the rows only."""
        self.commits = 0
        self.compactions = 1
        self.busy = False


class MemoryPrimary:
    """The port `saltlite.resources.registry.primary.Primary` over rows in memory."""

    def __init__(self, shared: MemoryRows) -> None:
        self._shared = shared
        self._follower: Follower | None = None
        self._seen = -1
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        return self._open().rows.get(key)

    def follow(self, follower: Follower) -> None:
        self._follower, self._seen = follower, -1

    def refresh(self) -> None:
        shared, follower = self._open(), self._follower
        if follower is None:
            return
        end = shared.first + len(shared.log)
        if self._seen < shared.first:
            follower.clear()
            follower.apply(shared.rows.items())
        elif self._seen < end:
            follower.apply(shared.log[self._seen - shared.first :])
        self._seen = end

    @contextmanager
    def writing(self) -> Iterator[None]:
        shared = self._open()
        if shared.busy:
            raise StoreError("the registry is being written: end that first")
        shared.busy = True
        try:
            yield
        finally:
            shared.busy = False

    def commit(self, changes: Sequence[Change]) -> None:
        shared = self._open()
        encoded(changes)  # refuses what the file would refuse
        for key, value in changes:
            if value is None:
                shared.rows.pop(key, None)
            else:
                shared.rows[key] = value
        shared.log += changes
        shared.commits += 1

    def generation(self) -> int:
        return self._open().commits

    def content_version(self) -> tuple[int, int]:
        return self._open().compactions, self._shared.commits

    def figures(self) -> Figures:
        shared = self._open()
        records = len(shared.rows) if shared.first else len(shared.log)
        return Figures(
            rows=len(shared.rows),
            capacity=capacity_for(len(shared.rows)),
            used=len(shared.rows),
            records=records,
            size=sum(len(key) + len(value) for key, value in shared.rows.items()),
            generation=shared.commits,
            incomplete=False,
            path="",
        )

    def compact(self) -> None:
        # A reader that has seen all of the log continues at its end, as after the replacement of a file.
        shared = self._open()
        shared.first += len(shared.log)
        shared.log.clear()
        shared.compactions += 1

    def verify(self) -> Verification:
        return Verification(len(self._open().rows), (), "")

    def declare_complete(self) -> None:
        """Nothing is ever lost here."""

    def close(self) -> None:
        self._closed = True

    def _open(self) -> MemoryRows:
        if self._closed:
            raise StoreError("the registry was closed: open it again")
        return self._shared
