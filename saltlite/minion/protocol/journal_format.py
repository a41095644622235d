"""The minion's journal, without IO: its records, their transitions and retention, and its bytes.

    (unknown) -> received -> started -> done -> acked          received -> refused
    (unknown) -> refused                started ------> acked

A step is never undone or repeated, so a started job cannot be started again (G4). A job is deleted only after its end,
and then its jid is at or below the floor, where unknown jobs are refused: at-most-once needs no unbounded memory. The
key is the id of a part of a job, which starts with the jid.

    file    magic(8) | u32 format | incarnation(16) | u32 crc32 of those          all integers big endian
    record  u32 length | u32 crc32 | u64 synced | msgpack map {"k": kind, "j": jid, field: value, ...}

The checksum of a record covers its length, `synced` and the map, seeded with the header's checksum, so a record of
another journal does not count. `synced` is how much of the file was on disk when the record was written. It separates
damage from an interrupted write: a bad place that a later valid record declares as synced is damage; everything else is
a write that a power failure or a kill interrupted.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, NoReturn

from saltlite.errors import JournalError, UsageError
from saltlite.minion.protocol.effects import (
    JOURNAL_KEEP_ENTRIES,
    JOURNAL_KEEP_S,
    JOURNAL_MOST_ENTRIES,
    JOURNAL_RECORD_MAX,
    JournalEntry,
    JournalStep,
    Record,
)
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import PartId, jid_at
from saltlite.model.job import parse_part_id
from saltlite.wire.framing import pack, unpack

CLOCK_SLACK_S = 86_400.0
"""Seconds by which the clocks of master and minion may differ; a job beyond it counts as old."""

# An acknowledgement may find the job still STARTED: the DONE record could not be written when the disk was full.
MOVES: dict[JournalStep | None, frozenset[JournalStep]] = {
    None: frozenset({JournalStep.RECEIVED, JournalStep.REFUSED}),
    JournalStep.RECEIVED: frozenset({JournalStep.STARTED, JournalStep.REFUSED}),
    JournalStep.STARTED: frozenset({JournalStep.DONE, JournalStep.ACKED}),
    JournalStep.DONE: frozenset({JournalStep.ACKED}),
    JournalStep.ACKED: frozenset(),
    JournalStep.REFUSED: frozenset(),
}

ENDED = frozenset({JournalStep.ACKED, JournalStep.REFUSED})

FIELDS: dict[JournalStep, dict[str, type]] = {
    JournalStep.RECEIVED: {"body": bytes, "sig": bytes, "proof": list, "wall_ms": int, "deliver_ms": int},
    JournalStep.STARTED: {"pid": int, "ticks": int, "wall_ms": int},
    JournalStep.DONE: {},
    JournalStep.ACKED: {},
    JournalStep.REFUSED: {"reason": str},
}
# A job without a result on disk is DONE with the reason "state:text", as in a REFUSED record.
_MAY_BE_LEFT_OUT: dict[JournalStep, dict[str, type]] = {
    JournalStep.RECEIVED: {"issuer": bytes, "srns": list},
    JournalStep.DONE: {"reason": str},
}


def advance(entry: JournalEntry | None, record: Record, floor: str) -> JournalEntry:
    """The entry after that record. Raises JournalError for a transition or a field that is not in the tables."""
    step, fields, wanted = record.step, record.fields, FIELDS[record.step]
    known = wanted | _MAY_BE_LEFT_OUT.get(step, {})
    if step not in MOVES[None if entry is None else entry.step]:
        was = "unknown" if entry is None else entry.step
        raise JournalError(f"the journal has job {record.jid[:40]} as {was}: it cannot become {step}")
    if not wanted.keys() <= fields.keys() or not all(type(fields[name]) is known.get(name) for name in fields):
        raise JournalError(f"a {step} record has the fields {', '.join(wanted) or 'none'}, not {', '.join(fields)}")
    if entry is None:
        return _first(record, parse_part_id(record.jid), floor)
    if step is JournalStep.STARTED:
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
    if record.step is JournalStep.REFUSED:
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
    """The changed entries after these records. Raises as `advance` does."""
    changed: dict[PartId, JournalEntry] = {}
    for record in records:
        known = changed.get(record.jid) or entries.get(record.jid)
        changed[record.jid] = advance(known, record, floor)
    return changed


def kept(entries: Iterable[JournalEntry], now_ms: int, floor: str) -> tuple[list[JournalEntry], str]:
    """The entries that stay at wall-clock time `now_ms`, in the order of their ids, and the new floor.

    A time far in the future counts as old, because the clock was wrong. The jobs with the highest jids stay whatever
    their time, so a master whose clock ran ahead does not raise the floor above later jobs. Nor does a jid that is
    ahead of this clock by more than clocks may differ.
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


# -- Bytes


MAGIC = b"SLJOURN\n"
FORMAT = 1
HEADER = struct.Struct(">8sI16sI")
FRAME = struct.Struct(">IIQ")

# Kinds that only compaction writes, besides the steps of a job.
KEPT = "kept"
FLOOR = "floor"

_STEPS: dict[str, JournalStep] = {step.value: step for step in JournalStep}

# Short names of the fields of a kept entry besides jid and step; empty values are omitted.
_KEPT_FIELDS = {
    "wall_ms": "received_wall_ms",
    "deliver_ms": "deliver_ms",
    "body": "body",
    "sig": "signature",
    "proof": "proof",
    "issuer": "issuer",
    "pid": "pid",
    "ticks": "ticks",
    "start_ms": "started_wall_ms",
    "reason": "reason",
    "srns": "srns",
}
_KEPT_TYPES: dict[str, type] = dict.fromkeys(_KEPT_FIELDS, int) | {
    "body": bytes,
    "sig": bytes,
    "issuer": bytes,
    "proof": list,
    "reason": str,
    "srns": list,
}


