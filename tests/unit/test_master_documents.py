"""Documents of minions in pieces: in order, bounded, checked as a whole."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from saltlite.master.handlers.documents import (
    AT_ONCE,
    BYTES_PER_MINUTE,
    EVERY_S,
    IDLE_S,
    RATE_MIN,
    SHARES,
    SMALL,
    Document,
    DocumentBuffer,
)
from saltlite.model.ids import MinionId
from saltlite.platform.daemon import ManualClock
from saltlite.targeting.banks import GRAINS_MAX
from saltlite.wire.limits import DOC_MAX, MIB
from saltlite.wire.messages import Sender, check

MA, MB = MinionId("ma"), MinionId("mb")
DATA = bytes(range(100))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall=1.0)


def piece(data: bytes, start: int, end: int, **more: Any) -> dict[str, Any]:
    digest = hashlib.sha256(data).digest()
    fields = {"size": len(data), "sha256": digest, "offset": start, "data": data[start:end]}
    return {"t": "doc_put", "n": 7, "kind": "resources", **fields, **more}


def told(answer: Any) -> tuple[str, int]:
    """State and size of what is said, which is a message that the wire carries."""
    assert check(answer, Sender.MASTER, accepted=True)["n"] == 7
    return answer["state"], answer["size"]


def test_a_document_is_whole_with_its_last_piece(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    assert told(documents.put(MA, piece(DATA, 0, 60))) == ("ok", 60)
    assert documents.put(MA, piece(DATA, 60, 100)) == Document("resources", DATA)


def test_a_piece_that_does_not_come_next_is_not_taken_and_the_right_one_is_asked_for(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    assert told(documents.put(MA, piece(DATA, 60, 100))) == ("ok", 0)
    documents.put(MA, piece(DATA, 0, 60))
    assert told(documents.put(MA, piece(DATA, 0, 60))) == ("ok", 60)


def test_more_data_than_was_announced_is_not_taken(clock: ManualClock) -> None:
    assert told(DocumentBuffer(clock).put(MA, piece(DATA, 0, 60, size=50))) == ("ok", 0)


def test_a_document_that_is_not_what_its_digest_says_begins_anew(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    assert told(documents.put(MA, piece(DATA, 0, 100, sha256=bytes(32)))) == ("ok", 0)
    assert documents.put(MA, piece(DATA, 0, 100)) == Document("resources", DATA)


def test_another_document_takes_the_place_of_one_that_was_not_finished(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    documents.put(MA, piece(DATA, 0, 60))
    other = DATA[::-1]
    assert told(documents.put(MA, piece(other, 60, 100))) == ("ok", 0)
    assert documents.put(MA, piece(other, 0, 100)) == Document("resources", other)


def test_documents_of_two_minions_do_not_meet(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    documents.put(MA, piece(DATA, 0, 60))
    assert told(documents.put(MB, piece(DATA, 60, 100))) == ("ok", 0)


@pytest.mark.parametrize(("kind", "size"), [("grains", GRAINS_MAX + 1), ("resources", DOC_MAX + 1), ("resources", 0)])
def test_a_document_of_an_impossible_size_is_refused_with_a_sentence(clock: ManualClock, kind: str, size: int) -> None:
    answer = DocumentBuffer(clock).put(MA, piece(DATA, 0, 0, kind=kind, size=size))
    assert told(answer)[0] == "refused"
    assert isinstance(answer, dict)
    assert f"{kind} of {size} bytes" in answer["names"][0]


def begin(documents: DocumentBuffer, minion: str, size: int, *, of: int = 0, offset: int = 0) -> tuple[str, int]:
    """A minion sends so many bytes of a document of `of` bytes, which is never to be whole."""
    message = piece(bytes(size), 0, size, size=of or size + 1, sha256=minion.encode().ljust(32), offset=offset)
    return told(documents.put(MinionId(minion), message))


def fill(documents: DocumentBuffer) -> None:
    """One minion beyond its share, and others up to theirs, use up 32 MiB."""
    begin(documents, "greedy", 16 * MIB)
    for number in range(4):
        begin(documents, f"m{number}", 4 * MIB)


def test_what_is_on_its_way_fills_its_memory_and_no_more(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock, memory=32 * MIB)
    fill(documents)
    assert begin(documents, "late", 2 * MIB) == ("busy", 0)


def test_a_small_document_gets_through_when_the_memory_is_full(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock, memory=32 * MIB)
    fill(documents)
    small = bytes(SMALL)
    assert documents.put(MA, piece(small, 0, SMALL)) == Document("resources", small)
    # The largest made room, and nobody else did.
    assert begin(documents, "greedy", 1, offset=16 * MIB, of=16 * MIB + 1) == ("ok", 0)
    assert begin(documents, "m0", 0, of=4 * MIB + 1) == ("ok", 4 * MIB)


def test_only_one_minion_at_a_time_has_more_than_its_share(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock, memory=32 * MIB)
    share = 32 * MIB // SHARES
    assert begin(documents, "greedy", share + 1) == ("ok", share + 1)
    assert begin(documents, "ma", share + 1) == ("busy", 0)
    assert begin(documents, "ma", share) == ("ok", share)


def test_who_has_more_than_its_share_and_is_slow_gives_way(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock, memory=32 * MIB)
    share = 32 * MIB // SHARES
    begin(documents, "greedy", share + 1, of=DOC_MAX)
    offset, begun_at = share + 1, clock.monotonic()
    while (age := clock.monotonic() - begun_at) <= IDLE_S or offset >= age * RATE_MIN:
        assert begin(documents, "ma", share + 1) == ("busy", 0)
        clock.advance(IDLE_S / 2)
        begin(documents, "greedy", 1, of=DOC_MAX, offset=offset)
        offset += 1
    assert begin(documents, "ma", share + 1) == ("ok", share + 1)


def test_what_nobody_goes_on_with_is_forgotten(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    documents.put(MA, piece(DATA, 0, 60))
    clock.advance(IDLE_S + 1)
    assert told(documents.put(MA, piece(DATA, 60, 100))) == ("ok", 0)


def test_a_piece_that_brings_nothing_does_not_keep_a_document(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    documents.put(MA, piece(DATA, 0, 60))
    for _ in range(3):
        clock.advance(IDLE_S / 2)
        answer = documents.put(MA, piece(DATA, 0, 1))
    assert told(answer) == ("ok", 1)


def test_a_minion_sends_so_many_bytes_in_a_minute_and_a_large_document_after_it(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    half = bytes(BYTES_PER_MINUTE // 2)
    for _ in range(2):
        assert isinstance(documents.put(MA, piece(half, 0, len(half))), Document)
    assert told(documents.put(MA, piece(DATA, 0, 100)))[0] == "busy"
    assert isinstance(documents.put(MB, piece(DATA, 0, 100)), Document)
    clock.advance(60.0)
    assert isinstance(documents.put(MA, piece(half, 0, len(half))), Document)


def test_a_minion_sends_so_many_documents_of_a_kind_at_once_and_then_one_after_the_other(clock: ManualClock) -> None:
    documents = DocumentBuffer(clock)
    for _ in range(AT_ONCE):
        assert isinstance(documents.put(MA, piece(DATA, 0, 100)), Document)
    assert isinstance(documents.put(MA, piece(DATA, 0, 100, kind="grains")), Document)
    for _ in range(2):
        busy: Any = documents.put(MA, piece(DATA, 0, 100))
        assert told(busy)[0] == "busy"
        assert "at once" in busy["names"][0]
        clock.advance(EVERY_S)
        assert isinstance(documents.put(MA, piece(DATA, 0, 100)), Document)
