"""Result files of the minion's spool: whatever is in one, it is a result or is put aside."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from saltlite.errors import JournalError, ProtocolError
from saltlite.loader.encode import encode_return
from saltlite.minion.jobs.spool import DAMAGED, HEADER, RESULT, encode
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.model.job import TargetState
from saltlite.testing.disk import SPOOL_FOLDER, MemoryDisk, MemoryFile, memory_spool
from saltlite.wire import codec, messages
from saltlite.wire.messages import SegmentRow, decode_segment, encode_segment
from tests.fuzz.surface import mutate_bytes, mutate_value, packed, unpacked

JID = "20270115080000000000"
SENT = ("returned", "timed_out", "interrupted", "cancelled")
STATES = [state.value for state in TargetState]


class SpoolFiles:
    """The input is a file."""

    def __init__(self, folder: Path) -> None:
        pass

    def seeds(self) -> Sequence[bytes]:
        row = SegmentRow("dummy:a", TargetState.RETURNED, 0, b"\xc3", 1, 2)
        entries = [
            SpoolEntry(TargetState.RETURNED, 0, encode_return({"a": [1, None]}), 1_800_000_000_000, 12),
            SpoolEntry(TargetState.TIMED_OUT, 1, b"", 1_800_000_000_000, 12, "it took too long"),
            SpoolEntry(TargetState.RETURNED, 0, encode_segment([row]), 1, 2),
        ]
        return [encode(JID, entry) for entry in entries]

    def run(self, data: bytes) -> None:
        disk = MemoryDisk()
        folder = disk.folder(SPOOL_FOLDER)
        folder._files[JID + RESULT] = MemoryFile(data)
        spool = memory_spool(disk)
        spool.open()
        assert spool.jids() == ([JID] if data else [])
        if not data:
            return
        try:
            entry = spool.read(JID)
        except JournalError:
            left = folder.names()
            assert JID + DAMAGED in left or JID + RESULT in left
            return
        said = {
            "t": "return",
            "jid": JID,
            "state": entry.state,
            "code": entry.code,
            "body": entry.body,
            "size": len(entry.body),
            "start_ms": entry.start_ms,
            "dur_ms": entry.dur_ms,
            "reason": entry.reason,
        }
        if entry.state not in SENT:
            return
        # What the minion would send is what its master takes: a result that is not would end its session for ever.
        messages.check(codec.decode(codec.encode(said)), messages.Sender.MINION, accepted=True)
        with suppress(ProtocolError):
            decode_segment(entry.body)
        spool.remove(JID)
        assert spool.usage() == (0, 0)

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        values = unpacked(data[HEADER.size :])
        if rng.random() < 0.3 or not isinstance(values, dict):
            return mutate_bytes(data, rng)
        payload = packed(mutate_value(values, rng, STATES))
        crc = zlib.crc32(payload, zlib.crc32(JID.encode()))
        return HEADER.pack(b"SLRT", 1, crc) + payload

    def close(self) -> None:
        pass
