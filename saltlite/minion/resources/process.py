"""The process of one resource type: it loads the type once, and calls its functions from a few threads.

It is forked from the job server and dies with it. Its main thread serves the job server and the clock; of the type it
calls only `__virtual__`, so that the type cannot block it. Answers are collected into segments for the spool.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from saltlite.errors import JournalError, UnwrittenError
from saltlite.files.client import FileClient
from saltlite.loader.call import Call, blackout
from saltlite.loader.executors import Chain, Executors, executors_index
from saltlite.loader.loader import Loader
from saltlite.loader.resource_types import (
    ResourceType,
    TypeFiles,
    TypeUnavailableError,
    find_type,
    load_type,
    shipped_type,
)
from saltlite.minion.jobs.job_process import JobContext, JobProcess, stand_alone
from saltlite.minion.jobs.rpc_client import RpcClient, RpcEventSender
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.minion.resources.calls import (
    Calls,
    DelayedCalls,
    GrainsError,
    NoThreadError,
    ResourceAnswer,
    ResourceThreads,
    Work,
    call_limit,
    call_resource,
    chain_timing,
    collect_grains,
    failed_row,
    shorter_limit,
    timed_out_row,
    timeout_reason,
    unavailable,
)
from saltlite.minion.resources.device_queue import AbandonedCall, DeviceCall, DeviceQueue
from saltlite.minion.resources.discovery import Discovery, DiscoveryContext
from saltlite.model.dataclass import dataclass
from saltlite.model.execution import Execution, is_direct
from saltlite.model.ids import PartId, TargetId
from saltlite.model.job import TargetState, segment_id, split_part
from saltlite.platform import logs
from saltlite.platform.files import PosixFolder
from saltlite.platform.process import set_parent_death_signal, set_title
from saltlite.wire.framing import IpcMessage, framed, pack, take_frame, unpack
from saltlite.wire.messages import SegmentRow, encode_segment

log = logging.getLogger(__name__)


# -- Segments
#
# An answer waits for at most FLUSH_S, and the last one of a part does not wait. One thread writes, so that threads
# which call devices never wait for the disk. While the disk is full, they start no calls.


FLUSH_S = 0.05
"""Seconds until an answer is written, together with later ones."""
SEGMENT_BYTES = 48 * 1024
"""Bytes of answers in one segment; a larger answer gets its own segment."""
RETRY_S = 5.0
"""Seconds between two attempts to write to a full disk."""
LOOK_BYTES = 8 * 1024 * 1024
"""The spool is checked after so many bytes, or LOOK_SEGMENTS, because other processes write to it and the job server
empties it."""
LOOK_SEGMENTS = 200
CROWDED_S = 1.0
"""Seconds between two checks of a full spool."""

_ROW_BYTES = 64
"""The size of a row without its result."""


class SegmentStore(Protocol):
    """The methods of the port `saltlite.minion.protocol.effects.Spool` that segments need."""

    def write(self, jid: str, result: SpoolEntry) -> bool: ...

    def jids(self) -> list[str]: ...

    def has_room(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class SegmentCallbacks:
    """Called from the thread that writes."""

    segment: Callable[[PartId, str], None]
    """A segment of the part is in the spool, under this id."""
    done: Callable[[PartId, str], None]
    """Every answer of the part is in the spool, or the part ended early with this reason."""
    full: Callable[[bool], None]
    """Whether the spool is full: no calls may start until it is not."""


@dataclass(slots=True)
class _Part:
    number: int
    """The number of its next segment."""
    awaited: int
    """The number of missing answers."""
    rows: list[SegmentRow] = field(default_factory=list)
    size: int = 0
    due: float = 0.0
    how: str = ""


class SegmentWriter:
    """Writes segments. `now` is a monotonic clock, in seconds."""

    def __init__(self, spool: SegmentStore, callbacks: SegmentCallbacks, now: Callable[[], float]) -> None:
        self._spool = spool
        self._callbacks = callbacks
        self._now = now
        self._parts: dict[PartId, _Part] = {}
        self._changed = threading.Condition()
        self._closing = False
        # Used by the writing thread only. The state of the spool is unknown: the first write checks it.
        self._unseen_bytes, self._unseen_segments = LOOK_BYTES, 0
        self._crowded = False
        self._look_at = math.inf

    def begin(self, part: PartId, number: int, awaited: int) -> None:
        """Expect so many answers of that part; its first segment gets this number."""
        with self._changed:
            self._parts[part] = _Part(number, awaited)

    def put(self, part: PartId, row: SegmentRow) -> None:
        """Add an answer; it is dropped if the part has ended."""
        with self._changed:
            one = self._parts.get(part)
            if one is None or not one.awaited:
                return
            if not one.rows:
                one.due = self._now() + FLUSH_S
            one.rows.append(row)
            one.size += _size_of(row)
            one.awaited -= 1
            at_once = one.size >= SEGMENT_BYTES or not one.awaited
            if at_once:
                one.due = 0.0
            if at_once or len(one.rows) == 1:
                self._changed.notify()

    def end(self, part: PartId, how: str) -> None:
        """End a part: write what is there, then report it as done."""
        with self._changed:
            one = self._parts.get(part)
            if one is not None:
                one.awaited, one.due, one.how = 0, 0.0, how
                self._changed.notify()

    @property
    def idle(self) -> bool:
        """Whether every part is done and reported."""
        with self._changed:
            return not self._parts

    def run(self) -> None:
        """Write until `close`; runs in a thread."""
        while True:
            with self._changed:
                part = self._wait_for_one()
                if part is None and self._closing:
                    return
            if part is None:
                self._look()
                continue
            with self._changed:
                one = self._parts[part]
                rows, one.rows, one.size = one.rows, [], 0
                number, over, how = one.number, not one.awaited, one.how
                pieces = list(_pieces(rows))
                one.number += len(pieces)
            for offset, piece in enumerate(pieces):
                if not self._write(segment_id(part, number + offset), piece):
                    return
                self._callbacks.segment(part, segment_id(part, number + offset))
            self._count(rows)
            if over:
                with self._changed:
                    del self._parts[part]
                self._callbacks.done(part, how)

    def close(self) -> None:
        """Let `run` return when nothing is due."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _wait_for_one(self) -> PartId | None:
        """The part to write now; None at the end, or when it is time to check the spool."""
        while True:
            now = self._now()
            waiting = {name: one.due for name, one in self._parts.items() if one.rows or not one.awaited}
            part = min(waiting, key=waiting.__getitem__, default=None)
            if part is not None and waiting[part] <= now:
                return part
            if self._closing or now >= self._look_at:
                return None
            until = min(self._look_at, math.inf if part is None else waiting[part])
            self._changed.wait(None if math.isinf(until) else until - now)

    def _count(self, rows: Sequence[SegmentRow]) -> None:
        """Count written bytes, and check the spool when they are enough."""
        self._unseen_bytes += sum(map(_size_of, rows))
        self._unseen_segments += 1
        if not self._crowded and (self._unseen_bytes >= LOOK_BYTES or self._unseen_segments >= LOOK_SEGMENTS):
            self._look()

    def _look(self) -> None:
        """Check whether the spool is full, and report a change."""
        self._unseen_bytes = self._unseen_segments = 0
        try:
            self._spool.jids()
            crowded = not self._spool.has_room()
        except JournalError as error:
            log.error("no resource is called, because of the spool: %s", error)  # noqa: TRY400 - a sentence
            crowded = True
        self._look_at = self._now() + CROWDED_S if crowded else math.inf
        if crowded != self._crowded:
            self._crowded = crowded
            if crowded:
                log.warning("no resource is called until the master has taken results: there are too many in the spool")
            self._callbacks.full(crowded)

    def _write(self, name: str, rows: Sequence[SegmentRow]) -> bool:
        """Write a segment, however long the disk is full; False if it was still full at the end of this process."""
        entry = SpoolEntry(TargetState.RETURNED, 0, encode_segment(rows), rows[0].start_ms, 0)
        held = False
        while True:
            try:
                self._spool.write(name, entry)
            except UnwrittenError as error:
                if not held:
                    log.error("answers of resources wait for the disk: %s", error)  # noqa: TRY400 - a sentence
                    self._callbacks.full(True)
                    held = True
                with self._changed:
                    self._changed.wait(RETRY_S)
                    if self._closing:
                        return False
                continue
            if held:
                self._callbacks.full(self._crowded)
            return True


