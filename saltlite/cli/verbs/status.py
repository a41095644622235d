"""`saltlite status`: the master, its queues and its minions."""

from __future__ import annotations

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.options import format_duration
from saltlite.cli.output import columns, print_answer, width_for
from saltlite.cli.targets import minions_text, natural_key, nodeset
from saltlite.errors import UsageError
from saltlite.model.plain import printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console

MIB = 1024 * 1024
_NO_LEASE = (
    "none: it cannot be renewed in the database, and until then this master takes nothing from minions and sends them "
    "nothing: saltlite doctor"
)
_FENCED = (
    "is fenced: it has stopped, or is cut off from the database, and its minions are at the others. Start it; see "
    "`saltlite doctor` there"
)


def run(argv: Sequence[str], console: Console) -> int:
    """Show the master's figures and every minion; minions that are away are not an error here."""
    parsed = command_table("status").parse(argv)
    console.quiet = parsed.on("quiet")
    if parsed.words:
        raise UsageError(f"status takes no {parsed.words[0]!r}")
    with open_client(parsed, console) as client:
        answer = client.call("status")
    del answer["ok"]
    print_answer(answer, _text(answer, console), parsed, console)
    if answer["link"] is None:
        console.error("saltlite: the master's link process does not answer: no minion can be reached; see its log")
    return exitcodes.OK


def _text(answer: Mapping[str, Any], console: Console) -> str:
    master, store, counts, link = answer["master"], answer["store"], answer["counts"], answer["link"]
    up = format_duration(max(0.0, console.own_now() - master["started_at"]))
    lines = [
        ("master", f"{master['name']}, saltlite {master['version']}, up {up}"),
        ("store", _store(store)),
        ("minions", ", ".join(f"{counts[name]} {name}" for name in ("up", "away", "never", "pending"))),
        *([("keys", _conflicts(answer["conflicts"]))] if answer["conflicts"] else []),
        ("resources", _resources(answer["resources"])),
        *(("", text) for text in _types(answer["resources"]["types"])),
        ("targets", _targets(answer["queues"])),
        *((name, _reader(lag)) for name, lag in answer["readers"].items()),
    ]
    if link is not None:
        lines += [
            ("mworkers", f"{link['mworkers']} of {master['mworkers']}"),
            ("reports", _reports(link)),
            ("link", f"{link['sessions']} sessions, {link['handshakes']} handshakes, {_refused(link['refused'])}"),
        ]
        if not link.get("lease", True):
            lines.append(("lease", _NO_LEASE))
    wide = max(len(name) for name, _text in lines) + 2
    head = "".join(f"{name + ':' if name else '':<{wide}}{text}\n" for name, text in lines)
    masters = "\n" + masters_text(answer, console) if "masters" in answer else ""
    minions = "\n" + _minions(answer["minions"], console) if answer["minions"] else ""
    return head + masters + minions + _unable(answer["unable"])


def masters_text(answer: Mapping[str, Any], console: Console) -> str:
    """The masters that share the store, and what differs between them."""
    now = console.now()
    rows = [("MASTER", "STATE", "SESSIONS", "BEHIND", "CERTIFICATE", "ADDRESS", "VERSION")]
    for row in answer["masters"]:
        until, behind = row["certificate_until"], row["behind"]
        valid = "damaged" if until is None else "expired" if until < now else f"for {format_duration(until - now)}"
        events = "" if behind is None else f"{behind} event{'' if behind == 1 else 's'}"
        rows.append((row["name"], row["state"], str(row["sessions"]), events, valid, row["address"], row["version"]))
    gone = (f"{row['name']} {_FENCED}" for row in answer["masters"] if row["state"] == "fenced")
    due = (row.get("certificate_problem", "") for row in answer["masters"])
    below = "".join(f"{printable(line)}\n" for line in (*gone, *filter(None, due), *answer["differences"]))
    return columns(rows, cut=(0, 5), width=width_for(console)) + below


def _conflicts(count: int) -> str:
    return f"{count} in conflict with an accepted one: saltlite key list conflict"


