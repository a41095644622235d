"""What minions send and fetch apart from results: grains, resource registrations, their pillar, and events.

A minion announces the digests of its grains and resources; the master asks for a document whose digest differs. A
document arrives in pieces and is handled when it is complete. Pillar goes the other way: the first piece of each fetch
evaluates it for the minion's own id and grains, later pieces come from the copy that this MWorker remembers. The result
is stored in the bank `pillar`, for targeting. Pillar values are never logged.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import RefusedError, RemoteProtocolError, SaltliteError, StoreError, UsageError
from saltlite.master.handlers.events import answer_event
from saltlite.master.handlers.registration import Taken, register
from saltlite.master.processes.context import Answer, Later, Master
from saltlite.master.processes.documents import Document, Documents
from saltlite.model.events import tag_pillar_ended
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.pillar.evaluation import Evaluation, Wanted
from saltlite.targeting.banks import GRAINS, KEY_NAMES_MAX, LEAVES_MAX, PILLAR, Banks, leaves_of
from saltlite.wire.codec import decode_document, document_digest, encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message, response_message

log = logging.getLogger(__name__)

FOR_FILES = frozenset({"file_request", "file_put"})
"""Messages that the file server answers."""
MESSAGE_MAX = 500
"""Characters of one reason that is sent to a minion."""
NO_PILLAR = encode_document({})

Respond = Callable[[Message], None]
"""Called once with the response to a minion's message."""


def answer(master: Master, documents: Documents, minion: MinionId, message: Message, respond: Respond) -> None:
    """Answer a message of that minion: `respond` is called once, now or in a later turn."""
    match message["t"]:
        case "doc_put":
            respond(answer_document(master, documents, minion, message))
        case "doc_get":
            answer_pillar(master, minion, message, respond)
        case _:
            respond(answer_event(master, minion, message))


# -- grains


def take_grains(master: Master, minion: MinionId, data: bytes) -> list[str]:
    """Store the document in `data` as the grains of the minion, as a whole.

    Raises RefusedError for invalid grains, and StoreError; then the old ones stay.
    """
    try:
        grains = decode_document(data)
    except RemoteProtocolError as error:
        raise RefusedError(f"the grains could not be read: {error}") from None
    if master.store.holder(minion) is None:
        raise RefusedError("the key is not accepted any more")
    strange = [name for name in grains if not isinstance(name, str)]
    if strange:
        raise RefusedError(f"{str(strange[0])[:40]!r} is not the name of a grain: it is no text")
    if len(grains) > KEY_NAMES_MAX:
        raise RefusedError(f"there are {len(grains)} grains, and there may be {KEY_NAMES_MAX}")
    try:
        leaves = leaves_of(grains)
        if leaves > LEAVES_MAX:
            raise RefusedError(f"the grains have {leaves} values, and there may be {LEAVES_MAX}")
        # The id follows from the minion's key, and not from what it claims.
        master.banks.bank(GRAINS).put(minion, {**grains, "id": minion}, document_digest(data))
    except UsageError as error:
        raise RefusedError(str(error)) from None
    return []


def answer_document(master: Master, documents: Documents, minion: MinionId, message: Message) -> Message:
    """The response to a `doc_put`: "ok", with refused parts in `names`, and `more` if the minion should look for its
    resources again; "refused", with the reasons; or "busy", and the minion sends it again."""
    n = message["n"]
    document = documents.put(minion, message)
    if not isinstance(document, Document):
        return document
    try:
        if document.kind == "grains":
            taken = Taken(take_grains(master, minion, document.data), look_again=False)
        else:
            taken = register(master, minion, document.data)
    except RefusedError as error:
        return response_message(n, "refused", names=_lines(str(error).splitlines()))
    except StoreError as error:
        log.error("%s of %s cannot be kept for now: %s", document.kind, minion, error)  # noqa: TRY400 - the message is complete
        return response_message(n, "busy", names=_lines([f"the master cannot keep them for now: {error}"]))
    size, sha256, lines = len(document.data), message["sha256"], _lines(taken.sentences)
    return response_message(n, "ok", size=size, sha256=sha256, names=lines, more=taken.look_again)


def _lines(sentences: list[str]) -> list[str]:
    return [sentence[:MESSAGE_MAX] for sentence in sentences]


# -- digests


def handle_digests(master: Master, minion: MinionId, digests: dict[str, Any]) -> None:
    """Ask for the minion's grains or resources if its digest differs. Raises StoreError.

    An empty digest means that the minion does not know it yet, and will announce it.
    """
    if digests["grains"] and digests["grains"] != master.banks.bank(GRAINS).digest(minion):
        master.link.fetch(minion, "grains")
    known = digests["resources"] == master.registrations.digest(minion) and agrees(master, minion)
    if digests["resources"] and not known:
        master.link.fetch(minion, "resources")


