"""Where the processes of jobs come from: from those that wait, from a fork server, or from the job server itself.

After each fork the job server copies every page that it writes to, and the new process touches most of the interpreter
for the first time. Jobs of shipped functions share a process, so forks for them are rare. While jobs come that need a
new process each, the pool has a fork server: a process that has loaded what a job needs, has rehearsed one, and only
forks. It runs no custom code, so its processes are as fresh as those that the job server forks.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from typing import NoReturn

from saltlite.loader.loader import Loader
from saltlite.minion.jobs.job_process import (
    TITLE,
    JobContext,
    JobProcess,
    JobRunner,
    end_after,
    fork_waiting,
    lead_session,
    stand_alone,
)
from saltlite.minion.jobs.rehearsal import rehearse
from saltlite.platform.process import freeze_heap, set_title
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

SPARES_MAX = 8
"""Processes forked at once while jobs come fast: after each fork the job server copies every page that it writes to,
and several forks in a row share that cost."""
SPARES_SOON_S = 0.5
"""If the pool was used up within this time, twice as many processes are forked."""
SPARES_IDLE_S = 5.0
"""After this time without a new job, all but one waiting process are released."""
IDLE_S = 60.0
"""After this time without a new job no process waits: the next job waits 3 ms for a fork, and a minion without jobs is
smaller."""
BACK_S = 0.03
"""A process that may be reused and is not back after this time is replaced, so that the next job finds one."""
FORK_SERVER_SOON_S = 5.0
"""Two jobs that need a new process in this time start the fork server."""
FORK_SERVER_IDLE_S = 30.0
"""After this time without another such job it ends."""
FORK_SERVER_ANSWER_S = 2.0
"""A fork server that does not fork within this time is killed, and the job server forks."""
FORK_SERVER_TITLE = "job fork server"
REAP_S = 1.0
"""Seconds until the fork server reaps its processes while nothing is asked of it."""
MESSAGE_MAX = 1024
"""Bytes of a message to the fork server."""

_READY = b"+"
_FORK = b"f"
"""Fork a process for each of the sockets that come with it; the answer has their pids."""
_AHEAD = b"a"
"""Load the module whose name follows."""
_STATUS = b"s"
"""Answer how the process whose pid follows has ended."""
_NUMBER = struct.Struct("!i")
_UNKNOWN = 256
"""The answer for a process of which nothing is known: no exit status, and no signal."""
_STATUSES_MAX = 64


# -- In the fork server


def start_fork_server(context: JobContext) -> ForkServer:
    """Fork the fork server, with the last loader. Raises OSError when there is no room for another process."""
    loader = context.last_loader()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:

        def live() -> None:
            stand_alone(theirs.fileno())
            set_title(FORK_SERVER_TITLE)
            _Forking(context, theirs).serve()

        end_after(live)
    theirs.close()
    return ForkServer(pid, ours, loader)


class _Forking:
    """The fork server's own side."""

    def __init__(self, context: JobContext, control: socket.socket) -> None:
        self._context = context
        self._control = control
        self._children = 0
        """Processes that it has not reaped yet."""
        self._statuses: dict[int, int] = {}
        # Each process finds its socket under this number, so that what uses it is made once.
        self._place = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._runner = JobRunner(context, self._place)

    def serve(self) -> None:
        """Fork until the job server is gone or needs no more."""
        rehearse(self._context, self._place)
        freeze_heap()
        self._control.send(_READY)
        while True:
            # A signal handler would reap at once, but every process would have to remove it.
            while self._children and not select.select([self._control], [], [], REAP_S)[0]:
                self._reap()
            data, sockets, _flags, _from = socket.recv_fds(
                self._control, MESSAGE_MAX, SPARES_MAX, socket.MSG_CMSG_CLOEXEC
            )
            match data[:1]:
                case b"":
                    return
                case b"f":
                    self._control.send(b"".join(map(_NUMBER.pack, self._fork(sockets))))
                case b"a":
                    self._runner.loader.load_ahead(data[1:].decode())
                case b"s":
                    (pid,) = _NUMBER.unpack(data[1:])
                    self._reap()
                    self._control.send(_NUMBER.pack(self._statuses.pop(pid, _UNKNOWN)))

    def _fork(self, sockets: Sequence[int]) -> list[int]:
        """The pids of the new processes; fewer than sockets where the machine has no room for more."""
        self._reap()
        pids: list[int] = []
        try:
            for number, fd in enumerate(sockets):
                pid = os.fork()
                if pid == 0:
                    self._become(fd, sockets[number:])
                pids.append(pid)
                os.close(fd)
        except OSError as error:
            log.warning("no process can be made for a job: %s", error.strerror)
            for fd in sockets[len(pids) :]:
                os.close(fd)
        self._children += len(pids)
        return pids

    def _become(self, fd: int, sockets: Sequence[int]) -> NoReturn:
        """The life of a process for a job."""

        def live() -> None:
            lead_session()
            set_title(TITLE)
            os.dup2(fd, self._place, inheritable=False)
            for other in sockets:
                os.close(other)
            self._control.close()
            self._runner.serve()

        end_after(live)

    def _reap(self) -> None:
        """Take the exit status of processes that have ended, and keep the latest ones."""
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._children -= 1
            self._statuses[pid] = os.waitstatus_to_exitcode(status)
            if len(self._statuses) > _STATUSES_MAX:
                del self._statuses[next(iter(self._statuses))]


