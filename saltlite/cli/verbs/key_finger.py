"""`saltlite key finger`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.keys import matching, print_answer
from saltlite.errors import NoTargetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient


def run(argv: Sequence[str], console: Console) -> int:
    """Fingerprints of the fleet and the master; with patterns those of minion keys, each with its state."""
    parsed = command_table("key finger").parse(argv)
    with open_client(parsed) as client:
        if parsed.words:
            _minion_keys(client, parsed, console)
        else:
            _own_keys(client, parsed, console)
    return exitcodes.OK


def _own_keys(client: LocalClient, parsed: Parsed, console: Console) -> None:
    answer = client.call("key_finger")
    fleet, master = answer["fleet"], answer["master"]
    until = time.strftime("%Y-%m-%d", time.gmtime(master["not_after"]))
    text = f"fleet:  {fleet}\nmaster: {master['fingerprint']} ({master['name']}, valid until {until})\n"
    print_answer({"fleet": fleet, "master": master}, text, parsed, console)


def _minion_keys(client: LocalClient, parsed: Parsed, console: Console) -> None:
    rows = client.call("key_list")["keys"]
    for pattern in parsed.words:
        if not matching(rows, pattern):
            raise NoTargetError(f"{pattern!r} matches no key; `saltlite key list` shows all of them")
    found = [row for row in rows if any(row in matching([row], pattern) for pattern in parsed.words)]
    text = "".join(f"{row['id']}: {row['fingerprint']} ({row['state']})\n" for row in found)
    print_answer({"keys": found}, text, parsed, console)
