"""The job state machine of the minion: it decides what runs, and performs no IO.

    (unknown) -> RECEIVED* -> STARTED* -> DONE* -> ACKED          * = on disk before the next step
    (unknown) -> REFUSED*     RECEIVED -> REFUSED*      refused, expired or cancelled before it started

    after a restart:   RECEIVED, not expired -> start;  STARTED, its process is alive -> adopt;
                       STARTED, dead, result in the spool -> DONE;
                       STARTED, dead, no result -> interrupted, never run again;
                       DONE with a reason, no result in the spool -> that ending, never run again

    for resources      results are sent in segments as they are made; if the part ends before all have answered, its
                       ending is offered after the master has committed every segment, because it applies to all
                       resources without a return

    disk full          a job whose record cannot be written is REFUSED in memory, like every new job until there is
                       space; no other process knows it, so forgetting it is safe

Rules: a function is entered at most once for a jid, whatever masters and restarts do (G4). Effects are carried out in
order, and a `Write` is on disk before the next effect. The journal is written before the master learns of it. A job
runs only if its signature, audience and age are valid by a master certificate that this side has verified itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field

from saltlite.errors import RemoteProtocolError
from saltlite.minion.protocol.effects import (
    CANCELLED_AHEAD,
    NEVER,
    OWN,
    RESULT_UNSYNCED,
    SIGKILL,
    SIGTERM,
    Effect,
    Forget,
    Go,
    JobEntry,
    JournalStep,
    Kill,
    ReceivedPart,
    RecoveredJob,
    Tell,
    Write,
    decoded_ending,
    disk_full,
    encoded_ending,
    longest_s,
    received,
    result_unwritten,
    without_result,
)
from saltlite.minion.protocol.journal_format import CLOCK_SLACK_S, ENDED
from saltlite.minion.protocol.resend import Offers, PartSegments
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import Jid, jid_after, jid_at, time_of
from saltlite.model.job import TargetState, is_resource_part, is_segment_id, part_of_segment, split_part
from saltlite.wire.certificates import MasterCertificate
from saltlite.wire.directory import Directory
from saltlite.wire.job_body import JobBody, decode_body, verify
from saltlite.wire.limits import PARTS_RUNNING_PER_MINION
from saltlite.wire.merkle import admits, member
from saltlite.wire.messages import REASON_MAX

# -- Slots
#
# Jobs of the minion itself run in a process each. Parts for resources run in the processes of their types, and have
# slots of their own.


QUEUE_MAX = 1000
"""Jobs that wait for a free slot. A further one is refused. Parts for resources count separately."""


@dataclass(slots=True)
class SlotQueue:
    """The jobs of one kind, of which `limit` run at once."""

    limit: int
    waiting: deque[str] = field(default_factory=deque)
    active: set[str] = field(default_factory=set)
    """Jobs that occupy a slot: from the fork to the exit of the process."""

    @property
    def is_full(self) -> bool:
        """Whether all slots are occupied."""
        return len(self.active) >= self.limit

    @property
    def is_crowded(self) -> bool:
        """Whether no further job may wait."""
        return len(self.waiting) >= QUEUE_MAX


class JobSlots:
    """The slots of a minion, of which `processes` are for its own jobs."""

    def __init__(self, processes: int) -> None:
        self._processes = SlotQueue(processes)
        self._parts = SlotQueue(PARTS_RUNNING_PER_MINION)

    def of(self, jid: str) -> SlotQueue:
        """The queue of that job."""
        return self._parts if is_resource_part(jid) else self._processes

    @property
    def active(self) -> frozenset[str]:
        """All jobs with a slot."""
        return frozenset(self._processes.active | self._parts.active)

    @property
    def is_crowded(self) -> bool:
        """Whether no further job of the minion itself may wait."""
        return self._processes.is_crowded

    @property
    def waiting(self) -> list[str]:
        """All jobs that wait for one."""
        return [*self._processes.waiting, *self._parts.waiting]

    def next(self) -> Iterator[str]:
        """The jobs that may start now, in order; give each its slot before you ask for the next."""
        for queue in (self._processes, self._parts):
            while queue.waiting and not queue.is_full:
                yield queue.waiting.popleft()

    def drop(self, jid: str) -> None:
        """Remove a job from its slot or its queue."""
        queue = self.of(jid)
        if jid in queue.waiting:
            queue.waiting.remove(jid)
        queue.active.discard(jid)


# -- Admission: signature, audience and age of a job
#
# The network process of the minion is not trusted: only what the master's job key signed counts.


Believe = Callable[[MasterCertificate, bytes, int], None]
"""Verifies a master's certificate with the encoded successions of fleets, at a time in seconds since 1970, and trusts
its fleet from then on. Raises RemoteProtocolError."""


@dataclass(frozen=True, slots=True)
class MasterTrust:
    """What decides about masters, and remembers them."""

    believe: Believe
    keep: Callable[[Directory], bool] = lambda _known: True
    """Gets each directory of masters that a trusted one has signed; False for one that was signed earlier than the one
    that is kept."""


class TrustedKeys:
    """The job keys of masters whose certificates were verified. Times are wall-clock seconds."""

    def __init__(self, minion: str) -> None:
        self._minion = minion
        self._until: dict[bytes, float] = {}

    def trust(self, job_key: bytes, until_s: float, now_s: float) -> None:
        """Trust that key until its certificate expires, and drop expired keys."""
        self._until = {key: until for key, until in self._until.items() if now_s <= until}
        self._until[job_key] = max(until_s, self._until.get(job_key, 0.0))

    def valid(self, now_s: float) -> list[bytes]:
        """The trusted keys."""
        return [key for key, until in self._until.items() if now_s <= until]

    def check(self, delivery: ReceivedPart, now_s: float) -> tuple[JobBody, bytes]:
        """Verify a delivery; returns the body and the key that signed it.

        A part for resources is signed for exactly these resources. Raises RemoteProtocolError with the reason
        `bad-job-signature`, `wrong-jid`, `bad-part`, `not-in-audience`, `too-old`, or one of `decode_body`.
        """
        signer = next((key for key in self.valid(now_s) if _signed(key, delivery)), None)
        if signer is None:
            raise RemoteProtocolError("bad-job-signature", "no master that this minion trusts signed it")
        body = decode_body(delivery.body)
        jid, number = split_part(delivery.jid)
        if body.jid != jid:
            raise RemoteProtocolError("wrong-jid", "another job was signed")
        if bool(number) != bool(delivery.srns):
            raise RemoteProtocolError("bad-part", "the first part of a job is for the minion, the others for resources")
        if not admits(body.audience, member(self._minion, number, delivery.srns), delivery.proof):
            raise RemoteProtocolError("not-in-audience", "it was signed for other minions")
        if now_s > _ordered_at(body) + body.deliver_ms / 1000 + CLOCK_SLACK_S:
            raise RemoteProtocolError("too-old", "compare the clocks of master and minion")
        return body, signer


def is_job_of(issuer: bytes, delivery: ReceivedPart) -> bool:
    """Whether that issuer signed the delivered job for this jid. The key may have expired: this lets no job run."""
    try:
        return _signed(issuer, delivery) and decode_body(delivery.body).jid == split_part(delivery.jid)[0]
    except RemoteProtocolError:
        return False


def body_of(job: RecoveredJob) -> JobBody | None:
    """The recorded body, None if it was not kept or cannot be read."""
    try:
        return decode_body(job.body) if job.body else None
    except RemoteProtocolError:
        return None


@dataclass(frozen=True, slots=True)
class Capacity:
    """What decides whether a new job is accepted: the floor of the journal, and the free capacity."""

    floor: str
    has_room: bool
    """In the spool."""
    is_crowded: bool
    """Whether the queue is full."""


def refused_at_once(jid: str, deliver_ms: int, capacity: Capacity) -> tuple[TargetState, str] | None:
    """Why a valid job is refused, None if it is accepted. `deliver_ms` is the rest of its delivery time."""
    if jid <= capacity.floor:
        return TargetState.REFUSED, "the job is older than this minion's journal"
    if deliver_ms <= 0:
        return TargetState.EXPIRED, "it could not be delivered in time"
    if not capacity.has_room:
        return TargetState.REFUSED, "the minion's spool of unsent results is full"
    if capacity.is_crowded:
        return TargetState.REFUSED, f"{QUEUE_MAX} jobs wait on the minion already"
    return None


def refused_after_restart(job: RecoveredJob, waited_ms: int, *, is_readable: bool) -> tuple[TargetState, str] | None:
    """Why a job that had not started is not started after a restart, None if it is."""
    if not 0 <= waited_ms <= job.deliver_ms:
        # A clock that was set back or far ahead counts as expired: not to run the job is the safe side.
        return TargetState.EXPIRED, "the minion was down past its delivery time"
    if not is_readable:
        return TargetState.REFUSED, "this version of the minion cannot read the job"
    return None


def _signed(key: bytes, delivery: ReceivedPart) -> bool:
    try:
        verify(key, delivery.body, delivery.signature)
    except RemoteProtocolError:
        return False
    return True


def _ordered_at(body: JobBody) -> float:
    """The time of the job by the master's clock, from its jid."""
    try:
        return time_of(body.jid).timestamp()
    except ValueError:
        raise RemoteProtocolError("bad-job", "its jid is not a time") from None


