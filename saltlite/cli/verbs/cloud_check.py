"""`saltlite cloud-check`: the contract tests for somebody's driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.cloudanswers import errors_of
from saltlite.cli.commands import command_table
from saltlite.cli.configs import config_dir_of
from saltlite.cli.connect import open_client
from saltlite.cli.in_process import printing_to_stderr
from saltlite.cli.keys import print_answer
from saltlite.cloud.program import app
from saltlite.cloud.program.check import Result, check
from saltlite.cloud.program.progress import Lines
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Test the driver for each provider that uses it. Raises UsageError, ConfigError."""
    parsed = command_table("cloud-check").parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) != 1:
        raise UsageError("say which driver or provider: saltlite cloud-check DRIVER")
    with open_client(parsed) as client:
        program = app.open_program(config_dir_of(parsed), client, Lines(console.note))
        rows, lines, bad = [], [], 0
        for provider in program.catalogue.matching(parsed.words[0]):
            with printing_to_stderr():
                found = check(program, program.driver(provider))
            for one in found:
                why = program.secrets.text(one.why)
                bad += one.result is Result.BAD
                rows.append({"provider": provider.name, "test": one.test, "result": str(one.result), "why": why})
                lines.append(f"{one.result:<8} {provider.name}: {one.test}{f' - {why}' if why else ''}\n")
        lines += [f"{line}\n" for line in errors_of(program)] if bad else []
        lines.append(f"{len(rows)} test{'' if len(rows) == 1 else 's'}, {bad} bad\n")
    print_answer({"tests": rows, "bad": bad}, "".join(lines), parsed, console)
    return exitcodes.FAILED if bad else exitcodes.OK
