"""`saltlite key preaccept`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.keys import print_answer
from saltlite.errors import UsageError
from saltlite.model.ids import parse_minion_id
from saltlite.model.keys import parse_fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Accept one key in advance."""
    parsed = command_table("key preaccept").parse(argv)
    if len(parsed.words) != 2:
        raise UsageError("say the minion id and the fingerprint of its key: saltlite key preaccept ID FINGERPRINT")
    minion, fingerprint = parse_minion_id(parsed.words[0]), parse_fingerprint(parsed.words[1])
    with open_client(parsed) as client:
        client.call("key_preaccept", id=minion, fingerprint=fingerprint)
    answer = {"id": minion, "fingerprint": fingerprint}
    print_answer(answer, f"{minion}: accepted as soon as it comes with {fingerprint}\n", parsed, console)
    return exitcodes.OK
