"""`saltlite acl explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.arguments import parse_arguments
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.keys import print_answer
from saltlite.cli.nodeset import nodeset
from saltlite.cli.options import Option
from saltlite.cli.targets import TARGET_OPTIONS, target_kind
from saltlite.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.client.local import LocalClient

WORDS = 3


def run(argv: Sequence[str], console: Console) -> int:
    """Say whether a user may have a function run there, and by which rule; 0 when he may, 6 when not."""
    parsed = command_table(
        "acl explain",
        *TARGET_OPTIONS,
        Option("--group", metavar="NAME", many=True, help="as if the user were in this group too"),
    ).parse(argv, words_before_arguments=WORDS)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) < WORDS:
        raise UsageError("say who, where and what: saltlite acl explain fred 'web*' pkg.install vim")
    user, target, fun, *words = parsed.words
    tgt_type = target_kind(parsed)
    with open_client(parsed) as client:
        args, kwargs = parse_arguments(words, _signatures(client, target, tgt_type, fun) if words else ())
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
    print_answer(answer, _text(answer, target), parsed, console)
    return exitcodes.OK if answer["allowed"] else exitcodes.REFUSED


def _signatures(client: LocalClient, target: str, tgt_type: str, fun: str) -> Sequence[str]:
    """By what a job of the asker would read its arguments."""
    if target.startswith("@"):
        return ()
    try:
        described = client.call("describe", tgt=target, tgt_type=tgt_type, funs=[fun])
    except RefusedError:  # who may not have it run with any arguments is told so by the answer, whatever they are
        return ()
    signatures: list[str] = described["functions"][fun]["signatures"]
    return signatures


def _text(answer: Mapping[str, Any], target: str) -> str:
    lines = [f"allowed:  {'yes' if answer['allowed'] else 'no'}"]
    if answer["reason"]:
        lines.append(f"because:  {answer['reason']}")
    if answer["operator"]:
        lines.append("because:  this user is an operator, who may everything")
    if not target.startswith("@"):
        lines.append(f"targets:  {answer['targets']}")
    if answer["refused"]:
        lines.append(f"refused:  {answer['refused_count']}: {nodeset(answer['refused'])}")
    lines += [f"rule:     {rule}" for rule in answer["rules"]]
    if answer["groups"]:
        lines.append(f"groups:   {', '.join(answer['groups'])}")
    return "\n".join([*lines, ""])
