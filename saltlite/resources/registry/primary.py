"""The port `Primary`: the rows of the registry, key by key, whoever writes them, with a feed of what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from saltlite.resources.registry.records import Change


@dataclass(frozen=True, slots=True)
class Figures:
    """What the registry knows of itself without reading its rows."""

    rows: int
    capacity: int
    """Homes in the index."""
    used: int
    """Slots in use, those of deleted keys included."""
    records: int
    """Records of the log; what is more than `rows` goes with the next compaction."""
    size: int
    """Bytes of the file, without the room that is set aside behind the log."""
    generation: int
    incomplete: bool
    """Rows were lost to damage, and not everybody has registered again since."""
    path: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a look at every row found."""

    rows: int
    problems: tuple[str, ...]
    """A sentence each, PROBLEMS_MAX at most; none: log and index are whole and agree."""
    aside: str
    """Where the damaged file was moved, "" when there was nothing to repair."""


PROBLEMS_MAX = 20
"""Sentences of a verification: who has more knows enough."""


class Follower(Protocol):
    """Somebody who keeps up with the rows."""

    def clear(self) -> None:
        """Forget everything: all rows come anew."""
        ...

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over changes, in order; the same ones may come twice. Raises DamagedError for impossible ones."""
        ...


class Primary(Protocol):
    """Rows of bytes, shared by all processes of a master. One thread uses one object.

    Every method may raise StoreError; of a `commit` that raised it, nothing stands.
    """

    def get(self, key: bytes) -> bytes | None:
        """The value of a key as the last commit of any process left it."""
        ...

    def follow(self, follower: Follower) -> None:
        """From here on `refresh` keeps this one follower up to date, beginning with all rows."""
        ...

    def refresh(self) -> None:
        """Hand the follower what was committed since the last time. Costs next to nothing when that is nothing."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Alone: nobody else commits before it ends."""
        ...

    def commit(self, changes: Sequence[Change]) -> None:
        """Inside `writing`: make all changes, or none; each key at most once. They are on disk when it returns."""
        ...

    def generation(self) -> int:
        """Number of the last commit of any process."""
        ...

    def content_version(self) -> tuple[int, int]:
        """Another value after every commit and every compaction."""
        ...

    def figures(self) -> Figures: ...

    def compact(self) -> None:
        """Drop what is not needed and pack the rest in order; nobody waits for it but for a moment at its end."""
        ...

    def verify(self) -> Verification:
        """Look at everything. Damage is repaired: the file goes aside, and rows in doubt are dropped."""
        ...

    def declare_complete(self) -> None:
        """Every minion has registered since rows were lost."""
        ...

    def close(self) -> None:
        """Give everything back. A second close does nothing."""
        ...
