"""`saltlite job`: list, show, watch, fetch, kill and rerun jobs of the past and the present.

`fetch` brings the whole of a return that was too large to travel, in parts, one job each, and compares length and
SHA-256 before it writes anything.
"""

from __future__ import annotations

import time

from saltlite.cli import exitcodes, outcome, output
from saltlite.cli.commands import COMMANDS, command_table
from saltlite.cli.connect import open_client
from saltlite.cli.job import accept_risks, follow_job, origin
from saltlite.cli.job_options import FOLLOW_OPTIONS, accepted_risks
from saltlite.cli.options import Option, Table, choice, format_duration, format_timestamp, parse_timestamp
from saltlite.cli.output import columns, print_answer, shorter, width_for
from saltlite.cli.targets import natural_key, targets_text, written_target
from saltlite.client.connection import decode_value
from saltlite.client.follower import Progress, Published, WaitPolicy
from saltlite.client.local import JobCall
from saltlite.client.rerun import same_calls
from saltlite.config.paths import require_path
from saltlite.errors import NoTargetError, SaltliteError, UnreachableError, UsageError
from saltlite.model.plain import labels, printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient
    from saltlite.model.ids import Jid

    JobRow = dict[str, Any]
    """One job as the master lists it: jid, fun, tgt, tgt_type, user, origin, created_at, counts, outcomes ..."""

TARGET_MAX = 40
"""Characters of a target in a list of jobs; a list target may have thousands."""

CALL_MAX = 2000
"""Characters of one printed call."""

_OUTCOMES = ("ok", "failed", "missing", "open")


def jid_in(parsed: Parsed, verb: str) -> Jid:
    """The only word of the command line, a job id. Raises UsageError."""
    if len(parsed.words) != 1:
        raise UsageError(f"say which job: saltlite job {verb} JID")
    from saltlite.model.ids import parse_jid  # a list needs neither this nor JSON

    return parse_jid(parsed.words[0])


def target_text(job: Mapping[str, Any]) -> str:
    """The target as it is typed on a command line, cut short."""
    return shorter(written_target(job["tgt"], job["tgt_type"]), TARGET_MAX)


def amount(targets: Sequence[Mapping[str, Any]]) -> str:
    """The number of these rows of `job_show`: `12 targets: 2 minions, 10 resources`."""
    resources = sum("minion" in row for row in targets)
    return targets_text(len(targets) - resources, resources)


def names_of(job: JobRow) -> dict[str, str]:
    """The display name of each target of a job, from `job_show`."""
    ids: tuple[list[str], list[str]] = ([], [])
    for row in job["targets"]:
        ids["minion" in row].append(row["id"])
    return labels(*ids)


