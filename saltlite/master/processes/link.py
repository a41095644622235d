"""The link process: carries out the effects of the session manager, between the network and the MWorkers.

It writes nothing to disk and runs no handler. It holds every batch of reports until an MWorker has committed it, so an
MWorker may die at any time. It may die itself at any time, because minions keep what was not acknowledged, and the
store keeps what was not delivered.
"""

from __future__ import annotations

import logging
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field

from saltlite.master.processes import link_channel as ipc
from saltlite.master.protocol.effects import (
    CloseConnection,
    ContestOver,
    Decide,
    MinionReport,
    MinionRequest,
    Presence,
    Pull,
    Send,
    Suspect,
)
from saltlite.master.protocol.session_manager import BLOCKED_RETRY_S, DECISION_S, TICK_S, SessionManager
from saltlite.master.protocol.sessions import PROBE_S, NewcomerElsewhere
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import JID_DIGITS
from saltlite.model.keys import Fingerprint
from saltlite.platform.link import SendResult, ServerLink
from saltlite.platform.logs import supervised
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.limits import KIB, RETURN_MEMORY
from saltlite.wire.messages import FUNCTIONS_BYTES_MAX

log = logging.getLogger(__name__)

SPREAD_MS_PER_MINION = 5
"""At a planned stop, the window for reconnecting grows by this per minion."""
SPREAD_MIN_MS = 1_000
"""No minion reconnects to a master that is still stopping."""
SPREAD_MAX_MS = 60_000
LINGER_S = 0.05
LINGER_S_PER_MINION = 20e-6
"""How long to wait for the last frames to be sent. A minion that reconnects in that time gets no answer and starts
again: with 200 ms it was one in five."""
REPORT_BYTES = 4 * KIB
"""Bytes of a report beside its body: a state with the longest reason takes half of it."""
DECIDE_S = 2.0
"""An MWorker that has not answered about a key for this long is not asked about others until it answers. A contest of
two masters takes less (`saltlite.master.processes.contests`)."""
STORE_RETRY_S = 1.0
"""After this time, reports that could not be stored are tried again."""
PUBLISHERS_MAX = 10_000
"""Jobs whose publishing MWorker is remembered."""
WAITING_MAX = 20_000
"""Messages kept while there is no MWorker. More are dropped, and minions repeat them."""


ForMWorkers = MinionReport | Decide | Pull | Suspect
MakeChannel = Callable[[Callable[[list[bytes]], None], Callable[[str], None]], Channel]


@dataclass(frozen=True, slots=True)
class ReportBatch:
    """Reports that an MWorker got together, and when, in monotonic seconds."""

    reports: list[MinionReport]
    at: float


@dataclass(eq=False, slots=True)
class MWorkerChannel:
    """The channel of one MWorker, with its uncommitted batches and unanswered requests."""

    channel: Channel
    batches: dict[int, ReportBatch] = field(default_factory=dict)
    requests: dict[tuple[int, int], MinionRequest] = field(default_factory=dict)
    """By session and number."""
    undecided: dict[int, tuple[Decide, float]] = field(default_factory=dict)
    """When it was asked about a key, in monotonic seconds, by session; oldest first."""
    watches: bool = False
    """Whether it hears of all commits, not only of those of jobs that it published."""