def _size_of(row: SegmentRow) -> int:
    return _ROW_BYTES + len(row.srn) + len(row.body) + len(row.reason)


def _pieces(rows: Sequence[SegmentRow]) -> list[list[SegmentRow]]:
    """The rows in groups of at most SEGMENT_BYTES; a larger row is alone."""
    pieces: list[list[SegmentRow]] = []
    size = 0
    for row in rows:
        if not pieces or size + _size_of(row) > SEGMENT_BYTES:
            pieces.append([])
            size = 0
        pieces[-1].append(row)
        size += _size_of(row)
    return pieces


INIT_S = 60.0
"""Seconds that `init` may take; calls wait for it, and fail after that time."""
SHUTDOWN_S = 5.0
"""Seconds that `shutdown` may take."""
HUNG_MAX = 16
"""With more hanging calls, this process asks to be replaced at once, and not only when it is idle."""

GRAINS = "grains"
"""Used in place of a part id for calls that collect grains."""


@dataclass(frozen=True, slots=True)
class Start:
    """The initial state of a type's process; grains of the minion and the pillar may change later.

    `grains` are the last known ones of its resources by SRN. `places` calls run at once, each for at most `timeout_s`
    seconds (0: no limit).
    """

    name: str
    context: JobContext
    pillar: Mapping[str, Any]
    grains: Mapping[str, Mapping[str, Any]]
    places: int
    timeout_s: float


