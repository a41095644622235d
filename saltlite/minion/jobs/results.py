"""The results of this minion's jobs, by the ids of parts and segments.

They are in the spool, or in memory while the disk does not take them.

A small result whose process found no room, or a disk that fails, is held here and offered like any other, and written
as soon as that works. The journal knows why it was not written, so if this process ends first, the job is reported as
interrupted for that reason, and nothing is silently lost.
"""

from __future__ import annotations

import logging

from saltlite.errors import UnwrittenError
from saltlite.minion.jobs.job_process import HELD_RESULT_MAX
from saltlite.minion.protocol.ports import Spool, SpoolEntry
from saltlite.model.ids import PartId
from saltlite.model.job import part_of_segment
from saltlite.platform.logs import log_context

log = logging.getLogger(__name__)

HELD_BYTES = 1024 * 1024
"""Bytes of all results that are held. What does not fit is lost, and its job is reported as interrupted."""


class Results:
    """The spool, and what it could not take. Errors are those of the spool."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._held: dict[str, SpoolEntry] = {}
        self._why = ""

    def hold(self, jid: str, entry: SpoolEntry, why: str) -> bool:
        """Hold a result that the disk did not take for the reason `why`; False when there is no room for it."""
        self._why = why
        size = len(entry.body)
        if size > HELD_RESULT_MAX or size + sum(len(held.body) for held in self._held.values()) > HELD_BYTES:
            return False
        self._held[jid] = entry
        return True

    def keep(self, jid: str, entry: SpoolEntry) -> None:
        """Write the ending of a job that left no result; held when that cannot be, as it has no body."""
        try:
            self._spool.write(jid, entry)
        except UnwrittenError as error:
            with log_context(jid=jid):
                log.warning("%s", error)
            self.hold(jid, entry, error.why)

    def retry(self) -> None:
        """Write what is held, as far as the disk takes it now."""
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
        """The result of that job."""
        return self._held.get(jid) or self._spool.read(jid)

    def remove(self, jid: str) -> None:
        """Forget a result that the master has confirmed."""
        if self._held.pop(jid, None) is None:
            self._spool.remove(jid)

    def jids(self) -> list[str]:
        """The jobs with a result, sorted."""
        return sorted({*self._spool.jids(), *self._held})

    def segments_of(self, part: PartId) -> list[str]:
        """The segments of that part that are in the spool."""
        return [one for one in self._spool.jids() if one != part and part_of_segment(one) == part]

    def noticed(self, jid: str, *, said: bool = False) -> bool:
        """Whether the job, whose process has ended, has a result; `said` is that the process said it is on disk."""
        return jid in self._held or self._spool.noticed(jid, said=said)

    def count(self) -> int:
        """How many results wait."""
        return self._spool.usage()[0] + len(self._held)

    def has_room(self) -> bool:
        """Whether another job may be accepted, by the limits of the spool."""
        return self._spool.has_room()

    def full(self) -> str:
        """Why the disk may not take another result; "" when it may."""
        return self._why if self._held else self._spool.full()

    @property
    def holding(self) -> bool:
        """Whether anything is held."""
        return bool(self._held)
