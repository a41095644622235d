"""Handles minions that connect at the same time in batches, one for each turn of the link process.

When a master is lost, its minions connect to the others within seconds. Each one needs a decision about its key, a row
that says that it is up, and its open jobs. A batch of hundreds takes three statements and one transaction. An MWorker
that is slower than the link process finds more messages in each turn, so its batches grow with the load.
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
from saltlite.model.ids import MinionId
from saltlite.platform.shared_memory import Marks, TurnLabel
from saltlite.wire.framing import IpcMessage

log = logging.getLogger(__name__)

TOGETHER_MAX = 500
"""Messages in one batch. A transaction with this many sessions delays other writers by about 20 ms."""
_UNORDERED = frozenset({"wake_up", "keys_done", "last_seen", "stats"})
"""Messages that may be handled before those in the batch."""


@dataclass(slots=True)
class Arrivals:
    """The messages about connecting minions that wait for the next batch."""

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
        """Whether this message, which is not part of a batch, may be handled before the batch."""
        return message["t"] in _UNORDERED or _is_for_view(message) or not (self.decides or self.came or self.pulls)

    def handle(self, master: Master, marks: Marks, one: Callable[[IpcMessage], None]) -> bool:
        """Handle the batch. Returns whether any session was stored. If the batch fails, `one` handles each message by
        itself, so that a bad message affects only its own minion (S8)."""
        for asks in _some(self.decides):
            _together(asks, marks, one, lambda asks: handle_decides(master, asks))
        stored = bool(self.came)
        begun: dict[MinionId, minions.PresenceChange] = {}
        for messages in _some(self.came):
            _together(messages, marks, one, lambda messages: begun.update(_record(master, messages)))
        for asks in _some(self.pulls):
            _together(asks, marks, one, lambda asks: handle_first_pulls(master, asks, begun))
        self.decides, self.came, self.pulls = [], [], []
        return stored


def _says_who_came(message: IpcMessage) -> bool:
    """Whether a `presence` may wait for the batch. This MWorker must store it (`record`). It must not be the list of
    all sessions (`whole`), which replaces what is stored. All its sessions must have begun, because an ended session
    may be one that waits in the batch.
    """
    return message["record"] and not message["whole"] and all(row[_UP] for row in message["items"])


def _is_for_view(message: IpcMessage) -> bool:
    """Whether a message changes only this MWorker's view of which minions are up: another MWorker stores it, and it is
    not the list of all sessions."""
    return message["t"] == "presence" and not message["record"] and not message["whole"]


_UP = list(minions.PresenceChange.__dataclass_fields__).index("up")


def _some(messages: list[IpcMessage]) -> Iterator[list[IpcMessage]]:
    todo = iter(messages)
    while some := list(islice(todo, TOGETHER_MAX)):
        yield some


def _record(master: Master, messages: list[IpcMessage]) -> dict[MinionId, minions.PresenceChange]:
    """The sessions that the store has now."""
    changes = [minions.PresenceChange(*row) for message in messages for row in message["items"]]
    minions.notice(master, changes, whole=False)
    outdated = minions.record(master, changes, whole=False)
    return {change.id: change for change in changes if change not in outdated}


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