KILL_GRACE_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""
UNWRITTEN_MAX = 10_000
"""Refusals remembered in memory only, because the disk is full or they are not written. The oldest is dropped first."""
CANCELS_AHEAD_MAX = 1000
"""Jobs that the journal has as cancelled before they arrived. Such a cancel is not signed, so the network process could
forge it; further ones are remembered in memory only."""


class JobMachine:
    """The state machine. `minion` is the id of this minion, `limit` the number of concurrent processes, `longest_s` the
    local run time limit (0 for none). A jid here is the id of a part of a job. No method raises because of input from a
    master or the network."""

    def __init__(self, minion: str, clock: Clock, *, limit: int, longest_s: float) -> None:
        self.minion = minion
        self._clock = clock
        self._slots = JobSlots(limit)
        self._offers = Offers(clock, self._do)
        self._segments = PartSegments(clock, self._offers, self._do)
        self._longest_s = longest_s
        self._keys = TrustedKeys(minion)
        self._entries: dict[str, JobEntry] = {}
        self._floor = ""
        self._quota = True
        self._full = ""
        self._unwritten: dict[str, None] = {}
        self._cancelled_ahead: set[str] = set()
        self._open = False
        self._effects: list[Effect] = []

    # -- what the driver asks

    def _do(self, effect: Effect) -> None:
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """The effects since the last call, to be carried out in this order."""
        effects, self._effects = self._effects, []
        return effects

    def deadline(self) -> float:
        """Monotonic time at which `tick()` is due; infinity for never."""
        moments = [self._entries[jid].expires for jid in self._slots.waiting]
        for entry in (self._entries[jid] for jid in self._slots.active):
            moments.append(min(entry.limit, entry.kill_at))
        return min([*moments, self._offers.next()])

    @property
    def running(self) -> list[str]:
        """The jids with a running process, sorted."""
        return sorted(jid for jid in self._slots.active if self._entries[jid].step is JournalStep.STARTED)

    # -- what happens

    def replay(self, remembered: Iterable[RecoveredJob], spooled: Collection[str], floor: str) -> None:
        """Load the journal and the spool at the start."""
        self._floor = floor
        for segment in filter(is_segment_id, spooled):
            self._segments.found(segment)
        for job in remembered:
            entry = JobEntry(
                job.jid, job.step, job.issuer, srns=job.srns, pid=job.pid, started_wall_ms=job.started_wall_ms
            )
            self._entries[job.jid] = entry
            match job.step:
                case JournalStep.RECEIVED:
                    self._replay_received(entry, job)
                case JournalStep.STARTED:
                    self._replay_started(entry, job, spooled)
                case JournalStep.DONE if job.jid not in spooled:
                    self._replay_done(entry, job.reason)
                case JournalStep.REFUSED:
                    entry.ending, entry.reason = decoded_ending(job.reason)
                    if entry.reason == CANCELLED_AHEAD:
                        self._cancelled_ahead.add(job.jid)

    def open(self) -> None:
        """Start jobs: the grains are available."""
        self._open = True
        self._start_queued()

    def room(self, *, in_spool: bool, full: str = "") -> None:
        """Report whether the spool can take more results, and why the disk is full; new jobs are refused meanwhile."""
        self._quota = in_spool
        self._full = full

    def trust(self, job_key: bytes, until_s: float) -> None:
        """Trust the job key of a verified master certificate until `until_s` (wall clock). Results are offered to this
        master until the next call."""
        self._offers.issuers = frozenset({job_key})
        self._keys.trust(job_key, until_s, self._clock.wall())

    def share(self, job_key: bytes, until_s: float) -> None:
        """Trust the job key of another verified master. It shares its store with the connected one, which gets the
        results of its jobs, too: the issuer may have stored them without an acknowledgement that arrived."""
        self._keys.trust(job_key, until_s, self._clock.wall())
        self._admit(job_key)

    def _admit(self, issuer: bytes) -> None:
        for result in self._offers.admit(issuer):
            self._offer(result)

    def job_keys(self) -> list[bytes]:
        """The job keys of the masters that this minion trusts now."""
        return self._keys.valid(self._clock.wall())

    def connected(self, spooled: Iterable[str]) -> None:
        """Handle a READY session: offer every result without an acknowledgement."""
        self._offers.clear()
        active = self._slots.active
        for jid in (jid for jid in spooled if jid not in active):
            self._offer(jid)

    def received(self, delivery: ReceivedPart) -> None:
        """Handle a delivery, which may be a repeated one."""
        entry = self._entries.get(delivery.jid)
        if entry is not None:
            self._received_again(entry, delivery)
            return
        try:
            body, issuer = self._keys.check(delivery, self._clock.wall())
        except RemoteProtocolError as error:
            # Not written: a job that no master signed must not use up a jid.
            self._tell(delivery.jid, TargetState.REFUSED, f"the job was not accepted: {error}")
            return
        deliver_ms = min(delivery.deliver_ms, body.deliver_ms)
        is_crowded = self._slots.of(delivery.jid).is_crowded
        known = Capacity(self._floor, has_room=self._quota, is_crowded=is_crowded)
        refusal = refused_at_once(delivery.jid, deliver_ms, known)
        if refusal is not None:
            self._refuse(delivery.jid, *refusal)
            return
        if self._full:
            self._refuse_unwritten(delivery.jid, TargetState.REFUSED, disk_full(self._full))
            return
        self._accept(delivery, body, issuer, deliver_ms)

    def _accept(self, delivery: ReceivedPart, body: JobBody, issuer: bytes, deliver_ms: int) -> None:
        expires = self._clock.monotonic() + deliver_ms / 1000
        entry = JobEntry(delivery.jid, JournalStep.RECEIVED, issuer, body, tuple(delivery.srns), expires=expires)
        self._entries[delivery.jid] = entry
        self._effects.append(received(delivery, issuer, deliver_ms, wall_ms=int(self._clock.wall() * 1000)))
        queue = self._slots.of(delivery.jid)
        if self._open and not queue.is_full:
            self._fork(entry, body)
        else:
            queue.waiting.append(delivery.jid)
            self._tell(delivery.jid, TargetState.RECEIVED)

    # -- jobs that the minion begins by itself

    def knows(self, jid: str) -> bool:
        """Whether a new job cannot have that jid."""
        return jid in self._entries or jid <= self._floor

    def free_jid(self, jid: Jid) -> Jid:
        """The first jid from `jid` on that a new job can have."""
        if jid <= self._floor:
            # The floor is a part of a job that was forgotten.
            jid = jid_after(split_part(self._floor)[0])
        while self.knows(jid):
            jid = jid_after(jid)
        return jid

    def refusal(self) -> str:
        """Why no further job can begin now; "" if one can."""
        if self._full:
            return disk_full(self._full)
        if not self._quota:
            return "the minion's spool of unsent results is full"
        return f"{QUEUE_MAX} jobs wait on the minion already" if self._slots.is_crowded else ""

    def begin(self, body: JobBody, encoded: bytes, wait_ms: int) -> None:
        """Begin a job of the minion itself, which no master has signed. It may wait `wait_ms` for its start."""
        self._accept(ReceivedPart(body.jid, encoded, b"", (), wait_ms), body, OWN, wait_ms)

    def offer_again(self, jid: str) -> None:
        """Offer a result, or report a refusal, that the master could not take before."""
        entry = self._entries.get(jid)
        if entry is None or entry.step is JournalStep.DONE:
            self._offer(jid)
        elif entry.step is JournalStep.REFUSED:
            self._report(entry)

    def forked(self, jid: str, pid: int, ticks: int) -> None:
        """Note the process of a job, which waits; `ticks` is its start time, which no later process shares."""
        entry = self._entries[jid]
        if entry.ending is not None:
            # Cancelled during the fork: the process waits, and never enters the function.
            entry.pid = pid
            self._effects.append(entry.end(SIGKILL, late=False))
            self._not_started(jid, entry.ending, entry.reason)
            return
        entry.limit = self._clock.monotonic() + longest_s(entry.body, self._longest_s)
        entry.step, entry.pid, entry.body = JournalStep.STARTED, pid, None
        entry.started_wall_ms = int(self._clock.wall() * 1000)
        fields = {"pid": pid, "ticks": ticks, "wall_ms": entry.started_wall_ms}
        self._effects += [Write(JournalStep.STARTED, jid, fields), Go(jid)]
        self._tell(jid, TargetState.RUNNING)

    def not_forked(self, jid: str, reason: str) -> None:
        """Refuse a job, because the machine has no room for another process."""
        entry = self._entries[jid]
        self._not_started(jid, entry.ending or TargetState.REFUSED, entry.reason or reason)

    def unwritten(self, step: JournalStep, jid: str, why: str) -> None:
        """Handle a RECEIVED or STARTED record that the disk did not take: the job will not run.

        `why` is a phrase such as "No space left on device". Check `refused` before you carry out later effects of the
        job. Records of other steps may be missing; their content is found out again.
        """
        entry = self._entries.get(jid)
        if entry is None or entry.step not in (JournalStep.RECEIVED, JournalStep.STARTED):
            return
        self._slots.drop(jid)
        if entry.step is JournalStep.STARTED:
            # The process waits, and never enters the function.
            self._effects.append(entry.end(SIGKILL, late=False))
        self._refuse_unwritten(jid, TargetState.REFUSED, disk_full(why))
        if step is JournalStep.STARTED:
            self._effects.append(
                Write(JournalStep.REFUSED, jid, {"reason": encoded_ending(TargetState.REFUSED, disk_full(why))})
            )
        self._start_queued()

    def refused(self, jid: str) -> bool:
        """Whether this job is refused for good: it gets no process and no RUNNING state."""
        entry = self._entries.get(jid)
        return entry is not None and entry.step is JournalStep.REFUSED

    def exited(self, jid: str, *, left_result: bool, how: str, unwritten: str = "", is_synced: bool = True) -> None:
        """Handle the exit of a job's process; `how` is a phrase such as "exit status 1".

        `unwritten` says why the disk did not take its result; with `left_result` the result is in memory for the life
        of this job server. Unless `is_synced`, a power failure can still take the result from the spool.
        """
        entry = self._entries.get(jid)
        if entry is None or entry.step is not JournalStep.STARTED:
            return
        self._slots.drop(jid)
        why = result_unwritten(unwritten) if unwritten else without_result(how)
        noted = ""
        if not left_result:
            noted = self._keep(entry, why)
        elif unwritten:
            noted = encoded_ending(TargetState.INTERRUPTED, why)
        elif not is_synced:
            noted = encoded_ending(TargetState.INTERRUPTED, RESULT_UNSYNCED)
        if entry.ending is not None:
            self._effects.append(Kill(jid, entry.pid, SIGKILL))
        entry.step = JournalStep.DONE
        # With the reason, so that a result which never reaches the disk is not taken for a delivered one.
        self._effects.append(Write(JournalStep.DONE, jid, {"reason": noted} if noted else {}, lazy=True))
        self._offer(jid)
        self._start_queued()

    def produced(self, segment: str) -> None:
        """Handle a new segment in the spool."""
        if self._segments.found(segment):
            self._offer(segment)

    def part_ended(self, part: str, how: str) -> None:
        """Handle the end of a part for resources: all answered, or its process ended before, and `how` is a phrase for
        it. Each segment was `produced` before."""
        entry = self._entries.get(part)
        if entry is None or entry.step is not JournalStep.STARTED:
            return
        self._slots.drop(part)
        self._segments.ended(entry, how)
        self._start_queued()

    def unreadable(self, segment: str) -> None:
        """Handle a segment that the disk lost: the answers in it are unknown. A lost result of the minion itself is
        reported when the master asks again."""
        self._segments.unreadable(segment, self._entries.get(part_of_segment(segment)))

    def acknowledged(self, jid: str) -> None:
        """Handle the master's commit of a return or of a segment."""
        entry = self._entries.get(part_of_segment(jid))
        if is_segment_id(jid):
            self._segments.acknowledged(jid, entry)
            return
        if entry is not None and entry.step in (JournalStep.RECEIVED, JournalStep.STARTED):
            return
        self._offers.drop(jid)
        if entry is not None and entry.step is JournalStep.DONE:
            entry.step = JournalStep.ACKED
            self._effects.append(Write(JournalStep.ACKED, jid, lazy=True))
        self._effects.append(Forget(jid))

    def cancel(self, jid: str) -> None:
        """Cancel a job for an operator. If it has not arrived yet, it will not run."""
        entry = self._entries.get(jid)
        if entry is None:
            self._cancel_ahead(jid)
        elif entry.step is JournalStep.STARTED:
            self._end(entry, TargetState.CANCELLED)
        elif jid in self._slots.active:
            entry.ending, entry.reason = TargetState.CANCELLED, "cancelled before it started"
        elif entry.step is JournalStep.RECEIVED:
            self._slots.drop(jid)
            self._refuse(jid, TargetState.CANCELLED, "cancelled before it started")
        else:
            self._report(entry)

    def forgotten(self, floor: str) -> None:
        """Handle a compaction of the journal: jobs up to this jid are forgotten, and refused if they arrive again."""
        self._floor = max(self._floor, floor)
        gone = [entry.jid for entry in self._entries.values() if entry.jid <= floor and entry.step in ENDED]
        for jid in gone:
            del self._entries[jid]
        self._cancelled_ahead.difference_update(gone)

    def tick(self) -> None:
        """Handle time: end what has run too long, drop what waited too long, offer again."""
        now = self._clock.monotonic()
        for jid in sorted(self._slots.active):
            entry = self._entries[jid]
            if entry.ending is None and now >= entry.limit:
                self._end(entry, TargetState.TIMED_OUT)
            elif now >= entry.kill_at:
                entry.kill_at = NEVER
                self._effects.append(entry.end(SIGKILL, late=False))
        for jid in [jid for jid in self._slots.waiting if now >= self._entries[jid].expires]:
            self._slots.drop(jid)
            self._refuse(jid, TargetState.EXPIRED, "it waited too long on the minion for a free place")
        for result in self._offers.due():
            self._offer(result)

    # -- inside: what is reported

    def _tell(self, jid: str, state: TargetState, reason: str = "") -> None:
        self._effects.append(Tell(jid, state, reason[:REASON_MAX]))

    def _offer(self, result: str) -> None:
        self._offers.offer(result, self._entries.get(part_of_segment(result)))

    def _refuse(self, jid: str, state: TargetState, reason: str) -> None:
        if jid > self._floor or jid in self._entries:
            # An unknown job at or below the floor is refused without a record.
            self._entries[jid] = JobEntry(jid, JournalStep.REFUSED, ending=state, reason=reason)
            self._effects.append(Write(JournalStep.REFUSED, jid, {"reason": encoded_ending(state, reason)}))
        self._tell(jid, state, reason)

    def _cancel_ahead(self, jid: str) -> None:
        # A jid of the future is never written: after the journal forgets it, real jobs would count as older.
        latest = jid_at(int((self._clock.wall() + CLOCK_SLACK_S) * 1_000_000))
        if jid > latest or len(self._cancelled_ahead) >= CANCELS_AHEAD_MAX:
            self._refuse_unwritten(jid, TargetState.CANCELLED, CANCELLED_AHEAD)
            return
        self._refuse(jid, TargetState.CANCELLED, CANCELLED_AHEAD)
        if jid in self._entries:
            self._cancelled_ahead.add(jid)

    def _refuse_unwritten(self, jid: str, state: TargetState, reason: str) -> None:
        self._entries[jid] = JobEntry(jid, JournalStep.REFUSED, ending=state, reason=reason)
        self._unwritten[jid] = None
        if len(self._unwritten) > UNWRITTEN_MAX:
            oldest = next(iter(self._unwritten))
            del self._unwritten[oldest]
            self._entries.pop(oldest, None)
        self._tell(jid, state, reason)

    def _received_again(self, entry: JobEntry, delivery: ReceivedPart) -> None:
        if not self._offers.knows(entry.issuer):
            if not is_job_of(entry.issuer, delivery):
                # Two masters made the same jid in the same microsecond. The state of one is unrelated to the other.
                reason = "another master gave this job id to another job: publish again"
                self._tell(entry.jid, TargetState.REFUSED, reason)
                return
            # It has the job from a store that it shares with the issuer, whose certificate may be an old one by now.
            self._admit(entry.issuer)
        if entry.step is JournalStep.DONE and self._segments.any_offered(entry.jid):
            # Its result is in flight, but the answer must be immediate: until then this job has a place in the master's
            # window, and jobs behind it wait.
            self._tell(entry.jid, TargetState.RUNNING)
        self._report(entry)

    def _report(self, entry: JobEntry) -> None:
        match entry.step:
            case JournalStep.RECEIVED:
                self._tell(entry.jid, TargetState.RECEIVED)
            case JournalStep.STARTED:
                self._tell(entry.jid, TargetState.RUNNING)
            case JournalStep.DONE:
                # Only what is not in flight already: two transfers of one result would collide.
                for jid in self._segments.of(entry.jid) or [entry.jid]:
                    if jid not in self._offers:
                        self._offer(jid)
            case JournalStep.REFUSED:
                self._tell(entry.jid, entry.ending or TargetState.REFUSED, entry.reason)
            case JournalStep.ACKED:
                self._tell(entry.jid, TargetState.REFUSED, "it ran before, and its result was handed over")

    # -- inside: processes

    def _fork(self, entry: JobEntry, body: JobBody) -> None:
        self._slots.of(entry.jid).active.add(entry.jid)
        self._effects.append(entry.fork(body))

    def _start_queued(self) -> None:
        for jid in self._slots.next() if self._open else ():
            entry = self._entries[jid]
            if entry.body is not None:
                self._fork(entry, entry.body)

    def _not_started(self, jid: str, state: TargetState, reason: str) -> None:
        self._slots.drop(jid)
        self._refuse(jid, state, reason)
        self._start_queued()

    def _end(self, entry: JobEntry, state: TargetState) -> None:
        if entry.ending is None:
            entry.ending = state
            entry.limit = NEVER
            if not entry.is_for_resources:
                entry.kill_at = self._clock.monotonic() + KILL_GRACE_S
            self._effects.append(entry.end(SIGTERM, late=state is TargetState.TIMED_OUT))

    def _keep(self, entry: JobEntry, why: str) -> str:
        """Store an ending for a job without a result; returns its reason for the journal."""
        kept = entry.keep(why, int(self._clock.wall() * 1000))
        self._effects.append(kept)
        return encoded_ending(kept.state, kept.reason)

    # -- inside: after a restart

    def _replay_received(self, entry: JobEntry, job: RecoveredJob) -> None:
        waited_ms = int(self._clock.wall() * 1000) - job.received_wall_ms
        entry.body = body_of(job)
        refusal = refused_after_restart(job, waited_ms, is_readable=entry.body is not None)
        if refusal is not None:
            self._refuse(job.jid, *refusal)
        else:
            entry.expires = self._clock.monotonic() + (job.deliver_ms - waited_ms) / 1000
            self._slots.of(job.jid).waiting.append(job.jid)

    def _replay_started(self, entry: JobEntry, job: RecoveredJob, spooled: Collection[str]) -> None:
        if job.alive:
            self._slots.of(job.jid).active.add(job.jid)
            ran_s = max(0.0, self._clock.wall() - job.started_wall_ms / 1000)
            entry.limit = self._clock.monotonic() + longest_s(body_of(job), self._longest_s) - ran_s
            return
        noted = ""
        if entry.is_for_resources and job.jid not in spooled:
            self._segments.ended(entry, "the minion was restarted while it ran")
            return
        if job.jid not in spooled:
            noted = self._keep(entry, without_result("while the minion was down"))
        entry.step = JournalStep.DONE
        self._effects.append(Write(JournalStep.DONE, job.jid, {"reason": noted} if noted else {}))

    def _replay_done(self, entry: JobEntry, reason: str) -> None:
        """The job has ended, and the spool has no result under its own id."""
        if self._segments.of(entry.jid):
            entry.owed = reason
        elif reason:
            entry.ending, why = decoded_ending(reason)
            self._keep(entry, why)
        else:
            # It was delivered; the record of that needed no sync and was lost.
            entry.step = JournalStep.ACKED
