"""`saltlite key`: list, accept, reject, revoke, delete and pre-accept keys, fingerprints, and join tokens.

A change names exact fingerprints, those that were shown, so a key that arrives meanwhile is never affected.
"""

from __future__ import annotations

import time

from saltlite.cli import exitcodes
from saltlite.cli.commands import KEY_STATES, command_table
from saltlite.cli.connect import open_client
from saltlite.cli.options import Option, choice, format_duration, parse_duration
from saltlite.cli.output import columns, print_answer
from saltlite.cli.targets import natural_key
from saltlite.errors import NoTargetError, RefusedError, SaltliteError, UsageError
from saltlite.model.plain import printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient

    Row = Mapping[str, Any]
    """One key as the master lists it: id, fingerprint, state, address, first_seen, changed_at, how."""

PENDING, ACCEPTED, REJECTED, _REVOKED, CONFLICT = KEY_STATES


class Change:
    """One kind of change to keys."""

    __slots__ = ("action", "by_glob", "by_id", "one_key_an_id")

    def __init__(
        self, action: str, *, by_glob: Sequence[str], by_id: Sequence[str], one_key_an_id: bool = False
    ) -> None:
        self.action = action
        self.by_glob = by_glob
        """States in which a glob finds keys; fewer than by id, because a glob is easily too wide."""
        self.by_id = by_id
        self.one_key_an_id = one_key_an_id
        """Whether several keys of one id need a choice by --fingerprint."""


def _fingerprint(text: str) -> str:
    from saltlite.model.keys import parse_fingerprint

    return parse_fingerprint(text)


def run_change(argv: Sequence[str], console: Console, change: Change) -> int:
    """Run the verb `saltlite key <action>`."""
    parsed = command_table(
        f"key {change.action}",
        Option(
            "--fingerprint",
            metavar="FP",
            convert=_fingerprint,
            help="only the key with this fingerprint",
        ),
        Option("-y", "--yes", help="do not ask"),
    ).parse(argv)
    if not parsed.words:
        raise UsageError(f"name the keys to {change.action}: an id, or a glob such as 'web*'")
    console.quiet = parsed.on("quiet")
    with open_client(parsed, console) as client:
        rows = select(client.call("key_list")["keys"], parsed.words, change, parsed.options.get("fingerprint"))
        if not parsed.on("yes") and not agreed(rows, change.action, console):
            console.error("saltlite: nothing was changed")
            return exitcodes.INTERRUPTED
        answer = client.call("key_change", action=change.action, fingerprints=[row["fingerprint"] for row in rows])
    return _show_change(answer, parsed, console)


def select(rows: Sequence[Row], patterns: Sequence[str], change: Change, fingerprint: str | None) -> list[Row]:
    """The chosen keys, in the order of `rows`.

    Raises NoTargetError when a pattern finds none, RefusedError when none has the fingerprint, and UsageError for
    several keys of one id where the change allows one.
    """
    chosen = {row["fingerprint"]: row for pattern in patterns for row in _matches(rows, pattern, change)}
    if fingerprint is not None:
        if fingerprint not in chosen:
            others = ", ".join(f"{row['id']} has {row['fingerprint']}" for row in chosen.values())
            raise RefusedError(f"no key here has the fingerprint {fingerprint} ({others}): find out why first")
        return [chosen[fingerprint]]
    if change.one_key_an_id:
        refuse_doubled(chosen.values())
    return [row for row in rows if row["fingerprint"] in chosen]


def refuse_doubled(rows: Iterable[Row]) -> None:
    """Raise UsageError when two of these keys have one id."""
    ids = [row["id"] for row in rows]
    doubled = sorted({minion for minion in ids if ids.count(minion) > 1})
    if doubled:
        raise UsageError(
            f"{', '.join(doubled)}: more than one key has this id; choose one with --fingerprint of "
            "`saltlite key accept`"
        )


def matching(rows: Sequence[Row], pattern: str) -> list[Row]:
    """The keys whose id the glob matches."""
    from fnmatch import fnmatchcase  # with its regular expressions, which a list does not need

    return [row for row in rows if fnmatchcase(row["id"], pattern)]


def _matches(rows: Sequence[Row], pattern: str, change: Change) -> list[Row]:
    states = change.by_glob if set(pattern) & set("*?[") else change.by_id
    named = matching(rows, pattern)
    hits = [row for row in named if row["state"] in states]
    if not hits:
        found = f" ({', '.join(sorted({row['state'] for row in named}))})" if named else ""
        raise NoTargetError(
            f"{pattern!r} matches no key to {change.action}{found}; `saltlite key list` shows all of them"
        )
    return hits


