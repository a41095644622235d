"""`saltlite auth token list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.columns import columns
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.durations import format_duration
from saltlite.cli.keys import print_answer
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Show who is logged in: an operator sees everybody, others see their own logins."""
    parsed = command_table("auth token list").parse(argv)
    console.quiet = parsed.on("quiet")
    if parsed.words:
        raise UsageError(f"auth token list takes no {parsed.words[0]!r}")
    with open_client(parsed) as client:
        tokens = client.call("auth_token_list")["tokens"]
    now = console.now()
    rows = [("ID", "USER", "SINCE", "ENDS IN")]
    for one in tokens:
        since, left = format_duration(max(0.0, now - one["start"])), format_duration(max(0.0, one["expire"] - now))
        rows.append((one["id"], f"{one['eauth']}:{one['user']}", f"{since} ago", left))
    print_answer({"tokens": tokens}, columns(rows, cut=(), width=None) if tokens else "", parsed, console)
    return exitcodes.OK
