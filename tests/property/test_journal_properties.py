"""Whatever bytes a disk gives back, a journal never says what was not written to it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.errors import JournalError
from saltlite.minion.protocol.effects import JournalEntry, JournalStep, Record
from saltlite.minion.protocol.journal_format import FIELDS, HEADER, MOVES, changes, frame, header, record_map, replay

HEAD = header(bytes(range(16)))
SEED = int.from_bytes(HEAD[-4:], "big")
unhurried = settings(deadline=None)  # the machine may be busy with other tests
BY_TYPE = {
    int: st.integers(0, 2**53),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=60),
    list: st.lists(st.binary(max_size=8), max_size=2),
}


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Records in an order that the table of moves allows, for a few jobs."""
    at: dict[str, JournalStep | None] = {f"{number:020d}": None for number in range(3)}
    records: list[Record] = []
    for _ in range(draw(st.integers(1, 8))):
        open_jobs = sorted(jid for jid, step in at.items() if MOVES[step])
        if not open_jobs:
            break
        jid = draw(st.sampled_from(open_jobs))
        step = draw(st.sampled_from(sorted(MOVES[at[jid]])))
        fields = {name: draw(BY_TYPE[wanted]) for name, wanted in FIELDS[step].items()}
        records.append(Record(step, jid, fields))
        at[jid] = step
    return records


def written(records: Sequence[Record], syncs: Sequence[bool]) -> tuple[bytes, list[int]]:
    """The file after these records, a sync before each one where `syncs` says so; where each one begins."""
    data, starts, synced = HEAD, [], len(HEAD)
    for record, sync in zip(records, syncs, strict=True):
        synced = len(data) if sync else synced
        starts.append(len(data))
        data += frame(record_map(record), seed=SEED, synced=synced)
    return data, [*starts, len(data)]


def states(records: Sequence[Record]) -> list[dict[str, JournalEntry]]:
    """What is known after none, one, two … of the records."""
    known: list[dict[str, JournalEntry]] = [{}]
    for record in records:
        known.append(known[-1] | changes(known[-1], [record], ""))
    return known


@unhurried
@given(histories(), st.data())
def test_a_file_cut_at_any_byte_says_what_its_whole_records_say(records: list[Record], data: st.DataObject) -> None:
    whole, starts = written(records, [True] * len(records))
    length = data.draw(st.integers(HEADER.size, len(whole)))
    found = replay(whole[:length], "journal")
    count = sum(start <= length for start in starts) - 1
    assert (found.entries, found.end) == (states(records)[count], starts[count])


@unhurried
@given(histories(), st.data())
def test_a_flipped_bit_is_never_read_as_another_record(records: list[Record], data: st.DataObject) -> None:
    syncs = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    whole, starts = written(records, syncs)
    at = data.draw(st.integers(0, len(whole) - 1))
    spoiled = bytearray(whole)
    spoiled[at] ^= 1 << data.draw(st.integers(0, 7))
    hit = sum(start <= at for start in starts) - 1
    was_synced = at < HEADER.size or any(syncs[hit + 1 :])
    if was_synced:
        with pytest.raises(JournalError):
            replay(bytes(spoiled), "journal")
    else:
        found = replay(bytes(spoiled), "journal")
        assert (found.entries, found.end) == (states(records)[hit], starts[hit])


@unhurried
@given(histories(), histories())
def test_records_inside_a_torn_job_body_do_not_count(outer: list[Record], inner: list[Record]) -> None:
    """A body may hold what looks like later records; only the checksum that no operator knows makes one."""
    whole, _ = written(outer, [True] * len(outer))
    forged = b"".join(frame(record_map(record), seed=0, synced=len(whole) + 1) for record in inner)
    body = {"body": forged, "sig": b"", "proof": [], "wall_ms": 1, "deliver_ms": 1}
    carrier = frame(record_map(Record(JournalStep.RECEIVED, f"{9:020d}", body)), seed=SEED, synced=len(HEAD))
    assert replay(whole + carrier[:-1], "journal").entries == states(outer)[-1]


@unhurried
@given(st.binary(max_size=200))
def test_noise_behind_the_header_is_an_unfinished_write(noise: bytes) -> None:
    found = replay(HEAD + noise, "journal")
    assert (found.entries, found.end) == ({}, HEADER.size)


@unhurried
@given(st.binary(max_size=200))
def test_noise_alone_is_no_journal(noise: bytes) -> None:
    with pytest.raises(JournalError, match="damaged at byte 0"):
        replay(noise, "journal")
