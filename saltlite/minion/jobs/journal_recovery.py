"""What the journal has of a job, against what runs on the machine."""

from __future__ import annotations

from saltlite.minion.protocol.effects import Remembered
from saltlite.minion.protocol.ports import JournalEntry, Step
from saltlite.platform.process import start_ticks


def remembered_job(entry: JournalEntry) -> Remembered:
    """The entry for the jobs machine, with whether the process of the job still runs."""
    alive = entry.step is Step.STARTED and entry.ticks != 0 and start_ticks(entry.pid) == entry.ticks
    return Remembered(
        jid=entry.jid,
        step=entry.step,
        body=entry.body,
        issuer=entry.issuer,
        received_wall_ms=entry.received_wall_ms,
        deliver_ms=entry.deliver_ms,
        pid=entry.pid,
        started_wall_ms=entry.started_wall_ms,
        reason=entry.reason,
        srns=entry.srns,
        alive=alive,
    )
