"""The minion's journal: whatever is in the file, it is believed as a whole or refused with a sentence."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saltlite.errors import JournalError
from saltlite.minion.jobs.journal import NAME
from saltlite.minion.protocol import effects as job_effects
from saltlite.minion.protocol.effects import JournalStep, Record
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.minion.protocol.journal_format import FRAME, HEADER, frame, header, record_map
from saltlite.platform.daemon import ManualClock
from saltlite.testing.disk import JOURNAL_FOLDER, MemoryDisk, MemoryFile, memory_journal
from tests.fuzz.surface import mutate_bytes, mutate_value, packed, unpacked
from tests.support.keys import JOB_PUBLIC, NOW, signed

JID, JID2 = "20270115080000000000", "20270115080000000001"
HEAD = header(bytes(range(16)))
SEED = int.from_bytes(HEAD[-4:], "big")
WORDS = (
    *[step.value for step in JournalStep],
    "kept",
    "floor",
    JID,
    JID2,
    JID + "-1",
    "refused:why",
    b"\xc0",
    1_800_000_000_000,
)


class JournalFile:
    """The input is the file. Jobs that it names are taken up again by the machine of the minion's jobs."""

    def __init__(self, folder: Path) -> None:
        pass

    def seeds(self) -> Sequence[bytes]:
        body, signature = signed(JID, ["web1"])
        now_ms = int(NOW * 1000)
        received = Record(
            JournalStep.RECEIVED,
            JID,
            {"body": body, "sig": signature, "proof": [], "wall_ms": now_ms, "deliver_ms": 60_000},
        )
        started = Record(JournalStep.STARTED, JID, {"pid": 4321, "ticks": 99, "wall_ms": now_ms})
        refused = Record(JournalStep.REFUSED, JID2, {"reason": "refused:it was too late"})
        done, acked = Record(JournalStep.DONE, JID, {}), Record(JournalStep.ACKED, JID, {})
        kept = {"k": "kept", "j": JID, "s": "received", "wall_ms": now_ms, "deliver_ms": 60_000, "body": body}
        histories: list[list[dict[str, Any]]] = [
            [],
            [record_map(received)],
            [record_map(one) for one in (received, started)],
            [record_map(one) for one in (received, refused, started, done, acked)],
            [{"k": "floor", "j": JID}, {**kept, "j": JID2, "sig": signature}],
        ]
        return [HEAD + b"".join(frame(one, seed=SEED, synced=0) for one in history) for history in histories]

    def run(self, data: bytes) -> None:
        disk = MemoryDisk()
        folder = disk.folder(JOURNAL_FOLDER)
        folder._files[NAME] = MemoryFile(data)
        clock = ManualClock(seed=1, wall=NOW)
        journal = memory_journal(disk, entropy=clock.entropy)
        try:
            entries = journal.open()
        except JournalError:
            return
        jobs = JobMachine("web1", clock, limit=2, longest_s=0.0)
        jobs.trust(JOB_PUBLIC, NOW + 1e6)
        jobs.replay(
            [
                job_effects.RecoveredJob(
                    jid=entry.jid,
                    step=entry.step,
                    body=entry.body,
                    received_wall_ms=entry.received_wall_ms,
                    deliver_ms=entry.deliver_ms,
                    pid=entry.pid,
                    started_wall_ms=entry.started_wall_ms,
                    reason=entry.reason,
                    srns=entry.srns,
                    alive=False,
                )
                for entry in entries
            ],
            [],
            journal.floor,
        )
        jobs.open()
        jobs.tick()
        jobs.take()
        journal.compact(int(NOW * 1000))
        again = memory_journal(disk, entropy=clock.entropy)
        # What was believed once is believed again: nothing in it could be written and not be read.
        assert {entry.jid for entry in again.open()} <= {entry.jid for entry in entries}

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        records = _records(data)
        if rng.random() < 0.25 or not records:
            return mutate_bytes(data, rng)
        at = rng.randrange(len(records))
        match rng.randrange(5):
            case 0:
                records.insert(at, rng.choice(records))
            case 1:
                del records[at]
            case _:
                records[at] = mutate_value(records[at], rng, WORDS)
        lines = [packed(record) for record in records]
        return HEAD + b"".join(_framed(line, rng) for line in lines)

    def close(self) -> None:
        pass


def _framed(payload: bytes, rng: random.Random) -> bytes:

    length = struct.pack(">I", len(payload))
    synced = struct.pack(">Q", rng.choice((0, 0, 0, 60, 2**63)))
    crc = zlib.crc32(synced + payload, zlib.crc32(length, SEED))
    return length + struct.pack(">I", crc) + synced + payload


def _records(data: bytes) -> list[object]:
    found, at = [], HEADER.size
    while at + FRAME.size <= len(data):
        length, _, _ = FRAME.unpack_from(data, at)
        value = unpacked(data[at + FRAME.size : at + FRAME.size + length])
        if value is None:
            break
        found.append(value)
        at += FRAME.size + length
    return found
