"""What minions report: states of parts of jobs, returns, which functions they have, and what they hold of grains and
resources. What is to be stored is stored in one transaction a batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.handlers.digests import handle_holds
from saltlite.master.handlers.rejected_results import tell_left_out
from saltlite.master.handlers.results import Results
from saltlite.master.processes.context import Master
from saltlite.master.store.ports import FunctionSet, PartRow, StoreWriter
from saltlite.model.ids import Jid, MinionId, PartId
from saltlite.model.job import TargetState
from saltlite.model.keys import Fingerprint
from saltlite.model.parts import split_part
from saltlite.model.signature import by_name

log = logging.getLogger(__name__)

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
    """States that were reported and are not stored yet, by part and minion."""

    rows: dict[tuple[PartId, MinionId], PartRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settled:
    """What a batch of reports came to: (fingerprint, results) to acknowledge, and the jobs of which it is news."""

    acknowledge: list[tuple[str, list[str]]]
    moved: frozenset[Jid]
    left_out: int = 0
    """How many results were not stored, for they were none of their minion's (G8)."""


def store_reports(master: Master, reported: Sequence[Reported], passing: Passing) -> Settled:
    """Store a batch; what was settled by it. States in passing are only noted down.

    A return that was never assigned to its minion (G8) is acknowledged too: the minion may forget it, the store
    never had it. Raises StoreError, and then nothing of the batch was stored.
    """
    now = master.clock.wall()
    results = Results(master.store, now)
    final: list[PartRow] = []
    functions: dict[MinionId, FunctionSet] = {}
    held: dict[MinionId, dict[str, Any]] = {}
    for item in reported:
        message = item.message
        match message["t"]:
            case "ret":
                # One of a segment stays: other resources of its part still run.
                passing.rows.pop((message["jid"], item.id), None)
                results.add(item.id, item.fingerprint, message, item.body or b"")
            case "holds":
                held[item.id] = message
            case "functions":
                functions[item.id] = FunctionSet(message["digest"], by_name(message["functions"]), message["whole"])
            case "job_state":
                state = TargetState(message["state"])
                final += _noted(passing, PartRow(message["jid"], item.id, state, message["reason"], now))
    moved: set[Jid] = set()
    if results or final or functions:
        with master.store.write() as store:
            moved = results.put(store)
            moved.update(jid for jid, _target in store.set_parts(final))
            for minion, known in functions.items():
                _put_functions(store, minion, known)
    for minion, refused in results.to_tell:
        master.left_out.add(minion, refused)
    _afterwards(partial(tell_left_out, master), "results that were left out cannot be told of for now")
    for minion, said in held.items():
        _afterwards(partial(handle_holds, master, minion, said), f"what {minion} holds cannot be compared for now")
    return Settled(results.acknowledge, frozenset(moved), results.left_out)


def _afterwards(work: Callable[[], object], failure: str) -> None:
    """What follows a commit that stands, whatever becomes of this: no minion is asked for the same results again."""
    try:
        work()
    except StoreError as error:
        log.error("%s: %s", failure, error)  # noqa: TRY400 - the sentence says it all


def _noted(passing: Passing, row: PartRow) -> list[PartRow]:
    """Note a state down that may wait; one that may not comes back."""
    if row.state in PASSING:
        passing.rows[row.part, row.minion] = row
        return []
    passing.rows.pop((row.part, row.minion), None)
    return [row]


def store_passing(master: Master, passing: Passing) -> bool:
    """Store the states that no return has overtaken; whether any target moved.

    Whoever takes up a job that an operator has ended is told so again: the cancel may have overtaken the job.
    """
    rows, passing.rows = passing.rows, {}
    if not rows:
        return False
    with master.store.write() as store:
        moved = store.set_parts(rows.values())
        cancelled = store.cancelled(sorted({jid for jid, _target in moved}))
    if cancelled:
        master.link.cancel([(row.minion, row.part) for row in rows.values() if split_part(row.part)[0] in cancelled])
    return bool(moved)


def _put_functions(store: StoreWriter, minion: MinionId, known: FunctionSet) -> None:
    """Keep the set, and that it is this minion's: modules change while a session lasts."""
    store.put_functions(known)
    row = store.minion(minion)
    if row is not None and row.functions != known.digest:
        store.touch_minions([replace(row, functions=known.digest)])
