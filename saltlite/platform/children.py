"""Long-lived child processes of a daemon: forked, heard when they are ready, restarted when they die.

A child says through a pipe that it is ready, or in one sentence why it cannot start. Before the daemon has been
ready once, such a sentence ends the daemon; afterwards it is logged and the child is started again, at first at
once, then with growing pauses.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from saltlite.errors import SaltliteError
from saltlite.platform import logs
from saltlite.platform.process import Child, freeze_heap, keep_only, set_parent_death_signal, set_title
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

RESTART_MIN_S = 0.05
RESTART_MAX_S = 5.0
STEADY_S = 10.0
"""A child that lived so long starts over with the shortest pause."""
STOP_S = 3.0
"""Between asking a child to end and ending it: less than the 5 s in which SIGTERM ends a daemon, whatever it does."""
_READY = b"+"
_SENTENCE_MAX = 4096

# Signals that the parent handles and a fresh child must not.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class Spec:
    """A child: the name that `ps` shows, and what it runs. `run` gets `ready`, and returns when it is done.

    `keeps` answers, in the child, which descriptors of the parent it goes on using; it loses all others but those
    of the log. `before_fork` and `after_fork` run in the parent around each fork, for what the two share.
    """

    name: str
    run: Callable[[Callable[[], None]], None]
    keeps: Callable[[], Collection[int]]
    before_fork: Callable[[], None] = lambda: None
    after_fork: Callable[[], None] = lambda: None


@dataclass(eq=False, slots=True)
class _Running:
    spec: Spec
    child: Child
    pipe: int
    started: float
    ready: bool = False


class Children:
    """Keeps one process for each spec.

    `on_ready` is called once, when all are ready; `on_failed(sentence)` when one cannot start before that.
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
        """Fork them all."""
        freeze_heap()
        for spec in self._specs:
            self._fork(spec)

    def pids(self) -> dict[str, int]:
        """name -> pid of those that run."""
        return {name: running.child.pid for name, running in self._running.items()}

    def stop(self, done: Callable[[], None]) -> None:
        """End them, in the order of their specs; `done()` when all are gone."""
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
        """Send one child a signal; when it ends, it is started again."""
        running = self._running.get(name)
        if running is not None:
            running.child.signal(signum)

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
        self._reactor.add_reader(read_end, lambda: self._heard(spec.name))

    def _become(self, spec: Spec, pipe: int, parent: int) -> None:
        """The child's whole life; it never returns."""
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

    def _heard(self, name: str) -> None:
        running = self._running.get(name)
        if running is None:
            return
        said = os.read(running.pipe, _SENTENCE_MAX)
        if said == _READY:
            running.ready = True
            ready = [name for name, other in self._running.items() if other.ready]
            if not self._was_ready and len(ready) == len(self._specs):
                self._was_ready = True
                self._on_ready()
            return
        self._reactor.remove_reader(running.pipe)
        if not said:
            return
        sentence = said.decode(errors="replace")
        if self._was_ready:
            log.error("%s: %s", name, sentence)
        elif self._stopping is None:
            self._on_failed(sentence)

    def _ended(self, spec: Spec, status: int | None) -> None:
        running = self._running[spec.name]
        self._heard(spec.name)
        running = self._running.pop(spec.name)
        self._reactor.remove_reader(running.pipe)
        os.close(running.pipe)
        if self._stopping is not None:
            self._all_gone()
            return
        lived_s = self._reactor.now() - running.started
        pause = RESTART_MIN_S if lived_s >= STEADY_S else self._pauses.get(spec.name, RESTART_MIN_S)
        self._pauses[spec.name] = min(RESTART_MAX_S, pause * 2)
        log.error(
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
    """What `Child` reported, in words: `exit status 1`, `killed by SIGKILL`."""
    if status is None:
        return "nobody knows how"
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _say_ready(pipe: int, parent: int) -> None:
    # The kernel forgot the death signal if the process has become another user since the fork.
    set_parent_death_signal(signal.SIGTERM, parent)
    os.write(pipe, _READY)
