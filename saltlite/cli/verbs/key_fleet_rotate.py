"""`saltlite key fleet rotate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.fleetkeys import config_of, wait_until_used
from saltlite.cli.keys import print_answer
from saltlite.cli.options import Option
from saltlite.errors import UsageError
from saltlite.master.processes import identity
from saltlite.model.keys import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Make a successor of the fleet key, and have the running master use it."""
    parsed = command_table("key fleet rotate", Option("-y", "--yes", help="do not ask")).parse(argv)
    console.quiet = parsed.on("quiet")
    config = config_of(parsed)
    if not parsed.on("yes"):
        if not console.can_ask():
            raise UsageError("this changes the key of the whole fleet, and nobody is there to ask: say -y to do it")
        if not console.ask("change the key of the whole fleet?"):
            console.error("saltlite: nothing was changed")
            return exitcodes.INTERRUPTED
    record = identity.rotate(config.pki_dir, identity.name_of(config), console.now())
    old, new = fingerprint(record.old_public), fingerprint(record.new_public)
    wait_until_used(config, new, console)
    print_answer({"fleet": new, "former": old, "serial": record.serial}, f"fleet: {new}\n", parsed, console)
    console.note(
        f"Minions of {old} follow when they next meet this master. Other masters of the fleet\n"
        f"need fleet.chain and fleet.key of {config.pki_dir} too. Join tokens that were made before stay good."
    )
    return exitcodes.OK
