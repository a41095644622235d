"""`saltlite job show`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes, outputters
from saltlite.cli.columns import columns, width_for
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.durations import format_duration
from saltlite.cli.jobs import JobRow, amount, call_text, jid_in, names_of, result_text, target_text, took_text
from saltlite.cli.keys import print_answer
from saltlite.cli.moments import format_moment
from saltlite.cli.options import Option
from saltlite.client.waiting import Progress, Published, WaitPolicy
from saltlite.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.client.local import LocalClient

_WITHHELD = {
    "secrets": "all arguments but secrets (***), which left the store when the job had ended",
    "arguments": "no arguments (***): they left the store when the job had ended (keep_job_args: false)",
}
RETURNS_S = 10.0
"""How long the master may take to send the next of the returns that it has."""


def run(argv: Sequence[str], console: Console) -> int:
    """Show one job; with `--returns` what came back for it so far, too."""
    parsed = command_table("job show", Option("--returns", help="show the returns, too")).parse(argv)
    console.quiet = parsed.on("quiet")
    jid = jid_in(parsed, "show")
    with open_client(parsed) as client:
        job: JobRow = client.call("job_show", jid=jid)["job"]
        returns = _returns(client, job) if parsed.on("returns") else None
    text = _text(job, console)
    if "unreadable" in job:
        console.note(f"saltlite: what job {jid} calls cannot be read any more: {printable(job['unreadable'])}")
    if returns is None:
        print_answer(job, text, parsed, console)
    else:
        text += "\n" + outputters.render(outputters.DEFAULT, returns) if returns else ""
        print_answer({**job, "returns": returns}, text, parsed, console)
    return exitcodes.OK


def _returns(client: LocalClient, job: JobRow) -> dict[str, Any]:
    """The returns that the master has; of a job that goes on there may be more by now, and they are shown too."""
    wanted = {target["id"] for target in job["targets"] if target["retcode"] is not None}
    progress = Progress(Published(client.call("follow", jid=job["jid"], after=0)), now=time.monotonic())
    returns: dict[str, Any] = {}
    replies = client.watch(progress, WaitPolicy(RETURNS_S)) if wanted else iter(())
    for reply in replies:
        wanted.discard(reply.id)
        if reply.has_value:
            returns[reply.name] = reply.value
        if not wanted:
            break
    return dict(sorted(returns.items()))


def _text(job: JobRow, console: Console) -> str:
    now = console.now()
    by = f"{job['user']}, from {job['origin']}" if job["origin"] else job["user"]
    limits = f"reach a minion within {format_duration(job['deliver_ms'] / 1000)}"
    if job["run_ms"]:
        limits += f", run for {format_duration(job['run_ms'] / 1000)} at most"
    lines = [
        ("job", job["jid"]),
        *(("function", call_text(*call)) for call in job["calls"]),
        ("target", f"{target_text(job)} ({amount(job['targets'])})"),
        ("by", by),
        ("made", format_moment(job["created_at"], now)),
        ("limits", limits),
    ]
    if job["module_executors"] or job["executor_opts"]:
        options = [f"{name}={value}" for name, value in job["executor_opts"].items()]
        lines.append(("through", " ".join([", ".join(job["module_executors"]) or "those of the minion", *options])))
    if job["cancelled_at"] is not None:
        lines.append(("killed", f"by {job['cancelled_by']}, {format_moment(job['cancelled_at'], now)}"))
    if job.get("withheld"):
        lines.append(("kept", _WITHHELD[job["withheld"]]))
    lines.append(("result", result_text(job)))
    head = "".join(f"{name + ':':<10}{printable(text)}\n" for name, text in lines)
    return f"{head}\n{_table(job, now, console)}"


def _table(job: JobRow, now: float, console: Console) -> str:
    """Minions first; then resources, by the minion that manages them, which has a column if there are any."""
    names, manages = names_of(job), any("minion" in row for row in job["targets"])
    rows = [("TARGET" if manages else "MINION", "MANAGED BY", "STATE", "RETCODE", "TOOK", "SINCE", "REASON")]
    for row in sorted(job["targets"], key=lambda row: (row.get("minion", ""), names[row["id"]])):
        retcode, took_ms = row["retcode"], row["duration_ms"]
        rows.append(
            (
                names[row["id"]],
                row.get("minion", ""),
                row["state"],
                "" if retcode is None else str(retcode),
                "" if took_ms is None else took_text(took_ms),
                f"{format_duration(max(0.0, now - row['at']))} ago",
                row["reason"],
            )
        )
    shown = rows if manages else [(name, *rest) for name, _managing, *rest in rows]
    return columns(shown, cut=(6 if manages else 5,), width=width_for(console))
