"""Documents of minions in pieces: in order, bounded, checked as a whole."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from saltlite.adapters.clock import ManualClock
from saltlite.core.cache.ports import GRAINS_MAX
from saltlite.master.documents import IDLE_S, PER_MINUTE, Document, Documents
from saltlite.model.ids import MinionId
from saltlite.wire.limits import DOC_MAX
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
    documents = Documents(clock)
    assert told(documents.put(MA, piece(DATA, 0, 60))) == ("ok", 60)
    assert documents.put(MA, piece(DATA, 60, 100)) == Document("resources", DATA)


def test_a_piece_that_does_not_come_next_is_not_taken_and_the_right_one_is_asked_for(clock: ManualClock) -> None:
    documents = Documents(clock)
    assert told(documents.put(MA, piece(DATA, 60, 100))) == ("ok", 0)
    documents.put(MA, piece(DATA, 0, 60))
    assert told(documents.put(MA, piece(DATA, 0, 60))) == ("ok", 60)


def test_more_data_than_was_announced_is_not_taken(clock: ManualClock) -> None:
    assert told(Documents(clock).put(MA, piece(DATA, 0, 60, size=50))) == ("ok", 0)


def test_a_document_that_is_not_what_its_digest_says_begins_anew(clock: ManualClock) -> None:
    documents = Documents(clock)
    assert told(documents.put(MA, piece(DATA, 0, 100, sha256=bytes(32)))) == ("ok", 0)
    assert documents.put(MA, piece(DATA, 0, 100)) == Document("resources", DATA)


def test_another_document_takes_the_place_of_one_that_was_not_finished(clock: ManualClock) -> None:
    documents = Documents(clock, memory=len(DATA))
    documents.put(MA, piece(DATA, 0, 60))
    other = DATA[::-1]
    assert told(documents.put(MA, piece(other, 60, 100))) == ("ok", 0)
    assert documents.put(MA, piece(other, 0, 100)) == Document("resources", other)


def test_documents_of_two_minions_do_not_meet(clock: ManualClock) -> None:
    documents = Documents(clock)
    documents.put(MA, piece(DATA, 0, 60))
    assert told(documents.put(MB, piece(DATA, 60, 100))) == ("ok", 0)


@pytest.mark.parametrize(("kind", "size"), [("grains", GRAINS_MAX + 1), ("resources", DOC_MAX + 1), ("resources", 0)])
def test_a_document_of_an_impossible_size_is_refused_with_a_sentence(clock: ManualClock, kind: str, size: int) -> None:
    answer = Documents(clock).put(MA, piece(DATA, 0, 0, kind=kind, size=size))
    assert told(answer)[0] == "refused"
    assert isinstance(answer, dict)
    assert f"{kind} of {size} bytes" in answer["names"][0]


def test_what_is_on_its_way_fills_its_memory_and_no_more(clock: ManualClock) -> None:
    documents = Documents(clock, memory=100)
    documents.put(MA, piece(DATA, 0, 60))
    assert told(documents.put(MB, piece(DATA, 0, 60))) == ("busy", 0)
    assert documents.put(MA, piece(DATA, 60, 100)) == Document("resources", DATA)
    assert told(documents.put(MB, piece(DATA, 0, 60))) == ("ok", 60)


def test_what_nobody_goes_on_with_is_forgotten(clock: ManualClock) -> None:
    documents = Documents(clock, memory=100)
    documents.put(MA, piece(DATA, 0, 60))
    clock.advance(IDLE_S + 1)
    assert told(documents.put(MB, piece(DATA, 0, 60))) == ("ok", 60)
    assert told(documents.put(MA, piece(DATA, 60, 100))) == ("ok", 0)


def test_a_minion_sends_so_many_documents_of_a_kind_in_a_minute(clock: ManualClock) -> None:
    documents = Documents(clock)
    for _ in range(PER_MINUTE):
        assert isinstance(documents.put(MA, piece(DATA, 0, 100)), Document)
    assert told(documents.put(MA, piece(DATA, 0, 100)))[0] == "busy"
    assert isinstance(documents.put(MA, piece(DATA, 0, 100, kind="grains")), Document)
    clock.advance(60.0)
    assert isinstance(documents.put(MA, piece(DATA, 0, 100)), Document)
