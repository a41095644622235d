"""One part of a job as the minion's jobs machine knows it in this life of the job server."""

from __future__ import annotations

from dataclasses import dataclass

from saltlite.minion.protocol.effects import EndPart, Fork, Keep, Kill
from saltlite.minion.protocol.endings import ending
from saltlite.minion.protocol.ports import Step
from saltlite.model.job import TargetState, is_resource_part
from saltlite.wire.job_body import JobBody

SIGTERM = 15
SIGKILL = 9
NEVER = float("inf")


@dataclass(slots=True)
class Entry:
    """What is known of one part. Times of waiting and running are monotonic seconds."""

    jid: str
    step: Step
    issuer: bytes = b""
    """The job key of the master that asked for it; empty when it is not known."""
    body: JobBody | None = None
    srns: tuple[str, ...] = ()
    pid: int = 0
    started_wall_ms: int = 0
    expires: float = NEVER
    limit: float = NEVER
    ending: TargetState | None = None
    """What it becomes, once that is decided and its process has not ended yet; or why it was refused."""
    kill_at: float = NEVER
    reason: str = ""
    owed: str = ""
    """How a part for resources ended that not all of them answered. It is said when the master has what they did."""

    @property
    def is_for_resources(self) -> bool:
        """Whether it runs on resources, and in no process of its own."""
        return is_resource_part(self.jid)

    def fork(self, body: JobBody) -> Fork:
        """What makes it wait to be let go."""
        return Fork(self.jid, body, self.srns)

    def end(self, signum: int, *, late: bool) -> Kill | EndPart:
        """What ends it, or what it left behind; `late` says that its run time limit has passed."""
        return EndPart(self.jid, late) if self.is_for_resources else Kill(self.jid, self.pid, signum)

    def keep(self, why: str, wall_ms: int) -> Keep:
        """What keeps a result for a job that left none; `why` it did not."""
        state, code, reason = ending(self.ending, why)
        ran_ms = max(0, wall_ms - self.started_wall_ms) if self.started_wall_ms else 0
        return Keep(self.jid, state, code, reason, self.started_wall_ms, ran_ms)


def longest_s(body: JobBody | None, most_s: float) -> float:
    """How long a job may run, by its own limit and that of its minion (0 for none)."""
    wanted_s = body.run_ms / 1000 if body is not None and body.run_ms else NEVER
    return min(wanted_s, most_s or NEVER)