@dataclass(slots=True)
class Replay:
    """The content of a journal: the bytes up to `end` are valid, and later ones were never synced."""

    incarnation: bytes
    seed: int
    end: int
    floor: str = ""
    entries: dict[PartId, JournalEntry] = field(default_factory=dict)


def header(incarnation: bytes) -> bytes:
    """The first bytes of a journal with that incarnation (16 bytes)."""
    bare = HEADER.pack(MAGIC, FORMAT, incarnation, 0)[:-4]
    return bare + zlib.crc32(bare).to_bytes(4, "big")


def frame(payload: Mapping[str, Any], *, seed: int, synced: int) -> bytes:
    """One encoded record. `seed` is the checksum in the journal's header. Raises JournalError when it is too long."""
    packed = pack(dict(payload))
    if len(packed) > JOURNAL_RECORD_MAX:
        raise JournalError(f"a journal record has at most {JOURNAL_RECORD_MAX} bytes, not {len(packed)}")
    head = FRAME.pack(len(packed), 0, synced)
    crc = zlib.crc32(packed, zlib.crc32(head[8:], zlib.crc32(head[:4], seed)))
    return FRAME.pack(len(packed), crc, synced) + packed


def record_map(record: Record) -> dict[str, Any]:
    """The payload of a record, for `frame`."""
    return {"k": record.step.value, "j": record.jid, **record.fields}


def kept_map(entry: JournalEntry) -> dict[str, Any]:
    """The payload that restores a whole entry, for `frame`."""
    values = {name: getattr(entry, attribute) for name, attribute in _KEPT_FIELDS.items()}
    return {"k": KEPT, "j": entry.jid, "s": entry.step.value} | {name: v for name, v in values.items() if v}


def replay(data: bytes, where: str) -> Replay:
    """Read a whole journal; `where` names it in errors.

    Raises JournalError for an invalid header, another format, and damage (see above), but not for an interrupted write.
    """
    result = _read_header(data, where)
    view = memoryview(data)
    while (end := _record_end(view, result.end, result.seed)) is not None:
        _apply(result, view[result.end + FRAME.size : end], where)
        result.end = end
    if _was_on_disk(view, result.end, result.seed):
        _damaged(where, result.end, "records that were written later are whole")
    return result


def _read_header(data: bytes, where: str) -> Replay:
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        _damaged(where, 0, "it does not begin as a journal does")
    _, version, incarnation, crc = HEADER.unpack_from(data)
    if version != FORMAT:
        raise JournalError(
            f"the journal {where} has format {version}, and this saltlite reads format {FORMAT}: "
            "run the version that wrote it, or move the file away; the minion then has a new incarnation"
        )
    if crc != zlib.crc32(data[: HEADER.size - 4]):
        _damaged(where, 0, "its header has a wrong checksum")
    return Replay(incarnation, crc, HEADER.size)


def _record_end(view: memoryview, start: int, seed: int) -> int | None:
    """The end of the valid record at `start`; None if there is none."""
    body = start + FRAME.size
    if body > len(view):
        return None
    length, crc, _ = FRAME.unpack_from(view, start)
    end: int = body + length
    if not 0 < length <= JOURNAL_RECORD_MAX or end > len(view):
        return None
    whole = zlib.crc32(view[start + 8 : end], zlib.crc32(view[start : start + 4], seed))
    return end if whole == crc else None


def _was_on_disk(view: memoryview, bad: int, seed: int) -> bool:
    """Whether a valid record after the bad place declares it as synced."""
    for start in range(bad + 1, len(view) - FRAME.size):
        length, _, synced = FRAME.unpack_from(view, start)
        plausible = 0 < length <= JOURNAL_RECORD_MAX and bad < synced <= start
        if plausible and _record_end(view, start, seed) is not None:
            return True
    return False


def _apply(result: Replay, payload: memoryview, where: str) -> None:
    try:
        fields = unpack(payload)
        kind, jid = fields.pop("k"), fields.pop("j")
        if kind == FLOOR:
            result.floor = parse_part_id(jid) if jid else ""
        elif kind == KEPT:
            entry = _kept_entry(parse_part_id(jid), fields)
            result.entries[entry.jid] = entry
        else:
            before = result.entries.get(jid)
            entry = advance(before, Record(_STEPS[kind], jid, fields), result.floor)
            result.entries[entry.jid] = entry
    except (AttributeError, KeyError, TypeError, ValueError, UsageError, JournalError) as error:
        _damaged(where, result.end, f"a record is malformed ({error})", error)


def _kept_entry(jid: PartId, fields: dict[str, Any]) -> JournalEntry:
    step = _STEPS[fields.pop("s")]
    for name, value in fields.items():
        if type(value) is not _KEPT_TYPES[name]:
            raise TypeError(name)
    for name in {"proof", "srns"} & fields.keys():
        fields[name] = tuple(fields[name])
    return JournalEntry(jid, step, **{_KEPT_FIELDS[name]: value for name, value in fields.items()})


def _damaged(where: str, offset: int, how: str, cause: Exception | None = None) -> NoReturn:
    raise JournalError(
        f"the journal {where} is damaged at byte {offset}: {how}. Jobs could run twice if it were used: "
        f"move the file away (mv {where} {where}.damaged) and start again; the minion then has a new "
        "incarnation, and the master reports what was open on it as lost"
    ) from cause
