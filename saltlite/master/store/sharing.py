"""The port of a store that several masters share.

Its event log is what they learn from: new jobs, kills, changed keys, sessions that began elsewhere. Each change commits
its event in the same transaction, and the order of the events is that of the commits, so a cursor tells what a master
has applied. Leases compare no clocks: a master watches `renewals` of the others by its own clock.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from saltlite.master.store.ports import Store, StoreWriter
from saltlite.model.dataclass import dataclass


class MasterState(StrEnum):
    """What a master may do."""

    JOINING = "joining"
    """It has no lease yet: the others learn its certificate first."""
    UP = "up"
    DRAINING = "draining"
    """It takes no new sessions."""
    FENCED = "fenced"
    """Its sessions were ended, because it did not renew its lease or did not apply a change in time. This start of it
    gets no lease again."""


@dataclass(frozen=True, slots=True)
class MasterRow:
    """A master that uses the store."""

    name: str
    """That of its certificate."""
    start: int
    """The number of this start of it."""
    certificate: bytes
    """As `saltlite.wire.certificates` encodes it."""
    address: str
    version: str
    state: MasterState
    applied: int
    """The last event whose changes of keys all its sessions reflect."""
    renewals: int = 0
    """How often it was renewed; the store counts."""

    @property
    def has_lease(self) -> bool:
        """Whether its sessions may act, unless it has not renewed."""
        return self.state in (MasterState.UP, MasterState.DRAINING)


class SharedWriter(StoreWriter, Protocol):
    """Changes in a store that masters share."""

    def renew(self, row: MasterRow) -> MasterRow:
        """Insert or replace the row of that name, with one more renewal; what is stored then. A start that was FENCED
        stays so, and nothing is stored."""
        ...

    def fence_master(self, name: str) -> bool:
        """The present start of that master is FENCED; False if it was, or is unknown."""
        ...

    def delete_master(self, name: str) -> bool: ...


class CommitSignal(Protocol):
    """Tells that another master has committed something. It may come for nothing, and may miss a commit."""

    def fileno(self) -> int:
        """A descriptor that is readable after a commit."""
        ...

    def clear(self) -> None:
        """It was noticed."""
        ...

    def close(self) -> None: ...


class SharedStore(Store, Protocol):
    """A store that several masters use at the same time."""

    def write(self, *, appends_only: bool = False) -> AbstractContextManager[SharedWriter]: ...

    def masters(self) -> list[MasterRow]:
        """By name."""
        ...

    def listen(self) -> CommitSignal: ...
