"""The results of this minion's jobs: in the spool, or in memory while the disk does not take them.

A small result that could not be written is held in memory, offered like any other, and written later. The journal
records why it was not written, so if this process ends first, the job is reported as interrupted for that reason.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile

from saltlite.errors import JournalError, UnwrittenError
from saltlite.minion.jobs.job_process import HELD_RESULT_MAX
from saltlite.minion.processes import ipc_messages as ipc
from saltlite.minion.protocol.effects import Journal, Spool, SpoolEntry
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.model.ids import PartId
from saltlite.model.job import part_of_segment
from saltlite.platform.logs import log_context
from saltlite.platform.reactor import Reactor
from saltlite.wire.framing import IpcMessage
from saltlite.wire.limits import CHUNK

log = logging.getLogger(__name__)

HELD_BYTES = 1024 * 1024
"""Bytes of all results held in memory. A result beyond it is lost, and its job is reported as interrupted."""


class ResultStore:
    """The spool, and the results that it could not take. Errors are those of the spool."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._held: dict[str, SpoolEntry] = {}
        self._why = ""

    def hold(self, jid: str, entry: SpoolEntry, why: str) -> bool:
        """Hold a result that the disk did not take because of `why`; False if there is no memory left for it."""
        self._why = why
        size = len(entry.body)
        if size > HELD_RESULT_MAX or size + sum(len(held.body) for held in self._held.values()) > HELD_BYTES:
            return False
        self._held[jid] = entry
        return True

    def keep(self, jid: str, entry: SpoolEntry) -> None:
        """Write the ending of a job without a result; hold it if the disk is full, since it has no body."""
        try:
            self._spool.write(jid, entry)
        except UnwrittenError as error:
            with log_context(jid=jid):
                log.warning("%s", error)
            self.hold(jid, entry, error.why)

    def retry(self) -> None:
        """Write what is held, as far as the disk takes it."""
        for jid, entry in list(self._held.items()):
            try:
                self._spool.write(jid, entry)
            except UnwrittenError as error:
                self._why = error.why
                return
            del self._held[jid]
            with log_context(jid=jid):
                log.info("its result is on the disk now")

    def read(self, jid: str) -> SpoolEntry:
        return self._held.get(jid) or self._spool.read(jid)

    def remove(self, jid: str) -> None:
        """Delete a result that the master has confirmed."""
        if self._held.pop(jid, None) is None:
            self._spool.remove(jid)

    def jids(self) -> list[str]:
        """The jobs with a result, sorted."""
        return sorted({*self._spool.jids(), *self._held})

    def segments_of(self, part: PartId) -> list[str]:
        """The segments of that part in the spool."""
        return [one for one in self._spool.jids() if one != part and part_of_segment(one) == part]

    def noticed(self, jid: str, *, reported: bool = False) -> bool:
        """Whether a job whose process ended has a result; `reported`: the process reported that it is on disk."""
        return jid in self._held or self._spool.noticed(jid, reported=reported)

    def is_synced(self, jid: str) -> bool:
        """Whether a power failure leaves the result of that job in the spool."""
        return self._spool.is_synced(jid)

    def sync(self, jids: Sequence[str]) -> None:
        """Put these results on disk, as far as they are still there. Hold those that the disk does not take.

        Raises JournalError when such a result cannot be read or removed, either.
        """
        for jid, why in self._spool.sync(jids).items():
            with log_context(jid=jid):
                log.warning("its result could not be synced: %s; repair that disk", why)
            if self.hold(jid, self._spool.read(jid), why):
                # Written anew later: a second sync of these pages would say nothing about them.
                self._spool.remove(jid)

    def count(self) -> int:
        """The number of waiting results."""
        return self._spool.usage()[0] + len(self._held)

    def has_room(self) -> bool:
        """Whether the limits of the spool allow another job."""
        return self._spool.has_room()

    def full(self) -> str:
        """Why the disk may not take another result; "" if it may."""
        return self._why if self._held else self._spool.full()

    @property
    def holding(self) -> bool:
        """Whether anything is held."""
        return bool(self._held)


# -- The way to the network process: a few results at once, while the others wait in the spool


OFFERS_OPEN = 32
"""Results sent to the network process without an acknowledgement; the rest wait in the spool."""


