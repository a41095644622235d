"""`saltlite job kill`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.jobs import jid_in
from saltlite.cli.keys import print_answer
from saltlite.errors import NoTargetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

_SENTENCES = {
    "ids": "asked to kill it",
    "away": "not connected; it is told when it is back",
    "cancelled": "never got it, and will not",
}
"""What is said of the minions in each list of the answer."""


def run(argv: Sequence[str], console: Console) -> int:
    """End the job on every minion that has not ended it; prints what that means for each."""
    parsed = command_table("job kill").parse(argv)
    jid = jid_in(parsed, "kill")
    with open_client(parsed) as client:
        answer = client.call("job_kill", jid=jid)
    found = {name: answer[name] for name in _SENTENCES}
    if not any(found.values()):
        raise NoTargetError(f"job {jid} has ended on every minion: there is nothing to kill")
    lines = sorted(f"{minion}: {_SENTENCES[name]}\n" for name, ids in found.items() for minion in ids)
    print_answer({"jid": jid, **found}, "".join(lines), parsed, console)
    return exitcodes.OK