def took_text(milliseconds: int) -> str:
    """A run time: `20ms`, `1.2s`, `4m`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    return f"{milliseconds / 1000:.1f}s" if milliseconds < 60_000 else format_duration(milliseconds / 1000)


def result_text(job: Mapping[str, Any]) -> str:
    """`3 ok, 1 failed`, and whether an operator killed it."""
    outcomes = job["outcomes"]
    parts = [f"{outcomes[name]} {name}" for name in _OUTCOMES if outcomes.get(name)]
    return ", ".join([*parts, *(["killed"] if job["cancelled_at"] is not None else [])]) or "no targets"


def call_text(fun: str, args: list[Any], kwargs: Mapping[str, Any]) -> str:
    """One call as it could be typed: plain words as they are, everything else as JSON."""
    words = [fun, *map(_word, args), *(f"{name}={_word(value)}" for name, value in kwargs.items())]
    return shorter(printable(" ".join(words)), CALL_MAX)


def _word(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and value and " " not in value:
        return value
    import json

    return json.dumps(value, ensure_ascii=False, default=repr)


COUNT = 50
"""Listed jobs without `-n`."""
COUNT_MAX = 1000


def run_list(argv: Sequence[str], console: Console) -> int:
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
        Option("-n", "--count", metavar="N", convert=_list_count, help=f"how many, {COUNT} by default"),
        formats=("text", "json", "jsonl"),
    )
    parsed = table.parse(argv)
    console.quiet = parsed.on("quiet")
    if parsed.words:
        raise UsageError(f"job list takes no {parsed.words[0]!r}; a job is shown by `saltlite job show JID`")
    with open_client(parsed, console) as client:
        answer = client.call("job_list", **_list_fields(parsed, client))
    _print_list(answer, parsed, console)
    if not answer["jobs"]:
        console.note("saltlite: no job matches")
    elif answer["more"]:
        console.note(f"saltlite: there are more jobs: add --before {answer['jobs'][-1]['jid']}")
    return exitcodes.OK


def _list_count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= number <= COUNT_MAX:
        raise UsageError(f"{text!r} is not a number of jobs: say 1 to {COUNT_MAX}")
    return number


def _list_fields(parsed: Parsed, client: LocalClient) -> dict[str, Any]:
    options = parsed.options
    fields: dict[str, Any] = {
        name: options[name] for name in ("minion", "fun", "user", "state", "before") if name in options
    }
    for name in ("since", "until"):
        if name in options:
            try:
                fields[name] = parse_timestamp(options[name], client.time)
            except UsageError as error:
                raise UsageError(f"--{name}: {error}") from error
    return {**fields, "limit": options.get("count", COUNT)}


def _print_list(answer: dict[str, Any], parsed: Parsed, console: Console) -> None:
    jobs: list[JobRow] = answer["jobs"]
    out = parsed.options.get("out", "text")
    if out != "text":
        console.use_utf8()
    if out == "json":
        from saltlite.plugins.output.json import document

        console.data(document({"jobs": jobs, "more": answer["more"]}))
    elif out == "jsonl":
        from saltlite.plugins.output.json import line

        console.data("".join(map(line, jobs)))
    elif jobs:
        console.paged(_list_table(jobs, console), off=parsed.on("no_pager"))


def _list_table(jobs: Sequence[JobRow], console: Console) -> str:
    rows = [("JID", "AGE", "USER", "TARGET", "RESULT", "FUNCTION")]
    for job in jobs:
        age = format_duration(max(0.0, console.now() - job["created_at"]))
        rows.append((job["jid"], age, job["user"], target_text(job), result_text(job), job["fun"]))
    return columns(rows, cut=(3, 5, 2), width=width_for(console))


_WITHHELD = {
    "secrets": "all arguments except secrets (***), which were deleted when the job ended",
    "arguments": "no arguments (***): they were deleted when the job ended (keep_job_args: false)",
}
RETURNS_S = 10.0
"""How long the master may take to send the next stored return."""


def run_show(argv: Sequence[str], console: Console) -> int:
    """Show one job; with `--returns` also its returns so far."""
    parsed = command_table("job show", Option("--returns", help="show the returns, too")).parse(argv)
    console.quiet = parsed.on("quiet")
    jid = jid_in(parsed, "show")
    with open_client(parsed, console) as client:
        job: JobRow = client.call("job_show", jid=jid)["job"]
        returns = _returns(client, job) if parsed.on("returns") else None
    text = _show_text(job, console)
    if "unreadable" in job:
        console.note(f"saltlite: the calls of job {jid} can no longer be read: {printable(job['unreadable'])}")
    if returns is None:
        print_answer(job, text, parsed, console)
    else:
        text += "\n" + output.render(output.DEFAULT, returns) if returns else ""
        print_answer({**job, "returns": returns}, text, parsed, console)
    return exitcodes.OK


def _returns(client: LocalClient, job: JobRow) -> dict[str, Any]:
    """The stored returns; those that arrive meanwhile are included."""
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


def _show_text(job: JobRow, console: Console) -> str:
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
        ("made", format_timestamp(job["created_at"], now)),
        ("limits", limits),
    ]
    if job["module_executors"] or job["executor_opts"]:
        options = [f"{name}={value}" for name, value in job["executor_opts"].items()]
        lines.append(("through", " ".join([", ".join(job["module_executors"]) or "those of the minion", *options])))
    if job["cancelled_at"] is not None:
        lines.append(("killed", f"by {job['cancelled_by']}, {format_timestamp(job['cancelled_at'], now)}"))
    if job.get("withheld"):
        lines.append(("kept", _WITHHELD[job["withheld"]]))
    lines.append(("result", result_text(job)))
    head = "".join(f"{name + ':':<10}{printable(text)}\n" for name, text in lines)
    return f"{head}\n{_targets_table(job, now, console)}"


def _targets_table(job: JobRow, now: float, console: Console) -> str:
    """Minions first, then resources by their managing minion, which has a column if there are any."""
    names, manages = names_of(job), any("minion" in row for row in job["targets"])
    rows = [("TARGET" if manages else "MINION", "MANAGED BY", "STATE", "RETCODE", "TOOK", "SINCE", "REASON")]
    for row in sorted(job["targets"], key=lambda row: (row.get("minion", ""), natural_key(names[row["id"]]))):
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


def run_watch(argv: Sequence[str], console: Console) -> int:
    """Follow a job from its beginning, as the command that published it did; the same exit code."""
    parsed = Table(*COMMANDS["job watch"], FOLLOW_OPTIONS).parse(argv)
    jid = jid_in(parsed, "watch")
    with open_client(parsed, console) as client:
        answer = client.call("follow", jid=jid, after=0)
        published = Published(answer, fun=answer["fun"], target=answer["tgt"])
        return follow_job(client, published, parsed, console)


FUNCTION = "saltutil.kept_return"
PART_BYTES = 4 * 1024 * 1024
"""Bytes that one job brings."""
WHOLE_MAX = 1024 * 1024 * 1024
"""Bytes of a fetched return, which is held in memory until its checksum is verified."""
CONTAINERS_MAX = 10_000_000
"""Lists and maps in it; they take a GiB."""


def run_fetch(argv: Sequence[str], console: Console) -> int:
    """Fetch the return of a job on one minion; text and bytes are written as they are, anything else as JSON."""
    parsed = command_table(
        "job fetch",
        Option("--out-file", metavar="PATH", convert=require_path, help="write it to this file, whole or not at all"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) not in (1, 2):
        raise UsageError("say which return to fetch: saltlite job fetch JID MINION")
    from saltlite.model.ids import parse_jid
    from saltlite.plugins.output.json import document

    jid = parse_jid(parsed.words[0])
    with open_client(parsed, console) as client:
        minion = parsed.words[1] if len(parsed.words) == 2 else _only_target(client.call("job_show", jid=jid)["job"])
        value = decode_value(_fetch(client, jid, minion, console), containers_max=CONTAINERS_MAX)
    if parsed.options.get("out") == "json":
        data: str | bytes = document({minion: value})
    else:
        data = value if isinstance(value, str | bytes) else document(value)
    _write(data, parsed.options.get("out_file", ""), console)
    return exitcodes.OK


def _only_target(job: JobRow) -> str:
    targets, jid = job["targets"], job["jid"]
    if len(targets) != 1:
        raise UsageError(f"job {jid} ran on {amount(targets)}: say which, saltlite job fetch {jid} MINION")
    target: str = targets[0]["id"]
    if "minion" in targets[0]:
        raise UsageError(f"{target} is a resource, and whole returns of resources are not stored")
    return target


def _fetch(client: LocalClient, jid: str, minion: str, console: Console) -> bytes:
    """The whole stored return. Raises SaltliteError when the parts do not fit the checksum."""
    import hashlib  # slow to import, and only needed here

    whole = bytearray()
    part = _part(client, jid, minion, 0)
    size, digest, part_bytes = part["size"], part["sha256"], len(part["data"])
    if size > WHOLE_MAX:
        raise SaltliteError(f"{minion} says that the return has {size} bytes; at most {WHOLE_MAX} are fetched")
    while True:
        whole += part["data"]
        if console.wants_status():
            console.status(f"{len(whole) // 1024} of {size // 1024} KiB")
        # All parts but the last have the same size, so that a minion cannot make us ask forever.
        if len(whole) >= size or not part_bytes or len(part["data"]) < part_bytes:
            break
        part = _part(client, jid, minion, len(whole))
    console.clear_status()
    if len(whole) != size or hashlib.sha256(whole).hexdigest() != digest:
        raise SaltliteError(f"the return of job {jid} arrived damaged from {minion}: fetch it again")
    return bytes(whole)


def _part(client: LocalClient, jid: str, minion: str, offset: int) -> dict[str, Any]:
    job = JobCall([minion], FUNCTION, arg=[jid, offset, PART_BYTES], tgt_type="list")
    published = client.publish(job, follow=True)
    if minion in published.away:
        raise UnreachableError(f"{minion} is not connected: fetch the return when it is back")
    progress = Progress(published, now=time.monotonic())
    for reply in client.watch(progress, WaitPolicy(published.timeout_s)):
        if reply.failed() or not _is_part(reply.value):
            why = reply.value if isinstance(reply.value, str) else reply.reason
            raise NoTargetError(f"{minion}: {why or 'it sent no part of a return'}")
        part: dict[str, Any] = reply.value
        return part
    raise UnreachableError(f"{minion} did not answer: look with `saltlite job show {published.jid}`")


def _is_part(value: object) -> bool:
    shape = {"size": int, "sha256": str, "data": bytes}
    return isinstance(value, dict) and {name: type(one) for name, one in value.items()} == shape


def _write(data: str | bytes, out_file: str, console: Console) -> None:
    if not out_file:
        text = data if isinstance(data, str) else data.decode(errors="backslashreplace")
        # A file or a pipe gets the raw text; a terminal must not interpret what a minion sends.
        console.data("\n".join(map(printable, text.split("\n"))) if console.shows_data() else text)
        return
    from saltlite.cli.out_file import OutFile

    with OutFile(out_file) as stream:
        stream.buffer.write(data if isinstance(data, bytes) else data.encode(errors="backslashreplace"))


_SENTENCES = {
    "ids": "asked to kill it",
    "away": "not connected; the kill reaches it when it is back",
    "cancelled": "never received it, and will not",
}
"""The sentence for the targets in each list of the answer."""


def run_kill(argv: Sequence[str], console: Console) -> int:
    """Kill the job where it has not ended, and print what that means for each target."""
    planned = Option("--planned", help="only targets that wait for their turn in the batch")
    parsed = command_table("job kill", planned).parse(argv)
    jid = jid_in(parsed, "kill")
    with open_client(parsed, console) as client:
        answer = client.call("job_kill", jid=jid, **({"planned": True} if parsed.on("planned") else {}))
        found: dict[str, list[str]] = {name: answer[name] for name in _SENTENCES}
        if not any(found.values()):
            state = "has no target that waits for its turn" if parsed.on("planned") else "has ended everywhere"
            raise NoTargetError(f"job {jid} {state}: there is nothing to kill")
        names = _names(client, jid, [target for targets in found.values() for target in targets])
    rows = [(names[target], _SENTENCES[name]) for name, targets in found.items() for target in targets]
    rows.sort(key=lambda row: natural_key(row[0]))
    text = "".join(f"{line}\n" for line in outcome.lines(rows, "targets"))
    shown = {name: [names[target] for target in targets] for name, targets in found.items()}
    print_answer({"jid": jid, **shown}, text, parsed, console)
    return exitcodes.OK


def _names(client: LocalClient, jid: str, targets: Sequence[str]) -> dict[str, str]:
    """The display names of these targets; that of a resource depends on the job's other targets."""
    if any(":" in target for target in targets):
        return names_of(client.call("job_show", jid=jid)["job"])
    return {target: target for target in targets}