def agrees(master: Master, minion: MinionId) -> bool:
    """Whether the registry has as many resources of the minion as it registered last.

    It does not after damage, after an operator transferred some, or after its file was removed.
    """
    row = master.registrations.of(minion)
    held = master.registry.views().by_minion.get(minion, {})
    return row is not None and row.count == sum(len(one.ids) for one in held.values())


# -- pillar


def handle_pillar_show(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `pillar`, as a minion with this id would get it now; `top`, {environment: names of its files}; and
    `mistakes` in top files."""
    minion = parse_minion_id(request["id"])
    if not master.pillars.any_to_make():
        return Answer({"pillar": {}, "top": {}, "mistakes": []})
    grains = master.banks.bank(GRAINS).get(minion) or {}
    wanted = Wanted(f"user {principal.label}", minion, grains, names=True)

    def fields(made: Evaluation) -> dict[str, Any]:
        _report_ended(master, minion, made)
        if made.problem:
            raise SaltliteError(f"the pillar of {minion} cannot be shown: {made.problem}")
        # As it is sent: dates and similar values have become text.
        return {"pillar": decode_document(made.data), "top": dict(made.top), "mistakes": list(made.mistakes)}

    return Answer(
        later=Later(lambda done: master.pillars.evaluator.evaluate(wanted, lambda made: done(lambda: fields(made))))
    )


def answer_pillar(master: Master, minion: MinionId, message: Message, respond: Respond) -> None:
    """Respond to a `doc_get`, now or when the pillar is evaluated. The first piece has in `names` the digest of the
    grains that it was evaluated with."""
    n, offset = message["n"], message["offset"]
    if message["sha256"]:
        data = master.pillars.remembered(minion, message["sha256"])
        if data is None:
            respond(response_message(n, "absent"))
            return
        if offset + CHUNK >= len(data):
            master.pillars.forget(minion)
        respond(_piece(n, message["sha256"], data, offset))
        return
    if not master.pillars.may_make(minion, master.clock.monotonic()):
        respond(response_message(n, "busy"))
        return
    if not master.pillars.any_to_make():
        respond(_first_piece(master, minion, n, Evaluation(NO_PILLAR), ()))
        return
    grains = master.banks.bank(GRAINS)
    # The digest is read first: if newer grains are stored in between, the minion asks again.
    digest = grains.digest(minion)
    wanted = Wanted(f"minion {minion}", minion, grains.get(minion) or {})
    master.pillars.evaluator.evaluate(wanted, lambda made: respond(_first_piece(master, minion, n, made, (digest,))))


def _first_piece(master: Master, minion: MinionId, n: int, made: Evaluation, made_with: Sequence[str]) -> Message:
    """The first piece of the pillar, or why there is none."""
    _report_ended(master, minion, made)
    if made.unsendable:
        log.error("the pillar of %s cannot be sent: %s", minion, made.problem)
        return response_message(n, "refused", names=["the master cannot send it: its log says why"])
    if made.problem:
        log.error("the pillar of %s cannot be made: %s", minion, made.problem)
        return response_message(n, "busy", names=[made.problem[:MESSAGE_MAX]])
    if made.errors:
        log.error("the pillar of %s is not whole: %s", minion, " ".join(made.errors))
    if master.pillars.cached:
        _cache(master.banks, minion, made.data)
    sha256 = hashlib.sha256(made.data).digest()
    if len(made.data) > CHUNK:
        master.pillars.remember(minion, sha256, made.data)
    return _piece(n, sha256, made.data, 0, *made_with)


def _report_ended(master: Master, minion: MinionId, made: Evaluation) -> None:
    """Write an event about an evaluation that was ended."""
    if not made.ended:
        return
    data = {"id": minion, "file": made.file, "reason": made.problem}
    try:
        with master.store.write() as store:
            store.put_event(tag_pillar_ended(minion), data, master.clock.wall())
    except StoreError as error:
        log.error("that the pillar of %s was ended is no event, for now: %s", minion, error)  # noqa: TRY400 - the message is complete


def _piece(n: int, sha256: bytes, data: bytes, offset: int, *names: str) -> Message:
    piece = data[offset : offset + CHUNK]
    return response_message(n, "ok", size=len(data), sha256=sha256, data=piece, names=list(names))


def _cache(banks: Banks, minion: MinionId, data: bytes) -> None:
    """Store the pillar for targeting. The minion gets it even if this fails."""
    digest = document_digest(data)
    try:
        bank = banks.bank(PILLAR)
        known = bank.digest(minion)
        if known != digest and (known or data != NO_PILLAR):
            bank.put(minion, decode_document(data), digest)
    except SaltliteError as error:
        log.warning("targets by pillar do not see %s as it is now: %s", minion, error)