class LinkProcess:
    """Connects session manager, network and MWorkers."""

    def __init__(
        self, reactor: Reactor, manager: SessionManager, make_link: Callable[[LinkProcess], ServerLink]
    ) -> None:
        self._reactor = reactor
        self._manager = manager
        self._link = make_link(self)
        self._mworkers: list[MWorkerChannel] = []
        self._waiting: list[ForMWorkers] = []
        self._unsent_requests: list[MinionRequest] = []
        self._numbers = 0
        self._turns = 0
        """Turns with work for MWorkers."""
        self._carrying = False
        self._is_busy = False
        """Whether frames have arrived since the last turn."""
        self._has_worked = True
        """Whether anything but heartbeats and ticks has happened since the last tick."""
        self._is_idle = False
        """Whether nothing else has happened since the previous tick. Then heartbeats are read in batches, because most
        of the cost of one is that threads wake up for it."""
        self._recorded = False
        self._asks_contests: MWorkerChannel | None = None
        """The membership process, once it has asked whether a session is alive."""
        self._stopping = False
        self._unstored: list[MinionReport] = []
        self._skipped = 0
        self._publishers: OrderedDict[str, MWorkerChannel] = OrderedDict()
        self._committed: dict[MWorkerChannel, set[str] | None] = {}
        self._tick()

    # -- network

    def on_frame(self, route: bytes, connection: int, address: str, frame: bytes) -> None:
        """A frame arrived from a minion."""
        if self._stopping:
            return
        if not supervised("a frame of a minion", self._manager.frame, route, connection, address, frame):
            self._link.hang_up(connection, address)
        if self._manager.has_work:
            self._is_busy = True
            self._work()
        elif self._is_idle:
            self._link.rest()

    def on_hangup(self, connection: int) -> None:
        """A connection of the network broke."""
        self._manager.hangup(connection)
        self._work()

    def on_connect(self, connection: int, address: str) -> None:
        """A connection of the network was made."""
        self._manager.connected(connection, address)
        self._work()

    # -- MWorkers

    def add_mworker(self, make_channel: MakeChannel, released: Callable[[], None]) -> None:
        """A process of the master connected. Its `hello` names its role. `released` is called when it disconnects."""
        mworker: MWorkerChannel

        def on_batch(batch: list[bytes]) -> None:
            for data in batch:
                supervised("a message of an MWorker", self._from_mworker, mworker, unpack(data))
            self._work()

        def on_close(_reason: str) -> None:
            released()
            self._lost(mworker)

        mworker = MWorkerChannel(make_channel(on_batch, on_close))

    def stop(self) -> None:
        """Planned stop: tell the minions, wait for the frames to be sent, end the loop."""
        self._stopping = True
        count = len(self._manager.sessions.present())
        self._manager.leave(min(SPREAD_MAX_MS, max(SPREAD_MIN_MS, SPREAD_MS_PER_MINION * count)))
        self._carry_out()
        self._reactor.call_later(LINGER_S + LINGER_S_PER_MINION * count if count else 0.0, self._reactor.stop)

    def close(self) -> None:
        """Close the network socket."""
        self._link.close()

    # -- inside

    def _joined(self, mworker: MWorkerChannel) -> None:
        """An MWorker connected: send it presence, and the messages that wait."""
        self._mworkers.append(mworker)
        # One MWorker records that the sessions of an earlier link process are over.
        mworker.channel.send(
            pack(ipc.presence(self._manager.sessions.present(), record=not self._recorded, whole=True))
        )
        self._recorded = True
        waiting, self._waiting = self._waiting, []
        self._to_mworker(waiting)
        unasked, self._unsent_requests = self._unsent_requests, []
        self._pass_requests(unasked)

    def _work(self) -> None:
        self._has_worked = True
        self._is_idle = False
        self._schedule()

    def _schedule(self) -> None:
        # One pass per turn of the loop, however many frames arrived, so that reports form batches.
        if not self._carrying:
            self._carrying = True
            self._reactor.call_soon(self._carry_out)

    def _carry_out(self) -> None:
        self._carrying = False
        more_to_acknowledge = self._manager.acknowledge(busy=self._is_busy)
        self._is_busy = False
        for_mworkers: list[ForMWorkers] = []
        presence: list[Presence] = []
        full: set[bytes] = set()
        self._manager.send_files()
        while effects := self._manager.take():
            for effect in effects:
                if isinstance(effect, Send):
                    # After a frame that found no room, no other may pass it: jobs are sent in order.
                    blocked = effect.route in full
                    result = SendResult.FULL if blocked else self._link.send(effect.route, effect.frame)
                    if result is not SendResult.OK:
                        if result is SendResult.FULL:
                            full.add(effect.route)
                        self._manager.unsent(effect, gone=result is SendResult.GONE)
                elif isinstance(effect, CloseConnection):
                    self._link.hang_up(effect.connection, effect.address)
                elif isinstance(effect, Presence):
                    presence.append(effect)
                elif isinstance(effect, ContestOver):
                    self._answer_contest(effect)
                else:
                    for_mworkers.append(effect)
        self._announce(presence)
        self._to_mworker(for_mworkers)
        self._pass_requests(list(self._manager.files.due()))
        if self._manager.files.has_responses or more_to_acknowledge:
            self._schedule()
        if full:
            self._reactor.call_later(BLOCKED_RETRY_S, self._retry)

    def _retry(self) -> None:
        self._manager.tick()
        self._schedule()

    def _tick(self) -> None:
        self._is_idle, self._has_worked = not self._has_worked, False
        self._manager.tick()
        self._schedule()
        self._reactor.call_later(TICK_S, self._tick)

    def _announce(self, presence: list[Presence]) -> None:
        if not presence:
            return
        records, knows = (pack(ipc.presence(presence, record=record)) for record in (True, False))
        for index, mworker in enumerate(list(self._mworkers)):
            mworker.channel.send(knows if index else records)

    def _to_mworker(self, items: list[ForMWorkers]) -> None:
        if not items:
            return
        if not self._mworkers:
            self._waiting += items[: WAITING_MAX - len(self._waiting)]
            return
        batches: dict[int, tuple[MWorkerChannel, list[MinionReport]]] = {}
        decider = self._decider()
        for item in items:
            if isinstance(item, Decide):
                decider.undecided[item.session] = item, self._reactor.now()
                decider.channel.send(pack(ipc.decide(item)))
            elif isinstance(item, Suspect):
                self._least_busy().channel.send(pack(ipc.suspect(item)))
            elif isinstance(item, Pull):
                # A fresh pull must see what the presence before it changed, so it takes the same way.
                mworker = self._mworkers[0] if item.fresh else self._least_busy()
                session = self._manager.sessions.presence(item.id) if item.fresh else None
                mworker.channel.send(pack(ipc.pull(item.id, session, item.since)))
            else:
                mworker = self._publisher(item)
                batches.setdefault(id(mworker), (mworker, []))[1].append(item)
        for mworker, batch in batches.values():
            self._send_batches(mworker, batch)

    def _pass_requests(self, requests: list[MinionRequest]) -> None:
        """All requests for one file go to the same MWorker, which remembers its hash."""
        if not self._mworkers:
            self._unsent_requests += requests[: WAITING_MAX - len(self._unsent_requests)]
            return
        for request in requests:
            message = request.message
            about = f"{message.get('env', request.id)}/{message.get('path') or message.get('kind')}"
            mworker = self._mworkers[zlib.crc32(about.encode()) % len(self._mworkers)]
            mworker.requests[request.session, request.message["n"]] = request
            mworker.channel.send(pack(ipc.request(request)))

    def _publisher(self, report: MinionReport) -> MWorkerChannel:
        """The MWorker that published the job: the client that waits is there, and needs no wake-up."""
        # Every id of a part or a segment starts with the jid.
        publisher = self._publishers.get(report.message.get("jid", "")[:JID_DIGITS])
        return publisher if publisher in self._mworkers else self._least_busy()

    def _send_batches(self, mworker: MWorkerChannel, reports: list[MinionReport]) -> None:
        batch: list[MinionReport] = []
        size = 0
        for report in reports:
            batch.append(report)
            size += _bytes_of(report)
            if size > ipc.BATCH_BYTES:
                self._send_batch(mworker, batch)
                batch, size = [], 0
        if batch:
            self._send_batch(mworker, batch)

    def _send_batch(self, mworker: MWorkerChannel, batch: list[MinionReport]) -> None:
        self._numbers += 1
        mworker.batches[self._numbers] = ReportBatch(batch, self._reactor.now())
        mworker.channel.send(pack(ipc.reports(self._numbers, batch)))

    def _retry_later(self, batch: list[MinionReport]) -> None:
        held = sum(map(_bytes_of, self._unstored))
        for report in batch:
            held += _bytes_of(report)
            # A report that does not fit is repeated by its minion after the next fresh pull.
            if held <= RETURN_MEMORY:
                self._unstored.append(report)
        self._reactor.call_later(STORE_RETRY_S, self._try_unstored)

    def _try_unstored(self) -> None:
        again, self._unstored = self._unstored, []
        self._to_mworker(list(again))

    def _decider(self) -> MWorkerChannel:
        """The MWorker that decides about all keys of this turn: the least busy one, or of several each in turn. If
        there is another choice, it is neither the first one, which stores sessions and answers their first pulls, nor
        one that is stuck."""
        self._turns += 1
        others = self._mworkers[1:] or self._mworkers
        first = self._turns % len(others)
        in_turn = others[first:] + others[:first]
        return min(in_turn, key=lambda mworker: (self._stands_still(mworker), len(mworker.batches)))

    def _stands_still(self, mworker: MWorkerChannel) -> bool:
        """Whether it has not answered about a key for too long. Questions older than DECISION_S were abandoned."""
        now = self._reactor.now()
        while mworker.undecided:
            oldest, (_decide, asked_at) = next(iter(mworker.undecided.items()))
            if now - asked_at < DECISION_S:
                return now - asked_at >= DECIDE_S
            del mworker.undecided[oldest]
        return False

    def _least_busy(self) -> MWorkerChannel:
        return min(self._mworkers, key=lambda mworker: len(mworker.batches))

    def _lost(self, mworker: MWorkerChannel) -> None:
        if mworker not in self._mworkers:
            return
        self._mworkers.remove(mworker)
        if self._stopping:
            return
        again = [report for batch in mworker.batches.values() for report in batch.reports]
        log.warning("an MWorker is gone; %d reports that it had not committed go to another", len(again))
        self._to_mworker([*(decide for decide, _asked_at in mworker.undecided.values()), *again])
        self._pass_requests(list(mworker.requests.values()))

    def _from_mworker(self, mworker: MWorkerChannel, message: IpcMessage) -> None:
        manager = self._manager
        match message["t"]:
            case "hello" if message["role"] == ipc.MWORKER:
                mworker.watches = message["watch"]
                self._joined(mworker)
            case "committed":
                mworker.batches.pop(message["n"], None)
                self._skipped += message["skipped"]
                for key, jids in message["items"]:
                    manager.committed(Fingerprint(key), jids)
            case "uncommitted":
                batch = mworker.batches.pop(message["n"], None)
                self._retry_later(batch.reports if batch is not None else [])
            case "publish" | "pulled":
                self._deliver(mworker, message)
            case "decided":
                mworker.undecided.pop(message["session"], None)
                manager.decided(message["session"], message["state"], message["id"], message["gone"])
            case "keys":
                for key, state, minion in message["changes"]:
                    manager.key_changed(Fingerprint(key), state, minion)
                # The sessions have been removed: no later frame of theirs has an effect (S5).
                mworker.channel.send(pack({"t": "keys_done", "n": message["n"]}))
            case "masters" | "placement" | "contest" | "contest_over":
                self._of_masters(mworker, message)
            case "last_seen":
                mworker.channel.send(
                    pack(
                        {
                            "t": "last_seen",
                            "n": message["n"],
                            "silent_s": manager.sessions.silent_s(message["ids"], self._reactor.now()),
                        }
                    )
                )
            case "wake_up" | "watch" | "fleet" | "stats":
                self._told(mworker, message)
            case _:
                self._for_minions(mworker, message)

    def _of_masters(self, membership: MWorkerChannel, message: IpcMessage) -> None:
        manager = self._manager
        match message["t"]:
            case "masters":
                self._apply(membership, message)
            case "placement":
                manager.masters_are(*message["directory"])
                manager.drain(wanted=message["draining"])
            case "contest":
                self._asks_contests = membership
                manager.contested(Fingerprint(message["key"]), NewcomerElsewhere(message["n"], *message["newcomer"]))
                self._reactor.call_later(PROBE_S, self._retry)
            case "contest_over":
                waiting = manager.sessions.deciding.get(Fingerprint(message["key"]))
                if waiting is not None:
                    for mworker in self._mworkers:
                        mworker.undecided.pop(waiting.session.id, None)
                manager.contest_over(Fingerprint(message["key"]), message["boot"], message["order"], message["state"])

    def _apply(self, membership: MWorkerChannel, message: IpcMessage) -> None:
        """Apply what other masters have committed, and answer when all sessions reflect it."""
        manager = self._manager
        if message["begins"]:
            manager.end_lease()
        for key, state, minion in message["changes"]:
            manager.key_changed_elsewhere(Fingerprint(key), state, minion)
        for session in message["replaced"]:
            manager.replaced_elsewhere(*session)
        if manager.sharing is not None:
            manager.sharing.issuers.others_are(message["certs"])
        if message["lease"] is not None:
            manager.lease(message["lease"])
        # A master that begins a new start has skipped the events from before it joined.
        for mworker in self._mworkers if message["elsewhere"] or message["begins"] else ():
            mworker.channel.send(pack(ipc.elsewhere(message["elsewhere"], anew=message["begins"])))
        membership.channel.send(pack({"t": "masters_done", "n": message["n"]}))

    def _answer_contest(self, over: ContestOver) -> None:
        if self._asks_contests is not None:
            answer = {"t": "contest_over", "n": over.question, "state": over.state}
            self._asks_contests.channel.send(pack(answer))

    def _figures(self) -> dict[str, object]:
        batches = [batch for mworker in self._mworkers for batch in mworker.batches.values()]
        oldest = min((batch.at for batch in batches), default=self._reactor.now())
        return {
            **self._manager.figures(),
            "mworkers": len(self._mworkers),
            "uncommitted": sum(len(batch.reports) for batch in batches) + len(self._unstored),
            "lag_s": self._reactor.now() - oldest,
            "skipped": self._skipped,
        }

    def _deliver(self, mworker: MWorkerChannel, message: IpcMessage) -> None:
        now = self._reactor.now()
        if message["t"] == "pulled":
            deliveries = [ipc.delivery(row, now) for row in message["jobs"]]
            self._manager.deliver(message["id"], deliveries, starved=message["starved"], rest=message["rest"])
            return
        jid, body, signature, left_ms = message["job"]
        self._publishers[jid] = mworker
        if len(self._publishers) > PUBLISHERS_MAX:
            self._publishers.popitem(last=False)
        for minion, part, srns, proof in message["items"]:
            self._manager.push(minion, [ipc.delivery((part, body, signature, proof, left_ms, srns), now)])

    def _told(self, mworker: MWorkerChannel, message: IpcMessage) -> None:
        match message["t"]:
            case "wake_up":
                self._committed_by(mworker, message["jobs"])
            case "stats":
                mworker.channel.send(pack({"t": "stats", "n": message["n"], "figures": self._figures()}))
            case "watch":
                mworker.watches = message["wanted"]
            case "fleet":
                self._manager.sessions.accepted_keys = message["accepted_keys"]

    def _committed_by(self, mworker: MWorkerChannel, jobs: list[str] | None) -> None:
        if not self._committed:
            self._reactor.call_later(ipc.WAKE_UP_S, self._wake_others)
        known = self._committed.setdefault(mworker, set())
        self._committed[mworker] = None if jobs is None or known is None else known.union(jobs)

    def _wake_others(self) -> None:
        committed, self._committed = self._committed, {}
        for mworker in list(self._mworkers):
            others = [self._of_interest(mworker, jobs) for one, jobs in committed.items() if one is not mworker]
            if any(jobs is None or jobs or mworker.watches for jobs in others):
                mworker.channel.send(pack(ipc.wake_up(others)))

    def _of_interest(self, mworker: MWorkerChannel, jobs: set[str] | None) -> set[str] | None:
        """Those of these jobs that this MWorker may have a stream of; None for any."""
        if jobs is None or mworker.watches:
            return jobs
        publishers = {jid: self._publishers.get(jid) for jid in jobs}
        return {jid for jid, one in publishers.items() if one is mworker or one not in self._mworkers}

    def _for_minions(self, mworker: MWorkerChannel, message: IpcMessage) -> None:
        match message["t"]:
            case "response":
                mworker.requests.pop((message["session"], message["message"]["n"]), None)
                self._manager.files.answered(message["session"], message["message"])
            case "cancel":
                self._manager.cancel(message["parts"])
            case "fetch":
                self._manager.fetch(message["id"], message["what"])
            case "replaced":
                self._manager.replaced(message["id"], message["run"], message["handshake"])
            case "sweep":
                self._manager.pull(message["ids"])


def _bytes_of(report: MinionReport) -> int:
    """An upper bound of its size, in a message and in memory."""
    texts = FUNCTIONS_BYTES_MAX if report.message["t"] == "functions" else 0
    return len(report.body or b"") + texts + REPORT_BYTES