class TypeProcess:
    """The job server's end of such a process: `socket` for messages, `rpc` as for any process of a job."""

    def __init__(self, pid: int, sock: socket.socket, rpc: JobProcess) -> None:
        self.pid = pid
        self.socket = sock
        self.rpc = rpc


def fork_type(start: Start) -> TypeProcess:
    """Fork the process of a type. Raises OSError when there is no room for another process."""
    ours, theirs = socket.socketpair()
    our_errands, their_errands = socket.socketpair()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        for one in (ours, theirs, our_errands, their_errands):
            one.close()
        raise
    if pid == 0:
        _become(start, theirs.detach(), their_errands.detach(), parent)
    theirs.close()
    their_errands.close()
    return TypeProcess(pid, ours, JobProcess(pid, our_errands))


def _become(start: Start, reports: int, rpc: int, parent: int) -> None:
    """The life of the process; it never returns."""
    status = 1
    try:
        # It gets calls from the job server only, and without it there is no receiver for results.
        set_parent_death_signal(signal.SIGKILL, parent)
        stand_alone(reports, rpc)
        set_title(f"salt-{start.name}")
        _Life(start, reports, rpc).live()
        logs.report_repeats()
        status = 0
    except (BrokenPipeError, ConnectionResetError):
        status = 0  # the job server is gone
    except BaseException:  # noqa: BLE001 - named supervision point: the last frame of this process
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


