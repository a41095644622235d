"""`saltlite key fleet show`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.fleetkeys import config_of, runs, shown_fleet
from saltlite.cli.keys import print_answer
from saltlite.master.processes import identity
from saltlite.model.keys import fingerprint
from saltlite.wire.limits import FLEET_CHAIN_RECORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.master.processes.identity import FleetFiles
    from saltlite.model.keys import Fingerprint


def run(argv: Sequence[str], console: Console) -> int:
    """Show the fleet key, the certificate, and which keys followed each other. FAILED when they do not fit."""
    parsed = command_table("key fleet show").parse(argv)
    config = config_of(parsed)
    found = identity.fleet_files(config.pki_dir)
    fleet = fingerprint(found.public) if found.public is not None else None
    until = found.certificate.not_after if found.certificate is not None else None
    changes = [
        {
            "serial": record.serial,
            "time": record.time,
            "old": fingerprint(record.old_public),
            "new": fingerprint(record.new_public),
        }
        for record in found.chain
    ]
    problem = found.problem() or ("" if found.present else f"there is no fleet key in {config.pki_dir} yet")
    shown = shown_fleet(config) if runs(config) else None
    if not problem and shown not in (None, fleet):
        problem = f"the running master still shows fleet {shown}: its log says why"
    answer = {"fleet": fleet, "certificate_until": until, "changes": changes, "problem": problem}
    print_answer(answer, _text(found, fleet, until), parsed, console)
    if problem:
        console.error(f"saltlite: {problem}")
    return exitcodes.FAILED if problem else exitcodes.OK


def _text(found: FleetFiles, fleet: Fingerprint | None, until: int | None) -> str:
    lines = [f"fleet: {fleet}"] if fleet is not None else []
    if until is not None and found.certificate is not None:
        lines.append(f"certificate: of {found.certificate.name}, valid until {_date(until)}")
    for record in reversed(found.chain):
        lines.append(f"{_date(record.time)}  took the place of {fingerprint(record.old_public)}")
    if len(found.chain) > FLEET_CHAIN_RECORDS:
        lines.append(f"minions that pin an older one than the last {FLEET_CHAIN_RECORDS} need a new pin")
    return "".join(f"{line}\n" for line in lines)


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
