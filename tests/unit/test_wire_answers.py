"""Signed answers: for one question of one minion, once, and for every field of both as it is."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.wire import job_body
from saltlite.wire.framing import pack, unpack
from saltlite.wire.messages import NONCE_BYTES, VERBS, Message, Sender, check, response_message
from saltlite.wire.signatures import BUSY, is_believed, needs_signature, signed, with_nonce
from tests.support.keys import JOB_PRIVATE, JOB_PUBLIC, seed

FIND: Message = {
    "t": "file_request",
    "n": 3,
    "operation": "find",
    "env": "base",
    "path": "a/b",
    "after": "",
    "offset": 0,
}
PILLAR: Message = {"t": "doc_get", "n": 3, "kind": "pillar", "sha256": b"", "offset": 0}
PUBLISH: Message = {"t": "ask", "n": 3, "what": "publish", "data": b"x", "sha256": b"", "offset": 0}
SAID: dict[str, Any] = {
    "size": 5,
    "sha256": b"h" * 32,
    "mode": 0o644,
    "mtime": 1_800_000_000,
    "data": b"piece",
    "names": ["a", "b"],
    "more": False,
}
MINION = "web1"


def asked(question: Message, nonce: bytes = b"n" * NONCE_BYTES) -> Message:
    return {**question, "nonce": nonce}


def said(question: Message = FIND, state: str = "ok", **fields: Any) -> Message:
    """An answer as the master of the tests sends it."""
    return signed(JOB_PRIVATE, MINION, asked(question), response_message(question["n"], state, **{**SAID, **fields}))


def believed(answer: Message, question: Message | None = None, *, minion: str = MINION) -> bool:
    return is_believed([JOB_PUBLIC], minion, asked(FIND) if question is None else question, answer)


@pytest.mark.parametrize("question", [FIND, PILLAR, PUBLISH], ids=["file", "pillar", "ask"])
@pytest.mark.parametrize("state", ["ok", "absent", "refused"])
def test_what_a_master_signed_is_believed_also_after_it_travelled(question: Message, state: str) -> None:
    answer = said(question, state)
    check(answer, Sender.MASTER, accepted=True)
    assert believed(answer, asked(question))
    assert believed(unpack(pack(dict(answer))), unpack(pack(dict(asked(question)))))


@pytest.mark.parametrize("act", ["envs", "files", "folders", "find"])
def test_every_question_about_what_there_is_needs_a_signature(act: str) -> None:
    assert needs_signature({**FIND, "act": act})
    assert len(with_nonce({**FIND, "operation": act, "nonce": b""}, bytes)["nonce"]) == NONCE_BYTES


@pytest.mark.parametrize(
    "question",
    [
        {**FIND, "operation": "read"},
        {**PILLAR, "sha256": b"h" * 32},
        {"t": "file_put"},
        {"t": "doc_put"},
        {"t": "event"},
    ],
    ids=["piece of a file", "later piece of a pillar", "file_put", "doc_put", "event"],
)
def test_pieces_and_confirmations_need_none(question: Message) -> None:
    assert not needs_signature(question)
    assert with_nonce({**question, "nonce": b""}, bytes)["nonce"] == b""
    answer = response_message(3, "ok")
    assert signed(JOB_PRIVATE, MINION, question, answer) is answer


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "absent"},
        {"size": 6},
        {"sha256": b"H" * 32},
        {"mode": 0o4755},
        {"mtime": 1},
        {"data": b"Piece"},
        {"names": ["a"]},
        {"names": ["ab"]},
        {"names": ["b", "a"]},
        {"more": True},
        {"sig": b""},
        {"sig": b"s" * 64},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_no_field_of_an_answer_may_differ(changed: dict[str, Any]) -> None:
    answer = said()
    assert believed(answer)
    assert not believed({**answer, **changed})


def test_every_field_of_the_table_is_covered() -> None:
    assert set(VERBS["response"].fields) - set(SAID) == {"n", "state", "sig"}


@pytest.mark.parametrize("question", [FIND, PILLAR], ids=["file", "pillar"])
def test_an_answer_is_of_one_question(question: Message) -> None:
    answer = said(question)
    others: dict[str, Any] = {
        "operation": "files", "env": "dev", "path": "a/c", "after": "x", "offset": 1, "kind": "grains", "sha256": b"",
        "nonce": b"m" * NONCE_BYTES,
    }  # fmt: skip
    for name in set(question) - {"t", "n", "sha256"} | {"nonce"}:
        assert not believed(answer, {**asked(question), name: others[name]}), name
    # The numbers are each process's own.
    assert believed({**answer, "n": 9}, {**asked(question), "n": 8})


def test_an_answer_is_of_one_minion() -> None:
    assert not believed(said(), minion="web2")


def test_an_answer_to_an_earlier_question_is_none_to_the_next() -> None:
    """Each question has another nonce, so what was true an hour ago cannot be said again."""
    numbers = iter(range(1, 9))
    first, second = (with_nonce(FIND, lambda size: bytes([next(numbers)]) * size) for _ in range(2))
    answer = signed(JOB_PRIVATE, MINION, first, response_message(3, "absent"))
    assert believed(answer, first)
    assert not believed(answer, second)


@pytest.mark.parametrize("nonce", [b"", b"n" * (NONCE_BYTES - 1)], ids=["none", "short"])
def test_an_answer_to_a_question_without_a_nonce_is_not_believed(nonce: bytes) -> None:
    question = asked(FIND, nonce)
    assert not believed(signed(JOB_PRIVATE, MINION, question, response_message(3, "ok")), question)


@pytest.mark.parametrize("key", [seed("another"), seed("master"), seed("fleet")], ids=["stranger", "link", "fleet"])
def test_only_the_job_key_signs(key: bytes) -> None:
    assert not believed(signed(key, MINION, asked(FIND), response_message(3, "ok")))


def test_a_signature_of_a_job_is_none_of_an_answer() -> None:
    """Each kind of thing is signed in its own domain: what signs jobs cannot be made to sign an answer."""
    answer = said()
    body = b"saltlite answer 1\0"
    assert not believed({**answer, "sig": job_body.sign(JOB_PRIVATE, body)})


def test_busy_needs_no_signature_and_says_nothing() -> None:
    answer = signed(JOB_PRIVATE, MINION, asked(FIND), response_message(3, BUSY))
    assert answer["sig"] == b""
    assert believed(answer)


def test_without_a_trusted_key_nothing_is_believed() -> None:
    assert not is_believed([], MINION, asked(FIND), said())
    assert is_believed([seed("old"), JOB_PUBLIC], MINION, asked(FIND), said())
