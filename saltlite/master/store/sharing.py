"""The port of a store that several masters share.

Its event log is what they learn from: new jobs, kills, changed keys, sessions that began elsewhere. Each change commits
its event in the same transaction, and the order of the events is that of the commits, so a cursor tells what a master
has applied. Leases compare no clocks: a master watches `renewals` of the others by its own clock.

What minions reported is there as well (`SharedInventory`). Each master copies it into its own files, which
`saltlite.master.store.projection` brings up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple, Protocol

from saltlite.master.store.ports import Store, StoreWriter
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, RequestId


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
    weight: int = 100
    """Its share of the minions, compared with the weights of the others."""
    about: str = ""
    """JSON, which `describe_master` stores: digests of its configuration, and figures."""
    renewed: bytes = b""
    """The certificate that is to take the place of its own, as `saltlite.master.processes.renewal` encodes it."""

    @property
    def has_lease(self) -> bool:
        """Whether its sessions may act, unless it has not renewed."""
        return self.state in (MasterState.UP, MasterState.DRAINING)


@dataclass(frozen=True, slots=True)
class ReaderRow:
    """Work that one master does for all that share the store, such as to fire hooks."""

    name: str
    master: str
    """Who does it, with the number of that start."""
    start: int
    fence: int
    """How often it was taken over: what an earlier holder writes is refused by it."""
    data: str
    """The cursor in the event log, and what belongs to it, in JSON."""


LOGIN_NAMES_MAX = 10_000
"""Names for which wrong passwords were tried that a store has: those that have to wait longest."""
RUNNER_REQUESTS_KEPT_S = 3600.0
"""Seconds that a request of a minion for a runner is known: without an answer it is repeated for less than a minute.
The pace at which a minion may ask bounds their number."""


class SharedWriter(StoreWriter, Protocol):
    """Changes in a store that masters share."""

    def renew(self, row: MasterRow) -> MasterRow:
        """Insert or replace the row of that name, with one more renewal; what is stored then. A start that was FENCED
        stays so, and nothing is stored. Whether a start is UP or DRAINING stays as `drain_master` decided, and `about`
        and `renewed` as they are."""
        ...

    def drain_master(self, name: str, *, ends: bool = False) -> bool:
        """The present start of that master, which is UP, is DRAINING, or with `ends` UP again; False if it was not."""
        ...

    def describe_master(self, name: str, about: str) -> None:
        """Store `MasterRow.about` of that master, if it is known."""
        ...

    def offer_certificate(self, name: str, renewed: bytes) -> None:
        """Store `MasterRow.renewed` of that master, if it is known."""
        ...

    def fence_master(self, name: str) -> bool:
        """The present start of that master is FENCED; False if it was, or is unknown."""
        ...

    def delete_master(self, name: str) -> bool: ...

    def put_reader(self, row: ReaderRow) -> None:
        """Insert or replace the row of that name."""
        ...

    def put_login_full_at(self, name: str, full_at: float, now: float) -> None:
        """`login_full_at` of that name from now on. Names whose bucket is full are forgotten, and of more than
        LOGIN_NAMES_MAX others those that are full soonest."""
        ...

    def enter_runner_request(self, minion: MinionId, request_id: RequestId, now: float) -> bool:
        """Whether this request of that minion is new; then it is known from now on, for RUNNER_REQUESTS_KEPT_S."""
        ...


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

    @property
    def place(self) -> str:
        """The history that numbers of events belong to, as `SharedInventory.place`."""
        ...

    def write(self, *, appends_only: bool = False) -> AbstractContextManager[SharedWriter]: ...

    def masters(self) -> list[MasterRow]:
        """By name."""
        ...

    def session_counts(self) -> dict[str, int]:
        """How many minions have a session with each master; masters without any are absent."""
        ...

    def clock(self) -> float:
        """The clock of the database, in seconds since 1970: see `saltlite.master.store.database_clock`."""
        ...

    def reader(self, name: str) -> ReaderRow | None: ...

    def login_full_at(self, name: str) -> float:
        """When the bucket of wrong passwords of that name is full again, by `clock`; 0.0 for an unknown name."""
        ...

    def listen(self) -> CommitSignal: ...

    def inventory(self) -> SharedInventory:
        """What minions reported. It belongs to the store, which closes it."""
        ...


# -- what minions reported


class InventoryHead(NamedTuple):
    """How far the changes of an inventory have come."""

    seq: int
    """The last committed change; 0 for an inventory that was never used."""
    pruned: int
    """Deletions up to this change are forgotten."""


class SharedValue(NamedTuple):
    """A value of a cache bank, as it was changed last."""

    bank: str
    key: str
    """The name of its file in `saltlite.master.store.banks`."""
    digest: str
    at: float
    """When it was put, in wall-clock seconds since 1970."""
    data: bytes | None
    """Opaque here; None if the value was deleted."""
    seq: int = 0
    """The number of the change; the inventory counts."""


class CopyPiece(NamedTuple):
    """A part of what `saltlite cp` copies."""

    area: str
    number: int
    at: float
    """When it was put, in wall-clock seconds since 1970."""
    data: bytes
    """Opaque here."""


Owner = tuple[str, str | None]
"""An SRN, and the minion that manages this resource; None if no minion does any more."""

VALUES_SIZE = 8 * 1024 * 1024
"""Bytes of values per read, and one more value."""


class SharedInventory(Protocol):
    """Values of the cache banks, owners of resources and files on their way to minions, in a store that masters share.

    Changes have numbers in the order of their commits. Each method is a transaction of its own, which does not wait for
    an open `SharedStore.write`. Every method raises StoreError.
    """

    @property
    def place(self) -> str:
        """The history that numbers belong to, as of the last answer: another one after a failover that may have lost
        changes."""
        ...

    def head(self) -> InventoryHead: ...

    def values(self, after: int, limit: int = 1000, size: int = VALUES_SIZE) -> list[SharedValue]:
        """Values that were changed after that number, in the order of their changes: at most `limit`, until they have
        `size` bytes."""
        ...

    def owners(self, after: int) -> list[Owner]:
        """Resources whose owner was changed after that number, in no order."""
        ...

    def put_value(self, value: SharedValue) -> int:
        """Replace the value of that bank and key; the number of the change."""
        ...

    def delete_value(self, bank: str, key: str, at: float) -> int:
        """Delete a value; the number of the change, 0 if there was none."""
        ...

    def registering(self) -> AbstractContextManager[Callable[[Sequence[Owner]], int]]:
        """No other master changes owners meanwhile. The function makes all of these changes or none, once at most, and
        returns their number."""
        ...

    def adopt(self, values: Sequence[SharedValue], owners: Sequence[Owner]) -> None:
        """Fill an inventory that was never used; nothing if it was."""
        ...

    def prune(self, until: int) -> None:
        """Forget deletions up to that change."""
        ...

    def put_pieces(self, pieces: Sequence[CopyPiece]) -> None:
        """Insert or replace these, all or none. They have no numbers of changes."""
        ...

    def piece(self, area: str, number: int) -> bytes | None:
        """The data of a piece."""
        ...

    def delete_pieces(self, area: str) -> None: ...

    def expire_pieces(self, before: float) -> None:
        """Delete those that were put before that time."""
        ...
