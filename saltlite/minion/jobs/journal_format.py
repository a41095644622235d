"""The bytes of the minion's journal, both ways; no IO.

    file    magic(8) | u32 format | incarnation(16) | u32 crc32 of those          all integers big endian
    record  u32 length | u32 crc32 | u64 synced | msgpack map {"k": kind, "j": jid, field: value, ...}

The checksum of a record covers its length, `synced` and the map, and starts from the header's: a record of
another journal, or bytes inside a job that look like a record, do not count. `synced` is how much of the file
was on disk when the record was written. It tells an interrupted write from damage: a bad place that a later
good record says was on disk is damage, and everything else is a write that power or a kill cut short.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import JournalError, UsageError
from saltlite.minion.protocol.journal_rules import advance
from saltlite.minion.protocol.ports import JOURNAL_RECORD_MAX, JournalEntry, Record, Step
from saltlite.model.ids import PartId
from saltlite.model.job import parse_part_id

MAGIC = b"SLJOURN\n"
FORMAT = 1
HEADER = struct.Struct(">8sI16sI")
FRAME = struct.Struct(">IIQ")

# Kinds that only a rewrite makes, beside the steps of a job.
KEPT = "kept"
FLOOR = "floor"

_STEPS: dict[str, Step] = {step.value: step for step in Step}

# Short names of what a kept entry needs beside jid and step; an empty value is left out.
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
    """What a journal says: the bytes up to `end` are good, and what is behind them was never synced."""

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
    """One record. `seed` is the checksum in the journal's header. Raises JournalError when it is too long."""
    packed: bytes = msgpack.packb(payload)
    if len(packed) > JOURNAL_RECORD_MAX:
        raise JournalError(f"a journal record has at most {JOURNAL_RECORD_MAX} bytes, not {len(packed)}")
    head = FRAME.pack(len(packed), 0, synced)
    crc = zlib.crc32(packed, zlib.crc32(head[8:], zlib.crc32(head[:4], seed)))
    return FRAME.pack(len(packed), crc, synced) + packed


def record_map(record: Record) -> dict[str, Any]:
    """The map of a record, as `frame` takes it."""
    return {"k": record.step.value, "j": record.jid, **record.fields}


def kept_map(entry: JournalEntry) -> dict[str, Any]:
    """The map that brings a whole entry back, as `frame` takes it."""
    values = {name: getattr(entry, attribute) for name, attribute in _KEPT_FIELDS.items()}
    return {"k": KEPT, "j": entry.jid, "s": entry.step.value} | {name: v for name, v in values.items() if v}


def replay(data: bytes, where: str) -> Replay:
    """Read a whole journal; `where` names it in errors.

    Raises JournalError for a header that is not one, for another format, and for damage (see above): never
    for a write that was cut short.
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
    """Where the good record at `start` ends; None when there is none."""
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
    """Whether a good record behind the bad place says that the place was on disk before it."""
    for start in range(bad + 1, len(view) - FRAME.size):
        length, _, synced = FRAME.unpack_from(view, start)
        plausible = 0 < length <= JOURNAL_RECORD_MAX and bad < synced <= start
        if plausible and _record_end(view, start, seed) is not None:
            return True
    return False


def _apply(result: Replay, payload: memoryview, where: str) -> None:
    try:
        fields = msgpack.unpackb(payload)
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
        _damaged(where, result.end, f"a record makes no sense ({error})", error)


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