class _Life:
    """The process itself."""

    def __init__(self, start: Start, reports: int, rpc: int) -> None:
        self._start = start
        self._grains = start.context.grains
        self._pillar = start.pillar
        self._fd = reports
        self._saying = threading.Lock()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_out, self._wake_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._received = bytearray()
        self._returns = replace(start.context.returns, kept_max=0)
        self._work: dict[PartId, Work] = {}
        self._early: list[IpcMessage] | None = []
        """Messages that came before the type was ready."""
        self._why = ""
        """Why the type cannot be called."""
        self._initialised = False
        self._ready_by = math.inf
        self._tired = False
        self._stopping = False
        self._files: TypeFiles | None = None
        self._type: ResourceType | None = None
        self._finding: Discovery | None = None
        self._minion: Loader | None = None
        self._rpc = RpcClient(rpc)
        self._segments = SegmentWriter(
            DiskSpool(PosixFolder(start.context.spool_dir)),
            SegmentCallbacks(self._segment, self._done, lambda full: self._calls.pause(begin_nothing=full)),
            time.monotonic,
        )
        self._calls: Calls[ResourceAnswer | dict[str, Any] | str] = Calls(
            DeviceQueue(start.places, start.timeout_s),
            self._run,
            self._answered,
            self._given_up,
            failed=lambda answer: isinstance(answer, str) or (isinstance(answer, ResourceAnswer) and answer.raised),
            now=time.monotonic,
        )
        self._later = DelayedCalls(self._calls.add)
        self._executors: Executors | None = None
        self._more: Mapping[str, Any] = {}
        self._threads = ResourceThreads()

    def live(self) -> None:
        """Load the type, then serve the job server until it stops this process or is gone."""
        threading.Thread(target=self._segments.run, daemon=True).start()
        self._load()
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._wake_out, select.POLLIN)
        while not self._stopping:
            wait_s = self._look() - time.monotonic()
            poll.poll(None if math.isinf(wait_s) else max(0.0, wait_s) * 1000)
            self._do_posted()
            self._receive()
        self._segments.close()
        self._shut_down()
        # Programs started by calls, which have no parent any more.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpgrp(), signal.SIGTERM)

    # -- the type

    def _load(self) -> None:
        one = self._start
        here = one.context
        files = FileClient(
            self._rpc,
            here.opts.get("cachedir", ""),
            extmods=here.opts.get("extension_modules", ""),
            refresh=self._rpc.refresh,
        )
        self._more = {"__file_client__": files, "__events__": RpcEventSender(self._rpc)}
        self._minion = minion = Loader(here.index(), here.opts, here.grains, one.pillar, more=self._more)
        try:
            self._files = files_of = find_type(one.name, here.opts)
            loaded = load_type(files_of, here.opts, here.grains, one.pillar, minion=minion, more=self._more)
        except TypeUnavailableError as error:
            self._is_ready(unavailable(one.name, str(error)))
            return
        self._use(loaded)
        self._ready_by = time.monotonic() + INIT_S
        threading.Thread(target=self._init, args=(loaded,), daemon=True).start()

    def _use(self, loaded: ResourceType) -> None:
        name, known = self._start.name, self._start.grains
        self._type = loaded
        ways = DiscoveryContext(
            lambda srns: self._calls.add(GRAINS, srns),
            lambda: self._calls.cancel(GRAINS),
            self._say,
            self._post,
            self._threads.keep,
        )
        self._finding = Discovery(loaded, loaded.files.function_texts(), known, ways)
        if loaded.instead_of:
            log.error("resource type %s: %s", name, loaded.instead_of)
        for slot, sentence in loaded.slot_faults.items():
            log.info("resource type %s: functions of %s are missing: %s", name, slot, sentence)

    def _init(self, loaded: ResourceType) -> None:
        """Initialise the type, in a thread of its own."""
        why = ""
        try:
            loaded.init()
        except BaseException as error:  # noqa: BLE001 - supervision point: it is the type's own code
            why = f"init() raised {type(error).__name__}: {error}"
        self._post(lambda: self._init_ended(loaded, why))

    def _init_ended(self, loaded: ResourceType, why: str) -> None:
        """Note the end of `init`, or that it did not end in time.

        After a failure the shipped type of the same name, if any, takes the place of a custom one, which must not make
        its resources unreachable.
        """
        if loaded is not self._type:
            return  # another type has taken its place since
        shipped = self._shipped_type(why) if why else None
        if shipped is None:
            self._is_ready(self._not_initialised(why))
            return
        self._use(shipped)
        self._ready_by = time.monotonic() + INIT_S
        threading.Thread(target=self._init, args=(shipped,), daemon=True).start()

    def _shipped_type(self, why: str) -> ResourceType | None:
        here = self._start.context
        if self._type is None or self._type.instead_of or self._files is None or self._minion is None:
            return None
        try:
            return shipped_type(
                self._files, why, here.opts, self._grains, self._pillar, minion=self._minion, more=self._more
            )
        except TypeUnavailableError as error:
            log.error("resource type %s: the shipped type cannot be used: %s", self._start.name, error)  # noqa: TRY400 - a sentence
            return None

    def _not_initialised(self, why: str) -> str:
        return f"Resource type '{self._start.name}' is not initialised: {why}" if why else ""

    def _is_ready(self, why: str) -> None:
        """Note that the type can be called, or why it cannot."""
        if why and self._type is not None:
            log.error("%s", why)
        self._ready_by, self._why = math.inf, why
        self._initialised = self._type is not None and not why
        early, self._early = self._early, None
        for message in early or ():
            self._one(message)

    def _shut_down(self) -> None:
        loaded = self._type
        if loaded is None:
            return

        def shut_down() -> None:
            try:
                loaded.shutdown()
            except BaseException as error:  # noqa: BLE001 - supervision point: as above
                log.warning("resource type %s: shutdown() raised %s: %s", loaded.name, type(error).__name__, error)

        thread = threading.Thread(target=shut_down, daemon=True)
        thread.start()
        thread.join(SHUTDOWN_S)

    # -- what the job server says

    def _receive(self) -> None:
        try:
            chunk = os.read(self._fd, 65_536) if select.select([self._fd], [], [], 0)[0] else None
        except ConnectionResetError:
            chunk = b""
        if chunk == b"":
            self._stopping = True
        self._received += chunk or b""
        while (data := take_frame(self._received)) is not None:
            self._take(unpack(data))

    def _take(self, message: IpcMessage) -> None:
        match message["t"]:
            case "stop":
                self._stopping = True
            case "there":
                self._say({"t": "there"})
            case "minion":
                self._grains = message["grains"]
                self._refresh()
            case "pillar":
                self._pillar = message["pillar"]
                self._refresh()
            case _ if self._early is not None:
                self._early.append(message)
            case _:
                self._one(message)

    def _refresh(self) -> None:
        if self._minion is not None:
            self._minion.refresh(self._grains, self._pillar)
        if self._type is not None:
            self._type.refresh(self._grains, self._pillar)

    def _one(self, message: IpcMessage) -> None:
        match message["t"]:
            case "run":
                self._begin(message)
            case "cancel":
                self._work.pop(message["part"], None)
                self._later.cancel(message["part"])
                self._calls.cancel(message["part"])
                self._segments.end(message["part"], message["how"])
            case "find":
                self._find(message["n"])

    def _find(self, number: int) -> None:
        why = self._why or (self._type.instead_of if self._type is not None else "")
        stands = {"loaded": self._type is not None, "initialised": self._initialised, "why": why}
        self._say({"t": "stands", **stands})
        if self._finding is None or self._files is None:
            self._say({"t": "found", "n": number, "ids": [], "functions": [], "why": self._why, "faulty": True})
        elif find_type(self._start.name, self._start.context.opts, self._files) is not self._files:
            self._say({"t": "changed"})
        else:
            # Its resources are found even if it cannot be called, and return the reason when they are called.
            self._finding.find(number, faulty=bool(self._why))

    def _begin(self, message: IpcMessage) -> None:
        part, srns = message["part"], message["srns"]
        self._segments.begin(part, message["number"], len(srns))
        if self._why:
            for srn in srns:
                self._segments.put(part, failed_row(srn, self._why))
            return
        calls = [(fun, args, kwargs) for fun, args, kwargs in message["calls"]]
        chain = self._chain(Execution(message["executors"], message["options"]))
        timing = chain_timing(chain, srns)
        self._work[part] = Work(split_part(part)[0], calls, message["user"], chain, timing)
        self._later.add(part, srns, timing, time.monotonic())

    def _chain(self, asked: Execution) -> Chain | None:
        """The executors of a part, from the current files."""
        if self._minion is None or is_direct(self._minion.opts, asked):
            return None
        index = executors_index(self._minion.opts, self._executors.index if self._executors is not None else None)
        if self._executors is None or index is not self._executors.index:
            self._executors = Executors(self._minion, index, threads=True)
        return self._executors.chain(asked, remote=True)

    # -- calls, from their threads

    def _run(self, turn: DeviceCall) -> ResourceAnswer | dict[str, Any] | str:
        if self._type is not None and self._type.own_threads:
            try:
                return self._threads.run(turn.device, lambda: self._called(turn))
            except NoThreadError as error:
                if turn.part == GRAINS:
                    return str(error)
                return ResourceAnswer(failed_row(turn.device, str(error)), raised=False)
        return self._called(turn)

    def _called(self, turn: DeviceCall) -> ResourceAnswer | dict[str, Any] | str:
        assert self._type is not None and self._finding is not None  # noqa: S101, PT018 - nothing is queued without
        grains = self._finding.grains.get(turn.device) or {
            "resource_type": self._start.name,
            "resource_id": turn.device.partition(":")[2],
        }
        if turn.part == GRAINS:
            self._limit(turn, [("grains", (), {})], grains, 0.0)
            try:
                return collect_grains(self._type, turn.device, grains)
            except GrainsError as error:
                return str(error)
        work = self._work.get(turn.part)
        if work is None:
            return ResourceAnswer(timed_out_row(turn.device, "it was ended before it began", 0), raised=False)
        assert self._minion is not None  # noqa: S101 - as above
        left_alone = blackout(self._minion, (fun for fun, _args, _kwargs in work.calls))
        if left_alone is not None:
            return ResourceAnswer(failed_row(turn.device, left_alone.value), raised=False)
        self._limit(turn, work.calls, grains, work.timing.limit_s)
        return call_resource(self._type, turn.device, work, grains, returns=self._returns)

    def _limit(self, turn: DeviceCall, calls: Sequence[Call], grains: Mapping[str, Any], asked_s: float) -> None:
        assert self._type is not None  # noqa: S101 - as above
        default_s = self._start.timeout_s
        limit_s = shorter_limit(call_limit(self._type, turn.device, calls, grains, default_s), asked_s)
        if limit_s != default_s:
            self._calls.limit(turn, limit_s)
            self._post(lambda: None)

    def _answered(self, turn: DeviceCall, answer: ResourceAnswer | dict[str, Any] | str) -> None:
        if isinstance(answer, ResourceAnswer):
            self._segments.put(turn.part, answer.row)
        else:
            self._post(lambda: self._its_grains(turn.device, answer))

    def _its_grains(self, srn: TargetId, grains: dict[str, Any] | str) -> None:
        if self._finding is not None:
            self._finding.answered(srn, grains)

    def _given_up(self, one: AbandonedCall) -> None:
        """Runs in the main thread."""
        late = timeout_reason(one.limit_s)
        if one.part == GRAINS:
            self._its_grains(one.device, one.why or late)
            return
        if one.began is not None:
            with logs.log_context(srn=one.device, jid=split_part(one.part)[0]):
                log.warning("%s: its call is given up", late)
        took_s = time.monotonic() - one.began if one.began is not None else 0.0
        self._segments.put(one.part, timed_out_row(one.device, one.why or late, took_s))

    # -- what is reported

    def _segment(self, part: PartId, name: str) -> None:
        self._say({"t": "segment", "part": part, "id": name})

    def _done(self, part: PartId, how: str) -> None:
        self._say({"t": "done", "part": part, "how": how})
        self._post(lambda: self._forget(part))

    def _forget(self, part: PartId) -> None:
        self._work.pop(part, None)

    def _say(self, message: IpcMessage) -> None:
        rest = memoryview(framed(pack(message)))
        with self._saying:
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    # -- time, and what other threads leave for the main one

    def _look(self) -> float:
        """Do what is due; returns when something is due again."""
        now = time.monotonic()
        if now >= self._ready_by:
            self._init_late()
        again = min(self._later.tick(now), self._calls.tick())
        found_by = self._finding.tick(now) if self._finding is not None else math.inf
        self._look_whether_tired()
        return min(again, found_by, self._ready_by)

    def _init_late(self) -> None:
        self._ready_by = math.inf
        if self._type is not None:
            self._init_ended(self._type, f"init() has not ended within {INIT_S:g} s")

    def _look_whether_tired(self) -> None:
        hung = self._calls.hung
        idle = (
            hung
            and self._calls.idle
            and self._later.idle
            and self._segments.idle
            and not (self._finding and self._finding.busy)
        )
        if not self._tired and (hung > HUNG_MAX or idle):
            self._tired = True
            self._say({"t": "tired", "hung": hung})

    def _post(self, todo: Callable[[], None]) -> None:
        self._posted.append(todo)
        with contextlib.suppress(BlockingIOError):  # it is awake already
            os.write(self._wake_in, b".")

    def _do_posted(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_out, 4096)
        while self._posted:
            self._posted.popleft()()