def _store(store: Mapping[str, Any]) -> str:
    limit = f" of {store['limit'] / MIB:.0f}" if store["limit"] else ""
    on_disk = (
        f"{(store['file'] + store['log']) / MIB:.1f} on the disk "
        f"(log {store['log'] / MIB:.1f}, free in the file {store['free'] / MIB:.1f})"
    )
    if store["left"] is not None:
        on_disk += f", {store['left'] / MIB:.0f} MiB of the disk left"
    return f"{store['size'] / MIB:.1f}{limit} MiB, {on_disk}, {store['seq']} events so far"


def _resources(resources: Mapping[str, Any]) -> str:
    parts = [f"{resources['count']} of {minions_text(resources['minions'])}" if resources["count"] else "none"]
    if resources["refused"]:
        parts.append(f"those of {minions_text(resources['refused'])} refused, or some of them")
    missing = sum(count for kinds in resources["missing"].values() for count in kinds.values())
    if missing:
        parts.append(f"{missing} of {minions_text(len(resources['missing']))} no longer found, but not removed yet")
    if resources["incomplete"]:
        parts.append("incomplete after damage, until every minion has registered again")
    return "; ".join(parts)


def _types(types: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for kind, one in types.items():
        yield f"{kind}: {one['count']} of {minions_text(one['minions'])}"
        yield from (f"  {problem}" for problem in one["problems"])


def _targets(queues: Mapping[str, Any]) -> str:
    counts = queues["targets"]
    parts = [f"{counts[state]} {state}" for state in sorted(counts)] or ["none open"]
    away = queues["minions_away_with_jobs"]
    return ", ".join(parts) + (f"; jobs wait for {minions_text(away)} away" if away else "")


def _reader(lag: Mapping[str, Any]) -> str:
    behind = lag["behind"]
    return f"{behind} events behind, the first for {format_duration(lag['lag_s'])}" if behind else "up to date"


def _reports(link: Mapping[str, Any]) -> str:
    count, out = link["uncommitted"], link["skipped"]
    parts = [f"{count} wait to be stored, the first for {link['lag_s']:.1f} s" if count else "all stored"]
    if out:
        parts.append(f"{out} results skipped, of jobs that their minions do not have")
    return "; ".join(parts)


def _refused(refused: Mapping[str, int]) -> str:
    if not refused:
        return "no refused frames"
    return "refused frames: " + ", ".join(f"{refused[reason]} {reason}" for reason in sorted(refused))


def _minions(minions: Sequence[Mapping[str, Any]], console: Console) -> str:
    manages = any(row["resources"] for row in minions)
    reasons = any(row.get("reason") for row in minions)
    masters = any("master" in row for row in minions)
    rows = [
        (
            "MINION",
            "STATE",
            "SINCE",
            "ADDRESS",
            "VERSION",
            "RESOURCES" if manages else "",
            *(["MASTER"] if masters else []),
            "WHY NOT CONNECTED" if reasons else "",
        )
    ]
    for row in sorted(minions, key=lambda row: (row["state"] == "pending", natural_key(row["id"]))):
        seen = row["last_seen"]
        since = "" if seen is None else f"{format_duration(max(0.0, console.now() - seen))} ago"
        of_it = (row["id"], row["state"], since, row["address"], row["version"], str(row["resources"] or ""))
        rows.append((*of_it, *([row["master"]] if masters else []), row.get("reason", "")))
    return columns(rows, cut=(3, len(rows[0]) - 1, 0) if reasons else (0, 3), width=width_for(console))


def _unable(unable: Mapping[str, Sequence[str]]) -> str:
    """A line for each set of missing executors, with the minions that can run no job because of it."""
    minions: dict[str, list[str]] = {}
    for minion, executors in unable.items():
        minions.setdefault(", ".join(executors), []).append(minion)
    lines = (
        f"no job can run on {nodeset(ids)}: module_executors there names {names}, which "
        f"{'it does' if len(ids) == 1 else 'they do'} not have\n"
        for names, ids in minions.items()
    )
    return "".join(lines)
