"""The requests of minions (`ask`) that the master answers with documents, in pieces.

The first message carries the request. The answer is made once, and later pieces come from the copy in this MWorker. All
requests of one minion reach the same MWorker. The id of the minion comes from its session, never from a field.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.config.external_pillars import read_external
from saltlite.errors import ProtocolError, RefusedError, SaltliteError, StoreError
from saltlite.master.handlers import mine, peers
from saltlite.master.processes.context import Later, Master
from saltlite.model.events import tag_pillar_ended
from saltlite.model.ids import MinionId
from saltlite.pillar.evaluation import Evaluation, EvaluationRequest
from saltlite.targeting.banks import GRAINS
from saltlite.wire.codec import decode_document, encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message, response_message

log = logging.getLogger(__name__)

SENTENCE_MAX = 500
"""The longest reason that is sent to a minion, in characters."""

Handler = Callable[[Master, MinionId, Mapping[str, Any]], Mapping[str, Any] | Later | None]
"""The answer to the fields of a request, maybe later; None for "ask again in a moment". A SaltliteError that it raises
becomes the reason of a refusal."""


def report_ended(master: Master, minion: MinionId, made: Evaluation) -> None:
    """Write an event about an evaluation that was ended."""
    if not made.ended:
        return
    data = {"id": minion, "file": made.file, "reason": made.problem}
    try:
        with master.store.write() as store:
            store.put_event(tag_pillar_ended(minion), data, master.clock.wall())
    except StoreError as error:
        log.error("the event about the ended pillar of %s could not be stored yet: %s", minion, error)  # noqa: TRY400 - the message is complete


def pillar_for(master: Master, minion: MinionId, fields: Mapping[str, Any]) -> Later | None:
    """Evaluate the pillar of the minion with one more external pillar. Takes `external`, a map from its name to its
    arguments. Answers `pillar`, which is not stored."""
    (external,) = read_external([fields.get("external")])
    if external.name not in master.pillars.on_demand:
        raise RefusedError(f"the external pillar {external.name[:80]!r} is not in on_demand_ext_pillar of the master")
    if not master.pillars.may_make(minion, master.clock.monotonic()):
        return None
    grains = master.banks.bank(GRAINS).get(minion) or {}
    more = [[external.name, external.arguments]]
    wanted = EvaluationRequest(f"minion {minion}", minion, grains, external=more)

    def made(evaluation: Evaluation) -> dict[str, Any]:
        report_ended(master, minion, evaluation)
        if evaluation.problem:
            raise SaltliteError(f"the pillar of {minion} cannot be made: {evaluation.problem}")
        return {"pillar": decode_document(evaluation.data)}

    return Later(
        lambda done: master.pillars.evaluator.evaluate(wanted, lambda evaluation: done(lambda: made(evaluation)))
    )


HANDLERS: Mapping[str, Handler] = {
    "mine_put": mine.put,
    "mine_delete": mine.delete,
    "mine_get": mine.get_for,
    "own_job": peers.take_own_job,
    "publish": peers.publish_for,
    "publish_returns": peers.returns_for,
    "run": peers.run_for,
    "ext_pillar": pillar_for,
}


def answer_ask(master: Master, minion: MinionId, message: Message, respond: Callable[[Message], None]) -> None:
    """Respond to an `ask`, now or later: "ok" with a piece of the answer, "refused" with the reason in `names`, "busy"
    for now, or "absent" for a later piece of an answer that is not held any more."""
    n, digest = message["n"], message["sha256"]
    master.answers.drop_idle(master.clock.monotonic())

    def asked() -> Message | None:
        # A request may wait in a queue while the key is revoked, and a compromised link process may invent an id.
        if master.store.holder(minion) is None:
            raise RefusedError("the key is not accepted any more")
        if digest:
            return _later_piece(master, minion, message)
        master.begin_request()
        answer = HANDLERS[message["what"]](master, minion, decode_document(message["data"]))
        if not isinstance(answer, Later):
            return _first_piece(master, minion, n, answer)
        answer.begin(lambda fields: answered(lambda: _first_piece(master, minion, n, fields())))
        return None

    def answered(make: Callable[[], Message | None]) -> None:
        try:
            response = make()
        except StoreError as error:
            log.error("the request %s of %s cannot be answered for now: %s", message["what"], minion, error)  # noqa: TRY400 - a sentence
            response = response_message(n, "busy", names=[str(error)[:SENTENCE_MAX]])
        except (ProtocolError, SaltliteError) as error:
            response = response_message(n, "refused", names=[str(error)[:SENTENCE_MAX]])
        if response is not None:
            respond(response)

    answered(asked)


def _first_piece(master: Master, minion: MinionId, n: int, answer: Mapping[str, Any] | None) -> Message:
    if answer is None:
        return response_message(n, "busy")
    content = encode_document(answer)
    digest = hashlib.sha256(content).digest()
    if len(content) > CHUNK:
        master.answers.put(minion, digest, content, master.clock.monotonic())
    return _piece(n, digest, content, 0)


def _later_piece(master: Master, minion: MinionId, message: Message) -> Message:
    n, digest, offset = message["n"], message["sha256"], message["offset"]
    content = master.answers.get(minion, digest, master.clock.monotonic())
    if content is None:
        return response_message(n, "absent")
    if offset + CHUNK >= len(content):
        master.answers.drop(minion, digest)
    return _piece(n, digest, content, offset)


def _piece(n: int, digest: bytes, content: bytes, offset: int) -> Message:
    return response_message(n, "ok", size=len(content), sha256=digest, data=content[offset : offset + CHUNK])
