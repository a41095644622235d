"""Two machines that use one key at two masters: usually a copied image, sometimes a stolen key.

A newcomer has proved its key to this master, but the store says that another start of the minion has a session with
another master, the owner. The newcomer waits for its verdict, and the MWorker asks the owner by an event
(`ask_owners`). The link process of the owner probes its session, as it does for a newcomer of its own
(`saltlite.master.protocol.sessions.DuplicateKeys`), and its membership process answers by an event. If the older
session has ended or does not answer, this master ends it in the store and accepts the newcomer. Otherwise the newcomer
is refused. A job must not run on both machines (G4).

If the owner does not answer, the newcomer is accepted. If the owner has renewed its lease meanwhile, the newcomer has
to try again.

A minion that is restarted or moved does not wait for this. A daemon that stops reports it, and one that moves or
reconnects is the same start, so the order of its sessions continues.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from saltlite.errors import RemoteProtocolError, StoreError
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.context import Master
from saltlite.master.processes.link_channel import LinkChannel
from saltlite.master.store.ports import MinionRow
from saltlite.master.store.sharing import MasterRow, SharedStore
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.events import Event, MasterEvent, tag_master
from saltlite.model.ids import MinionId
from saltlite.model.keys import Fingerprint, KeyState, fingerprint
from saltlite.model.minion import SessionEnd, SessionOrder
from saltlite.platform.reactor import Reactor
from saltlite.wire.framing import IpcMessage
from saltlite.wire.messages import RUN_MAX

log = logging.getLogger(__name__)

ANSWER_S = 1.5
"""How long the owner has to answer: one second for its probe, and the time of two events."""
GATHER_S = 0.02
"""How long answers are collected, so that one transaction stores them."""
GONE = "accepted"
"""The answer that accepts the newcomer: the older session is over. The other answers are states of WELCOME as well."""
BUSY = "busy"
VERDICTS = frozenset({GONE, BUSY, "duplicate_key"})
TEXT_MAX = 256
"""The longest text in a row of a newcomer, in characters: longer than any id, address or name."""


def is_text(text: str) -> bool:
    """Whether this text can be an id, an address or a name. PostgreSQL refuses a query with a NUL character."""
    return len(text) <= TEXT_MAX and text.isprintable()


def _is_number(value: int) -> bool:
    """Whether this is the number of a run or of a handshake."""
    return not isinstance(value, bool) and 0 <= value <= RUN_MAX


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A session that waits at the master that asks, and the older session in the store that it would replace."""

    id: MinionId
    fingerprint: Fingerprint
    boot: str
    run: int
    handshake: int
    address: str
    owner: str
    """The master of the older session."""
    older_boot: str
    older_run: int
    older_handshake: int

    @classmethod
    def of(cls, row: object) -> Newcomer:
        """The newcomer in a row of an event. Raises RemoteProtocolError("bad-event")."""
        match row:
            case [
                str() as minion,
                str() as key,
                str() as boot,
                int() as run,
                int() as handshake,
                str() as address,
                str() as owner,
                str() as older_boot,
                int() as older_run,
                int() as older_handshake,
            ] if all(map(is_text, (minion, key, boot, address, owner, older_boot))) and all(
                map(_is_number, (run, handshake, older_run, older_handshake))
            ):
                older = owner, older_boot, older_run, older_handshake
                return cls(MinionId(minion), Fingerprint(key), boot, run, handshake, address, *older)
        raise RemoteProtocolError("bad-event", "a row is not that of a newcomer")

    def is_up(self, row: MinionRow | None) -> bool:
        """Whether the older session is still the one in the store."""
        return (
            row is not None
            and row.up
            and (row.master, row.boot_id) == (self.owner, self.older_boot)
            and (row.run, row.handshake) == (self.older_run, self.older_handshake)
        )


def _newcomers(event: Event) -> list[Newcomer]:
    """The newcomers of a question. Raises RemoteProtocolError("bad-event")."""
    rows = event.data.get("newcomers")
    if not isinstance(rows, list):
        raise RemoteProtocolError("bad-event", "it has no list of newcomers")
    return [Newcomer.of(row) for row in rows]


def _verdicts(event: Event) -> tuple[int, dict[MinionId, str]]:
    """The number of the question, and the answers. Raises RemoteProtocolError("bad-event")."""
    asked, states = event.data.get("asked"), event.data.get("states")
    if not isinstance(asked, int) or not isinstance(states, list):
        raise RemoteProtocolError("bad-event", "it has no question and list of states")
    found = {}
    for one in states:
        match one:
            case [str() as minion, str() as state] if state in VERDICTS:
                found[MinionId(minion)] = state
            case _:
                raise RemoteProtocolError("bad-event", "a state is not a verdict about a newcomer")
    return asked, found


