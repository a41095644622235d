"""What minions ask of their master (`ask`), and what it answers: documents, in pieces.

The first piece carries the request; the answer is made once, and later pieces come from the copy that this MWorker
holds. All requests of one minion come to the same MWorker. Who asks is known from the session, never from a field.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.errors import ProtocolError, RefusedError, SaltliteError, StoreError
from saltlite.master.handlers import mine, peers
from saltlite.master.processes.context import Master
from saltlite.model.ids import MinionId
from saltlite.wire.codec import decode_document, encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message, response_message

log = logging.getLogger(__name__)

SENTENCE_MAX = 500
"""Characters of one reason that is sent to a minion."""

Handler = Callable[[Master, MinionId, Mapping[str, Any]], Mapping[str, Any] | None]
"""The answer to the fields of a request; None for "ask again in a moment". A SaltliteError that it raises becomes the
reason of a refusal."""

HANDLERS: Mapping[str, Handler] = {
    "mine_put": mine.put,
    "mine_delete": mine.delete,
    "mine_get": mine.get_for,
    "own_job": peers.take_own_job,
    "publish": peers.publish_for,
    "publish_returns": peers.returns_for,
    "run": peers.run_for,
}


def answer_ask(master: Master, minion: MinionId, message: Message) -> Message:
    """The response to an `ask`: "ok" with a piece of the answer, "refused" with the reason in `names`, "busy" for now,
    or "absent" for a later piece of an answer that is not held any more."""
    n, digest, offset, now = message["n"], message["sha256"], message["offset"], master.clock.monotonic()
    master.answers.drop_idle(now)
    try:
        # A request may wait in a queue while the key is revoked, and a compromised link process may invent an id.
        if master.store.holder(minion) is None:
            raise RefusedError("the key is not accepted any more")
        if digest:
            content = master.answers.get(minion, digest, now)
            if content is None:
                return response_message(n, "absent")
            if offset + CHUNK >= len(content):
                master.answers.drop(minion, digest)
            return _piece(n, digest, content, offset)
        master.begin_request()
        answer = HANDLERS[message["what"]](master, minion, decode_document(message["data"]))
        content = b"" if answer is None else encode_document(answer)
    except StoreError as error:
        log.error("the request %s of %s cannot be answered for now: %s", message["what"], minion, error)  # noqa: TRY400 - a sentence
        return response_message(n, "busy", names=[str(error)[:SENTENCE_MAX]])
    except (ProtocolError, SaltliteError) as error:
        return response_message(n, "refused", names=[str(error)[:SENTENCE_MAX]])
    if answer is None:
        return response_message(n, "busy")
    digest = hashlib.sha256(content).digest()
    if len(content) > CHUNK:
        master.answers.put(minion, digest, content, now)
    return _piece(n, digest, content, 0)


def _piece(n: int, digest: bytes, content: bytes, offset: int) -> Message:
    return response_message(n, "ok", size=len(content), sha256=digest, data=content[offset : offset + CHUNK])
