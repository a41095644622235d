"""`saltlite key token create`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.durations import parse_duration
from saltlite.cli.keys import print_answer
from saltlite.cli.options import Option
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

DEFAULT_EXPIRY_S = 3600.0
USES_MAX = 1_000_000
"""A token that more minions could use is better made twice."""


def run(argv: Sequence[str], console: Console) -> int:
    """Make a token. It is the only thing on stdout, so that a script can take it."""
    parsed = command_table(
        "key token create",
        Option("--uses", metavar="N", convert=_uses, help="how many minions may join with it (1)"),
        Option("--expires", metavar="TIME", convert=parse_duration, help="how long it is good for (1h)"),
        Option("--id", metavar="GLOB", help="the minion ids that it is good for (*)"),
    ).parse(argv)
    if parsed.words:
        raise UsageError(f"{parsed.words[0]!r} is too much: the minion ids of a token are given with --id")
    given = parsed.options
    with open_client(parsed) as client:
        answer = client.call(
            "token_create",
            uses=given.get("uses", 1),
            expires_s=given.get("expires", DEFAULT_EXPIRY_S),
            id_glob=given.get("id", "*"),
        )
    print_answer({"token": answer["token"]}, f"{answer['token']}\n", parsed, console)
    return exitcodes.OK


def _uses(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 8 and 1 <= int(text) <= USES_MAX:
        return int(text)
    raise UsageError(f"{text!r} is not a number of uses: 1 to {USES_MAX}")
