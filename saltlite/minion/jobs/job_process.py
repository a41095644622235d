"""The process of a job: forked in advance, it runs the functions of a job and leaves the result in the spool. If it is
unchanged afterwards, it waits for another job.

It waits at a socket for its job, which arrives after the journal has recorded the start. If the job server dies first,
the socket ends and the process exits without any effect. It writes its result itself, and reports it afterwards.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import JournalError, UnwrittenError
from saltlite.files.client import FileClient
from saltlite.loader.call import blackout, call_each
from saltlite.loader.executors import Chain, Executors, executors_index
from saltlite.loader.index import Index
from saltlite.loader.loader import Loader
from saltlite.minion.jobs.process_state import ProcessState
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.rpc_client import ASK, RpcClient, RpcEventSender
from saltlite.minion.jobs.spool import DiskSpool, decode, encode
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.minion.sync import DocumentCallbacks
from saltlite.model.execution import DIRECTLY, Execution, is_direct
from saltlite.model.job import TargetState
from saltlite.platform import logs
from saltlite.platform.files import PosixFolder
from saltlite.platform.process import adopt_orphans, close_all_but, set_title, start_ticks
from saltlite.platform.reactor import Reactor
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
    phase_is: Callable[[str, str], None]
    """Called with the phase of the connection, for `systemctl status`."""
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
        made_of = (self.index(), self.grains, self.pillar)
        if self._made is None or any(old is not new for old, new in zip(self._made[0], made_of, strict=True)):
            self._made = made_of, Loader(made_of[0], self.opts, self.grains, self.pillar)
        if not is_direct(self.opts, DIRECTLY):
            self._executors = executors_index(self.opts, self._executors)
        return self._made[1]

    def last_loader(self) -> Loader:
        """The last result of `loader`, without a check of the files."""
        return self._made[1] if self._made is not None else self.loader()

    def chain(self, loader: Loader, asked: Execution) -> Chain | None:
        """The executors of a job; None if its functions are called directly. For the process of a job."""
        if is_direct(self.opts, asked):
            return None
        self._executors = executors_index(self.opts, self._executors)
        return Executors(loader, self._executors).chain(asked, remote=True)


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
        self._heard = bytearray()
        self._ahead = ""

    def load_ahead(self, module: str) -> None:
        """Make it load the module that its job will probably use, if that module ships with saltlite."""
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

    def hear(self) -> bytes | None:
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
        for word in (WRITTEN, AGAIN, DONE):
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
    ours, theirs = socket.socketpair()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        _become(context, theirs.fileno())
    theirs.close()
    return JobProcess(pid, ours, loader)


def _become(context: JobContext, waiting: int) -> None:
    """The life of the process; it never returns."""
    status = NO_RESULT
    try:
        stand_alone(waiting)
        spool, loader = DiskSpool(PosixFolder(context.spool_dir)), context.last_loader()
        rpc = RpcClient(waiting)
        events = RpcEventSender(rpc)
        loader.provide("__file_client__", _file_client(context.opts, rpc))
        loader.provide("__events__", events)
        before: ProcessState | None = None
        while (found := _next_job(waiting, loader)) is not None:
            job, reusable = found
            events.jid = job.jid
            if reusable:
                before = _state(loader, job, before)
            with logs.log_context(jid=job.jid):
                _write_all(waiting, _run(job, context, loader, spool))
                logs.report_repeats()
            loader.context.clear()
            if before is None or not rpc.is_unused:
                break
            if difference := before.difference():
                log.debug("this process runs no other job: %s changed", difference)
                break
            _write_all(waiting, AGAIN)
        status = 0
    except JournalError as error:
        sys.stderr.write(f"the result of a job is lost: {error}\n")
    except BrokenPipeError:
        # The job server is gone, and does not sync the result, which the next one will find in the spool.
        spool.sync([events.jid])
        status = 0
    except BaseException:  # noqa: BLE001 - named supervision point: the last frame of a job's process
        traceback.print_exc()
    finally:
        os._exit(status)


def stand_alone(*keeping: int) -> None:
    """Detach from the daemon: a new session and group, no descriptors but these and those of the log."""
    os.setsid()
    # All descendants of a job can be found below it for as long as it runs.
    adopt_orphans()
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
    set_title(TITLE)


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
    calls = job.calls
    outcome = blackout(loader, (fun for fun, _args, _kwargs in calls))
    if outcome is None:
        chain = context.chain(loader, job.execution)
        outcome = call_each(loader, calls, jid=job.jid, user=job.user, chain=chain)
    dur_ms = int((time.monotonic() - began) * 1000)
    sealed = context.returns.seal(job.jid, outcome.value)
    entry = SpoolEntry(
        state=TargetState.RETURNED,
        code=max(-(2**31), min(2**31, outcome.retcode)),
        body=sealed.body,
        start_ms=int(started * 1000),
        dur_ms=dur_ms,
        reason=" ".join([sealed.note, *outcome.warnings]).strip()[:REASON_MAX],
    )
    # A large result takes its time to the master, and its sync would hold up the job server.
    is_large = len(entry.body) > HELD_RESULT_MAX
    try:
        spool.write(job.jid, entry, sync=is_large)
    except UnwrittenError as error:
        log.error("%s", error)  # noqa: TRY400 - a sentence
        report = _report(job.jid, entry, error.why)
        return UNWRITTEN + framed(report)
    return DONE if is_large else WRITTEN


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


# -- The prefork pool, so that a job does not wait for a fork


SPARES_MAX = 8
"""Processes forked at once while jobs come fast: after each fork the job server copies every page that it writes to,
and several forks in a row share that cost."""
SPARES_SOON_S = 0.5
"""If the pool was used up within this time, twice as many processes are forked."""
SPARES_IDLE_S = 5.0
"""After this time without a new job, all but one waiting process are released."""


class PreforkPool:
    """Forks waiting processes. `make` forks one, and raises OSError when there is no room. `loader` returns the current
    loader after a check of the module files."""

    def __init__(self, reactor: Reactor, make: Callable[[], JobProcess], loader: Callable[[], Loader]) -> None:
        self._reactor = reactor
        self._make = make
        self._loader = loader
        self._waiting: list[JobProcess] = []
        self._at_once = 1
        self._made = 0.0
        self._taken = 0.0
        self._trimming = False
        self._wanted = False
        self._module = ""

    def take(self, *, reusable: bool) -> JobProcess:
        """A waiting process with the current loader, or a new one. Raises OSError.

        Only a reusable job gets a process that has run a job before.
        """
        self._taken = self._reactor.now()
        loader = self._loader()
        if self._waiting and self._waiting[-1].loader is not loader:
            self.let_go(keep=0)
        found = next((one for one in reversed(self._waiting) if reusable or not one.reusable), None)
        if found is None:
            found = self._make()
        else:
            self._waiting.remove(found)
        found.reusable = reusable
        return found

    def give_back(self, process: JobProcess) -> None:
        """Let an unchanged process wait for another job, unless SPARES_MAX processes wait already."""
        if process.loader is self._loader() and len(self._waiting) < SPARES_MAX:
            self._waiting.append(process)
            self._trim_later()
        else:
            process.close()

    def began(self, module: str) -> None:
        """Note the module of a started job. The next job often uses the same one, so the next process loads it ahead.

        Only the next one does: several at once would take the CPU from the running job.
        """
        self._module = module
        if self._waiting:
            self._waiting[-1].load_ahead(module)

    def top_up(self) -> None:
        """Fork new processes if none is left, as many as the rate of jobs needs."""
        self._wanted = True
        if self._waiting:
            return
        now = self._reactor.now()
        soon = now - self._made < SPARES_SOON_S
        self._at_once = min(SPARES_MAX, self._at_once * 2) if soon else 1
        self._made = now
        self._loader()
        try:
            for _ in range(self._at_once):
                self._waiting.append(self._make())
        except OSError as error:
            log.warning("no process can be made in advance: %s; raise TasksMax, or set jobs_max lower", error.strerror)
        if self._waiting and self._module:
            self._waiting[-1].load_ahead(self._module)
        if self._at_once > 1:
            self._trim_later()

    def renew(self) -> None:
        """Replace the processes, because grains or pillar have changed."""
        self.let_go(keep=0)
        if self._wanted:
            self.top_up()

    def ended(self, process: JobProcess) -> None:
        """Handle the exit of a process, which may have waited in the pool."""
        if process in self._waiting:
            self._waiting.remove(process)
            process.close()

    def let_go(self, *, keep: int) -> None:
        """Release all but `keep` processes."""
        for process in self._waiting[keep:]:
            process.close()
        del self._waiting[keep:]

    def _trim_later(self) -> None:
        if not self._trimming:
            self._trimming = True
            self._reactor.call_later(SPARES_IDLE_S, self._trim)

    def _trim(self) -> None:
        self._trimming = False
        if self._reactor.now() - self._taken >= SPARES_IDLE_S:
            self.let_go(keep=1)
        elif len(self._waiting) > 1:
            self._trim_later()
