"""`saltlite doctor`: look at the daemons of this machine and say what is wrong and how to mend it.

`host`, `master`, `minion` and `api` collect plain data without changing anything, and check it with pure functions that
return findings. `checks` has findings and the checks that all daemons share; `modules` tries out a minion's modules in
a separate process. A new check is a function in one of the tables CHECKS. Nothing here repairs.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.output import print_answer
from saltlite.cli.verbs.doctor.checks import Severity, rows_of, text_of
from saltlite.cli.verbs.doctor.host import DAEMONS, find_daemons
from saltlite.config.load import ALL
from saltlite.errors import ConfigError, UsageError
from saltlite.model.plain import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.verbs.doctor.checks import Finding
    from saltlite.cli.verbs.doctor.host import Signs

ELSEWHERE_MAX = 3
"""At most this many processes of a daemon with other configuration folders are named."""


def run(argv: Sequence[str], console: Console) -> int:
    """Examine each daemon on this machine, running or not. FAILED when there is a problem."""
    parsed = command_table("doctor").parse(argv)
    console.quiet = parsed.on("quiet")
    config_dir = config_dir_of(parsed)
    looked_at, not_examined = _daemons(parsed.words, config_dir)
    found = {daemon: _examine(config_dir, daemon) for daemon in looked_at}
    text = "".join(f"{daemon} ({config_dir})\n{text_of(_shown(of, console))}" for daemon, of in found.items())
    counts = {
        severity: sum(one.severity is severity for of in found.values() for one in of)
        for severity in (Severity.PROBLEM, Severity.WARNING)
    }
    problems, warnings = counts[Severity.PROBLEM], counts[Severity.WARNING]
    answer = {
        "sides": {daemon: rows_of(of) for daemon, of in found.items()},
        "looked_at": looked_at,
        "not_looked_at": not_examined,
        "problems": problems,
        "warnings": warnings,
    }
    total = f"{_count(problems, 'problem')}, {_count(warnings, 'warning')}\n"
    print_answer(answer, f"{text}{_scope(looked_at, not_examined)}{total}", parsed, console)
    return exitcodes.FAILED if problems else exitcodes.OK


def _daemons(words: Sequence[str], config_dir: str) -> tuple[dict[str, str], dict[str, str]]:
    """Which daemons are examined and which not, each with the reason.

    Raises UsageError for another word, ConfigError when there is nothing to examine.
    """
    if len(words) > 1 or (words and words[0] not in (*DAEMONS, ALL)):
        raise UsageError(f"{' '.join(words)!r} is not a daemon: say master, minion, api or all")
    asked = words[0] if words and words[0] != ALL else ""
    signs = find_daemons(config_dir)
    looked_at = {
        one.daemon: ", ".join(one.here) or "asked for"
        for one in signs
        if one.daemon == asked or (not asked and one.here)
    }
    not_examined = {one.daemon: _why_not(one, asked) for one in signs if one.daemon not in looked_at}
    if not looked_at:
        raise ConfigError(_nothing(signs, config_dir))
    for one in signs:
        if one.daemon in looked_at and one.elsewhere:
            not_examined[f"another {one.daemon}"] = _elsewhere(one)
    return looked_at, not_examined


def _nothing(signs: Sequence[Signs], config_dir: str) -> str:
    sentence = (
        f"{config_dir} has neither a configuration nor keys of a master, a minion or an API, and none of them runs "
        "with it: make a file 'master' or 'minion' there (it may be empty), or name another folder with -c"
    )
    return "\n".join([sentence, *(f"{one.daemon}: {_elsewhere(one)}" for one in signs if one.elsewhere)])


def _why_not(signs: Signs, asked: str) -> str:
    if asked:
        return "not asked for"
    return _elsewhere(signs) if signs.elsewhere else "no configuration, no keys, no process here"


def _elsewhere(signs: Signs) -> str:
    """The processes with another folder, and how to examine them."""
    shown = [
        # Any user who may start a process chooses its command line.
        printable(
            f"process {one.pid} has another folder: saltlite doctor {signs.daemon} -c {shlex.quote(one.config_dir)}"
        )
        for one in signs.elsewhere[:ELSEWHERE_MAX]
    ]
    more = len(signs.elsewhere) - ELSEWHERE_MAX
    return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _scope(looked_at: Mapping[str, str], not_examined: Mapping[str, str]) -> str:
    """What was examined and what not, a line each."""
    rows = [("looked at", *row) for row in looked_at.items()] + [
        ("not looked at", *row) for row in not_examined.items()
    ]
    return "".join(f"{verdict + ':':<15}{daemon}: {why}\n" for verdict, daemon, why in rows)


def _examine(config_dir: str, daemon: str) -> list[Finding]:
    if daemon == "master":
        from saltlite.cli.verbs.doctor.master import check_master, look_at_master

        return check_master(look_at_master(config_dir))
    if daemon == "minion":
        from saltlite.cli.verbs.doctor.minion import check_minion, look_at_minion

        return check_minion(look_at_minion(config_dir))
    from saltlite.cli.verbs.doctor.api import check_api, look_at_api

    return check_api(look_at_api(config_dir))


def _shown(findings: Sequence[Finding], console: Console) -> list[Finding]:
    """With --quiet only what needs attention."""
    return [one for one in findings if not (console.quiet and one.severity is Severity.OK)]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
