"""A minion fetches its pillar: made of its own id and its own grains, whoever else it may say that it is.

The first piece of each fetch makes it anew; the following ones are of what was made then, which the MWorker remembers
for a moment. What was made is put into the bank `pillar`, where targets look. Values of it are in no log.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import SaltliteError, StoreError
from saltlite.master.processes.context import Answer, Later, Master
from saltlite.model.events import tag_pillar_ended
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.pillar.evaluation import Evaluation, Wanted
from saltlite.targeting.banks import GRAINS, PILLAR, Banks
from saltlite.wire.document import decode_document, document_digest, encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message, file_said

log = logging.getLogger(__name__)

NO_PILLAR = encode_document({})
REASON_MAX = 500
"""Characters of a reason that a minion is told."""

Say = Callable[[Message], None]


def handle_pillar_show(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `pillar`, as a minion of this id would get it now; `top`, {environment: names of its files}; and
    `mistakes` in top files."""
    authorize(principal, Action("pillar_show"), master.terms)
    minion = parse_minion_id(request["id"])
    if not master.pillars.any_to_make():
        return Answer({"pillar": {}, "top": {}, "mistakes": []})
    grains = master.banks.bank(GRAINS).get(minion) or {}
    wanted = Wanted(f"user {principal.label}", minion, grains, names=True)

    def fields(made: Evaluation) -> dict[str, Any]:
        _note_ended(master, minion, made)
        if made.problem:
            raise SaltliteError(f"the pillar of {minion} cannot be shown: {made.problem}")
        # As it travels: dates and the like have become text.
        return {"pillar": decode_document(made.data), "top": dict(made.top), "mistakes": list(made.mistakes)}

    return Answer(
        later=Later(lambda done: master.pillars.evaluator.evaluate(wanted, lambda made: done(lambda: fields(made))))
    )


def answer_pillar(master: Master, minion: MinionId, message: Message, say: Say) -> None:
    """What to say to a `doc_get`, now or when the pillar was made. The first piece has in `names` the digest of the
    grains that it was made with."""
    n, offset = message["n"], message["offset"]
    if message["sha256"]:
        data = master.pillars.remembered(minion, message["sha256"])
        if data is None:
            say(file_said(n, "absent"))
            return
        if offset + CHUNK >= len(data):
            master.pillars.forget(minion)
        say(_piece(n, message["sha256"], data, offset))
        return
    if not master.pillars.may_make(minion, master.clock.monotonic()):
        say(file_said(n, "busy"))
        return
    if not master.pillars.any_to_make():
        say(_given(master, minion, n, Evaluation(NO_PILLAR), ()))
        return
    grains = master.banks.bank(GRAINS)
    # The digest first: grains that are stored meanwhile are newer than it says, and the minion asks again.
    digest = grains.digest(minion)
    wanted = Wanted(f"minion {minion}", minion, grains.get(minion) or {})
    master.pillars.evaluator.evaluate(wanted, lambda made: say(_given(master, minion, n, made, (digest,))))


def _given(master: Master, minion: MinionId, n: int, made: Evaluation, made_with: Sequence[str]) -> Message:
    """The first piece of what was made, or why there is none."""
    _note_ended(master, minion, made)
    if made.unsendable:
        log.error("the pillar of %s cannot be sent: %s", minion, made.problem)
        return file_said(n, "refused", names=["the master cannot send it: its log says why"])
    if made.problem:
        log.error("the pillar of %s cannot be made: %s", minion, made.problem)
        return file_said(n, "busy", names=[made.problem[:REASON_MAX]])
    if made.errors:
        log.error("the pillar of %s is not whole: %s", minion, " ".join(made.errors))
    if master.pillars.cached:
        _keep(master.banks, minion, made.data)
    sha256 = hashlib.sha256(made.data).digest()
    if len(made.data) > CHUNK:
        master.pillars.remember(minion, sha256, made.data)
    return _piece(n, sha256, made.data, 0, *made_with)


def _note_ended(master: Master, minion: MinionId, made: Evaluation) -> None:
    """An evaluation that had to be ended is an event."""
    if not made.ended:
        return
    data = {"id": minion, "file": made.file, "reason": made.problem}
    try:
        with master.store.write() as store:
            store.put_event(tag_pillar_ended(minion), data, master.clock.wall())
    except StoreError as error:
        log.error("that the pillar of %s was ended is no event, for now: %s", minion, error)  # noqa: TRY400 - a sentence


def _piece(n: int, sha256: bytes, data: bytes, offset: int, *names: str) -> Message:
    piece = data[offset : offset + CHUNK]
    return file_said(n, "ok", size=len(data), sha256=sha256, data=piece, names=list(names))


def _keep(banks: Banks, minion: MinionId, data: bytes) -> None:
    """Let targets see it. That they cannot is no reason to keep it from its minion."""
    digest = document_digest(data)
    try:
        bank = banks.bank(PILLAR)
        known = bank.digest(minion)
        if known != digest and (known or data != NO_PILLAR):
            bank.put(minion, decode_document(data), digest)
    except SaltliteError as error:
        log.warning("targets by pillar do not see %s as it is now: %s", minion, error)
