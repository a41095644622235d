"""`saltlite doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.configs import config_dir_of, sides_of
from saltlite.cli.diagnosis.findings import Severity, rows_of, text_of
from saltlite.cli.keys import print_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.diagnosis.findings import Finding


def run(argv: Sequence[str], console: Console) -> int:
    """Look at each side that is configured here, running or not. FAILED when there is a problem."""
    parsed = command_table("doctor").parse(argv)
    console.quiet = parsed.on("quiet")
    config_dir = config_dir_of(parsed)
    found = {side: _examine(config_dir, side) for side in sides_of(parsed.words, config_dir)}
    text = "".join(f"{side} ({config_dir})\n{text_of(_shown(of, console))}" for side, of in found.items())
    counts = {
        severity: sum(one.severity is severity for of in found.values() for one in of)
        for severity in (Severity.PROBLEM, Severity.WARNING)
    }
    problems, warnings = counts[Severity.PROBLEM], counts[Severity.WARNING]
    answer = {
        "sides": {side: rows_of(of) for side, of in found.items()},
        "problems": problems,
        "warnings": warnings,
    }
    print_answer(answer, f"{text}{_count(problems, 'problem')}, {_count(warnings, 'warning')}\n", parsed, console)
    return exitcodes.FAILED if problems else exitcodes.OK


def _examine(config_dir: str, side: str) -> list[Finding]:
    if side == "master":
        from saltlite.cli.diagnosis.master_checks import check_master
        from saltlite.cli.diagnosis.master_look import look_at_master

        return check_master(look_at_master(config_dir))
    from saltlite.cli.diagnosis.minion_checks import check_minion
    from saltlite.cli.diagnosis.minion_look import look_at_minion

    return check_minion(look_at_minion(config_dir))


def _shown(findings: Sequence[Finding], console: Console) -> list[Finding]:
    """With --quiet only what somebody should look at."""
    return [one for one in findings if not (console.quiet and one.severity is Severity.OK)]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
