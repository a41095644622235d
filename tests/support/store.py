"""Keys, jobs, returns and sessions for tests of the stores, and the usual ways to commit them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from saltlite.master.store.ports import (
    MinionRow,
    PartRow,
    ReturnCommit,
    Store,
    Stored,
    StoreWriter,
    TargetRow,
    TokenRecord,
)
from saltlite.master.store.sharing import MasterRow, MasterState
from saltlite.model.ids import Jid, MinionId, PartId, RequestId, TargetId, jid_at
from saltlite.model.job import Job, Return, Target, TargetState
from saltlite.model.keys import KeyRecord, KeyState, fingerprint
from saltlite.resources.registry.mmap import FILE, Environment, FilePrimary, ResourceRegistry
from saltlite.resources.registry.registry import Registry

NOW = 1_800_000_000.0
WEB1, WEB2, WEB3 = MinionId("web1"), MinionId("web2"), MinionId("web3")


def key(minion: MinionId, state: KeyState = KeyState.ACCEPTED, n: int = 0, **changes: Any) -> KeyRecord:
    """A key; another `n` is another key."""
    public = f"{minion}/{n}".encode().ljust(32, b".")
    record = KeyRecord(minion, fingerprint(public), public, state, "10.0.0.1", NOW, NOW, 1, "operator root")
    return replace(record, **changes)


def job(n: int = 1, minions: tuple[MinionId, ...] = (WEB1, WEB2), **changes: Any) -> Job:
    """Job number `n`, made at NOW, with a minute to be delivered."""
    made = Job(
        jid=jid_at(1_800_000_000_000_000 + n),
        request_id=RequestId(f"{n:032x}"),
        user="root",
        uid=0,
        fun="test.ping",
        target=Target("web*"),
        created_at=NOW,
        deliver_ms=60_000,
        run_ms=0,
        body=b"body",
        signature=b"s" * 64,
        minions=minions,
    )
    return replace(made, **changes)


def srns(count: int, kind: str = "dummy", first: int = 1) -> tuple[TargetId, ...]:
    """SRNs of that type, sorted."""
    return tuple(f"{kind}:{n:05d}" for n in range(first, first + count))


def ret(of: Job, minion: MinionId, **changes: Any) -> ReturnCommit:
    """The return of a minion, under its first key; `id` makes it that of a resource."""
    value = Return(of.jid, minion, TargetState.RETURNED, 0, b"\xc3", NOW + 1.5, 12)
    return ReturnCommit(key(minion).fingerprint, value._replace(**changes))


def had_sessions(tx: StoreWriter, rows: Sequence[MinionRow]) -> None:
    """These sessions began at `last_seen`; those that are not `up` ended at once."""
    tx.claim(rows)
    for row in rows:
        if not row.up:
            tx.release(row.master, {row.id: row.end_reason}, row.last_seen)


def row(minion: MinionId, last_seen: float = NOW, **changes: Any) -> MinionRow:
    """What is known of a minion's session, under its first key."""
    made = MinionRow(
        id=minion,
        fingerprint=key(minion).fingerprint,
        address="10.0.0.1",
        version="0.1",
        boot_id="boot",
        incarnation="disk",
        functions="",
        up=False,
        last_seen=last_seen,
    )
    return replace(made, **changes)


def master_row(name: str = "a", **changes: Any) -> MasterRow:
    """What is known of a master that shares the store."""
    return replace(MasterRow(name, 7, b"\0cert", "10.0.0.1", "1.0", MasterState.UP, applied=3), **changes)


def token(uses: int = 1) -> TokenRecord:
    return TokenRecord("k3f9aaaa", b"0" * 32, "web*", uses, NOW, NOW + 3600, "root")


def state_of(store: Store, jid: Jid, target: TargetId) -> TargetState:
    return next(row.state for row in store.targets(jid) if row.id == target)


def publish(store: Store, *jobs: Job) -> None:
    """Commit jobs, with an accepted key for every minion."""
    with store.write() as tx:
        for one in jobs:
            for minion in {*one.minions, *one.resources}:
                tx.put_key(key(minion))
            tx.put_job(one)


def commit(store: Store, *commits: ReturnCommit, now: float = NOW + 2) -> list[Stored]:
    with store.write() as tx:
        return tx.put_returns(commits, now)


def move(store: Store, of: Job, target: TargetId, state: TargetState, reason: str = "", *, at: float = NOW + 3) -> bool:
    with store.write() as tx:
        return bool(tx.set_targets([(of.jid, TargetRow(target, state, reason, at))]))


def move_part(store: Store, part: PartId, minion: MinionId, state: TargetState, reason: str = "") -> list[TargetId]:
    """Move what is in a part; the targets that moved."""
    with store.write() as tx:
        return [target for _jid, target in tx.set_parts([PartRow(part, minion, state, reason, NOW + 3)])]


# -- What tests of the registry's file share: where it is, and how it is opened in another life of the machine.


def file_of(folder: Path) -> Path:
    """The registry's file below that cachedir."""
    return folder / FILE


def opened(folder: Path, **options: object) -> ResourceRegistry:
    """A registry that takes a report of damage for a failure of the test."""
    return ResourceRegistry({"cachedir": str(folder), **options}, report=no_report)


def no_report(sentence: str) -> None:
    raise AssertionError(sentence)


_lives = itertools.count(1)


def after_a_restart_of_the_machine(folder: Path, reports: list[str] | None = None) -> Registry:
    """The registry opened in a life of the machine that it was not written in."""
    world = Environment(
        entropy=os.urandom,
        wall_ns=time.time_ns,
        boot=next(_lives).to_bytes(16, "big"),
        report=no_report if reports is None else reports.append,
    )
    return Registry(FilePrimary(str(file_of(folder)), world, capacity=1, sync=True))


def rows_of(registry: Registry, *minions: str) -> dict[str, str]:
    """SRN -> minion, as the views have it; each row is looked up as well, and has to say the same."""
    rows = {}
    for minion in minions:
        for kind, ids in registry.get_resources_for_minion(minion).items():
            for bare_id in ids:
                rows[f"{kind}:{bare_id}"] = minion
                assert registry.get_managing_minions_for_srn(kind, bare_id) == [minion]
    return rows
