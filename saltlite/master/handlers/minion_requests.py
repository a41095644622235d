"""What minions ask and say that is about no job: documents, their pillar, events. Files are the file server's."""

from __future__ import annotations

from saltlite.master.handlers.documents import answer_document
from saltlite.master.handlers.minion_event import answer_event
from saltlite.master.handlers.pillar import Say, answer_pillar
from saltlite.master.processes.context import Master
from saltlite.master.processes.documents import Documents
from saltlite.model.ids import MinionId
from saltlite.wire.messages import Message

FOR_FILES = frozenset({"file_ask", "file_put"})
"""Messages that the file server answers."""


def answer(master: Master, documents: Documents, minion: MinionId, message: Message, say: Say) -> None:
    """Have that minion told what it asked for: `say` is called once with a `file_said`, now or in a later turn."""
    match message["t"]:
        case "doc_put":
            say(answer_document(master, documents, minion, message))
        case "doc_get":
            answer_pillar(master, minion, message, say)
        case _:
            say(answer_event(master, minion, message))
