"""`saltlite auth token revoke`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.keys import print_answer
from saltlite.errors import NoTargetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """End logins by the ids that `auth token list` shows. Raises NoTargetError when one of them is none."""
    parsed = command_table("auth token revoke").parse(argv)
    console.quiet = parsed.on("quiet")
    if not parsed.words:
        raise UsageError("say which logins to end: the ids that `saltlite auth token list` shows")
    with open_client(parsed) as client:
        revoked = client.call("auth_token_revoke", ids=parsed.words)["revoked"]
    print_answer({"revoked": revoked}, "".join(f"revoked {one}\n" for one in revoked), parsed, console)
    missing = [one for one in parsed.words if one not in revoked]
    if missing:
        raise NoTargetError(f"there is no login {', '.join(missing)}: `saltlite auth token list` shows them")
    return exitcodes.OK
