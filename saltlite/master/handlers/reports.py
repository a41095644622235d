"""What minions report: states of jobs, returns, and which functions they have. Stored in one transaction a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from saltlite.core.ports import FunctionSet, ReturnCommit, Stored, StoreWriter, TargetRow
from saltlite.master.context import Master
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import Return, TargetState
from saltlite.model.keys import Fingerprint
from saltlite.model.signature import by_name

PASSING = frozenset({TargetState.RECEIVED, TargetState.RUNNING})
"""States that may wait a moment before they are stored: most are overtaken by their return."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One row of the link's `reports` message: the session's identity, the message, and the body of a return."""

    id: MinionId
    fingerprint: Fingerprint
    message: dict[str, Any]
    body: bytes | None


@dataclass(slots=True)
class Passing:
    """States that were reported and are not stored yet, by (jid, minion)."""

    rows: dict[tuple[Jid, MinionId], TargetRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settled:
    """What a batch of reports came to: (fingerprint, jids) to acknowledge, and the jobs of which it is news."""

    acknowledge: list[tuple[str, list[str]]]
    moved: frozenset[Jid]


def store_reports(master: Master, reported: Sequence[Reported], passing: Passing) -> Settled:
    """Store a batch; what was settled by it. States in passing are only noted down.

    A return that was never assigned to its minion (G8) is acknowledged too: the minion may forget it, the store
    never had it. Raises StoreError, and then nothing of the batch was stored.
    """
    now = master.clock.wall()
    commits: list[ReturnCommit] = []
    final: list[tuple[Jid, TargetRow]] = []
    functions: dict[MinionId, FunctionSet] = {}
    for item in reported:
        message = item.message
        if message["t"] == "ret":
            passing.rows.pop((message["jid"], item.id), None)
            commits.append(ReturnCommit(item.fingerprint, _return(item)))
        elif message["t"] == "functions":
            functions[item.id] = FunctionSet(message["digest"], by_name(message["functions"]), message["whole"])
        else:
            state = TargetState(message["state"])
            row = TargetRow(item.id, state, message["reason"], now)
            if state in PASSING:
                passing.rows[message["jid"], item.id] = row
            else:
                passing.rows.pop((message["jid"], item.id), None)
                final.append((Jid(message["jid"]), row))
    moved: set[Jid] = set()
    if commits or final or functions:
        with master.store.write() as store:
            # What was known, or never assigned, wakes nobody: a minion can say it a thousand times a second.
            became = zip(commits, store.put_returns(commits, now), strict=True)
            moved.update(commit.ret.jid for commit, stored in became if stored is Stored.NEW)
            moved.update(jid for jid, _minion in store.set_targets(final))
            for minion, known in functions.items():
                _put_functions(store, minion, known)
    acknowledge: dict[str, list[str]] = {}
    for commit in commits:
        acknowledge.setdefault(commit.fingerprint, []).append(commit.ret.jid)
    return Settled(list(acknowledge.items()), moved=frozenset(moved))


def store_passing(master: Master, passing: Passing) -> bool:
    """Store the states that no return has overtaken; whether any target moved.

    Whoever takes up a job that an operator has ended is told so again: the cancel may have overtaken the job.
    """
    rows, passing.rows = passing.rows, {}
    if not rows:
        return False
    with master.store.write() as store:
        moved = store.set_targets((jid, row) for (jid, _minion), row in rows.items())
        cancelled = store.cancelled([jid for jid, _minion in moved])
    for jid, minion in moved:
        if jid in cancelled:
            master.link.cancel(jid, [minion])
    return bool(moved)


def _put_functions(store: StoreWriter, minion: MinionId, known: FunctionSet) -> None:
    """Keep the set, and that it is this minion's: modules change while a session lasts."""
    store.put_functions(known)
    row = store.minion(minion)
    if row is not None and row.functions != known.digest:
        store.touch_minions([replace(row, functions=known.digest)])


def _return(item: Reported) -> Return:
    message = item.message
    return Return(
        jid=Jid(message["jid"]),
        id=item.id,
        state=TargetState(message["state"]),
        retcode=message["code"],
        body=item.body or b"",
        started_at=message["start_ms"] / 1000,
        duration_ms=message["dur_ms"],
        reason=message["reason"],
    )