def table(rows: Sequence[Row], now: float) -> str:
    """Keys as aligned columns with a heading; every line ends with a newline."""
    cells = [("ID", "STATE", "FINGERPRINT", "ADDRESS", "FIRST SEEN", "HOW")]
    for row in sorted(rows, key=lambda row: natural_key(row["id"])):
        age = f"{format_duration(now - row['first_seen'])} ago"
        cells.append((row["id"], row["state"], row["fingerprint"], row["address"], age, row["how"]))
    shown = [[printable(str(cell)) for cell in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in shown]
    return "".join(f"{line}\n" for line in lines)


def count(rows: Sequence[Row]) -> str:
    """`1 key`, `2 keys`."""
    return f"{len(rows)} key{'' if len(rows) == 1 else 's'}"


def agreed(rows: Sequence[Row], action: str, console: Console) -> bool:
    """Whether the user agrees to change these keys. Raises UsageError without a terminal to ask at."""
    if not console.can_ask():
        raise UsageError(f"this would {action} {count(rows)}, and there is no terminal to ask at: add -y to do it")
    console.error(table(rows, console.now()).rstrip("\n"))
    return console.ask(f"{action} {count(rows)}?")


def _show_change(answer: dict[str, Any], parsed: Parsed, console: Console) -> int:
    changed: list[Row] = answer["changed"]
    refused: list[Row] = answer["refused"]
    text = "".join(f"{row['id']}: {row['state']} {row['fingerprint']}\n" for row in changed)
    print_answer({"changed": changed, "refused": refused}, text, parsed, console)
    for row in refused:
        console.error(f"{row['id']}: {row['reason']}")
    return exitcodes.REFUSED if refused else exitcodes.OK


_ACCEPT = Change(
    "accept",
    by_glob=(PENDING,),
    by_id=(PENDING, REJECTED, CONFLICT),
    one_key_an_id=True,
)


def run_accept(argv: Sequence[str], console: Console) -> int:
    """Accept keys; two keys of one id are never accepted together."""
    return run_change(argv, console, _ACCEPT)


_DELETE = Change("delete", by_glob=KEY_STATES, by_id=KEY_STATES)


def run_delete(argv: Sequence[str], console: Console) -> int:
    """Delete keys in any state."""
    return run_change(argv, console, _DELETE)


_REJECT = Change(
    "reject",
    by_glob=(PENDING, CONFLICT),
    by_id=(PENDING, CONFLICT),
)


def run_reject(argv: Sequence[str], console: Console) -> int:
    """Reject keys that wait for a decision."""
    return run_change(argv, console, _REJECT)


_REVOKE = Change(
    "revoke",
    by_glob=(ACCEPTED,),
    by_id=(ACCEPTED,),
)


def run_revoke(argv: Sequence[str], console: Console) -> int:
    """Revoke accepted keys."""
    return run_change(argv, console, _REVOKE)


def run_finger(argv: Sequence[str], console: Console) -> int:
    """Show the fingerprints of the fleet and the master, or of the minion keys that match."""
    parsed = command_table("key finger").parse(argv)
    with open_client(parsed, console) as client:
        if parsed.words:
            _minion_keys(client, parsed, console)
        else:
            _own_keys(client, parsed, console)
    return exitcodes.OK


def _own_keys(client: LocalClient, parsed: Parsed, console: Console) -> None:
    answer = client.call("key_finger")
    fleet, master = answer["fleet"], answer["master"]
    until = time.strftime("%Y-%m-%d", time.gmtime(master["not_after"]))
    text = f"fleet:  {fleet}\nmaster: {master['fingerprint']} ({master['name']}, valid until {until})\n"
    print_answer({"fleet": fleet, "master": master}, text, parsed, console)


def _minion_keys(client: LocalClient, parsed: Parsed, console: Console) -> None:
    rows = client.call("key_list")["keys"]
    for pattern in parsed.words:
        if not matching(rows, pattern):
            raise NoTargetError(f"{pattern!r} matches no key; `saltlite key list` shows all of them")
    found = [row for row in rows if any(row in matching([row], pattern) for pattern in parsed.words)]
    text = "".join(f"{row['id']}: {row['fingerprint']} ({row['state']})\n" for row in found)
    print_answer({"keys": found}, text, parsed, console)


def run_list(argv: Sequence[str], console: Console) -> int:
    """List keys; an empty list is not an error."""
    parsed = command_table("key list").parse(argv)
    console.quiet = parsed.on("quiet")
    to_state = choice(*KEY_STATES)
    states = {to_state(word) for word in parsed.words} or set(KEY_STATES)
    with open_client(parsed, console) as client:
        rows = [row for row in client.call("key_list")["keys"] if row["state"] in states]
    print_answer({"keys": rows}, table(rows, console.now()) if rows else "", parsed, console)
    for line in _conflicts(rows):
        console.note(line)
    if not rows:
        if parsed.words:
            asked = ("in conflict" if state == "conflict" else state for state in sorted(states))
            console.note(f"saltlite: no key is {' or '.join(asked)}")
        else:
            console.note("saltlite: there is no key yet: a minion brings its own when it first connects")
    return exitcodes.OK


def _conflicts(rows: Sequence[Row]) -> list[str]:
    """What each key in conflict means, and the commands that mend it."""
    return [
        f"saltlite: {row['id']}: another key has this id. If its machine was installed anew, "
        f"`saltlite key revoke {row['id']}` and then `saltlite key accept {row['id']} --fingerprint "
        f"{row['fingerprint']}`; if another machine has its id by mistake, give that one an id of its own and "
        f"`saltlite key reject {row['id']} --fingerprint {row['fingerprint']}`"
        for row in sorted(rows, key=lambda row: natural_key(row["id"]))
        if row["state"] == CONFLICT
    ]


def run_preaccept(argv: Sequence[str], console: Console) -> int:
    """Accept one key in advance."""
    parsed = command_table("key preaccept").parse(argv)
    if len(parsed.words) != 2:
        raise UsageError("give the minion id and the fingerprint of its key: saltlite key preaccept ID FINGERPRINT")
    from saltlite.model.ids import parse_minion_id

    minion, fingerprint = parse_minion_id(parsed.words[0]), _fingerprint(parsed.words[1])
    with open_client(parsed, console) as client:
        client.call("key_preaccept", id=minion, fingerprint=fingerprint)
    answer = {"id": minion, "fingerprint": fingerprint}
    print_answer(answer, f"{minion}: accepted as soon as it comes with {fingerprint}\n", parsed, console)
    return exitcodes.OK


def run_rename(argv: Sequence[str], console: Console) -> int:
    """Rename one minion, and say what to do on its machine."""
    parsed = command_table("key rename", Option("-y", "--yes", help="do not ask")).parse(argv)
    if len(parsed.words) != 2:
        raise UsageError("give the id of the minion and its new one: saltlite key rename ID NEW-ID")
    from saltlite.model.ids import parse_minion_id

    console.quiet = parsed.on("quiet")
    old, new = (parse_minion_id(word) for word in parsed.words)
    with open_client(parsed, console) as client:
        if not parsed.on("yes"):
            rows = [row for row in client.call("key_list", id=old)["keys"] if row["state"] == ACCEPTED]
            if rows and not agreed(rows, "rename", console):
                console.error("saltlite: nothing was changed")
                return exitcodes.INTERRUPTED
        answer = client.call("key_rename", id=old, new_id=new)
    fingerprint = answer["fingerprint"]
    print_answer(
        {"id": new, "former": old, "fingerprint": fingerprint}, f"{new}: accepted {fingerprint}\n", parsed, console
    )
    console.note(
        f"On its machine set `id: {new}` in the minion's configuration and restart saltlite-minion; under its former "
        "id it is refused."
    )
    return exitcodes.OK


DEFAULT_EXPIRY_S = 3600.0
USES_MAX = 1_000_000
"""For more minions make another token."""


def run_token_create(argv: Sequence[str], console: Console) -> int:
    """Make a token; stdout has nothing else, for scripts. With --install it has the command for the new minion."""
    parsed = command_table(
        "key token create",
        Option("--uses", metavar="N", convert=_uses, help="how many minions may join with it (1)"),
        Option("--expires", metavar="TIME", convert=parse_duration, help="how long it is valid (1h)"),
        Option("--id", metavar="GLOB", help="the minion ids that may use it (*)"),
        Option("--install", help="print the command that makes a minion; as root"),
        Option("--address", metavar="HOST", help="with --install: this machine, as minions see it"),
        Option("--wget", help="with --install: a command for wget, not curl"),
    ).parse(argv)
    if parsed.words:
        raise UsageError(f"{parsed.words[0]!r} is not expected: give the minion ids of a token with --id")
    given = parsed.options
    for option in ("address", "wget"):
        if parsed.on(option) and not parsed.on("install"):
            raise UsageError(f"--{option} is for --install")
    offered = _offer(parsed, console) if parsed.on("install") else None
    with open_client(parsed, console) as client:
        answer = client.call(
            "token_create",
            uses=given.get("uses", 1),
            expires_s=given.get("expires", DEFAULT_EXPIRY_S),
            id_glob=given.get("id", "*"),
        )
        if offered is not None:
            try:
                command = offered(answer["token"])
            except SaltliteError:
                client.call("token_revoke", token_id=answer["token"].split(".")[2])
                raise
            print_answer({"token": answer["token"], "command": command}, f"{command}\n", parsed, console)
            return exitcodes.OK
    print_answer({"token": answer["token"]}, f"{answer['token']}\n", parsed, console)
    return exitcodes.OK


def _offer(parsed: Parsed, console: Console) -> Callable[[str], str]:
    """What offers the installer for a token and answers the command; everything that can fail before is checked."""
    import socket

    from saltlite.cli.commands import config_dir_of
    from saltlite.cloud.deploy.offer import check, offer
    from saltlite.config.load import load_api, load_master
    from saltlite.model.keys import parse_token

    config_dir = config_dir_of(parsed)
    api, port = load_api(config_dir).config, load_master(config_dir).config.port
    host: str = parsed.options.get("address", "") or socket.getfqdn()
    expires_at = console.now() + parsed.options.get("expires", DEFAULT_EXPIRY_S)
    check(api, host)

    def offered(token: str) -> str:
        commands = offer(api, parse_token(token), expires_at, host=host, master_port=port)
        return commands.wget if parsed.on("wget") else commands.curl

    return offered


def run_token_list(argv: Sequence[str], console: Console) -> int:
    """List the tokens that are valid; none is not an error."""
    parsed = command_table("key token list").parse(argv)
    console.quiet = parsed.on("quiet")
    if parsed.words:
        raise UsageError(f"{parsed.words[0]!r} is not expected: all valid tokens are listed")
    with open_client(parsed, console) as client:
        rows = client.call("token_list")["tokens"]
    now = console.now()
    cells = [("ID", "FOR", "USES LEFT", "EXPIRES IN", "MADE BY")]
    for row in rows:
        left = format_duration(max(0.0, row["expires_at"] - now))
        cells.append((row["id"], row["id_glob"], str(row["uses_left"]), left, row["created_by"]))
    print_answer({"tokens": rows}, columns(cells, cut=(), width=None) if rows else "", parsed, console)
    if not rows:
        console.note("saltlite: no join token can be used")
    return exitcodes.OK


def run_token_revoke(argv: Sequence[str], console: Console) -> int:
    """Revoke tokens by the ids that the list shows. Raises NoTargetError for an unknown one."""
    parsed = command_table("key token revoke").parse(argv)
    if not parsed.words:
        raise UsageError("name the tokens by the ids that `saltlite key token list` shows")
    if any("." in word for word in parsed.words):
        raise UsageError(
            "a token is a secret that other users can read in arguments: name it by its id of eight letters"
        )
    revoked = []
    with open_client(parsed, console) as client:
        for token_id in parsed.words:
            if not client.call("token_revoke", token_id=token_id)["revoked"]:
                raise NoTargetError(
                    f"there is no join token {token_id!r}: `saltlite key token list` shows those there are"
                )
            revoked.append(token_id)
            _withdraw(parsed, token_id, console)
    print_answer({"revoked": revoked}, "".join(f"{one}: revoked\n" for one in revoked), parsed, console)
    return exitcodes.OK


def _withdraw(parsed: Parsed, token_id: str, console: Console) -> None:
    """The installer that was offered for a token is of no use any more."""
    from saltlite.cli.commands import config_dir_of
    from saltlite.cloud.deploy.offer import withdraw
    from saltlite.config.load import load_api

    try:
        folder = load_api(config_dir_of(parsed)).config.install_dir
    except SaltliteError:
        return  # for root's eyes only: the installer that is still there ends, because the master takes no such token
    try:
        withdraw(folder, token_id)
    except OSError as error:
        console.note(f"saltlite: the installer for {token_id} stays in {folder}, and joins no minion: {error.strerror}")


def _uses(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 8 and 1 <= int(text) <= USES_MAX:
        return int(text)
    raise UsageError(f"{text!r} is not a number of uses: 1 to {USES_MAX}")
