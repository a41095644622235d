"""Questions to the other masters that share the store: whether all have applied a change of a key, and when they last
saw minions. A master that does not apply a change is fenced.

`saltlite.master.processes.membership` explains how a master applies changes, and why it may be fenced.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from saltlite.errors import StoreError
from saltlite.master.processes.context import Question
from saltlite.master.store.sharing import MasterRow, SharedStore, SharedWriter
from saltlite.model.clock import Clock
from saltlite.model.events import MasterEvent, tag_master, tag_presence_change
from saltlite.model.minion import SessionEnd
from saltlite.platform.reactor import Reactor
from saltlite.wire.framing import IpcMessage

log = logging.getLogger(__name__)

FENCE_S = 5.0
"""How long a change of a key waits for a master that does not apply it. The lease of that master has expired by then,
with a second to spare for clocks that run at different speeds."""
LOOK_S = 0.02
"""How often the process that changed a key checks whether the other masters have applied it."""
SEEN_S = 1.0
"""How long an answer waits for other masters to tell when they last saw their minions."""
SILENT_MAX_S = 1e9
"""In seconds: longer than any minion can have been silent."""
EVENTS = 1_000
"""Events per page."""


def is_behind(row: MasterRow, seq: int) -> bool:
    """Whether that master has a lease but has not applied that event."""
    return row.has_lease and row.applied < seq


def behind(masters: Iterable[MasterRow], me: str, seq: int) -> list[str]:
    """The names of the other masters that have a lease but have not applied that event."""
    return [row.name for row in masters if row.name != me and is_behind(row, seq)]


def fence(store: SharedStore, name: str, now: float, is_due: Callable[[MasterRow], bool] = lambda _row: True) -> None:
    """Fence that master if `is_due` is true of its present row: its sessions end, and its present start never gets a
    lease again. A master that has renewed since the caller looked may act. Raises StoreError."""
    with store.write() as writer:
        # No master can renew during this transaction.
        if not any(row.name == name and is_due(row) for row in store.masters()) or not writer.fence_master(name):
            return
        lost = writer.fence(name, SessionEnd.FENCED, now)
        note(writer, name, MasterEvent.FENCED, now)
        if lost:
            writer.put_event(tag_presence_change(), {"new": [], "lost": lost}, now)


def note(store: SharedWriter, name: str, what: MasterEvent, now: float) -> int:
    """Store an event about that master. Returns the number of the event."""
    return store.put_event(tag_master(name, what), {"name": name}, now)


def last_seen_of(silent_s: object, minions: Collection[str]) -> dict[str, float]:
    """How many seconds ago these minions were seen, by an answer of a link process, which is not trusted."""
    said = silent_s if isinstance(silent_s, dict) else {}
    return {
        minion: float(since)
        for minion, since in said.items()
        if minion in minions and isinstance(since, int | float) and 0 <= since < SILENT_MAX_S
    }


class Answered(Protocol):
    """Called with the reply to a question; `known`: whether every other master has applied the change."""

    def __call__(self, reply: IpcMessage, *, known: bool = True) -> None: ...


class OtherMasters:
    """Asks the other masters, for a process that answers clients, whether all have applied a change and when they last
    saw minions."""

    def __init__(self, reactor: Reactor, store: SharedStore, clock: Clock, me: str) -> None:
        self._reactor = reactor
        self._store = store
        self._clock = clock
        self._me = me

    def ask(self, question: Question, reply: IpcMessage, answer: Answered) -> None:
        """Answer with the reply of the link process, once the other masters have answered their part. Raises
        StoreError."""
        if question.everywhere:
            self.wait(question.everywhere, lambda known: answer(reply, known=known))
            return

        def seen(silent_s: Mapping[str, float]) -> None:
            answer({**reply, "silent_s": {**reply["silent_s"], **silent_s}})

        self._last_seen(question.elsewhere, seen)

    def _last_seen(self, minions: Sequence[str], done: Callable[[Mapping[str, float]], None]) -> None:
        """Call `done` with how many seconds ago the other masters saw these minions, by the answers within SEEN_S."""
        now = self._clock.wall()
        with self._store.write() as store:
            asked = store.put_event(
                tag_master(self._me, MasterEvent.ASKED), {"by": self._me, "ids": list(minions)}, now
            )
        found: dict[str, float] = {}
        until = self._clock.monotonic() + SEEN_S

        def look(after: int) -> None:
            try:
                events = self._store.events(after, EVENTS)
            except StoreError as error:
                log.error("when other masters saw minions is unknown: %s", error)  # noqa: TRY400 - a sentence
                done(found)
                return
            for event in events:
                if event.data.get("asked") == asked and event.tag == tag_master(
                    str(event.data.get("by", "")), MasterEvent.SEEN
                ):
                    found.update(last_seen_of(event.data.get("silent_s"), minions))
            if len(found) == len(minions) or self._clock.monotonic() >= until:
                done(found)
            else:
                last = events[-1].seq if events else after
                self._reactor.call_later(LOOK_S, lambda: look(last))

        look(asked)

    def wait(self, seq: int, done: Callable[[bool], None]) -> None:
        """Call `done(True)` once every master with a lease has applied that event or is fenced, or `done(False)` if the
        store could not be read for FENCE_S."""
        self._look(seq, self._clock.monotonic() + FENCE_S, done)

    def _look(self, seq: int, until: float, done: Callable[[bool], None]) -> None:
        is_late = self._clock.monotonic() >= until
        try:
            late = behind(self._store.masters(), self._me, seq)
            if late and is_late:
                for name in late:
                    log.warning(
                        "the master %s has not applied a change of a key within %g s, and is fenced: its log says why",
                        name,
                        FENCE_S,
                    )
                    fence(self._store, name, self._clock.wall(), lambda row: is_behind(row, seq))
                late = behind(self._store.masters(), self._me, seq)
        except StoreError as error:
            log.error("whether all masters applied a change of a key is unknown: %s", error)  # noqa: TRY400 - a sentence
            if is_late:
                done(False)
                return
        else:
            if not late:
                done(True)
                return
        self._reactor.call_later(LOOK_S, lambda: self._look(seq, until, done))
