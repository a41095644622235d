"""Calls of functions on resources: the thread pool, delays, one call, and calls without a daemon (`saltlite call`).

Calls that take no time are fastest in one thread; calls that wait for their device need many. The pool starts with one
thread and doubles whenever all threads have been in the same call for STUCK_S. A thread whose call was given up is
replaced.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.loader.call import ERROR_OUTPUTTER, Call, Outcome, call_each
from saltlite.loader.encode import encode_return
from saltlite.loader.executors import Chain
from saltlite.loader.loader import Loader
from saltlite.loader.resource_types import ResourceType, TypeUnavailableError, find_type, load_type, shipped_type
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.resources.device_queue import AbandonedCall, DeviceCall, DeviceQueue
from saltlite.minion.resources.discovery import Declared, good_ids
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import PartId, TargetId, resource_index_srn_key
from saltlite.model.job import TargetState
from saltlite.platform.logs import log_context
from saltlite.wire.messages import REASON_MAX, SegmentRow

log = logging.getLogger(__name__)

Result = TypeVar("Result")

STUCK_S = 0.002
"""A call that lasts longer is waiting for its device."""


class Calls(Generic[Result]):
    """The thread pool. `run` makes one call and never raises; `answered` gets its result, unless the call was given up.

    `failed` tells from an answer whether the device may be dead. `given_up` gets every call without an answer. All are
    called from several threads at once. `now` is the monotonic clock of `devices`, in seconds.
    """

    def __init__(
        self,
        devices: DeviceQueue,
        run: Callable[[DeviceCall], Result],
        answered: Callable[[DeviceCall, Result], None],
        given_up: Callable[[AbandonedCall], None],
        *,
        failed: Callable[[Result], bool],
        now: Callable[[], float],
    ) -> None:
        self._devices = devices
        self._run = run
        self._answered = answered
        self._given_up = given_up
        self._failed = failed
        self._now = now
        self._changed = threading.Condition()
        self._threads = 0
        """Threads that are not in an abandoned call."""
        self._resting = 0
        """Threads that wait for a call."""
        self._paused = False

    def add(self, part: PartId, devices: Iterable[TargetId]) -> None:
        """Queue one call of that part for each of these devices."""
        with self._changed:
            given_up = self._devices.add(part, devices)
            if not self._devices.running:
                self._more(1)
        self._tell(given_up)

    def cancel(self, part: PartId) -> None:
        """Drop the queued calls of that part, and give up the running ones."""
        with self._changed:
            before = self._devices.hung
            self._devices.cancel(part)
            self._threads -= self._devices.hung - before
        self.tick()

    def limit(self, turn: DeviceCall, limit_s: float) -> None:
        """Limit a running call to so many seconds from its start; 0 is no limit. A thread that waits for the next
        `tick` has to call it at once."""
        with self._changed:
            self._devices.limit(turn, limit_s)

    def pause(self, *, begin_nothing: bool) -> None:
        """Stop to start calls, or resume."""
        with self._changed:
            self._paused = begin_nothing
            if not begin_nothing:
                self._more(1)

    def tick(self) -> float:
        """Give up overdue calls; returns the time of the next tick, infinity for none."""
        with self._changed:
            now = self._now()
            before = self._devices.hung
            given_up = self._devices.overdue(now)
            self._threads -= self._devices.hung - before
            again = self._devices.deadline()
            if self._devices.queued and self._devices.places > 0 and not self._paused:
                if now - self._devices.latest >= STUCK_S:
                    self._more(max(1, self._devices.running))
                again = min(again, now + STUCK_S)
        self._tell(given_up)
        return again

    @property
    def idle(self) -> bool:
        """Whether no call runs or waits; abandoned calls do not count."""
        with self._changed:
            return self._devices.idle

    @property
    def hung(self) -> int:
        """The number of abandoned calls that have not ended."""
        with self._changed:
            return self._devices.hung

    def _more(self, threads: int) -> None:
        """Add threads, as far as there are free slots, unless enough are about to look for a call."""
        if self._threads > self._devices.running + self._resting:
            return
        threads = min(threads, self._devices.places)
        woken = min(threads, self._resting)
        self._resting -= woken
        self._changed.notify(woken)
        for _ in range(threads - woken):
            try:
                threading.Thread(target=self._live, daemon=True).start()
            except RuntimeError:
                log.warning("no more than %d threads can be started; raise TasksMax", self._threads)
                return
            self._threads += 1

    def _live(self) -> None:
        turn: DeviceCall | None = None
        while True:
            if turn is None:
                turn = self._wait()
            answer = self._run(turn)
            failed = self._failed(answer)
            with self._changed:
                counts = self._devices.ended(turn, self._now(), failed=failed)
                following = self._begin() if counts else None
            if not counts:
                # Another thread has replaced this one.
                return
            self._answered(turn, answer)
            turn = following

    def _begin(self) -> DeviceCall | None:
        return None if self._paused else self._devices.take(self._now())

    def _wait(self) -> DeviceCall:
        with self._changed:
            while (turn := self._begin()) is None:
                self._resting += 1
                # The thread that wakes another one already counts it as active.
                self._changed.wait()
            return turn

    def _tell(self, given_up: Iterable[AbandonedCall]) -> None:
        for one in given_up:
            self._given_up(one)


# -- Delayed calls: an executor may delay calls, which occupy no slot meanwhile


@dataclass(frozen=True, slots=True)
class Timing:
    """The executors' requests for the calls of a part: delays, and a time limit for each call (0 for none). `problem`
    is their error message."""

    delays: Mapping[TargetId, float] = field(default_factory=dict)
    limit_s: float = 0.0
    problem: str = ""


AT_ONCE = Timing()


def shorter_limit(one_s: float, other_s: float) -> float:
    """The shorter of two time limits; 0 is none."""
    return min(filter(None, [one_s, other_s]), default=0.0)


def chain_timing(chain: Chain | None, srns: Sequence[TargetId]) -> Timing:
    """The timing that the executors of the chain want for these resources; never raises."""
    if chain is None or chain.problem:
        return AT_ONCE
    try:
        delays = {srn: delay for srn in srns if (delay := chain.delay(srn)) > 0}
        return Timing(delays, chain.limit())
    except BaseException as error:  # noqa: BLE001 - supervision point: executors are anybody's code
        return Timing(problem=f"an executor cannot be used: {error}")


class DelayedCalls:
    """Delayed calls; `begin` gets those of a part that are due."""

    def __init__(self, begin: Callable[[PartId, Sequence[TargetId]], None]) -> None:
        self._begin = begin
        self._calls: list[tuple[float, int, PartId, TargetId]] = []
        self._numbers = itertools.count()

    @property
    def idle(self) -> bool:
        return not self._calls

    def add(self, part: PartId, srns: Sequence[TargetId], timing: Timing, now: float) -> None:
        """Start one call for each of these resources, now or after its delay. `now`: monotonic seconds."""
        at_once = [srn for srn in srns if srn not in timing.delays]
        for srn, delay in timing.delays.items():
            heapq.heappush(self._calls, (now + delay, next(self._numbers), part, srn))
        if at_once:
            self._begin(part, at_once)

    def cancel(self, part: PartId) -> None:
        """Drop the calls of that part."""
        self._calls = [call for call in self._calls if call[2] != part]
        heapq.heapify(self._calls)

    def tick(self, now: float) -> float:
        """Start what is due; returns when the next one is due, infinity for never."""
        due: dict[PartId, list[TargetId]] = {}
        while self._calls and self._calls[0][0] <= now:
            _moment, _number, part, srn = heapq.heappop(self._calls)
            due.setdefault(part, []).append(srn)
        for part, srns in due.items():
            self._begin(part, srns)
        return self._calls[0][0] if self._calls else math.inf


# -- One call

GRAINS_BYTES_MAX = 64 * 1024
"""Bytes of the grains of one resource."""

RETCODE_MAX = 2**31 - 1


RESOURCE_THREADS_MAX = 10_000
"""Threads of the resources of one type with THREAD_PER_RESOURCE; calls on further resources fail."""


class GrainsError(Exception):
    """The grains of a resource could not be collected; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class ResourceAnswer:
    """The answer of a resource. `raised`: a function raised, as when the device cannot be reached. A return code other
    than 0 alone shows that the device is alive."""

    row: SegmentRow
    raised: bool


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a part on its resources."""

    jid: str
    calls: Sequence[Call]
    user: str
    chain: Chain | None = None
    """The executors of its calls, if any."""
    timing: Timing = AT_ONCE


class NoThreadError(Exception):
    """A resource of a type with THREAD_PER_RESOURCE cannot get its thread; the text gives the reason."""


class ResourceThreads:
    """A thread for each resource, made at its first call, in which all its calls run."""

    def __init__(self) -> None:
        self._queues: dict[TargetId, queue.SimpleQueue[Callable[[], None] | None]] = {}
        self._making = threading.Lock()

    def run(self, resource: TargetId, call: Callable[[], Result]) -> Result:
        """The result of the call; what it raises is raised here. The caller's thread waits for it.

        Raises NoThreadError.
        """
        results: queue.SimpleQueue[Callable[[], Result]] = queue.SimpleQueue()

        def answer() -> None:
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - supervision point: the caller gets it
                results.put(partial(_reraise, error))
            else:
                results.put(lambda: result)

        with self._making:
            calls = self._queues.get(resource) or self._start(resource)
            calls.put(answer)
        return results.get()()

    def keep(self, resources: Collection[TargetId]) -> None:
        """End the threads of all other resources, after the calls that they have."""
        with self._making:
            for gone in self._queues.keys() - set(resources):
                self._queues.pop(gone).put(None)

    def _start(self, resource: TargetId) -> queue.SimpleQueue[Callable[[], None] | None]:
        if len(self._queues) >= RESOURCE_THREADS_MAX:
            raise NoThreadError(f"{RESOURCE_THREADS_MAX} resources of its type have threads, and there are no more")
        calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        try:
            threading.Thread(target=self._live, args=(calls,), name=resource, daemon=True).start()
        except RuntimeError as error:
            raise NoThreadError("no thread can be started for it; raise TasksMax") from error
        # Only now: calls in a queue without a thread would wait forever.
        self._queues[resource] = calls
        return calls

    @staticmethod
    def _live(calls: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while (call := calls.get()) is not None:
            call()


def _reraise(error: BaseException) -> NoReturn:
    raise error


def unavailable(kind: str, why: str) -> str:
    """The answer of a resource whose type did not load."""
    return f"No resource loader available for type '{kind}'" + (f": {why}" if why else "")


def call_resource(
    loaded: ResourceType, srn: TargetId, work: Work, grains: Mapping[str, Any], *, returns: Returns
) -> ResourceAnswer:
    """Call the functions on that resource; never raises."""
    start_ms, began = int(time.time() * 1000), time.monotonic()
    bare_id = srn.partition(":")[2]
    with log_context(jid=work.jid, srn=srn), loaded.entered(bare_id, grains):
        outcome = _ready(loaded) or _called(loaded, srn, work)
        sealed = returns.seal(work.jid, outcome.value)
    row = SegmentRow(
        srn=srn,
        state=TargetState.RETURNED,
        retcode=max(-RETCODE_MAX, min(RETCODE_MAX, outcome.retcode)),
        body=sealed.body,
        start_ms=start_ms,
        dur_ms=int((time.monotonic() - began) * 1000),
        reason=" ".join([sealed.note, *outcome.warnings]).strip()[:REASON_MAX],
    )
    # With several functions, it is unknown which one the code belongs to.
    raised = outcome.retcode != 0 and (outcome.out == ERROR_OUTPUTTER or len(work.calls) > 1)
    return ResourceAnswer(row, raised)


def call_limit(
    loaded: ResourceType, srn: TargetId, calls: Sequence[Call], grains: Mapping[str, Any], default_s: float
) -> float:
    """The time limit of these calls on that resource in seconds; 0 is no limit. The type may give a limit for each
    call; these are added up, with `default_s` for calls without one."""
    if not loaded.has_timeout:
        return default_s
    with log_context(srn=srn), loaded.entered(srn.partition(":")[2], grains):
        try:
            named = [loaded.timeout(*call) for call in calls]
            limits = [default_s if one is None else float(one) for one in named]
        except BaseException as error:  # noqa: BLE001 - supervision point: it is the type's own code
            log.warning("timeout() raised %s: %s; %g s are the limit", type(error).__name__, error, default_s)
            return default_s
    if all(one is None for one in named) or not all(0 < one < math.inf for one in limits):
        return default_s if 0 not in limits else 0.0
    return sum(limits)


def _called(loaded: ResourceType, srn: TargetId, work: Work) -> Outcome:
    if work.timing.problem:
        return Outcome(work.timing.problem, 1)
    if work.chain is None:
        return call_each(loaded.slots, work.calls, jid=work.jid, user=work.user)
    about = {"id": srn, "resource_type": loaded.name, "resource_id": srn.partition(":")[2]}
    outcome = call_each(loaded.slots, work.calls, jid=work.jid, user=work.user, chain=work.chain, **about)
    delay_s = work.timing.delays.get(srn)
    note = f"the call was delayed by {delay_s:.1f} s" if delay_s else ""
    return replace(outcome, warnings=(*filter(None, [note]), *outcome.warnings))


def failed_row(srn: TargetId, text: str) -> SegmentRow:
    """The row of a resource that cannot be called: a text, as of a function that failed."""
    return SegmentRow(srn, TargetState.RETURNED, 1, encode_return(text), int(time.time() * 1000), 0)


def timeout_reason(limit_s: float) -> str:
    """The reason of a call that was given up."""
    return f"it did not answer within {limit_s:g} s"


def timed_out_row(srn: TargetId, reason: str, dur_s: float) -> SegmentRow:
    """The row of a resource that did not answer in time."""
    dur_ms = int(dur_s * 1000)
    return SegmentRow(srn, TargetState.TIMED_OUT, 1, b"", int(time.time() * 1000) - dur_ms, dur_ms, reason)


def collect_grains(loaded: ResourceType, srn: TargetId, before: Mapping[str, Any]) -> dict[str, Any]:
    """The grains of that resource as plain data. Raises GrainsError."""
    with log_context(srn=srn), loaded.entered(srn.partition(":")[2], before):
        try:
            found = loaded.grains()
            is_map = isinstance(found, Mapping)
            packed: bytes = msgpack.packb(dict(found) if is_map else None, default=str)
        except BaseException as error:
            raise GrainsError(f"{type(error).__name__}: {error}") from error
    if not is_map:
        raise GrainsError(f"grains() returned {type(found).__name__}, and not a dict")
    if len(packed) > GRAINS_BYTES_MAX:
        raise GrainsError(f"they have {len(packed)} bytes, the limit is {GRAINS_BYTES_MAX}")
    grains: dict[str, Any] = msgpack.unpackb(packed, strict_map_key=False)
    return grains


def _ready(loaded: ResourceType) -> Outcome | None:
    """Why the type cannot be called; None if it can."""
    try:
        ready, why = loaded.initialized(), "initialized() says no"
    except BaseException as error:  # noqa: BLE001 - supervision point: it is the type's own code
        ready, why = False, f"initialized() raised {type(error).__name__}: {error}"
    return None if ready else Outcome(f"Resource type '{loaded.name}' is not initialised: {why}", 1)


# -- Resources without a daemon

LOOK_S = 0.05
"""Seconds after which a call that has ended is noticed at the latest."""


@dataclass(frozen=True, slots=True)
class LocalContext:
    """What discovery and calls need."""

    opts: Mapping[str, Any]
    grains: Mapping[str, Any]
    pillar: Mapping[str, Any]
    minion: Loader
    returns: Returns


def _initialised_type(name: str, here: LocalContext) -> ResourceType:
    """The type after its `init`; the shipped one if a custom type fails. Raises TypeUnavailableError."""
    files = find_type(name, here.opts)
    loaded = load_type(files, here.opts, here.grains, here.pillar, minion=here.minion)
    try:
        loaded.init()
    except Exception as error:  # supervision point: it is the type's own code
        why = f"init() raised {type(error).__name__}: {error}"
        given = here.opts, here.grains, here.pillar
        shipped = None if loaded.instead_of else shipped_type(files, why, *given, minion=here.minion)
        if shipped is None:
            raise TypeUnavailableError(why) from error
        try:
            shipped.init()
        except Exception as also:
            raise TypeUnavailableError(f"{type(also).__name__}: {also}") from also
        return shipped
    return loaded


class LocalType:
    """One resource type in this process. Raises TypeUnavailableError."""

    def __init__(self, name: str, here: LocalContext, *, places: int, timeout_s: float) -> None:
        self.name = name
        self.grains: dict[TargetId, dict[str, Any]] = {}
        """By resource; empty if they could not be collected."""
        self._type = _initialised_type(name, here)
        if self._type.instead_of:
            log.error("resource type %s: %s", name, self._type.instead_of)
        self._threads = ResourceThreads() if self._type.own_threads else None
        self.texts = self._type.files.function_texts()
        """The signature text (`saltlite.model.signature`) of each of its functions."""
        self._returns = here.returns
        self._places = places
        self._timeout_s = timeout_s
        try:
            ids = good_ids(name, self._type.discover() or [])
        except Exception as error:
            raise TypeUnavailableError(f"{type(error).__name__}: {error}") from error
        srns = [resource_index_srn_key(name, one) for one in ids]
        self.grains = {srn: {} for srn in srns}
        work = Work("", [("grains", (), {})], "")
        self._each(
            srns, work, self._grains_of, lambda srn, why, _s: log.warning("grains of %s are missing: %s", srn, why)
        )

    def run(self, srns: Sequence[TargetId], work: Work) -> dict[TargetId, SegmentRow]:
        rows: dict[TargetId, SegmentRow] = {}

        def call(srn: TargetId) -> bool:
            try:
                answer = self._in_its_thread(
                    srn, lambda: call_resource(self._type, srn, work, self.grains[srn], returns=self._returns)
                )
            except NoThreadError as error:
                rows[srn] = failed_row(srn, str(error))
                return False
            rows[srn] = answer.row
            return not answer.raised

        def late(srn: TargetId, why: str, limit_s: float) -> None:
            rows[srn] = timed_out_row(srn, why, limit_s)

        self._each(srns, work, call, late)
        # An abandoned call may still end while its row is read.
        return dict(rows)

    def close(self) -> None:
        """Shut the type down."""
        try:
            self._type.shutdown()
        except Exception as error:  # noqa: BLE001 - supervision point: it is the type's own code
            log.warning("resource type %s: shutdown() raised %s: %s", self.name, type(error).__name__, error)

    def _grains_of(self, srn: TargetId) -> bool:
        try:
            self.grains[srn] = self._in_its_thread(srn, lambda: collect_grains(self._type, srn, {}))
        except (GrainsError, NoThreadError) as error:
            log.warning("grains of %s are missing: %s", srn, error)
            return False
        return True

    def _in_its_thread(self, srn: TargetId, call: Callable[[], Result]) -> Result:
        return self._threads.run(srn, call) if self._threads else call()

    def _each(
        self,
        srns: Sequence[TargetId],
        work: Work,
        call: Callable[[TargetId], bool],
        late: Callable[[TargetId, str, float], None],
    ) -> None:
        """Call for all of them, in parallel; `late` for those that time out."""
        ended: queue.SimpleQueue[AbandonedCall | TargetId] = queue.SimpleQueue()

        def run(turn: DeviceCall) -> bool:
            limit_s = call_limit(self._type, turn.device, work.calls, self.grains[turn.device], self._timeout_s)
            calls.limit(turn, shorter_limit(limit_s, work.timing.limit_s))
            return call(turn.device)

        calls: Calls[bool] = Calls(
            DeviceQueue(self._places, self._timeout_s),
            run,
            lambda turn, _good: ended.put(turn.device),
            ended.put,
            failed=lambda good: not good,
            now=time.monotonic,
        )
        waiting = DelayedCalls(calls.add)
        waiting.add("", srns, work.timing, time.monotonic())
        awaited = set(srns)
        while awaited:
            now = time.monotonic()
            wait_s = min(LOOK_S, max(0.0, min(waiting.tick(now), calls.tick()) - now))
            try:
                one = ended.get(timeout=wait_s)
            except queue.Empty:
                continue
            if isinstance(one, AbandonedCall):
                late(one.device, one.why or timeout_reason(one.limit_s), one.limit_s)
            awaited.discard(one.device if isinstance(one, AbandonedCall) else one)


def local_types(declared: Declared, here: LocalContext) -> list[LocalType]:
    """The types that the pillar declares; an unusable one is skipped with a warning."""
    found = []
    for name in declared.types_in(here.pillar):
        try:
            found.append(LocalType(name, here, places=declared.places_of(name), timeout_s=declared.timeout_s))
        except TypeUnavailableError as error:
            log.warning("%s", unavailable(name, str(error)))
    return found
