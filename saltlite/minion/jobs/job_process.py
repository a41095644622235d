"""The process of a job: forked in advance, it runs the functions of a job and leaves the result in the spool. If it is
unchanged afterwards, it waits for another job.

It waits at a socket for its job, which arrives after the journal has recorded the start. If the job server dies first,
the socket ends and the process exits without any effect. It writes its result itself, and reports it afterwards.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, NoReturn

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import JournalError, UnwrittenError
from saltlite.files.client import FileClient
from saltlite.loader.call import Outcome, blackout, call_each
from saltlite.loader.executors import Chain, Executors, executors_index
from saltlite.loader.index import Index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import SHIPPED
from saltlite.minion.jobs.process_state import ProcessState
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.rpc_client import ASK, MasterRequests, RpcClient, RpcEventSender
from saltlite.minion.jobs.spool import DiskSpool, decode, encode
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.minion.sync import DocumentCallbacks
from saltlite.model.dataclass import dataclass
from saltlite.model.execution import DIRECTLY, Execution, is_direct
from saltlite.model.job import CLAIMED, TargetState
from saltlite.platform import logs
from saltlite.platform.files import PosixFolder
from saltlite.platform.process import adopt_orphans, close_all_but, set_title, start_ticks
from saltlite.wire.framing import IpcMessage, framed, read_frame, take_frame
from saltlite.wire.job_body import JobBody
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import REASON_MAX

log = logging.getLogger(__name__)

HELD_RESULT_MAX = CHUNK
"""Bytes of a result that can be passed on without a disk: it travels in one message."""

TITLE = "saltlite-job"
DONE = b"."
"""The report that the result is on disk."""
WRITTEN = b","
"""The report that the result is in the spool, and that the job server has to sync it."""
AGAIN = b"+"
"""Follows DONE or WRITTEN when the process is unchanged and can run another job."""
LAST = b"-"
"""Follows DONE or WRITTEN when the process runs no other job. It ends when the job server has heard that."""
UNHEARD_S = 1.0
"""Seconds after which a process syncs its result itself, because the job server is stopped or hangs."""
UNWRITTEN = b"!"
"""The report that the disk did not take the result; the length of the details follows, and the details."""
NO_RESULT = 1
"""Exit status of a process that could not deliver its result."""
REPORT_MAX = HELD_RESULT_MAX + 4096
"""Bytes of a report or request: a small result or a piece of a file, with its envelope."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job to run."""

    jid: str
    calls: Sequence[tuple[str, Sequence[Any], Mapping[str, Any]]]
    """Function, arguments and keyword arguments; they run one after the other."""
    user: str
    execution: Execution = DIRECTLY
    """The requested executors."""

    @classmethod
    def of(cls, jid: str, body: JobBody) -> JobSpec:
        """The call for the body of a job."""
        calls = [(one.fun, one.args, one.kwargs) for one in body.calls]
        return cls(jid, calls, body.user, Execution(body.executors, body.executor_opts))

    @property
    def fun(self) -> str:
        """The names of its functions in Salt's form, joined by commas."""
        return ",".join(fun for fun, _args, _kwargs in self.calls)


@dataclass(slots=True)
class JobContext:
    """The environment of every job: configuration, grains, pillar, index of modules, spool."""

    opts: dict[str, Any]
    grains: dict[str, Any]
    index: Callable[[], Index]
    """The current index; unchanged files are not read again."""
    spool_dir: str
    returns: Returns
    """Encodes returns."""
    phase_is: Callable[[str, str, str], None]
    """Called with the phase of the connection, its reason, and the `host:port` of the master."""
    refresh: Callable[[str, Callable[[IpcMessage], None]], None] = lambda _what, done: done({})
    """Refreshes "modules", "grains" or "pillar", and calls back."""
    pillar: dict[str, Any] = field(default_factory=dict)
    hooks: DocumentCallbacks = field(default_factory=DocumentCallbacks)
    """Callbacks for pillar and resources."""
    alarm: Callable[[int], None] = lambda _refused: None
    """Called with the number of refused answers that no master had signed."""
    _made: tuple[tuple[object, ...], Loader] | None = field(default=None, init=False, repr=False)
    _executors: Index | None = field(default=None, init=False, repr=False)

    def loader(self) -> Loader:
        """The loader for the current files; the same object until they change. The job server creates it before the
        fork, so that the process of a job inherits the work. Only that process may load modules with it."""
        made_of = (self.index(), self.grains, self.pillar, self.opts)
        if self._made is None or any(old is not new for old, new in zip(self._made[0], made_of, strict=True)):
            self._made = made_of, Loader(made_of[0], self.opts, self.grains, self.pillar)
        if not is_direct(self.opts, DIRECTLY):
            self._executors = executors_index(self.opts, self._executors)
        return self._made[1]

    def last_loader(self) -> Loader:
        """The last result of `loader`, without a check of the files."""
        return self._made[1] if self._made is not None else self.loader()

    def chain(self, loader: Loader, asked: Execution, user: str) -> Chain | None:
        """The executors of a job; None if its functions are called directly. For the process of a job."""
        if is_direct(self.opts, asked):
            return None
        self._executors = executors_index(self.opts, self._executors)
        return Executors(loader, self._executors).chain(asked, remote=True, user=user)


