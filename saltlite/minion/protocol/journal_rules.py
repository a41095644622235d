"""The rules of the minion's journal: which records there are, which moves, and what may be forgotten.

    (unknown) -> received -> started -> done -> acked          received -> refused
    (unknown) -> refused                started ------> acked

Rules of this file: a step never goes back and never comes twice, so a started job cannot be started again
(G4); a job is forgotten only when it has ended, and then its jid is at or below the floor, where unknown jobs
are refused: at most once needs no endless memory. Its key is the id of a part of a job, which starts with the jid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from saltlite.errors import JournalError
from saltlite.minion.protocol.ports import (
    JOURNAL_KEEP_ENTRIES,
    JOURNAL_KEEP_S,
    JOURNAL_MOST_ENTRIES,
    JournalEntry,
    Record,
    Step,
)
from saltlite.model.ids import PartId, jid_at
from saltlite.model.job import parse_part_id

CLOCK_SLACK_S = 86_400.0
"""By how much the clocks of master and minion may differ before a job counts as one from the past."""

# An ack may find the job still STARTED: the DONE record could not be written when the disk was full.
MOVES: dict[Step | None, frozenset[Step]] = {
    None: frozenset({Step.RECEIVED, Step.REFUSED}),
    Step.RECEIVED: frozenset({Step.STARTED, Step.REFUSED}),
    Step.STARTED: frozenset({Step.DONE, Step.ACKED}),
    Step.DONE: frozenset({Step.ACKED}),
    Step.ACKED: frozenset(),
    Step.REFUSED: frozenset(),
}

ENDED = frozenset({Step.ACKED, Step.REFUSED})

FIELDS: dict[Step, dict[str, type]] = {
    Step.RECEIVED: {"body": bytes, "sig": bytes, "proof": list, "wall_ms": int, "deliver_ms": int},
    Step.STARTED: {"pid": int, "ticks": int, "wall_ms": int},
    Step.DONE: {},
    Step.ACKED: {},
    Step.REFUSED: {"reason": str},
}
# A job that left no result on disk is DONE with the reason: "state:text", as a REFUSED record has it.
_MAY_BE_LEFT_OUT: dict[Step, dict[str, type]] = {
    Step.RECEIVED: {"issuer": bytes, "srns": list},
    Step.DONE: {"reason": str},
}


def advance(entry: JournalEntry | None, record: Record, floor: str) -> JournalEntry:
    """The entry after that record. Raises JournalError for a move or a field that the tables do not have."""
    step, fields, wanted = record.step, record.fields, FIELDS[record.step]
    known = wanted | _MAY_BE_LEFT_OUT.get(step, {})
    if step not in MOVES[None if entry is None else entry.step]:
        was = "unknown" if entry is None else entry.step
        raise JournalError(f"the journal has job {record.jid[:40]} as {was}: it cannot become {step}")
    if not wanted.keys() <= fields.keys() or not all(type(fields[name]) is known.get(name) for name in fields):
        raise JournalError(f"a {step} record has the fields {', '.join(wanted) or 'none'}, not {', '.join(fields)}")
    if entry is None:
        return _first(record, parse_part_id(record.jid), floor)
    if step is Step.STARTED:
        return replace(entry, step=step, pid=fields["pid"], ticks=fields["ticks"], started_wall_ms=fields["wall_ms"])
    return JournalEntry(
        entry.jid,
        step,
        received_wall_ms=entry.received_wall_ms,
        issuer=entry.issuer,
        reason=fields.get("reason", entry.reason),
    )


def _first(record: Record, jid: PartId, floor: str) -> JournalEntry:
    fields = record.fields
    if record.step is Step.REFUSED:
        return JournalEntry(jid, record.step, reason=fields["reason"])
    if jid <= floor:
        raise JournalError(f"job {jid} is not newer than {floor}, which this journal has forgotten: refuse it")
    return JournalEntry(
        jid,
        record.step,
        received_wall_ms=fields["wall_ms"],
        deliver_ms=fields["deliver_ms"],
        body=fields["body"],
        signature=fields["sig"],
        proof=tuple(fields["proof"]),
        issuer=fields.get("issuer", b""),
        srns=tuple(fields.get("srns", ())),
    )


def changes(
    entries: Mapping[PartId, JournalEntry], records: Iterable[Record], floor: str
) -> dict[PartId, JournalEntry]:
    """The entries that these records change, as they are after the last one. Raises as `advance` does."""
    changed: dict[PartId, JournalEntry] = {}
    for record in records:
        known = changed.get(record.jid) or entries.get(record.jid)
        changed[record.jid] = advance(known, record, floor)
    return changed


def kept(entries: Iterable[JournalEntry], now_ms: int, floor: str) -> tuple[list[JournalEntry], str]:
    """What stays in the journal at wall-clock time `now_ms`, in the order of their ids, and the floor after that.

    A time far in the future counts as old: the clock was wrong when it was written. The jobs with the highest
    jids stay whatever their time says, so a master whose clock ran ahead for a while does not raise the floor
    above the jobs that come after it. Nor does a jid that lies further ahead of this clock than clocks may differ.
    """
    latest = jid_at(int((now_ms / 1000 + CLOCK_SLACK_S) * 1_000_000))
    ordered = sorted(entries, key=lambda entry: entry.jid)
    spare = len(ordered) - JOURNAL_KEEP_ENTRIES
    surplus = len(ordered) - JOURNAL_MOST_ENTRIES
    staying: list[JournalEntry] = []
    for position, entry in enumerate(ordered):
        old = abs(now_ms - entry.received_wall_ms) > JOURNAL_KEEP_S * 1000
        is_surplus = position < surplus or (old and position < spare)
        if is_surplus and entry.step in ENDED and entry.jid <= latest:
            floor = max(floor, entry.jid)
        else:
            staying.append(entry)
    return staying, floor
