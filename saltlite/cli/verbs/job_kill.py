"""`saltlite job kill`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.keys import print_answer
from saltlite.errors import NoTargetError, UsageError
from saltlite.model.ids import parse_jid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Ask every minion that has not ended the job to kill it; prints who was asked."""
    parsed = command_table("job kill").parse(argv)
    if len(parsed.words) != 1:
        raise UsageError("say which job to kill: saltlite job kill JID")
    jid = parse_jid(parsed.words[0])
    with open_client(parsed) as client:
        answer = client.call("job_kill", jid=jid)
    asked: list[str] = answer["ids"]
    away: list[str] = answer.get("away", [])
    if away:
        console.note(f"not connected, so not asked: {', '.join(away)}; kill the job again when they are back")
    if not asked and away:
        raise NoTargetError(f"job {jid} runs on no minion that is connected now")
    if not asked:
        raise NoTargetError(f"job {jid} has ended on every minion: there is nothing to kill")
    print_answer({"jid": jid, "ids": asked}, "".join(f"{m}: asked to kill it\n" for m in asked), parsed, console)
    return exitcodes.OK