class ResultQueue:
    """Sends results to the network process. `tell` sends a message; `unreadable` is called for each result that the
    disk has lost."""

    def __init__(
        self, results: ResultStore, tell: Callable[[IpcMessage], None], unreadable: Callable[[str], None]
    ) -> None:
        self._results = results
        self._tell = tell
        self._unreadable = unreadable
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._offered: set[str] = set()

    def connected(self) -> None:
        """Start a session: nothing is in flight."""
        self._offered.clear()
        self._waiting.clear()

    def offer(self, result: str) -> None:
        """Queue a result. An earlier attempt is taken as lost, and must not occupy a place."""
        self._offered.discard(result)
        self._waiting[result] = None

    def acknowledged(self, result: str) -> None:
        """Handle an acknowledgement; the result may have been queued again just before."""
        self._offered.discard(result)

    def forget(self, result: str) -> None:
        """Remove a result that is no longer in the spool."""
        self._waiting.pop(result, None)

    def hand_over(self) -> None:
        """Send as many results as may be in flight."""
        while self._waiting and len(self._offered) < OFFERS_OPEN:
            result, _ = self._waiting.popitem(last=False)
            entry = self._read(result)
            if entry is not None:
                self._offered.add(result)
                self._tell(ipc.result(result, entry, inline_max=CHUNK))

    def grant(self, result: str) -> None:
        """Send the body of a result, for which the master has reserved memory."""
        entry = self._read(result)
        if entry is not None:
            self._tell(ipc.body(result, entry.body))

    def _read(self, result: str) -> SpoolEntry | None:
        try:
            return self._results.read(result)
        except JournalError as error:
            with log_context(jid=part_of_segment(result)):
                log.error("%s", error)  # noqa: TRY400 - the sentence says it all
            self._unreadable(result)
            return None


# -- Results that were written without a sync. Mostly the master confirms them first, and they are never synced.


SYNC_S = 0.1
"""Seconds after which a result without the master's confirmation is synced: what a power failure may take (G6)."""


class DelayedSync:
    """Syncs results that the master did not confirm within SYNC_S. `synced` is called after that, and `fail` with a
    sentence when the disk fails."""

    def __init__(
        self, reactor: Reactor, results: ResultStore, synced: Callable[[], None], fail: Callable[[str], None]
    ) -> None:
        self._reactor = reactor
        self._results = results
        self._synced = synced
        self._fail = fail
        self._due: dict[str, float] = {}
        self._armed = False

    def later(self, jid: str) -> None:
        """Sync the result of that job when its time has come."""
        self._due[jid] = self._reactor.now() + SYNC_S
        if not self._armed:
            self._armed = True
            self._reactor.call_later(SYNC_S, self._sync)

    def drop(self, jid: str) -> None:
        """Forget a result that is gone."""
        self._due.pop(jid, None)

    def _sync(self) -> None:
        self._armed = False
        now = self._reactor.now()
        # All have the same delay, so the first one is due first.
        due = list(takewhile(lambda jid: self._due[jid] <= now, self._due))
        try:
            self._results.sync(due)
        except JournalError as error:
            self._fail(str(error))
            return
        for jid in due:
            del self._due[jid]
        if due:
            self._synced()
        if self._due:
            self._armed = True
            self._reactor.call_at(next(iter(self._due.values())), self._sync)


# -- Free space on the minion's disk


HELD_RETRY_S = 5.0
"""Seconds between two attempts to write results that the disk did not take."""


class DiskQuota:
    """Free space of the minion. `path` is the folder, for messages."""

    def __init__(self, reactor: Reactor, jobs: JobMachine, journal: Journal, results: ResultStore, path: str) -> None:
        self._reactor = reactor
        self._jobs = jobs
        self._journal = journal
        self._results = results
        self._path = path
        self._full = ""
        self._retrying = False

    def look(self) -> None:
        """Tell the job state machine whether there is space now."""
        full = self._journal.full() or self._results.full()
        if full and not self._full:
            log.warning("new jobs are refused, because the disk is full (%s); make room in %s", full, self._path)
        elif self._full and not full:
            log.warning("the disk has room again, and new jobs are taken")
        self._full = full
        self._jobs.room(in_spool=self._results.has_room(), full=full)

    def write_later(self) -> None:
        """Write the results held in memory, as soon as the disk takes them."""
        if self._results.holding and not self._retrying:
            self._retrying = True
            self._reactor.call_later(HELD_RETRY_S, self._write)

    def _write(self) -> None:
        self._retrying = False
        self._results.retry()
        self.write_later()