ENDS = frozenset({"ok", "failed", "missing"})

OPTIONS = (
    Option("--failed", help="only where it failed"),
    Option("--missing", help="only where it ended without a return"),
    Option("--accept-risk", metavar="RISK", convert=accepted_risks, help="do not ask: remove,reboot"),
    Option("--async", help="print the job id and do not wait"),
    *FOLLOW_OPTIONS,
)


def run_rerun(argv: Sequence[str], console: Console) -> int:
    """Publish the same calls as a new job and follow it; the exit code of that job."""
    parsed = Table(*COMMANDS["job rerun"], OPTIONS).parse(argv)
    console.quiet = parsed.on("quiet")
    jid = jid_in(parsed, "rerun")
    with open_client(parsed, console) as client:
        job: JobRow = client.call("job_show", jid=jid)["job"]
        ids = _targets(job, parsed)
        call = same_calls(job, ids, origin())
        accepted, follow = list(parsed.options.get("accept_risk", ())), not parsed.on("async")
        published = client.publish_or_ask(call, accepted, follow=follow)
        while isinstance(published, dict):
            accept_risks(published, len(ids), accepted, console)
            published = client.publish_or_ask(call, accepted, follow=follow)
        if job["outcomes"].get("open"):
            console.note(f"saltlite: it has not ended on {_open(job)}, and is not run again there")
        if parsed.on("async"):
            console.data(f"{published.jid}\n")
            return exitcodes.OK
        where = targets_text(len(published.minions), len(published.managing))
        console.note(f"saltlite: job {published.jid} runs {job['fun']} again on {where}")
        return follow_job(client, published, parsed, console)


def _targets(job: JobRow, parsed: Parsed) -> list[str]:
    """The targets to run on again. Those that have not ended are skipped, or they would run twice at once."""
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
