"""`saltlite master`: join further masters to a fleet, list, drain and remove them.

`request`, `invite` and `join` work on the files of this machine's master and run as their owner, root, because no
process of the master has all keys.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.connect import open_client
from saltlite.cli.options import Option, format_duration, parse_duration
from saltlite.cli.output import print_answer
from saltlite.cli.targets import minions_text
from saltlite.cli.verbs.status import masters_text
from saltlite.config.load import load_master
from saltlite.config.master import without_password
from saltlite.errors import NoTargetError, RefusedError, UsageError
from saltlite.master.processes import identity, invitation, renewal
from saltlite.master.processes.own_address import address_problem
from saltlite.model.keys import parse_fingerprint
from saltlite.platform.files import write_new
from saltlite.platform.privileges import private_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient
    from saltlite.config.master import MasterConfig
    from saltlite.model.keys import Fingerprint

DROP_IN = "several-masters.conf"
"""What `join` writes into master.d of the configuration folder."""
LOOK_S = 0.2
_YES = Option("-y", "--yes", help="do not ask")


def run_request(argv: Sequence[str], console: Console) -> int:
    """Write the public keys of this machine's master to a file. Raises SaltliteError."""
    parsed = command_table("master request").parse(argv)
    console.quiet = parsed.on("quiet")
    config = load_master(config_dir_of(parsed)).config
    name = identity.name_of(config)
    given = _words(parsed, 0, 1, "name one file at most, as in saltlite master request master2.request")
    private_dir(config.pki_dir, os.geteuid(), os.getegid())
    request = invitation.request_of(config.pki_dir, name)
    path, is_new = _request_file(given[0] if given else f"{name}.request", request.encode())
    answer = {"file": path, "name": name, "fingerprint": request.fingerprint}
    print_answer(answer, f"{path}\nfingerprint: {request.fingerprint}\n", parsed, console)
    if not is_new:
        console.note("That file has been made before, and is still the request of this master.")
    console.note(
        f"Copy it to the machine that has the fleet key, and run there: saltlite master invite {name}\n"
        "That shows the same fingerprint. The file has no secret in it."
    )
    return exitcodes.OK


def _request_file(path: str, text: str) -> tuple[str, bool]:
    """Write a request; its absolute path, and whether it is new. One that is there already is shown again, so that its
    fingerprint can be compared at any time. Raises UsageError for a file with anything else in it."""
    with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        if file.read(invitation.FILE_MAX) == text:
            return os.path.abspath(path), False
    return write_new(path, text), True