class JobProcess:
    """The job server's handle of a prefork process. `loader` is the one that it was forked with, if any."""

    def __init__(self, pid: int, sock: socket.socket, loader: Loader | None = None) -> None:
        self.pid = pid
        self.socket = sock
        self.loader = loader
        self.ticks = start_ticks(pid) or 0
        """Its start time, which no later process with the same pid has."""
        self.on_ask: Callable[[bytes], None] = lambda _raw: None
        """Called with each request."""
        self.reusable = False
        """Whether another job may follow the one that it runs. The process itself decides in the end."""
        self.exit_status: Callable[[], int | None] = lambda: None
        """How it ended, if another process than the job server is its parent; as of `Child`."""
        self._heard = bytearray()
        self._ahead = ""

    def load_ahead(self, module: str) -> None:
        """Make it load the module that its job will probably use; one that does not ship with saltlite is compiled."""
        if self._ahead != module:
            self._ahead = module
            self.put(self.framed(msgpack.packb(module)))

    def go(self, job: JobSpec) -> None:
        """Send it its job. If it has died meanwhile, its exit reports that."""
        data: bytes = msgpack.packb(
            [job.jid, list(job.calls), job.user, job.execution.executors, job.execution.options, self.reusable]
        )
        self._ahead = job.calls[0][0].partition(".")[0]
        # It reads everything before it does anything else, so this blocks only for the copy.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(self.framed(data))

    def receive(self) -> bytes | None:
        """Its report: DONE, WRITTEN, AGAIN, or details for `read_report`; b"" if it ended without one, None if none
        came yet.

        Requests go to `on_ask`.
        """
        with contextlib.suppress(ConnectionResetError):
            try:
                word = self._word()
                while word is None and (chunk := self.socket.recv(REPORT_MAX, socket.MSG_DONTWAIT)):
                    self._heard += chunk
                    word = self._word()
                    if word is None and len(self._heard) > REPORT_MAX:
                        break
            except BlockingIOError:
                return None
            else:
                return word or b""
        return b""

    def _word(self) -> bytes | None:
        while (asked := self._whole(ASK)) is not None:
            self.on_ask(asked)
        for word in (WRITTEN, AGAIN, DONE, LAST):
            if self._heard.startswith(word):
                del self._heard[: len(word)]
                return word
        return self._whole(UNWRITTEN)

    def _whole(self, kind: bytes) -> bytes | None:
        """Take a complete message of that kind from the front of the received bytes, if there is one."""
        return take_frame(self._heard, len(kind)) if self._heard.startswith(kind) else None

    def framed(self, message: bytes) -> bytes:
        """A message in the form that the process reads."""
        return framed(message)

    def put(self, data: bytes) -> bytes:
        """Send what the socket takes at once; returns the rest. It is empty when the process is gone."""
        try:
            return data[self.socket.send(data, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            return data
        except (BrokenPipeError, ConnectionResetError):
            return b""

    def close(self) -> None:
        """Close the socket; a process without a job exits."""
        self.socket.close()


def fork_waiting(context: JobContext) -> JobProcess:
    """Fork a process that waits for its job, with the last loader. Raises OSError when there is no room for another
    process."""
    loader = context.last_loader()
    pid, ours = fork_with_socket(partial(_live, context))
    return JobProcess(pid, ours, loader)


def _live(context: JobContext, waiting: int) -> None:
    stand_alone(waiting)
    set_title(TITLE)
    JobRunner(context, waiting).serve()


def fork_with_socket(live: Callable[[int], None]) -> tuple[int, socket.socket]:
    """Fork a process that calls `live` with the descriptor of its end of a socket pair, and exits after that.

    Returns the pid, and the end of this process. Raises OSError.
    """
    ours, theirs = socket.socketpair()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        end_after(lambda: live(theirs.fileno()))
    theirs.close()
    return pid, ours


def end_after(live: Callable[[], None]) -> NoReturn:
    """Run the life of a forked process, and end it."""
    status = NO_RESULT
    try:
        live()
        status = 0
    except JournalError as error:
        sys.stderr.write(f"the result of a job is lost: {error}\n")
    except BaseException:  # noqa: BLE001 - named supervision point: the last frame of a job's process
        traceback.print_exc()
    finally:
        os._exit(status)


def stand_alone(*keeping: int) -> None:
    """Detach from the daemon: a new session and group, no descriptors but these and those of the log."""
    lead_session()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    close_all_but([0, 1, 2, *keeping, *logs.descriptors()])
    logs.forget_repeats()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for name in ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"):
        # The environment that systemd set for the minion is not for programs of jobs.
        os.environ.pop(name, None)
    # Output of modules belongs to the log, and must not mix with messages.
    os.dup2(2, 1)


def lead_session() -> None:
    """Begin a session and a group, for signals to the whole job."""
    os.setsid()
    # All descendants of a job can be found below it for as long as it runs.
    adopt_orphans()


class JobRunner:
    """Runs the jobs of this process, which come through the socket `waiting`."""

    def __init__(self, context: JobContext, waiting: int) -> None:
        self.loader = context.last_loader()
        self._context = context
        self._waiting = waiting
        self.folder = PosixFolder(context.spool_dir)
        self._spool = DiskSpool(self.folder)
        self._rpc = RpcClient(waiting)
        self._events = RpcEventSender(self._rpc)
        self.loader.provide("__file_client__", _file_client(context.opts, self._rpc))
        self.loader.provide("__events__", self._events)
        self.loader.provide("__timers__", self._rpc.timers)
        self.loader.provide("__master__", MasterRequests(self._rpc, lambda: self._events.jid))

    def serve(self) -> None:
        """Wait for a job, run it, and wait for the next one if the process is unchanged. Raises JournalError."""
        try:
            self._serve()
        except BrokenPipeError:
            # The job server is gone, and does not sync the result, which the next one will find in the spool.
            self._spool.sync_in_place(self._events.jid)

    def _serve(self) -> None:
        before: ProcessState | None = None
        while (found := _next_job(self._waiting, self.loader)) is not None:
            job, reusable = found
            self._events.jid = job.jid
            if reusable:
                before = _state(self.loader, job, before)
            with logs.log_context(jid=job.jid):
                _write_all(self._waiting, _run(job, self._context, self.loader, self._spool))
                logs.report_repeats()
            self.loader.context.clear()
            is_last = before is None or not self._rpc.is_unused or self.loader.needs_own_process
            if before is not None and not is_last and (difference := before.difference()):
                log.debug("this process runs no other job: %s changed", difference)
                is_last = True
            if reusable:
                _write_all(self._waiting, LAST if is_last else AGAIN)
            # A job server that works has closed the socket, sent the next job, or synced the result by then.
            if not select.select([self._waiting], [], [], UNHEARD_S)[0]:
                self._spool.sync_in_place(job.jid)
            if is_last:
                break


def is_shipped(index: Index, fun: str) -> bool:
    """Whether all files that may provide the module of that function ship with saltlite."""
    files = list(index.all_claimants(fun.partition(".")[0]))
    return bool(files) and all(file.layer == SHIPPED for file in files)


def _state(loader: Loader, job: JobSpec, before: ProcessState | None) -> ProcessState | None:
    """The state of the process before its job, whose modules are loaded first.

    None if a module cannot be loaded or the state cannot be read: then the job runs, and the process ends with it.
    """
    try:
        for fun, _args, _kwargs in job.calls:
            _ = loader[fun]
        state = before or ProcessState(loader.settings)
        state.learn()
    except BaseException:  # noqa: BLE001 - supervision point: a module's error is reported by the call itself
        return None
    return state


def _next_job(waiting: int, loader: Loader) -> tuple[JobSpec, bool] | None:
    """The job, and whether another may follow it. None when the job server is gone or no longer needs this process."""
    while (data := read_frame(partial(os.read, waiting))) is not None:
        match msgpack.unpackb(data, strict_map_key=False):
            case str(module):
                loader.load_ahead(module)
            case [jid, calls, user, executors, options, reusable]:
                return JobSpec(jid, calls, user, Execution(executors, options)), reusable
    return None


def _write_all(waiting: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(waiting, rest) :]


def _run(job: JobSpec, context: JobContext, loader: Loader, spool: DiskSpool) -> bytes:
    """Run the functions and write the result; returns the report."""
    started, began = time.time(), time.monotonic()
    outcome = blackout(loader, (fun for fun, _args, _kwargs in job.calls))
    if outcome is None:
        outcome = _outcome(job, loader, context.chain(loader, job.execution, job.user))
    entry = _entry(job, outcome, context.returns, started, time.monotonic() - began)
    # A large result takes its time to the master, and its sync would hold up the job server.
    is_large = len(entry.body) > HELD_RESULT_MAX
    try:
        spool.write(job.jid, entry, sync=is_large)
    except UnwrittenError as error:
        log.error("%s", error)  # noqa: TRY400 - a sentence
        report = _report(job.jid, entry, error.why)
        return UNWRITTEN + framed(report)
    return DONE if is_large else WRITTEN


def _outcome(job: JobSpec, loader: Loader, chain: Chain | None) -> Outcome:
    return call_each(loader, job.calls, jid=job.jid, user=job.user, chain=chain)


def _entry(job: JobSpec, outcome: Outcome, returns: Returns, started: float, dur_s: float) -> SpoolEntry:
    """The result of a job that began at `started`, in seconds since 1970."""
    sealed = returns.seal(job.jid, outcome.value)
    return SpoolEntry(
        state=TargetState.RETURNED,
        code=max(-(2**31), min(2**31, outcome.retcode)),
        body=sealed.body,
        start_ms=int(started * 1000),
        dur_ms=int(dur_s * 1000),
        reason=" ".join([sealed.note, *outcome.warnings]).strip()[:REASON_MAX],
    )


def _file_client(opts: Mapping[str, Any], rpc: RpcClient) -> FileClient:
    return FileClient(rpc, opts.get("cachedir", ""), extmods=opts.get("extension_modules", ""), refresh=rpc.refresh)


def _report(jid: str, entry: SpoolEntry, why: str) -> bytes:
    """The reason why the result is not on disk, with the result itself if it is small."""
    small = encode(jid, entry) if len(entry.body) <= HELD_RESULT_MAX else b""
    packed: bytes = msgpack.packb([why, small])
    return packed


def read_report(jid: str, report: bytes) -> tuple[str, SpoolEntry | None]:
    """Decode a report of `_report`. Raises ValueError for anything else, because a module can write to every
    descriptor."""
    match msgpack.unpackb(report):
        case [str(why), bytes(small)]:
            return why, decode(jid, small) if small else None
    raise ValueError("it is not a report of a job process")


# -- Notes for `saltutil.running`: one JSON file for each running job


class RunningNotes:
    """Writes and deletes the notes. A note that cannot be written is only logged, because it must not fail a job."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._noted: set[str] = set()

    def only(self, jids: Collection[str]) -> None:
        """Remove the notes of all other jobs, which ended while no job server ran."""
        found = set(os.listdir(self._folder))
        self._noted = found.intersection(jids)
        for name in found - self._noted:
            os.unlink(os.path.join(self._folder, name))

    def note(self, spec: JobSpec, pid: int, started: float) -> None:
        """Write the note of a running job once; `started` is wall-clock seconds."""
        if spec.jid in self._noted:
            return
        self._noted.add(spec.jid)
        path = os.path.join(self._folder, spec.jid)
        row = {"jid": spec.jid, "fun": spec.fun, "user": spec.user, "pid": pid, "started": started}
        try:
            # Hidden until it is complete; readers skip names that are not jids.
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(row, file)
            os.rename(path + ".new", path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(path + ".new")
            log.warning("saltutil.running will not list it: %s; make room in %s", error.strerror, self._folder)

    def forget(self, jid: str) -> bool:
        """Delete the note of a job that ended. False if `saltutil` is signalling its process at this moment."""
        if jid not in self._noted:
            return True
        self._noted.discard(jid)
        path = os.path.join(self._folder, jid)
        with contextlib.suppress(OSError):
            os.unlink(path)
            return True
        # The note could not be written or deleted, or `saltutil` has renamed it for as long as it signals.
        with contextlib.suppress(OSError):
            os.unlink(path + CLAIMED)
        return False
