"""`saltlite key fleet new`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.fleetkeys import config_of, wait_until_used
from saltlite.cli.keys import print_answer
from saltlite.cli.options import Option
from saltlite.errors import UsageError
from saltlite.master.processes import identity
from saltlite.platform.privileges import private_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Make another fleet key that no minion knows yet. Refused where the old one is there."""
    parsed = command_table(
        "key fleet new",
        Option("--lost", help="say that the key and its backups are lost"),
        Option("-y", "--yes", help="do not ask"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    config = config_of(parsed)
    if not parsed.on("lost"):
        raise UsageError(
            "no minion believes a new fleet: say --lost if the fleet key and its backups are lost; to change one that "
            "is there use `saltlite key fleet rotate`"
        )
    if not parsed.on("yes"):
        if not console.can_ask():
            raise UsageError("every minion needs a new pin afterwards, and nobody is there to ask: say -y to do it")
        if not console.ask("make a new fleet, whose fingerprint has to be set on each minion?"):
            console.error("saltlite: nothing was changed")
            return exitcodes.INTERRUPTED
    private_dir(config.pki_dir, os.geteuid(), os.getegid())
    fleet = identity.replace_lost(config.pki_dir, identity.name_of(config), console.now())
    wait_until_used(config, fleet, console)
    print_answer({"fleet": fleet}, f"fleet: {fleet}\n", parsed, console)
    console.note(
        "No minion believes this fleet yet. On each: set `fleet` in its configuration to this fingerprint, remove a\n"
        "join token that is set there, and restart saltlite-minion. Keys that were accepted stay accepted."
    )
    return exitcodes.OK
