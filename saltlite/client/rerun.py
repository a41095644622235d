"""The calls of a job for other targets: what `saltlite job rerun` and the API publish."""

from __future__ import annotations

from saltlite.client.local import JobCall
from saltlite.errors import RefusedError, UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the client
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def same_calls(job: Mapping[str, Any], targets: Sequence[str], origin: str) -> JobCall:
    """The calls, executors and time limits of a job that `job_show` answered, for these minions and SRNs.

    Raises UsageError if the calls cannot be read, and RefusedError if arguments are secret or were not kept.
    """
    jid = job["jid"]
    if "unreadable" in job:
        raise UsageError(f"the calls of job {jid} can no longer be read: publish a new job")
    if job.get("withheld") == "arguments":
        raise RefusedError(
            f"the arguments of job {jid} were not kept when it ended (the master has keep_job_args: false); "
            "nothing was published. Type the call anew, with -L and the targets."
        )
    if job.get("hides"):
        raise RefusedError(
            f"job {jid} has secrets among its arguments, which are not shown again; nothing was published. "
            "Type the call anew, with -L and the targets."
        )
    (fun, args, kwargs), *more = job["calls"]
    return JobCall(
        targets,
        fun,
        arg=args,
        kwarg=kwargs,
        more=more,
        tgt_type="list",
        deliver_ms=job["deliver_ms"],
        run_ms=job["run_ms"] or None,
        module_executors=job["module_executors"] or None,
        executor_opts=job["executor_opts"] or None,
        origin=origin or None,
    )
