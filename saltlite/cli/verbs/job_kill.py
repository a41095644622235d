"""`saltlite job kill`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes, outcome
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.jobs import jid_in, names_of
from saltlite.cli.keys import print_answer
from saltlite.errors import NoTargetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.client.local import LocalClient

_SENTENCES = {
    "ids": "asked to kill it",
    "away": "not connected; it is told when it is back",
    "cancelled": "never got it, and will not",
}
"""What is said of the targets in each list of the answer."""


def run(argv: Sequence[str], console: Console) -> int:
    """End the job on every target that has not ended it; prints what that means for each."""
    parsed = command_table("job kill").parse(argv)
    jid = jid_in(parsed, "kill")
    with open_client(parsed) as client:
        answer = client.call("job_kill", jid=jid)
        found: dict[str, list[str]] = {name: answer[name] for name in _SENTENCES}
        if not any(found.values()):
            raise NoTargetError(f"job {jid} has ended everywhere: there is nothing to kill")
        names = _names(client, jid, [target for targets in found.values() for target in targets])
    told = sorted((names[target], _SENTENCES[name]) for name, targets in found.items() for target in targets)
    text = "".join(f"{line}\n" for line in outcome.lines(told, "targets"))
    shown = {name: [names[target] for target in targets] for name, targets in found.items()}
    print_answer({"jid": jid, **shown}, text, parsed, console)
    return exitcodes.OK


def _names(client: LocalClient, jid: str, targets: Sequence[str]) -> dict[str, str]:
    """What people call these targets. That of a resource depends on the other targets of the job."""
    if any(":" in target for target in targets):
        return names_of(client.call("job_show", jid=jid)["job"])
    return {target: target for target in targets}
