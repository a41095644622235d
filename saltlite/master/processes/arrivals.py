"""Minions that connect at the same time: what the link process asks about them in one turn is answered together.

When a master is lost, its minions come to the others within seconds. Each one needs the verdict about its key, a row
that it is up, and its open jobs. For hundreds of them these are three statements and one transaction. An MWorker that
is slower than the link process finds more messages in each turn, so it becomes faster with the number that waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import islice

from saltlite.errors import StoreError
from saltlite.master.handlers import minions
from saltlite.master.handlers.delivery import handle_first_pulls
from saltlite.master.handlers.keys import handle_decides
from saltlite.master.processes.context import Master
from saltlite.model.dataclass import dataclass
from saltlite.platform.shared_memory import Marks, TurnLabel
from saltlite.wire.framing import IpcMessage

log = logging.getLogger(__name__)

TOGETHER_MAX = 500
"""Messages that are handled together: one transaction with so many sessions holds up other writers for some 20 ms."""
_UNORDERED = frozenset({"wake_up", "keys_done", "last_seen", "stats"})
"""Messages that may pass those that wait."""


@dataclass(slots=True)
class Arrivals:
    """Messages about minions that connect, which wait until they are handled together."""

    decides: list[IpcMessage] = field(default_factory=list)
    came: list[IpcMessage] = field(default_factory=list)
    """Messages `presence` of sessions that began."""
    pulls: list[IpcMessage] = field(default_factory=list)
    """The first pulls of such sessions."""

    def take(self, message: IpcMessage) -> bool:
        """Whether this message can wait for those that follow it."""
        match message["t"]:
            case "decide":
                self.decides.append(message)
            case "presence" if _says_who_came(message):
                self.came.append(message)
            case "pull" if message["session"] is not None:
                self.pulls.append(message)
            case _:
                return False
        return True

    def lets_pass(self, message: IpcMessage) -> bool:
        """Whether this message, which does not wait, may be handled before those that do."""
        return message["t"] in _UNORDERED or _is_for_view(message) or not (self.decides or self.came or self.pulls)

    def handle(self, master: Master, marks: Marks, one: Callable[[IpcMessage], None]) -> bool:
        """Handle all that wait; whether any session was stored. What fails is handled by `one`, message by message, so
        that a bad one costs its own minion only (S8)."""
        for asks in _some(self.decides):
            _together(asks, marks, one, lambda asks: handle_decides(master, asks))
        stored = bool(self.came)
        for messages in _some(self.came):
            _together(messages, marks, one, lambda messages: _record(master, messages))
        for asks in _some(self.pulls):
            _together(asks, marks, one, lambda asks: handle_first_pulls(master, asks))
        self.decides, self.came, self.pulls = [], [], []
        return stored


def _says_who_came(message: IpcMessage) -> bool:
    """Whether a `presence` may wait for others: this MWorker stores it (`record`), it is not a list of all sessions
    (`whole`), which replaces what is stored, and all its sessions began, as an end may be that of one which waits.
    """
    return message["record"] and not message["whole"] and all(row[_UP] for row in message["items"])


def _is_for_view(message: IpcMessage) -> bool:
    """Whether a message changes only what this MWorker knows of who is up: another MWorker stores it, and it is not a
    list of all sessions."""
    return message["t"] == "presence" and not message["record"] and not message["whole"]


_UP = list(minions.PresenceChange.__dataclass_fields__).index("up")


def _some(messages: list[IpcMessage]) -> Iterator[list[IpcMessage]]:
    todo = iter(messages)
    while some := list(islice(todo, TOGETHER_MAX)):
        yield some


def _record(master: Master, messages: list[IpcMessage]) -> None:
    changes = [minions.PresenceChange(*row) for message in messages for row in message["items"]]
    minions.notice(master, changes, whole=False)
    minions.record(master, changes, whole=False)


def _together(
    messages: list[IpcMessage],
    marks: Marks,
    one: Callable[[IpcMessage], None],
    work: Callable[[list[IpcMessage]], None],
) -> None:
    if len(messages) > 1:
        turn = TurnLabel(f"{len(messages)} messages {messages[0]['t']} of the link", is_reports=True)
        try:
            with marks.named(turn):
                work(messages)
        except StoreError as error:
            log.debug("%s are handled one by one: %s", turn.text, error)
        except Exception:  # noqa: BLE001 - named supervision point: they are handled one by one, where what raises is logged
            log.debug("%s are handled one by one", turn.text)
        else:
            return
    for message in messages:
        one(message)
