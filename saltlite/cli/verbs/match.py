"""`saltlite match`: what a target selects, and why, without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.options import Option
from saltlite.cli.output import columns, print_answer
from saltlite.cli.targets import (
    TARGET_OPTIONS,
    compound_hint,
    minions_text,
    nodeset,
    target_kind,
    targets_text,
    written_target,
)
from saltlite.errors import NoTargetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Show what matches, or why one id does or does not; the exit code is 3 when nothing matches."""
    parsed = command_table(
        "match",
        *TARGET_OPTIONS,
        Option("--explain", metavar="ID", help="say why this minion or resource matches or not"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) != 1:
        raise UsageError("say one target: saltlite match 'web*', or saltlite match -C 'G@os:Debian and not web1'")
    asked: dict[str, Any] = {"tgt": parsed.words[0], "tgt_type": target_kind(parsed)}
    explains = "explain" in parsed.options
    if explains:
        asked["explain"] = parsed.options["explain"]
    with open_client(parsed) as client:
        answer = client.call("match", **asked)
    if explains:
        found = answer["explanation"]
        print_answer(found, _explanation(found), parsed, console)
        return exitcodes.OK if found["selected"] else exitcodes.NOTHING_MATCHED
    del answer["ok"]
    selected = bool(answer["minions"] or answer["resources"])
    print_answer(answer, _selection(answer) if selected else "", parsed, console)
    for name in answer["unknown"]:
        console.error(f"{name}: neither an accepted minion nor a resource has this name")
    if not selected:
        target, kind = asked["tgt"], asked["tgt_type"]
        raise NoTargetError(f"nothing matches {written_target(target, kind)}{compound_hint(target, kind)}")
    return exitcodes.OK


def _selection(answer: Mapping[str, Any]) -> str:
    """A line for the minions, one for the resources of each manager, and the total."""
    minions, resources, away = answer["minions"], answer["resources"], answer["away"]
    rows = [(minions_text(len(minions)), nodeset(minions))] if minions else []
    rows += [(f"{len(srns)} of {owner}", nodeset(srns)) for owner, srns in resources.items()]
    width = max(len(who) for who, _names in rows)
    lines = [f"{who:<{width}}  {names}" for who, names in rows]
    total = targets_text(len(minions), sum(map(len, resources.values())))
    if away:
        total += f"; {minions_text(len(away))} not connected: {nodeset(away)}"
    return "\n".join([*lines, total, ""])


def _explanation(found: Mapping[str, Any]) -> str:
    """The verdict, the target as it was read, and a line for each term."""
    owner = found["owner"]
    who = found["id"] if owner is None else f"{found['id']}, managed by {owner}"
    terms = [(term["word"], _place(term), "yes" if term["true"] else "no", term["why"]) for term in found["terms"]]
    rows: list[Sequence[str]] = [("TERM", "PLACE", "MATCHES", "WHETHER"), *terms]
    if not any(place for _word, place, _matches, _whether in terms):
        rows = [(row[0], *row[2:]) for row in rows]
    return f"{who}: {found['verdict']}\nread as:  {found['read_as']}\n\n" + columns(rows, cut=(), width=None)


def _place(term: Mapping[str, Any]) -> str:
    """Where the word stands; "" in a target of one word."""
    if term["group"]:
        return f"nodegroup {term['group']}"
    column = f", column {term['column']}" if term["column"] else ""
    return f"word {term['number']}{column}" if term["number"] else ""
