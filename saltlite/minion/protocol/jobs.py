"""The minion's jobs, as a state machine without a process or a file.

    (unknown) -> RECEIVED* -> STARTED* -> DONE* -> ACKED          * = on disk before the next step
    (unknown) -> REFUSED*     RECEIVED -> REFUSED*      refused, expired or cancelled before it started

    after a restart:   RECEIVED, not expired -> start;  STARTED, its process lives -> adopt;
                       STARTED, dead, result in the spool -> DONE;
                       STARTED, dead, none -> interrupted, never again;
                       DONE with a reason, no result in the spool -> that ending, never again

    for resources      what they answer comes in segments, offered as they are made; when the part ends before all
                       have answered, its own ending is offered after the master has committed every segment, for it
                       holds for all that have not returned

    the disk is full   a job whose record cannot be written is REFUSED in memory, and so is every new one until
                       there is room; nobody was told anything else of it, so forgetting that is no lie

Rules of this file: a function is entered at most once a jid, whatever masters and restarts do (G4); the
effects are carried out in order, and a `Write` is on disk before the effect after it; what is told to a
master was written first. A job runs only if its signature, its audience and its freshness were checked
here, on the side that has the rights, by a master certificate that this side verified itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from saltlite.errors import RemoteProtocolError
from saltlite.minion.protocol.check import Standing, TrustedKeys, body_of, refused_after_restart, refused_at_once
from saltlite.minion.protocol.effects import Delivery, Effect, Forget, Go, Kill, Remembered, Tell, Write, received
from saltlite.minion.protocol.endings import (
    CANCELLED_AHEAD,
    disk_full,
    read_spelled,
    result_unwritten,
    spelled,
    without_result,
)
from saltlite.minion.protocol.entry import NEVER, SIGKILL, SIGTERM, Entry, longest_s
from saltlite.minion.protocol.journal_rules import CLOCK_SLACK_S, ENDED
from saltlite.minion.protocol.offers import Offers
from saltlite.minion.protocol.ports import Step
from saltlite.minion.protocol.segments import Segments
from saltlite.minion.protocol.slots import JobSlots
from saltlite.model.clock import Clock
from saltlite.model.ids import jid_at
from saltlite.model.job import TargetState, is_segment_id, part_of_segment
from saltlite.wire.job_body import JobBody
from saltlite.wire.messages import REASON_MAX

KILL_GRACE_S = 2.0
"""Between the signal that asks a job to end and the one that ends it."""
UNWRITTEN_MAX = 10_000
"""Refusals that are remembered in memory only, as the disk is full or they are not for it. The oldest goes first."""
CANCELS_AHEAD_MAX = 1000
"""Jobs that the journal has as cancelled before they arrived. Such a cancel is not signed, so the process that
reads
the network could make it up; further ones are remembered in memory only."""


class JobMachine:
    """The machine. `minion` is this minion's id, `limit` how many processes run at once, `longest_s` the local run
    time cap (0 for none). A jid here is the id of a part of a job. No method raises for anything that a master or the
    network sent.
    """

    def __init__(self, minion: str, clock: Clock, *, limit: int, longest_s: float) -> None:
        self.minion = minion
        self._clock = clock
        self._places = JobSlots(limit)
        self._offers = Offers(clock, self._do)
        self._segments = Segments(clock, self._offers, self._do)
        self._longest_s = longest_s
        self._keys = TrustedKeys(minion)
        self._entries: dict[str, Entry] = {}
        self._floor = ""
        self._room = True
        self._full = ""
        self._unwritten: dict[str, None] = {}
        self._cancelled_ahead: set[str] = set()
        self._open = False
        self._effects: list[Effect] = []

    # -- what the driver asks

    def _do(self, effect: Effect) -> None:
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """The effects since the last call, in the order in which they must be carried out."""
        effects, self._effects = self._effects, []
        return effects

    def deadline(self) -> float:
        """Monotonic time at which `tick()` has something to do; infinity for never."""
        moments = [self._entries[jid].expires for jid in self._places.waiting]
        for entry in (self._entries[jid] for jid in self._places.active):
            moments.append(min(entry.limit, entry.kill_at))
        return min([*moments, self._offers.next()])

    @property
    def running(self) -> list[str]:
        """The jids whose process was started and has not ended, sorted."""
        return sorted(jid for jid in self._places.active if self._entries[jid].step is Step.STARTED)

    # -- what happens

    def replay(self, remembered: Iterable[Remembered], spooled: Collection[str], floor: str) -> None:
        """The journal and the spool as they were found at the start."""
        self._floor = floor
        for segment in filter(is_segment_id, spooled):
            self._segments.found(segment)
        for job in remembered:
            entry = Entry(
                job.jid, job.step, job.issuer, srns=job.srns, pid=job.pid, started_wall_ms=job.started_wall_ms
            )
            self._entries[job.jid] = entry
            match job.step:
                case Step.RECEIVED:
                    self._replay_received(entry, job)
                case Step.STARTED:
                    self._replay_started(entry, job, spooled)
                case Step.DONE if job.jid not in spooled:
                    self._replay_done(entry, job.reason)
                case Step.REFUSED:
                    entry.ending, entry.reason = read_spelled(job.reason)
                    if entry.reason == CANCELLED_AHEAD:
                        self._cancelled_ahead.add(job.jid)

    def open(self) -> None:
        """The grains are there: jobs may start."""
        self._open = True
        self._start_queued()

    def room(self, *, in_spool: bool, full: str = "") -> None:
        """Whether the spool can take more results, and why the disk cannot; while it is so, new jobs are refused."""
        self._room = in_spool
        self._full = full

    def trust(self, job_key: bytes, until_s: float) -> None:
        """A master certificate was verified against the pinned fleet: jobs signed by its key may run.

        `until_s` is the certificate's last second, wall clock: after it the key counts no more. Until the next call
        it is this master that results are offered to.
        """
        self._offers.master = job_key
        self._keys.trust(job_key, until_s, self._clock.wall())

    def job_keys(self) -> list[bytes]:
        """The job keys of the masters that this minion trusts now."""
        return self._keys.valid(self._clock.wall())

    def connected(self, spooled: Iterable[str]) -> None:
        """The minion is READY: offer every result that the master has not acknowledged."""
        self._offers.clear()
        active = self._places.active
        for jid in (jid for jid in spooled if jid not in active):
            self._offer(jid)

    def received(self, parcel: Delivery) -> None:
        """A job arrived, for the first time or again."""
        entry = self._entries.get(parcel.jid)
        if entry is not None:
            self._received_again(entry)
            return
        try:
            body, issuer = self._keys.check(parcel, self._clock.wall())
        except RemoteProtocolError as error:
            # Not journaled: what was not signed by a master must not be able to use a jid up.
            self._tell(parcel.jid, TargetState.REFUSED, f"the job was not accepted: {error}")
            return
        deliver_ms = min(parcel.deliver_ms, body.deliver_ms)
        is_crowded = self._places.of(parcel.jid).is_crowded
        known = Standing(self._floor, has_room=self._room, is_crowded=is_crowded)
        refusal = refused_at_once(parcel.jid, deliver_ms, known)
        if refusal is not None:
            self._refuse(parcel.jid, *refusal)
            return
        if self._full:
            self._refuse_unwritten(parcel.jid, TargetState.REFUSED, disk_full(self._full))
            return
        expires = self._clock.monotonic() + deliver_ms / 1000
        entry = Entry(parcel.jid, Step.RECEIVED, issuer, body, tuple(parcel.srns), expires=expires)
        self._entries[parcel.jid] = entry
        self._effects.append(received(parcel, issuer, deliver_ms, wall_ms=int(self._clock.wall() * 1000)))
        lane = self._places.of(parcel.jid)
        if self._open and not lane.is_full:
            self._fork(entry, body)
        else:
            lane.waiting.append(parcel.jid)
            self._tell(parcel.jid, TargetState.RECEIVED)

    def forked(self, jid: str, pid: int, ticks: int) -> None:
        """The job's process waits under this pid; `ticks` is its start time, which no later process shares."""
        entry = self._entries[jid]
        if entry.ending is not None:
            # Cancelled while it was being made: it waits, and is never let into the function.
            entry.pid = pid
            self._effects.append(entry.end(SIGKILL, late=False))
            self._not_started(jid, entry.ending, entry.reason)
            return
        entry.limit = self._clock.monotonic() + longest_s(entry.body, self._longest_s)
        entry.step, entry.pid, entry.body = Step.STARTED, pid, None
        entry.started_wall_ms = int(self._clock.wall() * 1000)
        fields = {"pid": pid, "ticks": ticks, "wall_ms": entry.started_wall_ms}
        self._effects += [Write(Step.STARTED, jid, fields), Go(jid)]
        self._tell(jid, TargetState.RUNNING)

    def not_forked(self, jid: str, reason: str) -> None:
        """The machine has no room for another process: the job was not run, and says so."""
        entry = self._entries[jid]
        self._not_started(jid, entry.ending or TargetState.REFUSED, entry.reason or reason)

    def unwritten(self, step: Step, jid: str, why: str) -> None:
        """The disk had no room for a record that says the job was received, or started: it will not run.

        `why` is a phrase such as "No space left on device". Ask `refused` before you carry out what stands behind
        the record. Other records may be missing: what they say is found out again.
        """
        entry = self._entries.get(jid)
        if entry is None or entry.step not in (Step.RECEIVED, Step.STARTED):
            return
        self._places.drop(jid)
        if entry.step is Step.STARTED:
            # It waits, and is never let into the function.
            self._effects.append(entry.end(SIGKILL, late=False))
        self._refuse_unwritten(jid, TargetState.REFUSED, disk_full(why))
        if step is Step.STARTED:
            self._effects.append(Write(Step.REFUSED, jid, {"reason": spelled(TargetState.REFUSED, disk_full(why))}))
        self._start_queued()

    def refused(self, jid: str) -> bool:
        """Whether this job is refused for good: neither a process nor a word that it runs may follow."""
        entry = self._entries.get(jid)
        return entry is not None and entry.step is Step.REFUSED

    def exited(self, jid: str, *, left_result: bool, how: str, unwritten: str = "") -> None:
        """The job's process ended; `how` is a phrase such as "exit status 1".

        `unwritten` says why the disk did not take its result; with `left_result` it is in memory, for as long as
        this job server lives.
        """
        entry = self._entries.get(jid)
        if entry is None or entry.step is not Step.STARTED:
            return
        self._places.drop(jid)
        why = result_unwritten(unwritten) if unwritten else without_result(how)
        noted = spelled(TargetState.INTERRUPTED, why) if unwritten else ""
        if not left_result:
            noted = self._keep(entry, why)
        if entry.ending is not None:
            self._effects.append(Kill(jid, entry.pid, SIGKILL))
        entry.step = Step.DONE
        # With the reason, so that a result which never reaches the disk is not taken for one that was handed over.
        self._effects.append(Write(Step.DONE, jid, {"reason": noted} if noted else {}, lazy=True))
        self._offer(jid)
        self._start_queued()

    def produced(self, segment: str) -> None:
        """What some resources of a part have answered is in the spool, under this id."""
        if self._segments.found(segment):
            self._offer(segment)

    def part_ended(self, part: str, how: str) -> None:
        """Every resource of the part has answered; or, as a phrase in `how` says, its process ended before that.

        All that they answered was `produced`.
        """
        entry = self._entries.get(part)
        if entry is None or entry.step is not Step.STARTED:
            return
        self._places.drop(part)
        self._segments.ended(entry, how)
        self._start_queued()

    def unreadable(self, segment: str) -> None:
        """The disk lost a segment: of those whose answers were in it nothing is known.

        Of the result of a minion itself the master is told when it asks next.
        """
        self._segments.unreadable(segment, self._entries.get(part_of_segment(segment)))

    def acknowledged(self, jid: str) -> None:
        """The master has committed the return, or the segment of one."""
        entry = self._entries.get(part_of_segment(jid))
        if is_segment_id(jid):
            self._segments.acknowledged(jid, entry)
            return
        if entry is not None and entry.step in (Step.RECEIVED, Step.STARTED):
            return
        self._offers.drop(jid)
        if entry is not None and entry.step is Step.DONE:
            entry.step = Step.ACKED
            self._effects.append(Write(Step.ACKED, jid, lazy=True))
        self._effects.append(Forget(jid))

    def cancel(self, jid: str) -> None:
        """An operator ends the job. One that has not arrived will not run when it does."""
        entry = self._entries.get(jid)
        if entry is None:
            self._cancel_ahead(jid)
        elif entry.step is Step.STARTED:
            self._end(entry, TargetState.CANCELLED)
        elif jid in self._places.active:
            entry.ending, entry.reason = TargetState.CANCELLED, "cancelled before it started"
        elif entry.step is Step.RECEIVED:
            self._places.drop(jid)
            self._refuse(jid, TargetState.CANCELLED, "cancelled before it started")
        else:
            self._report(entry)

    def forgotten(self, floor: str) -> None:
        """The journal was compacted: what ended up to this jid is forgotten, and refused if it comes again."""
        self._floor = max(self._floor, floor)
        gone = [entry.jid for entry in self._entries.values() if entry.jid <= floor and entry.step in ENDED]
        for jid in gone:
            del self._entries[jid]
        self._cancelled_ahead.difference_update(gone)

    def tick(self) -> None:
        """Time has passed: end what has run too long, drop what waited too long, offer again."""
        now = self._clock.monotonic()
        for jid in sorted(self._places.active):
            entry = self._entries[jid]
            if entry.ending is None and now >= entry.limit:
                self._end(entry, TargetState.TIMED_OUT)
            elif now >= entry.kill_at:
                entry.kill_at = NEVER
                self._effects.append(entry.end(SIGKILL, late=False))
        for jid in [jid for jid in self._places.waiting if now >= self._entries[jid].expires]:
            self._places.drop(jid)
            self._refuse(jid, TargetState.EXPIRED, "it waited too long on the minion for a free place")
        for result in self._offers.due():
            self._offer(result)

    # -- inside: what is told

    def _tell(self, jid: str, state: TargetState, reason: str = "") -> None:
        self._effects.append(Tell(jid, state, reason[:REASON_MAX]))

    def _offer(self, result: str) -> None:
        self._offers.offer(result, self._entries.get(part_of_segment(result)))

    def _refuse(self, jid: str, state: TargetState, reason: str) -> None:
        if jid > self._floor or jid in self._entries:
            # An unknown job at or below the floor is refused without being remembered.
            self._entries[jid] = Entry(jid, Step.REFUSED, ending=state, reason=reason)
            self._effects.append(Write(Step.REFUSED, jid, {"reason": spelled(state, reason)}))
        self._tell(jid, state, reason)

    def _cancel_ahead(self, jid: str) -> None:
        # One of the future is never written: once the journal forgets it, real jobs would count as older.
        latest = jid_at(int((self._clock.wall() + CLOCK_SLACK_S) * 1_000_000))
        if jid > latest or len(self._cancelled_ahead) >= CANCELS_AHEAD_MAX:
            self._refuse_unwritten(jid, TargetState.CANCELLED, CANCELLED_AHEAD)
            return
        self._refuse(jid, TargetState.CANCELLED, CANCELLED_AHEAD)
        if jid in self._entries:
            self._cancelled_ahead.add(jid)

    def _refuse_unwritten(self, jid: str, state: TargetState, reason: str) -> None:
        self._entries[jid] = Entry(jid, Step.REFUSED, ending=state, reason=reason)
        self._unwritten[jid] = None
        if len(self._unwritten) > UNWRITTEN_MAX:
            oldest = next(iter(self._unwritten))
            del self._unwritten[oldest]
            self._entries.pop(oldest, None)
        self._tell(jid, state, reason)

    def _received_again(self, entry: Entry) -> None:
        if entry.issuer not in (b"", self._offers.master):
            # Two masters made the same jid in the same microsecond. What is known of one says nothing of the other.
            self._tell(entry.jid, TargetState.REFUSED, "another master gave this job id to another job: publish again")
            return
        if entry.step is Step.DONE and self._segments.any_offered(entry.jid):
            # Its result is on its way, but an answer there must be now: until then this job has a place in the
            # master's window, and jobs behind it wait.
            self._tell(entry.jid, TargetState.RUNNING)
        self._report(entry)

    def _report(self, entry: Entry) -> None:
        match entry.step:
            case Step.RECEIVED:
                self._tell(entry.jid, TargetState.RECEIVED)
            case Step.STARTED:
                self._tell(entry.jid, TargetState.RUNNING)
            case Step.DONE:
                # Only what is not on its way already: two transfers of one result would meet each other.
                for jid in self._segments.of(entry.jid) or [entry.jid]:
                    if jid not in self._offers:
                        self._offer(jid)
            case Step.REFUSED:
                self._tell(entry.jid, entry.ending or TargetState.REFUSED, entry.reason)
            case Step.ACKED:
                self._tell(entry.jid, TargetState.REFUSED, "it ran before, and its result was handed over")

    # -- inside: processes

    def _fork(self, entry: Entry, body: JobBody) -> None:
        self._places.of(entry.jid).active.add(entry.jid)
        self._effects.append(entry.fork(body))

    def _start_queued(self) -> None:
        for jid in self._places.next() if self._open else ():
            entry = self._entries[jid]
            if entry.body is not None:
                self._fork(entry, entry.body)

    def _not_started(self, jid: str, state: TargetState, reason: str) -> None:
        self._places.drop(jid)
        self._refuse(jid, state, reason)
        self._start_queued()

    def _end(self, entry: Entry, state: TargetState) -> None:
        if entry.ending is None:
            entry.ending = state
            entry.limit = NEVER
            if not entry.is_for_resources:
                entry.kill_at = self._clock.monotonic() + KILL_GRACE_S
            self._effects.append(entry.end(SIGTERM, late=state is TargetState.TIMED_OUT))

    def _keep(self, entry: Entry, why: str) -> str:
        """Have a result kept for a job that left none; what the journal says of it."""
        kept = entry.keep(why, int(self._clock.wall() * 1000))
        self._effects.append(kept)
        return spelled(kept.state, kept.reason)

    # -- inside: after a restart

    def _replay_received(self, entry: Entry, job: Remembered) -> None:
        waited_ms = int(self._clock.wall() * 1000) - job.received_wall_ms
        entry.body = body_of(job)
        refusal = refused_after_restart(job, waited_ms, is_readable=entry.body is not None)
        if refusal is not None:
            self._refuse(job.jid, *refusal)
        else:
            entry.expires = self._clock.monotonic() + (job.deliver_ms - waited_ms) / 1000
            self._places.of(job.jid).waiting.append(job.jid)

    def _replay_started(self, entry: Entry, job: Remembered, spooled: Collection[str]) -> None:
        if job.alive:
            self._places.of(job.jid).active.add(job.jid)
            ran_s = max(0.0, self._clock.wall() - job.started_wall_ms / 1000)
            entry.limit = self._clock.monotonic() + longest_s(body_of(job), self._longest_s) - ran_s
            return
        noted = ""
        if entry.is_for_resources and job.jid not in spooled:
            self._segments.ended(entry, "the minion was restarted while it ran")
            return
        if job.jid not in spooled:
            noted = self._keep(entry, without_result("while the minion was down"))
        entry.step = Step.DONE
        self._effects.append(Write(Step.DONE, job.jid, {"reason": noted} if noted else {}))

    def _replay_done(self, entry: Entry, reason: str) -> None:
        """It has ended, and the spool has no result under its own id."""
        if self._segments.of(entry.jid):
            entry.owed = reason
        elif reason:
            entry.ending, why = read_spelled(reason)
            self._keep(entry, why)
        else:
            # It was handed over; the record of that needed no sync and was lost.
            entry.step = Step.ACKED
