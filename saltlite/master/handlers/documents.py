"""Pieces of documents that minions send, and what is done with a document when it is whole."""

from __future__ import annotations

import logging

from saltlite.errors import RefusedError, StoreError
from saltlite.master.handlers.grains import take_grains
from saltlite.master.handlers.register import Taken, register
from saltlite.master.processes.context import Master
from saltlite.master.processes.documents import Document, Documents
from saltlite.model.ids import MinionId
from saltlite.wire.messages import Message, file_said

log = logging.getLogger(__name__)

SENTENCE_MAX = 500
"""Characters of one sentence to a minion."""


def answer_document(master: Master, documents: Documents, minion: MinionId, message: Message) -> Message:
    """What to say to a `doc_put`. `names` has the reasons when the document was refused, and what was kept back of it
    when it was not; "busy" is for now, and the minion comes again. `more`: the minion is to look for its
    resources once more."""
    n = message["n"]
    came = documents.put(minion, message)
    if not isinstance(came, Document):
        return came
    try:
        if came.kind == "grains":
            taken = Taken(take_grains(master, minion, came.data), look_again=False)
        else:
            taken = register(master, minion, came.data)
    except RefusedError as error:
        return file_said(n, "refused", names=_lines(str(error).splitlines()))
    except StoreError as error:
        log.error("%s of %s cannot be kept for now: %s", came.kind, minion, error)  # noqa: TRY400 - a sentence
        return file_said(n, "busy", names=_lines([f"the master cannot keep them for now: {error}"]))
    size, sha256, lines = len(came.data), message["sha256"], _lines(taken.sentences)
    return file_said(n, "ok", size=size, sha256=sha256, names=lines, more=taken.look_again)


def _lines(sentences: list[str]) -> list[str]:
    return [sentence[:SENTENCE_MAX] for sentence in sentences]
