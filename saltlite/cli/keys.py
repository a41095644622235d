"""What the key verbs share: which keys are meant, what is shown, the question, and the change itself.

A change names exact fingerprints, those that were shown: a key that came in between is never touched.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.durations import format_duration
from saltlite.cli.options import Option
from saltlite.errors import NoTargetError, RefusedError, UsageError
from saltlite.model.keys import KeyState, parse_fingerprint
from saltlite.model.printable import printable
from saltlite.plugins.output.json import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

Row = dict[str, Any]
"""One key as the master lists it: id, fingerprint, state, address, first_seen, changed_at, how."""


class Change(NamedTuple):
    """One of the changes that an operator makes to keys."""

    action: str
    by_glob: frozenset[KeyState]
    """States in which a glob finds keys; narrower than by id, for a glob is easily too wide."""
    by_id: frozenset[KeyState]
    one_key_an_id: bool = False
    """Whether several keys of one id are a question for the operator."""


def run_change(argv: Sequence[str], console: Console, change: Change) -> int:
    """The whole verb `saltlite key <action>`; the exit code."""
    parsed = command_table(
        f"key {change.action}",
        Option(
            "--fingerprint",
            metavar="FP",
            convert=parse_fingerprint,
            help="only the key with this fingerprint",
        ),
        Option("-y", "--yes", help="do not ask"),
    ).parse(argv)
    if not parsed.words:
        raise UsageError(f"say which keys to {change.action}: an id, or a glob such as 'web*'")
    console.quiet = parsed.on("quiet")
    with open_client(parsed) as client:
        rows = select(client.call("key_list")["keys"], parsed.words, change, parsed.options.get("fingerprint"))
        if not parsed.on("yes") and not _agreed(rows, change.action, console):
            console.error("saltlite: nothing was changed")
            return exitcodes.INTERRUPTED
        answer = client.call("key_change", action=change.action, fingerprints=[row["fingerprint"] for row in rows])
    return _show_change(answer, parsed, console)


def select(rows: Sequence[Row], patterns: Sequence[str], change: Change, fingerprint: str | None) -> list[Row]:
    """The keys that are meant, in the order of `rows`.

    Raises NoTargetError when a pattern finds none, RefusedError when none of them has the fingerprint, and
    UsageError when several keys of one id are found and the change takes one.
    """
    chosen = {row["fingerprint"]: row for pattern in patterns for row in _matches(rows, pattern, change)}
    if fingerprint is not None:
        if fingerprint not in chosen:
            others = ", ".join(f"{row['id']} has {row['fingerprint']}" for row in chosen.values())
            raise RefusedError(f"no key here has the fingerprint {fingerprint} ({others}): find out why first")
        return [chosen[fingerprint]]
    ids = [row["id"] for row in chosen.values()]
    doubled = sorted({minion for minion in ids if ids.count(minion) > 1}) if change.one_key_an_id else []
    if doubled:
        raise UsageError(f"{', '.join(doubled)}: more than one key has this id; choose one with --fingerprint")
    return [row for row in rows if row["fingerprint"] in chosen]


def matching(rows: Sequence[Row], pattern: str) -> list[Row]:
    """The keys whose id the glob matches."""
    return [row for row in rows if fnmatchcase(row["id"], pattern)]


def _matches(rows: Sequence[Row], pattern: str, change: Change) -> list[Row]:
    states = change.by_glob if set(pattern) & set("*?[") else change.by_id
    named = matching(rows, pattern)
    hits = [row for row in named if row["state"] in states]
    if not hits:
        found = f" ({', '.join(sorted({row['state'] for row in named}))})" if named else ""
        raise NoTargetError(
            f"{pattern!r} matches no key to {change.action}{found}; `saltlite key list` shows all of them"
        )
    return hits


def table(rows: Sequence[Row], now: float) -> str:
    """Keys as aligned columns with a heading; every line ends with a newline."""
    cells = [("ID", "STATE", "FINGERPRINT", "ADDRESS", "FIRST SEEN", "HOW")]
    for row in rows:
        age = f"{format_duration(now - row['first_seen'])} ago"
        cells.append((row["id"], row["state"], row["fingerprint"], row["address"], age, row["how"]))
    shown = [[printable(str(cell)) for cell in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in shown]
    return "".join(f"{line}\n" for line in lines)


def print_answer(value: Any, text: str, parsed: Parsed, console: Console) -> None:
    """One answer on stdout: `value` as a JSON object with `--out json`, otherwise `text`."""
    if parsed.options.get("out") == "json":
        console.use_utf8()
        console.data(document(value))
    elif text:
        console.data(text)


def count(rows: Sequence[Row]) -> str:
    """`1 key`, `2 keys`."""
    return f"{len(rows)} key{'' if len(rows) == 1 else 's'}"


def _agreed(rows: Sequence[Row], action: str, console: Console) -> bool:
    if not console.can_ask():
        raise UsageError(f"this would {action} {count(rows)}, and nobody is there to ask: say -y to do it")
    console.error(table(rows, console.now()).rstrip("\n"))
    return console.ask(f"{action} {count(rows)}?")


def _show_change(answer: dict[str, Any], parsed: Parsed, console: Console) -> int:
    changed: list[Row] = answer["changed"]
    refused: list[Row] = answer["refused"]
    text = "".join(f"{row['id']}: {row['state']} {row['fingerprint']}\n" for row in changed)
    print_answer({"changed": changed, "refused": refused}, text, parsed, console)
    for row in refused:
        console.error(f"{row['id']}: {row['reason']}")
    return exitcodes.REFUSED if refused else exitcodes.OK
