"""`saltlite key fleet`: show, change and replace the fleet key.

These verbs work on the files of this machine's master and run as their owner, root, because no process has the fleet
key.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.options import Option
from saltlite.cli.output import print_answer
from saltlite.cli.verbs.doctor.host import daemon_pid
from saltlite.cli.verbs.doctor.master import own_address
from saltlite.config.load import load_master
from saltlite.errors import LinkError, RemoteProtocolError, SaltliteError, UsageError
from saltlite.master.processes import identity
from saltlite.model.keys import fingerprint
from saltlite.platform.master_probe import probe_master
from saltlite.platform.privileges import private_dir
from saltlite.wire.limits import FLEET_CHAIN_RECORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.config.master import MasterConfig
    from saltlite.master.processes.identity import FleetFiles
    from saltlite.model.keys import Fingerprint


USED_S = 30.0
"""How long a running master may take to use another fleet key."""
PROBE_S = 2.0
AGAIN_S = 0.2


def config_of(parsed: Parsed) -> MasterConfig:
    """The configuration of this machine's master. Raises ConfigError, and UsageError for words."""
    if parsed.words:
        raise UsageError(f"{parsed.words[0]!r} is not expected: this command concerns the master of this machine")
    return load_master(config_dir_of(parsed)).config


def runs(config: MasterConfig) -> bool:
    """Whether the master runs."""
    return daemon_pid(os.path.join(config.data_dir, "lock")) is not None


def shown_fleet(config: MasterConfig) -> Fingerprint | None:
    """The fleet that the master proves on its port; None without a proof."""
    try:
        return probe_master(own_address(config), PROBE_S).fleet
    except (LinkError, RemoteProtocolError):
        return None


def wait_until_used(config: MasterConfig, fleet: Fingerprint, console: Console) -> None:
    """Return when the running master, if any, proves that fleet. Raises SaltliteError after USED_S."""
    if not runs(config):
        console.note("The master does not run here: it uses the new key from its next start on.")
        return
    give_up_at = time.monotonic() + USED_S
    while shown_fleet(config) != fleet:
        if time.monotonic() > give_up_at:
            raise SaltliteError(
                f"the new fleet key is on the disk, but the running master does not show it after {USED_S:g} s: its "
                "log says why; it uses the key from its next start on"
            )
        time.sleep(AGAIN_S)
    console.note("The running master uses it.")


def _confirmed(parsed: Parsed, console: Console, warning: str, question: str) -> bool:
    """Whether -y or a person agrees. Raises UsageError with the warning when there is no terminal to ask at."""
    if parsed.on("yes"):
        return True
    if not console.can_ask():
        raise UsageError(f"{warning}, and there is no terminal to ask at: add -y to do it")
    if agreed := console.ask(question):
        return agreed
    console.error("saltlite: nothing was changed")
    return False


def run_new(argv: Sequence[str], console: Console) -> int:
    """Make a fleet key that no minion knows. Refused while the old key exists."""
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
    question = "make a new fleet, whose fingerprint has to be set on each minion?"
    if not _confirmed(parsed, console, "every minion needs a new pin afterwards", question):
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


def run_rotate(argv: Sequence[str], console: Console) -> int:
    """Make a successor of the fleet key, and wait until the running master uses it."""
    parsed = command_table("key fleet rotate", Option("-y", "--yes", help="do not ask")).parse(argv)
    console.quiet = parsed.on("quiet")
    config = config_of(parsed)
    warning = "this changes the key of the whole fleet"
    if not _confirmed(parsed, console, warning, "change the key of the whole fleet?"):
        return exitcodes.INTERRUPTED
    record = identity.rotate(config.pki_dir, identity.name_of(config), console.now())
    old, new = fingerprint(record.old_public), fingerprint(record.new_public)
    wait_until_used(config, new, console)
    print_answer({"fleet": new, "former": old, "serial": record.serial}, f"fleet: {new}\n", parsed, console)
    others = f"Other masters of the fleet\nneed fleet.chain and fleet.key of {config.pki_dir} too."
    if identity.shared_key(config.pki_dir) is not None:
        others = (
            "The masters that\nthis one has invited get new certificates within seconds; until then jobs between "
            "masters are refused."
        )
    console.note(f"Minions of {old} follow when they next meet this master. {others} Existing join tokens stay valid.")
    return exitcodes.OK


def run_show(argv: Sequence[str], console: Console) -> int:
    """Show the fleet key, the certificate and the former keys. FAILED when they do not fit."""
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
        lines.append(f"{_date(record.time)}  replaced {fingerprint(record.old_public)}")
    if len(found.chain) > FLEET_CHAIN_RECORDS:
        lines.append(f"minions that pin a key older than the last {FLEET_CHAIN_RECORDS} need a new pin")
    return "".join(f"{line}\n" for line in lines)


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
