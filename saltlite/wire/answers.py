"""Signed answers: what a minion is told of files and of its pillar is the word of an MWorker, not of the link process.

A question that asks what there is carries a nonce that the minion's job server has just made. The MWorker signs its
answer with the master's job key, and the job server believes nothing else. The signature covers a domain text and the
msgpack list

    [id of the minion, the nonce, fields of the question in the order of their names, fields of the answer likewise]

where the fields are all but `n` (each process has numbers of its own), `nonce` and `sig`, and `data` is covered by its
SHA-256. So an answer fits one question of one minion, once: nobody can alter it, give it to another, or repeat it.

One kind of question needs no signature: for a piece of what an answer that was signed before named with size and
SHA-256. Whoever puts the pieces together compares the whole with these. Neither does an answer "busy" need one, which
says nothing but "ask again". What a minion sends (`file_put`, `doc_put`, `event`) is confirmed without a signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from saltlite.wire import codec, jobkey
from saltlite.wire.messages import NONCE_BYTES, Message

BUSY = "busy"

_DOMAIN = b"saltlite answer 1\0"
_BESIDE = frozenset({"n", "nonce", "sig"})
"""Fields that are not part of what was asked and answered."""


def needs_signature(question: Message) -> bool:
    """Whether the answer to that question is believed only if a master signed it."""
    match question["t"]:
        case "file_request":
            return bool(question["operation"] != "read")
        case "doc_get":
            return not question["sha256"]
        case _:
            return False


def with_nonce(question: Message, entropy: Callable[[int], bytes]) -> Message:
    """The question as it is sent, with a nonce of its own where its answer is to be signed."""
    return {**question, "nonce": entropy(NONCE_BYTES)} if needs_signature(question) else question


def signed(seed: bytes, minion: str, question: Message, answer: Message) -> Message:
    """The answer as it is sent: with the signature of the job key where the question needs one."""
    if not needs_signature(question) or answer["state"] == BUSY:
        return answer
    return {**answer, "sig": jobkey.sign(seed, _DOMAIN, _statement(minion, question, answer))}


def is_believed(keys: Iterable[bytes], minion: str, question: Message, answer: Message) -> bool:
    """Whether that answer to that question, as it was sent, may be acted on; `keys` are the job keys of masters."""
    if not needs_signature(question) or answer["state"] == BUSY:
        return True
    if len(question["nonce"]) != NONCE_BYTES:
        return False
    content = _statement(minion, question, answer)
    return any(jobkey.is_signed(key, _DOMAIN, content, answer["sig"]) for key in keys)


def _statement(minion: str, question: Message, answer: Message) -> bytes:
    return codec.encode([minion, question["nonce"], _fields(question), _fields(answer)], codec.LOCAL)


def _fields(message: Message) -> list[Any]:
    fields = [[name, message[name]] for name in sorted(message) if name not in _BESIDE]
    return [[name, hashlib.sha256(value).digest() if name == "data" else value] for name, value in fields]
