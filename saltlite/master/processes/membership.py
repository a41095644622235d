"""The membership process of a master that shares its store with others: it renews the lease and follows their events.

It renews the row of this master once a second. Then, and whenever another master has committed something, it reads the
events after its cursor. It tells the link process what concerns its sessions: keys that changed, sessions that a newer
one at another master replaces, jobs and kills of other masters, and which minions the others have. The link process
answers when all its sessions reflect the changed keys. Only then does the cursor advance, which is stored as `applied`,
and the master gets a lease for LEASE_S, counted from the moment at which it sent the renewal. A master that revokes a
key waits until every other master has applied the change. It fences those that have not after FENCE_S, when their
leases have expired (S5). Clocks of different machines are never compared.

A renewal gives no lease if it was committed after a key had lost its rights and this master had not applied that
change. Otherwise the master that waits for the change could fence this one after the renewal, and the next revocation
would not wait for a fenced master that still has a lease. For the same reason a master that begins a new start ends its
lease before it stores that it has none.

A master joins without a lease until all others have its certificate, which minions need to verify its jobs.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from saltlite import __version__
from saltlite.errors import DamagedError, RemoteProtocolError, StoreError
from saltlite.master.handlers.delivery import send
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.contests import Contests, is_text
from saltlite.master.processes.context import RecentProofs
from saltlite.master.processes.identity import certificate_of, chain_of, job_key
from saltlite.master.processes.link_channel import LinkChannel
from saltlite.master.processes.master_rows import MasterRows, fleets_of
from saltlite.master.processes.other_masters import EVENTS, behind, fence, last_seen_of, note
from saltlite.master.processes.own_address import address_of, address_problem
from saltlite.master.processes.renewal import Renewals, signed_as_root
from saltlite.master.protocol.lease import Draining, LinkState
from saltlite.master.store.database_clock import DatabaseClock
from saltlite.master.store.ports import Store
from saltlite.master.store.sharing import MasterRow, MasterState, SharedStore, SharedWriter
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.events import (
    CLONE_SUSPECT,
    Event,
    MasterEvent,
    tag_auth,
    tag_job_kill,
    tag_job_new,
    tag_job_turn,
    tag_key,
    tag_master,
    tag_presence_change,
)
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import Job, TargetState
from saltlite.model.keys import Fingerprint, KeyState
from saltlite.platform.logs import log_defect
from saltlite.platform.privileges import drop_to
from saltlite.platform.reactor import Reactor
from saltlite.wire import directory, job_body
from saltlite.wire.directory import MasterEntry
from saltlite.wire.framing import IpcMessage, unpack

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig

log = logging.getLogger(__name__)

RENEW_S = 1.0
LEASE_S = 4.0
"""How long a lease lasts after its renewal was sent."""
LOST_S = 10.0
"""A master that has not renewed its lease for this long is fenced, and its minions count as away."""
SIGN_AGAIN_S = 86_400.0
"""How often the directory is signed again while the masters stay the same. Then every minion has the directory of that
day, and refuses those of earlier days."""
LEAVE_WAIT_S = 2.0
"""How long this process waits after SIGTERM for the link process to end, which it does when the whole master stops."""
AFTER_ALL = 2**63
"""Greater than the number of any event."""
_KEY_TAGS = frozenset({tag_key(), tag_auth()})


def _renewal(row: MasterRow) -> tuple[str, int, int]:
    return row.name, row.start, row.renewals


def _is_renewal(renewal: tuple[str, int, int], row: MasterRow) -> bool:
    return _renewal(row) == renewal


def _has_joined(events: Iterable[Event]) -> bool:
    return any(event.tag == tag_master(str(event.data.get("name", "")), MasterEvent.JOINED) for event in events)


def _jobs_of(events: Iterable[Event]) -> set[str] | None:
    """The jobs of these events; None if an event does not belong to a job."""
    jobs = set()
    for event in events:
        parts = event.tag.split("/", 3)
        if parts[:2] != ["salt", "job"] or len(parts) < 4:
            return None
        jobs.add(parts[2])
    return jobs


def _ids(listed: object) -> list[MinionId]:
    """The minions that an event names."""
    if not isinstance(listed, list):
        return []
    return [MinionId(each) for each in listed if isinstance(each, str) and is_text(each)]


@dataclass(frozen=True, slots=True)
class News:
    """The changes by other masters that concern this one."""

    keys: list[tuple[str, str, str]]
    """(fingerprint, present state, id) of keys that changed."""
    replaced: list[tuple[str, str, int, int]]
    """(minion, boot, run, handshake) of sessions with other masters."""
    elsewhere: list[tuple[str, bool]]
    """(minion, whether it has a session with another master) of minions that came or went."""
    has_joined: bool
    """Whether another master joins. The link process needs its certificate."""
    withdrawn: int
    """The first event by which a key lost its rights; AFTER_ALL without one."""

    @property
    def concerns_link(self) -> bool:
        """Whether any of this has to be sent to the link process."""
        return bool(self.keys or self.replaced or self.elsewhere or self.has_joined)


class DirectorySigner:
    """Makes the directory of masters that minions get (`saltlite.wire.directory`).

    `job_key` is the seed that this master signs with, `rows` judges whom it may name. Without `lists_masters` the
    directory is empty.
    """

    def __init__(self, job_key: bytes, public: bytes, rows: MasterRows, *, lists_masters: bool) -> None:
        self.public = public
        self.rows = rows
        self._job_key = job_key
        self._lists_masters = lists_masters
        self._entries: list[MasterEntry] | None = None
        self._signed = b"", b""
        self._number = 0
        self._again_at = 0.0

    def directory(self, masters: Iterable[MasterRow], read_at: float) -> tuple[bytes, bytes]:
        """The encoded directory of these masters, which were read at `read_at` (database time), and its signature."""
        before = {one.name: one.is_up for one in self._entries or ()}
        entries = [
            MasterEntry(row.name, row.address, row.weight, _takes_sessions(row, before=before.get(row.name, False)))
            for row in masters
            if self._lists_masters
        ]
        if entries != self._entries or read_at >= self._again_at:
            self._entries = entries
            # The clock of a server that was promoted may be behind.
            self._number = max(self._number + 1, int(read_at * 1000))
            self._again_at = read_at + SIGN_AGAIN_S
            self._signed = directory.signed(self._job_key, entries, self._number)
        return self._signed


def _takes_sessions(row: MasterRow, *, before: bool) -> bool:
    # A master that begins a new start is up again within a second, so minions are not sent two directories for that.
    return before if row.state is MasterState.JOINING else row.state is MasterState.UP


class Membership:
    """Holds the lease of this master, and applies the changes of those that share its store."""

    def __init__(
        self,
        reactor: Reactor,
        store: SharedStore,
        clock: Clock,
        link: LinkChannel,
        me: MasterRow,
        signer: DirectorySigner,
        renewals: Renewals | None = None,
    ) -> None:
        """`me` is JOINING."""
        self._renewals = renewals
        self._reactor = reactor
        self._store = store
        self._clock = clock
        self._link = link
        self._me = me
        self._signer = signer
        self._proofs = RecentProofs()
        self._contests = Contests(reactor, store, clock, link, me.name)
        self._joined_at = -1
        """The event that announces this start."""
        self._place = store.place
        self._last: Event | None = None
        """The event `applied`, if this process has read it."""
        self._seen: dict[tuple[str, int, int], float] = {}
        """When each master was first seen with its present count of renewals."""
        self._looked_at = clock.monotonic()
        self._renew_at = clock.monotonic()
        self._busy = False
        self._again = False
        self._link_state = LinkState.UNKNOWN
        self._renewed_at: float | None = None
        """When the last renewal was sent, until the link process has the lease for it."""
        self._renewed_after = 0
        """The last event before that renewal."""
        self._draining = Draining.NO
        self._is_failing = False
        self._leave: Callable[[], None] | None = None
        self._signal = store.listen()
        reactor.add_reader(self._signal.fileno(), self._notified)
        self._tick()

    def _tick(self) -> None:
        self._turn()
        self._reactor.call_later(RENEW_S, self._tick)

    def _notified(self) -> None:
        self._signal.clear()
        self._turn()

    def _turn(self) -> None:
        """Apply new events, and renew the lease if that is due. One turn runs at a time."""
        if self._busy:
            self._again = True
            return
        self._again = False
        try:
            self._look()
        except StoreError as error:
            if not self._is_failing:
                log.error("this master cannot renew its lease for now: %s", error)  # noqa: TRY400 - a sentence
            self._is_failing = True
        else:
            self._is_failing = False
            if self._again and not self._busy:
                # Handle messages and timers first.
                self._reactor.call_soon(self._turn)

    def _look(self) -> None:
        if self._link_state is LinkState.UNKNOWN:
            self._link_state = self._resumed()
        if self._link_state is LinkState.STALE_LEASED:
            self._end_lease()
            return
        sent_at, now = self._clock.boottime(), self._clock.monotonic()
        has_renewed = now >= self._renew_at
        if has_renewed:
            stored = self._renew()
            if stored is None:
                self._begin_anew("the database has lost the last changes that this master read")
                return
            if stored.state is MasterState.FENCED:
                self._begin_anew("another master has fenced this one, which did not renew its lease in time")
                return
            self._draining = self._draining.after_renewal(is_stored=stored.state is MasterState.DRAINING)
            self._renew_at = now + RENEW_S
            self._renewed_at = sent_at if stored.has_lease else None
        events = self._store.events(self._me.applied, EVENTS)
        if self._store.place != self._place:
            # Another server answers now. The renewal finds out whether it has lost events.
            self._renewed_at = None
            self._renew_soon()
            return
        # Read after the events, so that the rows include the certificate of a master that joins.
        read_at = self._clock.wall()
        masters = self._store.masters()
        news = self._news(events)
        if news.withdrawn <= self._renewed_after:
            self._renewed_at = None
        if not has_renewed and not news.concerns_link and (self._renewed_at is None or len(events) == EVENTS):
            self._applied(events, news, masters)
            return
        used = self._signer.rows.used(masters, self._me)
        self._tell_link(events, news, masters, [row.certificate for row in used if row.name != self._me.name])
        self._link.placement(self._signer.directory(used, read_at), draining=self._draining is Draining.YES)
        self._fence_lost(masters)
        if self._renewals is not None:
            self._renewals.look(masters)

    def _end_lease(self) -> None:
        """End the lease of the link process. Until it has confirmed that, the other masters wait for this one as
        before."""
        self._busy = True

        def done(reply: IpcMessage | None) -> None:
            self._busy = False
            if reply is not None:
                self._link_state = self._link_state.after_lease()
                self._turn()

        self._link.ask(lambda number: ipc.masters(number, begins=True), done)

    def _tell_link(
        self, events: Sequence[Event], news: News, masters: Sequence[MasterRow], others: Sequence[bytes]
    ) -> None:
        """`others` are the certificates of the other masters."""
        # There is no lease until all events before the renewal are read: one may change a key of a session.
        until = self._renewed_at + LEASE_S if self._renewed_at is not None and len(events) < EVENTS else None
        begins = self._link_state.is_stale
        if until is not None:
            self._link_state = self._link_state.after_grant()
        self._busy = True

        def done(reply: IpcMessage | None) -> None:
            self._busy = False
            if reply is None:
                # The link process has not applied the changes, so there is no lease; the next turn reads them again.
                return
            self._link_state = self._link_state.after_reset()
            if until is not None:
                self._renewed_at = None
            try:
                self._applied(events, news, masters)
            except StoreError as error:
                log.error("what other masters committed is read again: %s", error)  # noqa: TRY400 - a sentence
            if self._again:
                self._turn()

        def message(number: int) -> IpcMessage:
            return ipc.masters(
                number,
                begins=begins,
                certificates=others,
                keys=news.keys,
                replaced=news.replaced,
                elsewhere=news.elsewhere,
                lease=until,
            )

        self._link.ask(message, done)

    def _applied(self, events: Sequence[Event], news: News, masters: Sequence[MasterRow]) -> None:
        """Advance the cursor: the sessions of this master reflect the changed keys of these events. Raises
        StoreError."""
        done = events[: self._hand_over(events)]
        if done:
            if self._renewals is not None:
                self._renewals.on_events(done)
            self._last = done[-1]
            self._me = replace(self._me, applied=self._last.seq)
            self._link.wake_up(_jobs_of(done))
            self._again = self._again or len(done) < len(events) or len(events) == EVENTS
            if news.keys or news.has_joined:
                # Other masters wait until this is stored.
                self._renew_soon()
        if self._me.state is MasterState.JOINING and self._is_known(masters):
            self._me = replace(self._me, state=MasterState.UP)
            self._renew_soon()

    def _renew_soon(self) -> None:
        self._renew_at = self._clock.monotonic()
        self._reactor.call_soon(self._turn)

    def _resumed(self) -> LinkState:
        """The state of the link process, after this process went on where an earlier one of this start ended, if there
        was one. Raises StoreError."""
        for row in self._store.masters():
            if (row.name, row.start) == (self._me.name, self._me.start) and row.has_lease:
                self._me = replace(self._me, state=row.state, applied=row.applied)
                self._joined_at = row.applied
                return LinkState.LEASED
        return LinkState.STALE

    def _renew(self) -> MasterRow | None:
        """Renew the row of this master. Returns the stored row, or None if the database has lost events that this
        master had applied, so that its cursor is worthless. Raises StoreError."""
        joined_at, now = self._joined_at, self._clock.wall()
        with self._store.write() as store:
            if joined_at >= 0 and self._is_lost(store):
                return None
            if self._store.place != self._place and joined_at >= 0:
                # Store an event on the new time line. Without one, readers would seem to be billions of events behind.
                note(store, self._me.name, MasterEvent.PROMOTED, now)
            self._place = self._store.place
            self._renewed_after = store.last_seq()
            stored = store.renew(self._me)
            if self._draining is Draining.AGAIN and store.drain_master(self._me.name):
                stored = replace(stored, state=MasterState.DRAINING)
            if joined_at < 0 and stored.state is not MasterState.FENCED:
                # Masters that have read this event have the certificate. No session of this start is older than it.
                joined_at = note(store, self._me.name, MasterEvent.JOINED, now)
        if joined_at != self._joined_at:
            self._joined_at = joined_at
            self._me = replace(self._me, applied=joined_at)
            self._last = None
        return stored

    def _is_lost(self, store: SharedWriter) -> bool:
        """Whether the event `applied` is not in this history: a server was promoted that did not have it."""
        applied = self._me.applied
        if self._store.place != self._place:
            return self._last is None or store.events(applied - 1, 1) != [self._last]
        return store.last_seq() < applied

    def _is_known(self, masters: Iterable[MasterRow]) -> bool:
        """Whether every other master with a lease has read that this one joins."""
        return not behind(masters, self._me.name, self._joined_at)

    def _begin_anew(self, why: str) -> None:
        """Begin a new start of this master. All its sessions end."""
        log.error("%s: its sessions end", why)
        self._link_state = self._link_state.after_restart()
        self._draining = self._draining.after_restart()
        self._renewed_at = None
        start = int.from_bytes(self._clock.entropy(4), "big") >> 1
        self._me = replace(self._me, start=start, state=MasterState.JOINING)
        self._joined_at = -1
        self._renew_soon()

    # -- the end

    def link_is_lost(self) -> None:
        """The link process has ended: a new one has no lease."""
        self._link_state = self._link_state.after_lease()
        if self._leave is not None:
            self.leave(self._leave)

    def leave(self, done: Callable[[], None]) -> None:
        """Stop this process, or the whole master. When the link process has ended, tell the other masters that the
        sessions are over, which they would otherwise notice only after LOST_S. Then call `done`. It may be called again
        later."""
        self._leave = done
        if self._link_state.has_lease:
            return
        try:
            fence(self._store, self._me.name, self._clock.wall())
        except StoreError as error:
            log.error("the other masters do not know yet that this one stops: %s", error)  # noqa: TRY400 - a sentence
        done()

    def _fence_lost(self, masters: Iterable[MasterRow]) -> None:
        """Fence the masters that have not renewed for LOST_S, if this master could read the rows all that time."""
        now = self._clock.monotonic()
        if now - self._looked_at > LEASE_S:
            # The database was unreachable, perhaps for the other masters as well.
            self._seen.clear()
        self._looked_at = now
        seen = {_renewal(row): row for row in masters if row.name != self._me.name}
        self._seen = {key: self._seen.get(key, now) for key in seen}
        for key, row in seen.items():
            if row.state is not MasterState.FENCED and now - self._seen[key] >= LOST_S:
                log.warning(
                    "the master %s has not renewed its lease for %g s, and is fenced: see whether it runs and reaches "
                    "the database",
                    row.name,
                    LOST_S,
                )
                fence(self._store, row.name, self._clock.wall(), partial(_is_renewal, key))

    # -- what others committed

    def _news(self, events: Sequence[Event]) -> News:
        keys: dict[Fingerprint, str] = {}
        came: set[MinionId] = set()
        gone: set[MinionId] = set()
        withdrawn = AFTER_ALL
        for event in events:
            if event.tag == tag_key() and "fingerprint" in event.data and event.data.get("act") != KeyState.ACCEPTED:
                withdrawn = min(withdrawn, event.seq)
            if (
                event.tag in _KEY_TAGS
                and isinstance(event.data.get("fingerprint"), str)
                and event.data.get("act") != CLONE_SUSPECT
            ):
                keys[Fingerprint(event.data["fingerprint"])] = str(event.data.get("id", ""))
            elif event.tag == tag_presence_change():
                came.update(_ids(event.data.get("new")))
                gone.update(_ids(event.data.get("lost")))
        rows = self._store.minions(came | gone) if came or gone else []
        elsewhere = {row.id: row for row in rows if row.up and row.master != self._me.name}
        return News(
            [(key, *self._state_of(key, minion)) for key, minion in keys.items()],
            [(row.id, row.boot_id, row.run, row.handshake) for row in elsewhere.values() if row.id in came],
            [(minion, minion in elsewhere) for minion in sorted(came | gone)],
            _has_joined(events),
            withdrawn,
        )

    def _state_of(self, key: Fingerprint, minion: str) -> tuple[str, str]:
        """The present state of a key, and its id: an event may be older than the session that it would end."""
        record = self._store.key(key)
        return (str(record.state), record.id) if record is not None else ("deleted", minion)

    def _hand_over(self, events: Sequence[Event]) -> int:
        """Carry out these events: send new jobs of other masters to the minions of this one, cancel killed jobs, and
        fetch what others need. Returns the number of handled events, because it stops when the lease has to be renewed.
        Jobs that are lost here stay in the store, and minions pull them."""
        until = self._clock.monotonic() + RENEW_S
        for number, event in enumerate(events):
            if number and self._clock.monotonic() >= until:
                return number
            try:
                self._on_event(event)
            except StoreError:
                raise
            # An exception here would stop this master for as long as the event is in the database.
            except RemoteProtocolError as error:
                log.error(  # noqa: TRY400 - a sentence
                    "event %d is passed over, because this master cannot read it (%s): a master of a newer version "
                    "wrote it, or somebody else who can write to the database",
                    event.seq,
                    error,
                )
            except Exception:  # noqa: BLE001 - named supervision point: the next events are handed over
                log_defect(f"event {event.seq}, which is passed over,")
        return len(events)

    def _on_event(self, event: Event) -> None:
        """Carry out one event. Raises StoreError, and RemoteProtocolError if no master of this version wrote the
        event."""
        jid = Jid(str(event.data.get("jid", "")))
        is_turn = event.tag == tag_job_turn(jid) and event.data.get("by") != self._me.name
        if is_turn or event.tag == tag_job_new(jid):
            self._deliver(jid, is_turn=is_turn)
        elif event.tag == tag_job_kill(jid) and self._store.cancelled([jid]):
            self._link.cancel([(minion, part) for part, minion in self._store.open_parts(jid)])
        elif event.tag == tag_master(str(event.data.get("by", "")), MasterEvent.FETCH):
            self._fetch(event.data.get("minions"), event.data.get("what"))
        elif (
            event.tag == tag_master(str(event.data.get("by", "")), MasterEvent.ASKED)
            and event.data["by"] != self._me.name
        ):
            self._tell_last_seen(event)
        else:
            self._contests.on_event(event)

    def _tell_last_seen(self, question: Event) -> None:
        """Tell another master when this one last saw these minions, if it knows any of them."""
        ids = question.data.get("ids")
        asked = [str(minion) for minion in ids] if isinstance(ids, list) else []

        def done(reply: IpcMessage | None) -> None:
            silent_s = last_seen_of(reply["silent_s"], asked) if reply is not None else {}
            if not silent_s:
                return
            data = {"by": self._me.name, "asked": question.seq, "silent_s": silent_s}
            now = self._clock.wall()
            try:
                with self._store.write() as store:
                    store.put_event(tag_master(self._me.name, MasterEvent.SEEN), data, now)
            except StoreError as error:
                log.error("another master is not told when minions were last seen: %s", error)  # noqa: TRY400 - a sentence

        self._link.ask(lambda number: ipc.ask_last_seen(number, asked), done)

    def _fetch(self, minions: object, what: object) -> None:
        if isinstance(minions, list) and what in ("grains", "resources"):
            for minion in minions:
                self._link.fetch(str(minion), str(what))

    def _deliver(self, jid: Jid, *, is_turn: bool) -> None:
        """Send a new job, or with `is_turn` a batch job whose next targets are due."""
        try:
            job = self._store.job(jid)
        except DamagedError as error:
            log.error("%s: it is not delivered", error)  # noqa: TRY400 - the message is complete
            return
        if job is None or (self._is_mine(job) and not is_turn):
            return
        # Read the sessions first: the end of a session does not mark a target undelivered that becomes QUEUED after
        # this.
        rows = self._store.minions({*job.minions, *job.resources})
        here = {row.id for row in rows if row.up and row.master == self._me.name}
        owners = {srn: minion for minion, srns in job.resources.items() for srn in srns}
        queued = [row.id for row in self._store.targets_in(jid, TargetState.QUEUED)]
        send(job, [target for target in queued if owners.get(target, target) in here], self._link, self._proofs)

    def _is_mine(self, job: Job) -> bool:
        """Whether this master published the job. Its MWorkers deliver it then."""
        return job_body.is_signed(self._signer.public, job.body, job.signature)


def run_membership(
    config: MasterConfig,
    open_store: Callable[[], Store],
    link_address: ipc.LinkAddress,
    clock: Clock,
    start: int,
    ready: Callable[[], None],
) -> None:
    """Run the process until SIGTERM. `start` is the number of this start of the master."""
    certificate, seed = certificate_of(config.pki_dir), job_key(config.pki_dir)
    rows = MasterRows(fleets_of(certificate, chain_of(config.pki_dir)))
    signed = signed_as_root(config.pki_dir, config.data_dir, clock.wall())
    drop_to(config.user)
    reactor = Reactor()

    def answered(batch: list[bytes]) -> None:
        for message in map(unpack, batch):
            link.answered(message["n"], message)

    def lost() -> None:
        membership.link_is_lost()

    link = LinkChannel(reactor, link_address, ipc.MEMBERSHIP, answered, lost)
    me = MasterRow(
        name=certificate.name,
        start=start,
        certificate=certificate.encode(),
        address=address_of(config),
        weight=config.master_weight,
        version=__version__,
        state=MasterState.JOINING,
        applied=0,
    )
    store = cast("SharedStore", open_store())
    signer = DirectorySigner(seed, certificate.job_public, rows, lists_masters=config.directory)
    renewals = Renewals(store, clock, certificate, config.data_dir, signed)
    membership = Membership(reactor, store, DatabaseClock(clock, store), link, me, signer, renewals)

    def stop() -> None:
        reactor.call_later(LEAVE_WAIT_S, reactor.stop)
        membership.leave(reactor.stop)

    reactor.on_signal(signal.SIGTERM, stop)
    # Ctrl-C reaches the whole process group; only the supervisor acts on it.
    reactor.on_signal(signal.SIGINT, lambda: None)
    # In a thread, because a name server may take longer to answer than a lease lasts.
    threading.Thread(target=_warn_of_address, args=(config,), daemon=True).start()
    ready()
    reactor.run()
    store.close()


def _warn_of_address(config: MasterConfig) -> None:
    if said := address_problem(config):
        log.warning("%s", said)
