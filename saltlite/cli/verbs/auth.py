"""`saltlite auth`: logins and the file of password hashes; `saltlite acl explain`: what a user may do."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS, command_table, parse_descriptor
from saltlite.cli.connect import ask_password, open_client, read_password
from saltlite.cli.options import Option, Table, format_duration
from saltlite.cli.output import columns, print_answer
from saltlite.cli.targets import TARGET_OPTIONS, nodeset, target_kind
from saltlite.client.arguments import parse_arguments
from saltlite.errors import NoTargetError, RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.client.local import LocalClient


MEMORY_KIB, ITERATIONS, LANES, LENGTH = 19_456, 2, 1, 32
"""Parameters of Argon2id, the least that OWASP's Password Storage Cheat Sheet recommends: 19 MiB and 25 ms a login."""

_NAME = re.compile(r"[^\s:#,][^\s:,]*")


def run_entry(argv: Sequence[str], console: Console) -> int:
    """Print a user's line for the file that the master's option auth_file names."""
    parsed = Table(
        *COMMANDS["auth entry"],
        (
            Option("--group", metavar="NAME", many=True, help="a group that the user is in"),
            Option("--password-fd", metavar="N", convert=parse_descriptor, help="read the password there; 0 is stdin"),
        ),
    ).parse(argv)
    names = [*parsed.words, *parsed.options.get("group", [])]
    if len(parsed.words) != 1 or not all(map(_NAME.fullmatch, names)):
        raise UsageError("say one name, without blanks, colons and commas: saltlite auth entry fred")
    descriptor = parsed.options.get("password_fd")
    password = _new_password(console) if descriptor is None else read_password(descriptor)
    if not password:
        raise UsageError("the password is empty")
    console.data(entry_of(parsed.words[0], password, parsed.options.get("group", [])))
    return exitcodes.OK


def entry_of(name: str, password: bytes, groups: Sequence[str] = ()) -> str:
    """The line of a user in the file that `auth_file` names."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    made = Argon2id(
        salt=os.urandom(16), length=LENGTH, iterations=ITERATIONS, lanes=LANES, memory_cost=MEMORY_KIB
    ).derive_phc_encoded(password)
    return f"{name}:{made}{':' + ','.join(groups) if groups else ''}\n"


def _new_password(console: Console) -> bytes:
    first, second = ask_password("password: "), ask_password("again: ")
    if first != second:
        raise UsageError("the two passwords differ")
    console.note("saltlite: append the line to the file that auth_file names, with mode 0600")
    return first


def run_token_list(argv: Sequence[str], console: Console) -> int:
    """Show the logins: an operator sees all of them, other users see their own."""
    parsed = command_table("auth token list").parse(argv)
    console.quiet = parsed.on("quiet")
    if parsed.words:
        raise UsageError(f"auth token list takes no {parsed.words[0]!r}")
    with open_client(parsed, console) as client:
        tokens = client.call("auth_token_list")["tokens"]
    now = console.now()
    rows = [("ID", "USER", "SINCE", "ENDS IN")]
    for one in tokens:
        since, left = format_duration(max(0.0, now - one["start"])), format_duration(max(0.0, one["expire"] - now))
        rows.append((one["id"], f"{one['eauth']}:{one['user']}", f"{since} ago", left))
    print_answer({"tokens": tokens}, columns(rows, cut=(), width=None) if tokens else "", parsed, console)
    return exitcodes.OK


def run_token_revoke(argv: Sequence[str], console: Console) -> int:
    """End logins by the ids that `auth token list` shows. Raises NoTargetError for an unknown id."""
    parsed = command_table("auth token revoke").parse(argv)
    console.quiet = parsed.on("quiet")
    if not parsed.words:
        raise UsageError("say which logins to end: the ids that `saltlite auth token list` shows")
    with open_client(parsed, console) as client:
        revoked = client.call("auth_token_revoke", ids=parsed.words)["revoked"]
    print_answer({"revoked": revoked}, "".join(f"revoked {one}\n" for one in revoked), parsed, console)
    missing = [one for one in parsed.words if one not in revoked]
    if missing:
        raise NoTargetError(f"there is no login {', '.join(missing)}: `saltlite auth token list` shows them")
    return exitcodes.OK


_ACL_WORDS = 3


def run_explain(argv: Sequence[str], console: Console) -> int:
    """Say whether a user may run a function, and by which rule; the exit code is 6 when not."""
    parsed = command_table(
        "acl explain",
        *TARGET_OPTIONS,
        Option("--group", metavar="NAME", many=True, help="as if the user were in this group too"),
    ).parse(argv, words_before_arguments=_ACL_WORDS)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) < _ACL_WORDS:
        raise UsageError("say who, where and what: saltlite acl explain fred 'web*' pkg.install vim")
    user, target, fun, *words = parsed.words
    tgt_type = target_kind(parsed)
    with open_client(parsed, console) as client:
        args, kwargs = parse_arguments(words, _acl_signatures(client, target, tgt_type, fun) if words else ())
        answer = client.call(
            "acl_explain",
            user=user,
            tgt=target,
            tgt_type=tgt_type,
            fun=fun,
            args=args,
            kwargs=kwargs,
            groups=parsed.options.get("group", []),
        )
    del answer["ok"]
    print_answer(answer, _acl_text(answer, target), parsed, console)
    return exitcodes.OK if answer["allowed"] else exitcodes.REFUSED


def _acl_signatures(client: LocalClient, target: str, tgt_type: str, fun: str) -> Sequence[str]:
    """The signatures that would type the arguments of a job by the asking user."""
    if target.startswith("@"):
        return ()
    try:
        described = client.call("describe", tgt=target, tgt_type=tgt_type, funs=[fun])
    except RefusedError:  # the answer says whether the user may run it with any arguments
        return ()
    signatures: list[str] = described["functions"][fun]["signatures"]
    return signatures


def _acl_text(answer: Mapping[str, Any], target: str) -> str:
    lines = [f"allowed:  {'yes' if answer['allowed'] else 'no'}"]
    if answer["reason"]:
        lines.append(f"because:  {answer['reason']}")
    if answer["operator"]:
        lines.append("because:  this user is an operator and may do everything")
    if not target.startswith("@"):
        lines.append(f"targets:  {answer['targets']}")
    if answer["refused"]:
        lines.append(f"refused:  {answer['refused_count']}: {nodeset(answer['refused'])}")
    lines += [f"rule:     {rule}" for rule in answer["rules"]]
    if answer["groups"]:
        lines.append(f"groups:   {', '.join(answer['groups'])}")
    return "\n".join([*lines, ""])
