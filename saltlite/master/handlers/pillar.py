"""A minion fetches its pillar: made of its own id and its own grains, whoever else it may say that it is.

The first piece of each fetch makes it anew; the following ones are of what was made then, which the MWorker remembers
for a moment. What was made is put into the bank `pillar`, where targets look. Values of it are in no log.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

from saltlite.core.acl import Action, Principal, authorize
from saltlite.core.cache.ports import GRAINS, PILLAR, Banks
from saltlite.core.filelane import file_said
from saltlite.core.pillar.compiler import ERRORS
from saltlite.errors import LocalProtocolError, SaltliteError
from saltlite.master.context import Answer, Master
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.wire.document import decode_document, document_digest, encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message

log = logging.getLogger(__name__)


def handle_pillar_show(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `pillar`, as a minion of this id would get it now; `top`, {environment: names of its files}; and
    `mistakes` in top files."""
    authorize(principal, Action("pillar_show"), master.terms)
    minion = parse_minion_id(request["id"])
    grains = master.banks.bank(GRAINS).get(minion) or {}
    names, mistakes = master.pillars.names(minion, grains)
    # As it would travel: dates and the like become text.
    pillar = decode_document(encode_document(master.pillars.make(minion, grains)))
    return Answer({"pillar": pillar, "top": names, "mistakes": mistakes})


def answer_pillar(master: Master, minion: MinionId, message: Message) -> Message:
    """What to say to a `doc_get`. The first piece has in `names` the digest of the grains that it was made with."""
    n, offset = message["n"], message["offset"]
    if message["sha256"]:
        data = master.pillars.remembered(minion, message["sha256"])
        if data is None:
            return file_said(n, "absent")
        if offset + CHUNK >= len(data):
            master.pillars.forget(minion)
        return _piece(n, message["sha256"], data, offset)
    if not master.pillars.may_make(minion, master.clock.monotonic()):
        return file_said(n, "busy")
    try:
        pillar, made_with = _made(master, minion)
        data = encode_document(pillar)
    except LocalProtocolError as error:
        log.error("the pillar of %s cannot be sent: %s", minion, error)  # noqa: TRY400 - a sentence
        return file_said(n, "refused", names=["the master cannot send it: its log says why"])
    except SaltliteError as error:
        log.error("the pillar of %s cannot be made: %s", minion, error)  # noqa: TRY400 - a sentence
        return file_said(n, "busy")
    if master.pillars.cached:
        _keep(master.banks, minion, pillar, data)
    sha256 = hashlib.sha256(data).digest()
    if len(data) > CHUNK:
        master.pillars.remember(minion, sha256, data)
    return _piece(n, sha256, data, 0, *made_with)


def _made(master: Master, minion: MinionId) -> tuple[dict[Any, Any], list[str]]:
    """The pillar, and the digest of the grains that it was made with, if it needed any."""
    if not master.pillars.any_to_make():
        return {}, []
    grains = master.banks.bank(GRAINS)
    # The digest first: grains that are stored meanwhile are newer than it says, and the minion asks again.
    digest = grains.digest(minion)
    pillar = master.pillars.make(minion, grains.get(minion) or {})
    if ERRORS in pillar:
        log.error("the pillar of %s is not whole: %s", minion, " ".join(pillar[ERRORS]))
    return pillar, [digest]


def _piece(n: int, sha256: bytes, data: bytes, offset: int, *names: str) -> Message:
    piece = data[offset : offset + CHUNK]
    return file_said(n, "ok", size=len(data), sha256=sha256, data=piece, names=list(names))


def _keep(banks: Banks, minion: MinionId, pillar: Mapping[Any, Any], data: bytes) -> None:
    """Let targets see it. That they cannot is no reason to keep it from its minion."""
    digest = document_digest(data)
    try:
        bank = banks.bank(PILLAR)
        known = bank.digest(minion)
        if known != digest and (known or pillar):
            bank.put(minion, pillar, digest)
    except SaltliteError as error:
        log.warning("targets by pillar do not see %s as it is now: %s", minion, error)