# -- In the job server


class ForkServer:
    """The job server's handle of the fork server. `loader` is the one that it was forked with."""

    def __init__(self, pid: int, sock: socket.socket, loader: Loader) -> None:
        self.pid = pid
        self.socket = sock
        self.loader = loader
        self.is_ready = False
        """Whether it has rehearsed. It is not asked before, because the job server waits for its answers."""
        self._ahead = ""

    def hear(self) -> bool:
        """Take its first message; False if it has ended instead."""
        self.is_ready = self.socket.recv(MESSAGE_MAX) == _READY
        self.socket.settimeout(FORK_SERVER_ANSWER_S)
        return self.is_ready

    def fork(self, count: int) -> list[JobProcess]:
        """That many new processes. Raises OSError when it makes none."""
        pairs = [socket.socketpair() for _ in range(count)]
        try:
            socket.send_fds(self.socket, [_FORK], [theirs.fileno() for _ours, theirs in pairs])
            answer = self.socket.recv(MESSAGE_MAX)
        except OSError:
            for ours, _theirs in pairs:
                ours.close()
            raise
        finally:
            for _ours, theirs in pairs:
                theirs.close()
        pids = [pid for (pid,) in _NUMBER.iter_unpack(answer)]
        for ours, _theirs in pairs[len(pids) :]:
            ours.close()
        if not pids:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return [self._process(pid, ours) for pid, (ours, _theirs) in zip(pids, pairs, strict=False)]

    def load_ahead(self, module: str) -> None:
        """Make it load a shipped module, or compile another one, for the processes that it forks from now on."""
        name = module.encode()
        if self.is_ready and module != self._ahead and len(name) < MESSAGE_MAX:
            self._ahead = module
            self.socket.send(_AHEAD + name)

    def close(self) -> None:
        """Let it end; the processes that it forked go on."""
        self.socket.close()

    def _process(self, pid: int, sock: socket.socket) -> JobProcess:
        process = JobProcess(pid, sock, self.loader)
        process.exit_status = lambda: self._status_of(pid)
        return process

    def _status_of(self, pid: int) -> int | None:
        """How a process that it forked has ended; None if it does not know, or is gone itself."""
        try:
            self.socket.send(_STATUS + _NUMBER.pack(pid))
            (status,) = _NUMBER.unpack(self.socket.recv(MESSAGE_MAX))
        except (OSError, struct.error):
            return None
        return None if status == _UNKNOWN else int(status)


