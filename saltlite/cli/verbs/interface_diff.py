"""`saltlite interface diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.interfaces import read_interface
from saltlite.cli.keys import print_answer
from saltlite.errors import UsageError
from saltlite.lint.compare import Kind, changes_between, version_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Show what changed from one interface to the other. FAILED when the later one's version does not fit that."""
    parsed = command_table("interface diff").parse(argv)
    if len(parsed.words) != 2:
        raise UsageError("say two interfaces, the older one first: saltlite interface diff pkg pkg_new.py")
    before, after = (read_interface(word) for word in parsed.words)
    if before.module != after.module:
        raise UsageError(f"{parsed.words[0]} describes {before.module}, and {parsed.words[1]} {after.module}")
    changes = changes_between(before, after)
    problem = version_problem(before, after, changes)
    kind = next((kind for kind in Kind if any(one.kind is kind for one in changes)), None)
    answer = {
        "before": before.version,
        "after": after.version,
        "kind": str(kind or "identical"),
        "changes": [{"kind": str(one.kind), "function": one.function, "text": one.text} for one in changes],
        "problem": problem,
    }
    text = "".join(f"{one.sentence()}\n" for one in changes) or "no change\n"
    print_answer(answer, text, parsed, console)
    if problem:
        console.error(f"saltlite: {problem}")
    return exitcodes.FAILED if problem else exitcodes.OK
