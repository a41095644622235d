"""`saltlite key list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.keys import print_answer, table
from saltlite.cli.options import choice
from saltlite.model.keys import KeyState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """List keys; an empty list is not an error."""
    parsed = command_table("key list").parse(argv)
    console.quiet = parsed.on("quiet")
    to_state = choice(*KeyState)
    states = {to_state(word) for word in parsed.words} or set(KeyState)
    with open_client(parsed) as client:
        rows = [row for row in client.call("key_list")["keys"] if row["state"] in states]
    print_answer({"keys": rows}, table(rows, console.now()) if rows else "", parsed, console)
    if not rows:
        which = "no such key" if parsed.words else "no key yet: a minion brings its own when it first connects"
        console.note(f"saltlite: there is {which}")
    return exitcodes.OK