def run_invite(argv: Sequence[str], console: Console) -> int:
    """Answer the request of a further master with an invitation. Raises SaltliteError."""
    parsed = command_table(
        "master invite",
        Option(
            "--fingerprint",
            metavar="TEXT",
            convert=parse_fingerprint,
            help="of the request, instead of a question",
        ),
        Option("--expires", metavar="TIME", convert=parse_duration, help="how long it can be used (1d)"),
        Option(
            "--database",
            metavar="DSN",
            convert=without_password,
            help="how the new master connects, if not as this one",
        ),
        _YES,
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    words = _words(
        parsed, 1, 2, "name the new master, and its request file if that is not NAME.request: saltlite master invite m2"
    )
    config = load_master(config_dir_of(parsed)).config
    name = words[0]
    request = invitation.read_request(words[1] if len(words) > 1 else f"{name}.request")
    if request.name != name:
        raise UsageError(f"the request is that of a master named {request.name}, not {name}: nothing was made")
    expires_s = parsed.options.get("expires", invitation.EXPIRES_S)
    database = parsed.options.get("database", config.database)
    text = invitation.invite(config.pki_dir, request, database, console.now(), expires_s)
    _compare(parsed, console, "fingerprint", request.fingerprint, f"did `saltlite master request` on {name} show")
    renewal.add_invited(config.pki_dir, name, request.static_public, request.job_public)
    path = write_new(f"{name}.invitation", text)
    answer = {"file": path, "name": name, "fingerprint": request.fingerprint, "expires_at": console.now() + expires_s}
    print_answer(answer, f"{path}\n", parsed, console)
    console.note(
        f"Copy it to {name} within {format_duration(expires_s)}, and run there: saltlite master join "
        f"{name}.invitation\nOnly that machine can read it."
    )
    if _is_local(database):
        console.note(
            "Its `database` names no other machine: if the new master runs elsewhere, invite it with --database."
        )
    return exitcodes.OK


def run_join(argv: Sequence[str], console: Console) -> int:
    """Make this machine's master one of the fleet that invited it. Raises SaltliteError."""
    parsed = command_table(
        "master join",
        Option(
            "--fleet",
            metavar="FINGERPRINT",
            convert=parse_fingerprint,
            help="of the fleet, instead of a question",
        ),
        _YES,
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    (path,) = _words(parsed, 1, 1, "name the invitation, as in saltlite master join master2.invitation")
    config_dir = config_dir_of(parsed)
    config = load_master(config_dir).config
    name = identity.name_of(config)
    invited = invitation.read_invitation(path, config.pki_dir, name, console.now())
    _compare(parsed, console, "fleet", invited.fleet, "does `saltlite key finger` on its masters show the fleet")
    invitation.refuse_fleet_of_its_own(config.pki_dir)
    written = _configure(config, config_dir, invited.database)
    invitation.join(config.pki_dir, invited)
    until = invited.certificate.not_after
    answer = {"name": name, "fleet": invited.fleet, "certificate_until": until, "configuration": written}
    print_answer(answer, f"{name} is a master of fleet {invited.fleet}\n", parsed, console)
    if written:
        console.note(f"{written} sets `database` and `several_masters`.")
    elif invited.database != config.database:
        console.note(
            "The invitation names another `database` than the configuration of this master, which stays as it is:\n"
            f"{invited.database}"
        )
    if said := address_problem(load_master(config_dir).config):
        console.note(f"{said[0].upper()}{said[1:]}.")
    console.note(f"Start the master (a passfile that `database` names has to be here). Then remove {path}.")
    return exitcodes.OK


def run_list(argv: Sequence[str], console: Console) -> int:
    """Show the masters of the store; FAILED if something differs between them."""
    parsed = command_table("master list").parse(argv)
    console.quiet = parsed.on("quiet")
    _words(parsed, 0, 0, "master list takes no words")
    with open_client(parsed, console) as client:
        answer = client.call("masters")
    del answer["ok"]
    print_answer(answer, masters_text(answer, console), parsed, console)
    return exitcodes.FAILED if answer["differences"] else exitcodes.OK


def run_drain(argv: Sequence[str], console: Console) -> int:
    """Have a master give its minions to the others, and with --wait see the last of them go. Raises SaltliteError."""
    parsed = command_table(
        "master drain",
        Option("--undo", help="have it take minions again"),
        Option("--wait", metavar="TIME", convert=parse_duration, help="wait so long until its minions are gone"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    (name,) = _words(parsed, 1, 1, "name one master, as in saltlite master drain m2")
    with open_client(parsed, console) as client:
        state = client.call("master_drain", name=name, ends=parsed.on("undo"))["state"]
        left = _left(client, name)
        give_up_at = time.monotonic() + parsed.options.get("wait", 0.0)
        while left and not parsed.on("undo") and time.monotonic() < give_up_at:
            time.sleep(LOOK_S)
            left = _left(client, name)
    print_answer({"name": name, "state": state, "sessions": left}, f"{name}: {state}\n", parsed, console)
    if parsed.on("undo"):
        return exitcodes.OK
    if left:
        console.note(f"{minions_text(left)} of {name} are still connected: `saltlite master list` shows how many.")
        return exitcodes.MISSING if parsed.on("wait") else exitcodes.OK
    console.note(f"No minion is connected to {name}: it can be stopped.")
    return exitcodes.OK


def _left(client: LocalClient, name: str) -> int:
    return sum(row["sessions"] for row in client.call("masters")["masters"] if row["name"] == name)


def run_remove(argv: Sequence[str], console: Console) -> int:
    """Forget a master that has stopped for good. Raises SaltliteError."""
    parsed = command_table("master remove").parse(argv)
    console.quiet = parsed.on("quiet")
    (name,) = _words(parsed, 1, 1, "name one master, as in saltlite master remove m2")
    away, unknown = "", None
    with open_client(parsed, console) as client:
        try:
            away = client.call("master_remove", name=name)["holder_away"]
        except NoTargetError as error:
            # It may have been removed elsewhere, while this master, which has the fleet key, was away.
            unknown = error
    pki_dir = load_master(config_dir_of(parsed)).config.pki_dir
    was_listed = os.access(os.path.join(pki_dir, identity.INVITED), os.R_OK) and renewal.remove_invited(pki_dir, name)
    if unknown is not None and not was_listed:
        raise unknown
    print_answer({"name": name}, f"{name} is removed\n", parsed, console)
    if away and away != name and not was_listed:
        console.note(
            f"{away}, which has the fleet key, is away: run the command there, too, or it may renew the certificate of "
            f"{name} if that comes back before it has read of the removal."
        )
    console.note(
        "It can come back as long as its machine reaches the database and has shared.key: take its access away."
    )
    return exitcodes.OK


def _words(parsed: Parsed, least: int, most: int, usage: str) -> list[str]:
    if not least <= len(parsed.words) <= most:
        raise UsageError(usage)
    return list(parsed.words)


def _compare(parsed: Parsed, console: Console, option: str, shown: Fingerprint, question: str) -> None:
    """Have a person, or the option of that name, confirm a fingerprint. Raises UsageError and RefusedError."""
    given = parsed.options.get(option)
    if given is not None:
        if given != shown:
            raise RefusedError(f"the fingerprint is {shown}, not {given}: nothing was done")
        return
    if parsed.on("yes"):
        return
    if not console.can_ask():
        raise UsageError(f"the fingerprint {shown} has to be compared: give the expected one with --{option}, or -y")
    if not console.ask(f"{question} {shown}?"):
        raise RefusedError("nothing was done")


def _is_local(dsn: str) -> bool:
    """Whether a connection string leads to a Unix socket or to this machine only."""
    words = dsn.split()
    if "://" in dsn:
        place, _, options = dsn.partition("://")[2].partition("?")
        addresses = place.partition("/")[0].rpartition("@")[2].split(",")
        words = ["host=" + ",".join(map(_host, addresses)), *options.split("&")]
    hosts = [unquote(word.partition("=")[2]).strip("'") for word in words if word.startswith(("host=", "hostaddr="))]
    names = [name for one in hosts for name in one.split(",")]
    return all(name.startswith("/") or name in ("", "localhost", "127.0.0.1", "::1") for name in names)


def _host(address: str) -> str:
    """Of an address in a URL, which may have a port."""
    return address[1:].partition("]")[0] if address.startswith("[") else address.partition(":")[0]


def _configure(config: MasterConfig, config_dir: str, database: str) -> str:
    """Set the options of a master that shares its store; the file. "" if they are set: a certificate is renewed then,
    and this master may reach the database in another way than the one that invited it. Raises UsageError."""
    if config.database and config.several_masters:
        return ""
    folder = os.path.join(config_dir, "master.d")
    path = os.path.join(folder, DROP_IN)
    text = f"# Written by `saltlite master join`.\ndatabase: {json.dumps(database)}\nseveral_masters: true\n"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): nothing was done") from error
    return path
