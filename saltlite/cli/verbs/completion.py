"""`saltlite completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.completion.scripts import SCRIPTS
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Print the script of one shell; its first lines say how it is used."""
    parsed = command_table("completion").parse(argv)
    if len(parsed.words) != 1 or parsed.words[0] not in SCRIPTS:
        raise UsageError(f"say for which shell: saltlite completion {'|'.join(SCRIPTS)}")
    console.data(SCRIPTS[parsed.words[0]])
    return exitcodes.OK
