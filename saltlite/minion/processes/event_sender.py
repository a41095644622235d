"""What execution modules know as `__events__`: the way of an event to the master."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from saltlite.errors import CommandExecutionError, LocalProtocolError, SaltInvocationError, UsageError
from saltlite.loader.encode import RETURN_MAX, decode_return, encode_whole
from saltlite.model.events import parse_tag
from saltlite.wire import codec
from saltlite.wire.limits import EVENT_DATA_MAX, EVENT_TAG_MAX
from saltlite.wire.messages import Message

BUSY_S = 0.5
"""After so long an event that the master did not take yet is offered again."""


class Way(Protocol):
    """Takes an `event` message to the master: its answer, None when there is none in so many seconds."""

    def event(self, message: Message, patience_s: float) -> Message | None: ...


class EventSender:
    """Sends events; `jid` is the job that the modules run under, "" for none."""

    def __init__(self, way: Way, jid: str = "") -> None:
        self._way = way
        self._jid = jid

    def send(self, tag: str, data: Mapping[str, Any], timeout_s: float) -> None:
        """Have the master write the event down; it is in its event log when this returns.

        Raises SaltInvocationError for what is no event, CommandExecutionError when the master cannot be asked in
        `timeout_s` seconds.
        """
        message = event_message(tag, data, self._jid)
        give_up_at = time.monotonic() + timeout_s
        while True:
            answer = self._way.event(message, max(0.0, give_up_at - time.monotonic()))
            if answer is None:
                raise CommandExecutionError(f"The master has not acknowledged the event in {timeout_s:g} s.")
            if answer["state"] == "ok":
                return
            if answer["state"] != "busy":
                raise SaltInvocationError(" ".join(answer["names"]) or "The master refused the event.")
            if time.monotonic() + BUSY_S > give_up_at:
                raise CommandExecutionError(f"The master takes no more events of this minion for {timeout_s:g} s.")
            time.sleep(BUSY_S)


def event_message(tag: str, data: Mapping[str, Any], jid: str) -> Message:
    """The `event` message, with its limits. Raises SaltInvocationError."""
    try:
        parse_tag(tag)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error
    if len(tag) > EVENT_TAG_MAX:
        raise SaltInvocationError(f"The tag of an event has at most {EVENT_TAG_MAX} characters.")
    # As a return: whatever it is made of becomes plain values.
    plain = decode_return(encode_whole(dict(data), RETURN_MAX).body, 2 * RETURN_MAX)
    try:
        encoded = codec.encode_checked(plain, codec.EVENT)
    except LocalProtocolError as error:
        raise SaltInvocationError(
            f"The data of an event has at most {EVENT_DATA_MAX // 1024} KiB, and this has not: {error}"
        ) from error
    return {"t": "event", "n": 0, "tag": tag, "data": encoded, "jid": jid}