class PreforkPool:
    """Processes that wait for jobs. `watch` is called with each new one, and `watch_server` with a new fork server."""

    def __init__(
        self,
        reactor: Reactor,
        context: JobContext,
        watch: Callable[[JobProcess], None],
        watch_server: Callable[[ForkServer], None],
    ) -> None:
        self._reactor = reactor
        self._context = context
        self._watch = watch
        self._watch_server = watch_server
        self._waiting: list[JobProcess] = []
        self._server: ForkServer | None = None
        self._at_once = 1
        self._made = float("-inf")
        self._taken = float("-inf")
        self._taken_fresh = float("-inf")
        self._needs_server = False
        self._trimming = False
        self._top_up_due = False
        self._module = ""

    def take(self, *, reusable: bool) -> JobProcess:
        """A waiting process with the current loader, or a new one. Raises OSError.

        Only a reusable job gets a process that has run a job before.
        """
        now = self._reactor.now()
        self._taken = now
        if not reusable:
            self._needs_server = now - self._taken_fresh < FORK_SERVER_SOON_S
            self._taken_fresh = now
        loader = self._context.loader()
        if self._waiting and self._waiting[-1].loader is not loader:
            self.let_go(keep=0)
        found = next((one for one in reversed(self._waiting) if one.reusable is reusable), None)
        if found is None and reusable and self._waiting:
            found = self._waiting[-1]
        if found is None:
            found = self._make(1)[0]
        else:
            self._waiting.remove(found)
        found.reusable = reusable
        self._trim_later()
        return found

    def give_back(self, process: JobProcess) -> None:
        """Let an unchanged process wait for another job, unless SPARES_MAX processes wait already.

        `take` looks whether files have changed since.
        """
        if process.loader is self._context.last_loader() and len(self._waiting) < SPARES_MAX:
            self._waiting.append(process)
            self._trim_later()
        else:
            process.close()

    def began(self, process: JobProcess, module: str) -> None:
        """Note that a job of that module was started in that process, and provide one for the next job.

        The next job often uses the same module, so the next process loads it ahead. Only the next one does: several at
        once would take the CPU from the running job. A process that may be reused is often back soon.
        """
        self._module = module
        self._load_ahead()
        if not process.reusable:
            self._reactor.call_soon(self._top_up)
        elif not self._top_up_due:
            self._top_up_due = True
            self._reactor.call_later(BACK_S, self._top_up)

    def ended(self, process: JobProcess) -> None:
        """Handle the exit of a process, which may have waited in the pool."""
        if process in self._waiting:
            self._waiting.remove(process)
            process.close()

    def server_ended(self, server: ForkServer) -> None:
        """Handle the exit of a fork server."""
        if server is self._server:
            self._end_server()

    def let_go(self, *, keep: int) -> None:
        """Release all but `keep` processes."""
        for process in self._waiting[keep:]:
            process.close()
        del self._waiting[keep:]

    # -- inside

    def _top_up(self) -> None:
        """Fork new processes if none is left for the next job, as many as the rate of jobs needs."""
        self._top_up_due = False
        now = self._reactor.now()
        needs_fresh = now - self._taken_fresh < FORK_SERVER_SOON_S
        if self._waiting and not (needs_fresh and all(one.reusable for one in self._waiting)):
            return
        soon = now - self._made < SPARES_SOON_S
        self._at_once = min(SPARES_MAX, self._at_once * 2) if soon else 1
        self._made = now
        self._context.loader()
        try:
            self._start_server()
            self._waiting += self._make(self._at_once)
        except OSError as error:
            log.warning("no process can be made in advance: %s; raise TasksMax, or set jobs_max lower", error.strerror)
        self._load_ahead()
        self._trim_later()

    def _make(self, count: int) -> list[JobProcess]:
        """New processes with the last loader, one at least. Raises OSError."""
        made = self._forked(count)
        for process in made:
            self._watch(process)
        return made

    def _forked(self, count: int) -> list[JobProcess]:
        server = self._server
        if server is not None and server.is_ready and server.loader is self._context.last_loader():
            try:
                return server.fork(count)
            except OSError as error:
                log.warning("the fork server makes no process: %s; the minion forks itself", error)
                os.kill(server.pid, signal.SIGKILL)
                self._end_server()
        first = fork_waiting(self._context)
        made = [first]
        for _ in range(count - 1):
            try:
                made.append(fork_waiting(self._context))
            except OSError:
                break
        return made

    def _start_server(self) -> None:
        """Start the fork server if jobs need it and there is none with the last loader. Raises OSError."""
        if not self._needs_server:
            return
        if self._server is not None and self._server.loader is not self._context.last_loader():
            self._end_server()
        if self._server is None:
            self._server = start_fork_server(self._context)
            self._watch_server(self._server)

    def _end_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _load_ahead(self) -> None:
        if self._server is not None and self._server.is_ready:
            self._server.load_ahead(self._module)
        elif self._waiting and self._module:
            self._waiting[-1].load_ahead(self._module)

    def _trim_later(self) -> None:
        if not self._trimming:
            self._trimming = True
            self._reactor.call_later(SPARES_IDLE_S, self._trim)

    def _trim(self) -> None:
        self._trimming = False
        now = self._reactor.now()
        if now - self._taken_fresh >= FORK_SERVER_IDLE_S:
            self._needs_server = False
            self._end_server()
        if now - self._taken >= IDLE_S:
            self.let_go(keep=0)
        elif now - self._taken >= SPARES_IDLE_S:
            self.let_go(keep=1)
        if self._waiting or self._server is not None:
            self._trim_later()