def ask_owners(master: Master, asks: Sequence[IpcMessage]) -> set[int]:
    """Ask other masters about the older sessions of these minions, whose keys are accepted. Returns the numbers of the
    sessions that wait for the answer. Raises StoreError."""
    if master.shared is None or not asks:
        return set()
    me = master.name_among_others
    rows = {row.id: row for row in master.store.minions([MinionId(ask["hello"]["id"]) for ask in asks])}
    waiting, newcomers = set(), []
    for ask in asks:
        hello, key = ask["hello"], fingerprint(ask["public"])
        row = rows.get(MinionId(hello["id"]))
        if row is None or not row.up or row.master in ("", me) or row.order.precedes(SessionOrder.of(hello)):
            continue
        if row.fingerprint == key:
            waiting.add(ask["session"])
            older = (row.master, row.boot_id, row.run, row.handshake)
            newcomers.append([row.id, key, hello["boot"], *hello["order"], ask["address"], *older])
    if newcomers:
        now = master.clock.wall()
        with master.shared.write() as store:
            store.put_event(tag_master(me, MasterEvent.CONTESTED), {"by": me, "newcomers": newcomers}, now)
    return waiting


class _Question:
    """A question of this master: who still waits, and how often each master had renewed its lease when it was asked."""

    def __init__(self, newcomers: Sequence[Newcomer], masters: Sequence[MasterRow]) -> None:
        self.open = {one.id: one for one in newcomers}
        self._renewals = {row.name: (row.start, row.renewals) for row in masters}

    def must_wait(self, owner: MasterRow | None) -> bool:
        """Whether that master has renewed its lease, although it has not answered."""
        if owner is None or not owner.has_lease:
            return False
        start, renewals = self._renewals.get(owner.name, (owner.start, owner.renewals))
        return owner.start == start and owner.renewals > renewals


class Contests:
    """The membership process's part: it answers and evaluates the questions."""

    def __init__(self, reactor: Reactor, store: SharedStore, clock: Clock, link: LinkChannel, me: str) -> None:
        self._reactor = reactor
        self._store = store
        self._clock = clock
        self._link = link
        self._me = me
        self._questions: dict[int, _Question] = {}
        """By the number of the event."""
        self._answers: dict[int, list[tuple[MinionId, str]]] = {}
        """The answers that are not sent yet, by the number of the question."""

    def on_event(self, event: Event) -> None:
        """Handle an event of a master. Raises StoreError, and RemoteProtocolError if no master can have written it."""
        by = str(event.data.get("by", ""))
        if event.tag == tag_master(by, MasterEvent.CONTESTED):
            newcomers = _newcomers(event)
            if by == self._me:
                self._questions[event.seq] = _Question(newcomers, self._store.masters())
                self._reactor.call_later(ANSWER_S, lambda: self._late(event.seq))
            else:
                for one in newcomers:
                    if one.owner == self._me:
                        self._probe(event.seq, one)
        elif event.tag == tag_master(by, MasterEvent.CONTEST_OVER):
            asked, states = _verdicts(event)
            if asked in self._questions:
                self._end(self._questions[asked], states)

    # -- the owner

    def _probe(self, asked: int, newcomer: Newcomer) -> None:
        def done(reply: IpcMessage | None) -> None:
            if reply is None:
                return
            if not self._answers:
                self._reactor.call_later(GATHER_S, self._answer)
            self._answers.setdefault(asked, []).append((newcomer.id, reply["state"]))

        self._link.ask(lambda number: ipc.contest(number, newcomer), done)

    def _answer(self) -> None:
        answers, self._answers = self._answers, {}
        now = self._clock.wall()
        try:
            with self._store.write() as store:
                for asked, states in answers.items():
                    data = {"by": self._me, "asked": asked, "states": [list(one) for one in states]}
                    store.put_event(tag_master(self._me, MasterEvent.CONTEST_OVER), data, now)
        except StoreError as error:
            log.error("another master is not told whether sessions are alive: %s", error)  # noqa: TRY400 - a sentence

    # -- the master of the newcomer

    def _late(self, asked: int) -> None:
        """The owners of those that still wait have not answered."""
        question = self._questions.pop(asked, None)
        if question is None or not question.open:
            return
        try:
            masters = {row.name: row for row in self._store.masters()}
            waits = {one.id: question.must_wait(masters.get(one.owner)) for one in question.open.values()}
            self._end(question, {minion: BUSY if must else GONE for minion, must in waits.items()})
        except StoreError as error:
            log.error("minions whose keys are in use elsewhere have to come again: %s", error)  # noqa: TRY400 - a sentence
            self._end(question, dict.fromkeys(question.open, BUSY))

    def _end(self, question: _Question, states: Mapping[MinionId, str]) -> None:
        """Send these newcomers their verdicts. May raise StoreError if one is accepted."""
        over = [(question.open[minion], state) for minion, state in states.items() if minion in question.open]
        gone = [one for one, state in over if state == GONE]
        if gone:
            now = self._clock.wall()
            with self._store.write() as store:
                rows = {row.id: row for row in store.minions([one.id for one in gone])}
                for one in gone:
                    # If there is another session by now, the newcomer is refused when this master claims it.
                    if one.is_up(rows.get(one.id)):
                        store.release(one.owner, {one.id: SessionEnd.REPLACED}, now)
        for one, state in over:
            del question.open[one.id]
            self._link.contest_over(one, KeyState.ACCEPTED if state == GONE else state)
