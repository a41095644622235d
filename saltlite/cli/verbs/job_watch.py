"""`saltlite job watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli.commands import COMMANDS
from saltlite.cli.connect import open_client
from saltlite.cli.job import follow_job
from saltlite.cli.joboptions import FOLLOW_OPTIONS
from saltlite.cli.jobs import jid_in
from saltlite.cli.options import Table
from saltlite.client.waiting import Published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Follow a job from its beginning, as the command that published it did; the exit code of that."""
    parsed = Table(*COMMANDS["job watch"], FOLLOW_OPTIONS).parse(argv)
    jid = jid_in(parsed, "watch")
    with open_client(parsed) as client:
        answer = client.call("follow", jid=jid, after=0)
        published = Published(answer, fun=answer["fun"], target=answer["tgt"])
        return follow_job(client, published, parsed, console)
