"""Supervision: a daemon's child processes below it, and systemd above it.

A child reports through a pipe that it is ready, or one sentence why it cannot start. Before the daemon has been ready
once, such a sentence ends the daemon; later it is logged and the child is restarted, with growing pauses. The state of
the daemon goes to systemd by the protocol of sd_notify(3).
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from saltlite.errors import SaltliteError
from saltlite.model.dataclass import dataclass
from saltlite.platform import logs
from saltlite.platform.process import Child, freeze_heap, keep_only, set_parent_death_signal, set_title
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

RESTART_MIN_S = 0.05
RESTART_MAX_S = 5.0
STEADY_S = 10.0
"""After so long a life, the next pause of a child is the shortest one again."""
STOP_S = 3.0
"""Between SIGTERM and SIGKILL for a child: less than the 5 s in which SIGTERM always ends a daemon."""
_READY = b"+"
_SENTENCE_MAX = 4096

# The parent's handlers for these are reset in a new child.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class Spec:
    """A child: the name that `ps` shows, and `run(ready)`, which is its main function.

    `keeps` returns, in the child, the inherited descriptors that it uses; all others but those of the log are closed.
    `before_fork` and `after_fork` run in the parent around each fork. A child that `serves` a listening socket starts
    with the first connection to it, and takes that.
    """

    name: str
    run: Callable[[Callable[[], None]], None]
    keeps: Callable[[], Collection[int]]
    before_fork: Callable[[], None] = lambda: None
    after_fork: Callable[[], None] = lambda: None
    serves: socket.socket | None = None


@dataclass(eq=False, slots=True)
class _Running:
    spec: Spec
    child: Child
    pipe: int
    started: float
    ready: bool = False
    is_asked_to_end: bool = False


class Children:
    """Keeps one process running for each spec.

    `on_ready` is called once, when all that start by themselves are ready; `on_failed(sentence)` if one cannot start
    before that.
    """

    def __init__(
        self,
        reactor: Reactor,
        specs: Sequence[Spec],
        *,
        on_ready: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._specs = list(specs)
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._running: dict[str, _Running] = {}
        self._pauses: dict[str, float] = {}
        self._was_ready = False
        self._stopping: Callable[[], None] | None = None

    def start(self) -> None:
        """Fork all that start by themselves."""
        freeze_heap()
        for spec in self._specs:
            if spec.serves is None:
                self._fork(spec)
            else:
                self._reactor.add_reader(spec.serves.fileno(), partial(self._first_connection, spec, spec.serves))

    def pids(self) -> dict[str, int]:
        """name -> pid of those that run."""
        return {name: running.child.pid for name, running in self._running.items()}

    def stop(self, done: Callable[[], None]) -> None:
        """End them, in the order of their specs, then call `done()`."""
        if self._stopping is not None:
            return
        self._stopping = done
        for spec in self._specs:
            running = self._running.get(spec.name)
            if running is not None:
                running.child.signal(signal.SIGTERM)
        self._reactor.call_later(STOP_S, self._end_all)
        self._all_gone()

    def signal(self, name: str, signum: int) -> None:
        """Send a signal to one child, which is restarted if it ends."""
        running = self._running.get(name)
        if running is not None:
            running.child.signal(signum)

    def restart(self, name: str) -> None:
        """Have one child end by itself, and start it again: nothing is wrong with it."""
        running = self._running.get(name)
        if running is not None:
            running.is_asked_to_end = True
            running.child.signal(signal.SIGTERM)

    def _first_connection(self, spec: Spec, listener: socket.socket) -> None:
        self._reactor.remove_reader(listener.fileno())
        self._fork(spec)

    def _fork(self, spec: Spec) -> None:
        if self._stopping is not None:
            return
        spec.before_fork()
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            self._become(spec, write_end, parent)
        os.close(write_end)
        spec.after_fork()
        os.set_blocking(read_end, False)
        child = Child(self._reactor, pid, lambda status: self._ended(spec, status))
        self._running[spec.name] = _Running(spec, child, read_end, self._reactor.now())
        self._reactor.add_reader(read_end, lambda: self._read_pipe(spec.name))

    def _become(self, spec: Spec, pipe: int, parent: int) -> None:
        """Run the child; never returns."""
        status = 0
        try:
            for signum in _SIGNALS:
                signal.signal(signum, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            set_parent_death_signal(signal.SIGTERM, parent)
            set_title(spec.name)
            keep_only([pipe, *logs.descriptors(), *spec.keeps()])
            spec.run(lambda: _say_ready(pipe, parent))
        except SaltliteError as error:
            os.write(pipe, str(error).encode()[:_SENTENCE_MAX])
            status = error.exit_code
        except BaseException as error:  # noqa: BLE001 - named supervision point: the last frame of a child process
            traceback.print_exc()
            os.write(pipe, f"{spec.name} failed: {error!r}".encode()[:_SENTENCE_MAX])
            status = 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _read_pipe(self, name: str) -> None:
        running = self._running.get(name)
        if running is None:
            return
        data = os.read(running.pipe, _SENTENCE_MAX)
        if data == _READY:
            running.ready = True
            ready = {name for name, other in self._running.items() if other.ready}
            if not self._was_ready and ready.issuperset(spec.name for spec in self._specs if spec.serves is None):
                self._was_ready = True
                self._on_ready()
            return
        self._reactor.remove_reader(running.pipe)
        if not data:
            return
        sentence = data.decode(errors="replace")
        if self._was_ready:
            log.error("%s: %s", name, sentence)
        elif self._stopping is None:
            self._on_failed(sentence)

    def _ended(self, spec: Spec, status: int | None) -> None:
        running = self._running[spec.name]
        self._read_pipe(spec.name)
        running = self._running.pop(spec.name)
        self._reactor.remove_reader(running.pipe)
        os.close(running.pipe)
        if self._stopping is not None:
            self._all_gone()
            return
        lived_s = self._reactor.now() - running.started
        pause = RESTART_MIN_S if lived_s >= STEADY_S else self._pauses.get(spec.name, RESTART_MIN_S)
        self._pauses[spec.name] = min(RESTART_MAX_S, pause * 2)
        log.log(
            logging.INFO if running.is_asked_to_end and status in (0, -signal.SIGTERM) else logging.ERROR,
            "%s (pid %d) ended (%s); it starts again in %g s",
            spec.name,
            running.child.pid,
            how(status),
            pause,
        )
        self._reactor.call_later(pause, lambda: self._fork(spec))

    def _end_all(self) -> None:
        for running in list(self._running.values()):
            running.child.signal(signal.SIGKILL)

    def _all_gone(self) -> None:
        if not self._running and self._stopping is not None:
            self._stopping()


def how(status: int | None) -> str:
    """The status that `Child` reported, in words: `exit status 1`, `killed by SIGKILL`."""
    if status is None:
        return "status unknown"
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _say_ready(pipe: int, parent: int) -> None:
    # The kernel clears the death signal when a process changes its user, which may have happened since the fork.
    set_parent_death_signal(signal.SIGTERM, parent)
    os.write(pipe, _READY)


def notify(state_lines: Iterable[str]) -> bool:
    """Send lines such as `READY=1` or `STATUS=…` by sd_notify(3); whether systemd received them. Never waits or raises.

    Newlines inside a line become spaces: a status may contain text from a process with fewer rights, which must not
    send commands to systemd in this daemon's name.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sock:
        try:
            sock.sendto("\n".join(line.replace("\n", " ") for line in state_lines).encode(), address)
        except OSError:
            return False
    return True


def watchdog_interval_s() -> float | None:
    """The interval of `WATCHDOG=1` in seconds, half of what systemd allows; None without a watchdog."""
    allowed_us = os.environ.get("WATCHDOG_USEC", "")
    for_pid = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not allowed_us.isdigit() or int(allowed_us) == 0 or for_pid != str(os.getpid()):
        return None
    return int(allowed_us) / 2_000_000


def feed_watchdog(reactor: Reactor) -> None:
    """Send `WATCHDOG=1` from now on, as often as systemd requires; do nothing without a watchdog."""
    interval_s = watchdog_interval_s()
    if interval_s is not None:
        notify(["WATCHDOG=1"])
        reactor.call_later(interval_s, lambda: feed_watchdog(reactor))
