"""Processes made in advance, so that the next job does not wait for a fork."""

from __future__ import annotations

import logging
from collections.abc import Callable

from saltlite.loader.loader import Loader
from saltlite.minion.jobs.job_process import JobProcess
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

SPARES_MAX = 8
"""Processes made in advance at once while jobs come fast: after each fork the job server has to copy every page
that it writes to, and several forks in a row share that cost."""
SPARES_SOON_S = 0.5
"""Processes that were used up sooner than this are replaced by twice as many."""
SPARES_IDLE_S = 5.0
"""After so long without a new one, all spares but one are let go."""


class PreforkPool:
    """`make` forks a waiting process; it raises OSError when there is no room for another one.

    `loader` is what a process of this moment must have: it looks at the files of modules.
    """

    def __init__(self, reactor: Reactor, make: Callable[[], JobProcess], loader: Callable[[], Loader]) -> None:
        self._reactor = reactor
        self._make = make
        self._loader = loader
        self._waiting: list[JobProcess] = []
        self._at_once = 1
        self._made = 0.0
        self._wanted = False
        self._module = ""

    def take(self) -> JobProcess:
        """A process that waits: a spare, or a new one if modules have changed since those were made. Raises OSError."""
        loader = self._loader()
        if self._waiting and self._waiting[-1].loader is not loader:
            self.let_go(keep=0)
        return self._waiting.pop() if self._waiting else self._make()

    def began(self, module: str) -> None:
        """A job of that module has begun. Whoever asks for many jobs mostly asks for the same: the next spare loads it.

        Only the next: several at once would take the CPU from the job that runs.
        """
        self._module = module
        if self._waiting:
            self._waiting[-1].load_ahead(module)

    def top_up(self) -> None:
        """Make new ones when none is left, as many as jobs come fast."""
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
            self._reactor.call_later(SPARES_IDLE_S, lambda: self._trim(now))

    def renew(self) -> None:
        """Exchange them, because they have what there was when they were made: the next job has what there is now."""
        self.let_go(keep=0)
        if self._wanted:
            self.top_up()

    def ended(self, process: JobProcess) -> None:
        """That process is gone; one that waited here is no spare any more."""
        if process in self._waiting:
            self._waiting.remove(process)
            process.close()

    def let_go(self, *, keep: int) -> None:
        """Let all go but so many."""
        for process in self._waiting[keep:]:
            process.close()
        del self._waiting[keep:]

    def _trim(self, made: float) -> None:
        if made == self._made:
            self.let_go(keep=1)
