"""What minions say of their own accord: events, below their own name (R13)."""

from __future__ import annotations

import logging
from typing import Any

from saltlite.errors import ProtocolError, StoreError, UsageError
from saltlite.master.handlers.disk_quota import refuse_when_full
from saltlite.master.processes.context import Master
from saltlite.model.events import parse_tag, tag_of_minion
from saltlite.model.ids import MinionId
from saltlite.model.parts import split_part
from saltlite.wire import codec
from saltlite.wire.messages import Message, file_said

log = logging.getLogger(__name__)

SENTENCE_MAX = 500


def answer_event(master: Master, minion: MinionId, message: Message) -> Message:
    """What to say to an `event`: "ok" when it is committed; "refused" with a sentence in `names`; "busy" for now.

    Its data is `{id, tag, data}`, the tag as the minion wrote it, and `jid`, the job that it came from, as the minion
    says. An answer that is lost with a session has the minion ask again: then the event is there twice.
    """
    try:
        tag, about = _event(minion, message)
        refuse_when_full(master)
        with master.store.write() as store:
            # A session may have ended since it asked, because its key was revoked.
            if store.holder(minion) is not None:
                store.put_event(tag, about, master.clock.wall())
    except (ProtocolError, UsageError) as error:
        return file_said(message["n"], "refused", names=[str(error)[:SENTENCE_MAX]])
    except StoreError as error:
        log.error("an event of %s cannot be kept for now: %s", minion, error)  # noqa: TRY400 - the sentence says it all
        return file_said(message["n"], "busy", names=[str(error)[:SENTENCE_MAX]])
    return file_said(message["n"], "ok")


def _event(minion: MinionId, message: Message) -> tuple[str, dict[str, Any]]:
    tag = parse_tag(tag_of_minion(minion, parse_tag(message["tag"])))
    data = codec.decode(message["data"], codec.EVENT)
    if not isinstance(data, dict):
        raise UsageError("the data of an event is a map")
    about = {"id": minion, "tag": message["tag"], "data": data}
    return tag, {**about, "jid": split_part(message["jid"])[0]} if message["jid"] else about
