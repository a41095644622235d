"""Room on the disk of a minion: the jobs machine is told of it, and what the disk did not take is written later."""

from __future__ import annotations

import logging

from saltlite.minion.jobs.results import Results
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.minion.protocol.ports import Journal
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

HELD_RETRY_S = 5.0
"""Between two attempts to write results that the disk did not take."""


class Room:
    """`path` is where all of it is, for messages."""

    def __init__(self, reactor: Reactor, jobs: JobMachine, journal: Journal, results: Results, path: str) -> None:
        self._reactor = reactor
        self._jobs = jobs
        self._journal = journal
        self._results = results
        self._path = path
        self._full = ""
        self._retrying = False

    def look(self) -> None:
        """Tell the jobs machine whether there is room now."""
        full = self._journal.full() or self._results.full()
        if full and not self._full:
            log.warning("new jobs are refused, because the disk is full (%s); make room in %s", full, self._path)
        elif self._full and not full:
            log.warning("the disk has room again, and new jobs are taken")
        self._full = full
        self._jobs.room(in_spool=self._results.has_room(), full=full)

    def write_later(self) -> None:
        """Write what is held in memory, as soon as the disk takes it."""
        if self._results.holding and not self._retrying:
            self._retrying = True
            self._reactor.call_later(HELD_RETRY_S, self._write)

    def _write(self) -> None:
        self._retrying = False
        self._results.retry()
        self.write_later()
