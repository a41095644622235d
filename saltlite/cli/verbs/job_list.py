"""`saltlite job list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.columns import columns, width_for
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.durations import format_duration
from saltlite.cli.jobs import JobRow, result_text, target_text
from saltlite.cli.moments import parse_moment
from saltlite.cli.options import Option, choice
from saltlite.errors import UsageError
from saltlite.plugins.output.json import document, line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

COUNT = 50
"""Jobs that are listed unless `-n` says another number."""
COUNT_MAX = 1000


def run(argv: Sequence[str], console: Console) -> int:
    """List jobs, the newest first; an empty list is not an error."""
    table = command_table(
        "job list",
        Option("--minion", metavar="ID", help="only jobs of this minion, or resource (type:id)"),
        Option("--fun", metavar="GLOB", help="only jobs of such functions: pkg.*"),
        Option("--user", metavar="USER", help="only jobs of this user"),
        Option("--since", metavar="TIME", help="only jobs from then on: 2h, 2026-01-31T23:59"),
        Option("--until", metavar="TIME", help="only jobs from before then"),
        Option(
            "--state",
            metavar="STATE",
            convert=choice("failed", "missing", "open", "ok"),
            help="only failed, missing, open or ok jobs (of --minion)",
        ),
        Option("--before", metavar="JID", help="only jobs before this one: the next page"),
        Option("-n", "--count", metavar="N", convert=_count, help=f"how many, {COUNT} by default"),
        formats=("text", "json", "jsonl"),
    )
    parsed = table.parse(argv)
    console.quiet = parsed.on("quiet")
    if parsed.words:
        raise UsageError(f"job list takes no {parsed.words[0]!r}; a job is shown by `saltlite job show JID`")
    with open_client(parsed) as client:
        answer = client.call("job_list", **_fields(parsed, console.now()))
    _print(answer, parsed, console)
    if not answer["jobs"]:
        console.note("saltlite: there is no such job")
    elif answer["more"]:
        console.note(f"saltlite: there are more: add --before {answer['jobs'][-1]['jid']}")
    return exitcodes.OK


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= number <= COUNT_MAX:
        raise UsageError(f"{text!r} is no number of jobs: say 1 to {COUNT_MAX}")
    return number


def _fields(parsed: Parsed, now: float) -> dict[str, Any]:
    options = parsed.options
    fields: dict[str, Any] = {
        name: options[name] for name in ("minion", "fun", "user", "state", "before") if name in options
    }
    for name in ("since", "until"):
        if name in options:
            try:
                fields[name] = parse_moment(options[name], now)
            except UsageError as error:
                raise UsageError(f"--{name}: {error}") from error
    return {**fields, "limit": options.get("count", COUNT)}


def _print(answer: dict[str, Any], parsed: Parsed, console: Console) -> None:
    jobs: list[JobRow] = answer["jobs"]
    out = parsed.options.get("out", "text")
    if out != "text":
        console.use_utf8()
    if out == "json":
        console.data(document({"jobs": jobs, "more": answer["more"]}))
    elif out == "jsonl":
        console.data("".join(map(line, jobs)))
    elif jobs:
        console.data(_table(jobs, console))


def _table(jobs: Sequence[JobRow], console: Console) -> str:
    rows = [("JID", "AGE", "USER", "TARGET", "RESULT", "FUNCTION")]
    for job in jobs:
        age = format_duration(max(0.0, console.now() - job["created_at"]))
        rows.append((job["jid"], age, job["user"], target_text(job), result_text(job), job["fun"]))
    return columns(rows, cut=(3, 5, 2), width=width_for(console))
