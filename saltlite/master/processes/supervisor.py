"""The master's first process: it starts the other processes, restarts those that die, and stops them in order.

Once a second the watchdog in it ends each process whose turn takes too long. There are two cases. A turn that computes
is ended after TURN_MAX_S if it used TURN_CPU_S of CPU in that time. Both conditions count: on a busy machine an honest
turn waits for the CPU, and the longest honest ones (an index of 50,000 minions, 100,000 resources registered at once)
use five to nine seconds of it. A turn that waits (for a disk, for a lock) is ended after TURN_BLOCKED_S; SQLite gives
up long before that.

One look counts for at most LOOK_COUNTS_S, so a machine or a supervisor that was suspended counts as one look. The time
in which a process is stopped (SIGSTOP, a debugger) does not count.
"""

from __future__ import annotations

import functools
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from saltlite.model.dataclass import dataclass
from saltlite.platform import supervision
from saltlite.platform.process import SETTLED_S, cpu_seconds, state_of, unmap_clean_pages
from saltlite.platform.reactor import Reactor
from saltlite.platform.shared_memory import TurnBoard
from saltlite.platform.supervision import Children, Spec

log = logging.getLogger(__name__)

TURN_S = 0.5
"""Seconds between the restarts of two children, so that the others serve meanwhile."""


class Supervisor:
    """Runs the children of a daemon, and reports to systemd. `what` is the daemon's name in the log."""

    def __init__(
        self,
        reactor: Reactor,
        specs: Sequence[Spec],
        *,
        what: str,
        on_ready: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._what = what
        self._tell_ready = on_ready
        self._problem = ""
        self.children = Children(reactor, specs, on_ready=self._ready, on_failed=self._failed)

    def run(self) -> str:
        """Run until SIGTERM or SIGINT. Returns "", or the error of a child that could not start."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            self._reactor.on_signal(signum, self._stop)
        self.children.start()
        self._reactor.run()
        return self._problem

    def every(self, seconds: float, work: Callable[[], None]) -> None:
        """Do `work` periodically while the daemon runs."""

        def run() -> None:
            work()
            self._reactor.call_later(seconds, run)

        self._reactor.call_later(seconds, run)

    def restart_in_turn(self, names: Sequence[str]) -> None:
        """Restart these children, one after the other."""
        for number, name in enumerate(names):
            self._reactor.call_later(number * TURN_S, functools.partial(self._restart, name))

    def _restart(self, name: str) -> None:
        log.info("%s restarts", name)
        self.children.restart(name)

    def _ready(self) -> None:
        log.info("%s is ready", self._what)
        self._reactor.call_later(SETTLED_S, unmap_clean_pages)
        supervision.notify(["READY=1", f"STATUS={len(self.children.pids())} processes run"])
        self._tell_ready()
        supervision.feed_watchdog(self._reactor)

    def _failed(self, sentence: str) -> None:
        self._problem = self._problem or sentence
        self.children.stop(self._reactor.stop)

    def _stop(self) -> None:
        supervision.notify(["STOPPING=1"])
        self.children.stop(self._reactor.stop)


MWORKER = "MWorker"
MAINTENANCE = "maintenance"
HOOKS = "hooks"
MEMBERSHIP = "membership"

LOOK_S = 1.0
"""The interval of the watchdog."""
TURN_MAX_S = 30.0
"""How long a turn of an MWorker may compute."""
TURN_CPU_S = 20.0
"""CPU seconds that it must have used by then: twice those of the longest honest turn."""
TURN_BLOCKED_S = 60.0
"""How long a turn of an MWorker may wait."""
OWN_TURN_TIMES = 20
"""Maintenance and hooks may take this many times as long: they do the master's own work, such as deleting a day's jobs
in one transaction, which would start again forever if it were ended half done."""
LOOK_COUNTS_S = 2 * LOOK_S
"""The most that one look counts for."""

_STOPPED = "Tt"
_WAITING = "SD"


class Watched(Protocol):
    """The children of the supervisor."""

    def pids(self) -> dict[str, int]: ...

    def signal(self, name: str, signum: int) -> None: ...


@dataclass(slots=True)
class _Held:
    """One turn seen at several looks. `cpu_s` is the CPU time of its process before."""

    pid: int
    number: int
    cpu_s: float
    s: float = 0.0
    is_ended: bool = False


def mworkers(count: int) -> list[str]:
    """The names of the MWorkers."""
    return [f"{MWORKER}-{number}" for number in range(count)]


def board_of(count: int) -> TurnBoard:
    """The turn board of a master with `count` MWorkers; to be made before the fork."""
    return TurnBoard(mworkers(count), [MAINTENANCE, HOOKS])


def without_board(specs: Sequence[Spec], board: TurnBoard) -> list[Spec]:
    """`specs`, where each process that is not watched closes the board first, so that above all the link process, which
    strangers talk to, can neither read the turns of others nor have them ended."""

    def run(spec: Spec, ready: Callable[[], None]) -> None:
        board.close()
        spec.run(ready)

    return [spec if spec.name in board.names else replace(spec, run=functools.partial(run, spec)) for spec in specs]


class Watchdog:
    """Watches every process that has a slot on the board."""

    def __init__(
        self,
        board: TurnBoard,
        children: Watched,
        now: Callable[[], float],
        *,
        cpu_s: Callable[[int], float] = cpu_seconds,
        state: Callable[[int], str] = state_of,
    ) -> None:
        """`cpu_s(pid)`: CPU seconds of a process; `state(pid)`: its letter in proc(5)."""
        self._board = board
        self._children = children
        self._now = now
        self._cpu_s = cpu_s
        self._state = state
        self._held: dict[str, _Held] = {}
        self._looked_at = now()

    def look(self) -> None:
        """End the processes whose turn took too long."""
        now = self._now()
        passed_s, self._looked_at = min(now - self._looked_at, LOOK_COUNTS_S), now
        for name, pid in self._children.pids().items():
            if name in self._board.names:
                self._look_at(name, pid, passed_s)

    def _look_at(self, name: str, pid: int, passed_s: float) -> None:
        seen = self._board.seen(name)
        if seen is None:
            self._held.pop(name, None)
            return
        held = self._held.get(name)
        if held is None or (held.pid, held.number) != (pid, seen.number):
            self._held[name] = _Held(pid, seen.number, self._cpu_s(pid))
            return
        state = self._state(pid)
        if held.is_ended or state in _STOPPED:
            return
        held.s += passed_s
        used_s = self._cpu_s(pid) - held.cpu_s
        times = OWN_TURN_TIMES if name in self._board.own else 1
        computes = held.s >= TURN_MAX_S * times and used_s >= TURN_CPU_S * times
        waits = held.s >= TURN_BLOCKED_S * times and state in _WAITING
        if not (computes or waits):
            return
        held.is_ended = True
        # The work is refused before the process ends: then the link process passes its work to others.
        self._board.end(name, seen.turn, held.s)
        log.error(
            "%s (pid %d) was %.0f s in one turn and used %.0f s of a processor: %s; it is ended, and that work is not "
            "handed to the next",
            name,
            pid,
            held.s,
            used_s,
            seen.turn.text,
        )
        self._children.signal(name, signal.SIGKILL)
