"""What the job server asks of the processes that run functions on resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from saltlite.minion.jobs.job_process import JobCall
from saltlite.model.ids import PartId, TargetId


@dataclass(frozen=True, slots=True)
class Runs:
    """What becomes of parts: called from the job server's reactor."""

    segment: Callable[[str], None]
    """The results of some resources of a part are in the spool, under this segment id."""
    done: Callable[[PartId, str], None]
    """Every resource of the part has answered (and "" is given), or its process has ended first, how is said."""


class ResourceRuns(Protocol):
    """Runs parts for resources. One part is for resources of one type; `call.jid` is the id of the part."""

    def begin(self, call: JobCall, srns: Sequence[TargetId]) -> tuple[int, int]:
        """Find a process for the part, and hold the part there; its pid, and its start time in clock ticks.

        Raises OSError when the machine has no room for a process.
        """
        ...

    def go(self, part: PartId) -> None:
        """Run what was begun: it is in the journal now."""
        ...

    def cancel(self, part: PartId, *, late: bool) -> None:
        """End the part: what has not begun will not, what runs is told and given up. `done` follows.

        `late`: its run time limit has passed; otherwise an operator ends it.
        """
        ...
