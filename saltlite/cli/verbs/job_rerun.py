"""`saltlite job rerun`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS
from saltlite.cli.connect import open_client
from saltlite.cli.job import follow_job
from saltlite.cli.joboptions import FOLLOW_OPTIONS
from saltlite.cli.jobs import JobRow, amount, jid_in
from saltlite.cli.options import Option, Table
from saltlite.cli.origin import origin
from saltlite.cli.risk import accepted_risks, require_consent
from saltlite.cli.targets import targets_text
from saltlite.client.local import JobCall
from saltlite.errors import NoTargetError, RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

ENDS = frozenset({"ok", "failed", "missing"})

OPTIONS = (
    Option("--failed", help="only where it failed"),
    Option("--missing", help="only where it ended without a return"),
    Option("--accept-risk", metavar="RISK", convert=accepted_risks, help="do not ask: remove,reboot"),
    Option("--async", help="print the job id and do not wait"),
    *FOLLOW_OPTIONS,
)


def run(argv: Sequence[str], console: Console) -> int:
    """Publish the same calls again, as a new job, and follow it; the exit code of that job."""
    parsed = Table(*COMMANDS["job rerun"], OPTIONS).parse(argv)
    console.quiet = parsed.on("quiet")
    jid = jid_in(parsed, "rerun")
    with open_client(parsed) as client:
        job: JobRow = client.call("job_show", jid=jid)["job"]
        _refuse_unreadable(job)
        _refuse_hidden(job)
        ids = _targets(job, parsed)
        first, *more = job["calls"]
        call = JobCall(
            ids,
            first[0],
            arg=first[1],
            kwarg=first[2],
            more=more,
            tgt_type="list",
            deliver_ms=job["deliver_ms"],
            run_ms=job["run_ms"] or None,
            module_executors=job["module_executors"] or None,
            executor_opts=job["executor_opts"] or None,
            origin=origin() or None,
        )
        described = client.call("describe", tgt=call.tgt, tgt_type="list", funs=sorted({c[0] for c in job["calls"]}))
        require_consent(described, len(ids), parsed.options.get("accept_risk", ()), console)
        if job["outcomes"].get("open"):
            console.note(f"saltlite: it has not ended on {_open(job)}, where it is not run again")
        published = client.publish(call, follow=not parsed.on("async"))
        if parsed.on("async"):
            console.data(f"{published.jid}\n")
            return exitcodes.OK
        where = targets_text(len(published.minions), len(published.managing))
        console.note(f"saltlite: job {published.jid} runs {job['fun']} again on {where}")
        return follow_job(client, published, parsed, console)


def _refuse_unreadable(job: JobRow) -> None:
    if "unreadable" in job:
        raise UsageError(f"what job {job['jid']} called cannot be read any more: publish it anew")


def _refuse_hidden(job: JobRow) -> None:
    if job.get("withheld") == "arguments":
        raise RefusedError(
            f"the arguments of job {job['jid']} were not kept when it ended (the master has keep_job_args: false); "
            "nothing was published. Type the call anew, with -L and the targets."
        )
    if job.get("hides"):
        raise RefusedError(
            f"job {job['jid']} has secrets among its arguments, which nobody is shown again; nothing was published. "
            "Type the call anew, with -L and the targets."
        )


def _targets(job: JobRow, parsed: Parsed) -> list[str]:
    """Where it is to run again. Where it has not ended it would run twice at once, and so it is left out."""
    wanted = {name for name in ("failed", "missing") if parsed.on(name)} or ENDS
    ids = [target["id"] for target in job["targets"] if target["outcome"] in wanted]
    if ids:
        return ids
    jid, still = job["jid"], job["outcomes"].get("open", 0)
    known = " or ".join(sorted(wanted)) if len(wanted) < len(ENDS) else "ended"
    hint = f"; it goes on, on {_open(job)}: `saltlite job watch {jid}`" if still else ""
    raise NoTargetError(f"job {jid} is {known} on no target{hint}. Nothing was published.")


def _open(job: JobRow) -> str:
    return amount([target for target in job["targets"] if target["outcome"] == "open"])
