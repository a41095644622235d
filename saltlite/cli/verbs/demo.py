"""`saltlite demo`: a fleet in a temporary folder to try things on, or to run one command."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.job_options import JOB, TARGET_AND_FUNCTION
from saltlite.cli.main import split_command
from saltlite.demo import MINIONS, DemoFleet, command_for
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Start the fleet, run the command after `--` (or wait for Ctrl-C), stop it; the command's exit code."""
    own, job = _split(argv)
    parsed = command_table("demo").parse(own)
    if parsed.words:
        raise UsageError(f"write the command for the demo fleet after --, as in: demo -- {' '.join(parsed.words)}")
    _check(job)
    console.note("starting a master and three minions in a temporary folder ...")
    with DemoFleet() as fleet:
        timings = fleet.timings
        console.note(
            f"master up after {timings.master_s:.2f} s; {', '.join(MINIONS)} joined by token "
            f"and up after another {timings.minions_s:.2f} s"
        )
        if job:
            return _run_job(fleet, job, console)
        return _stay(fleet, console)


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(argv)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _check(job: Sequence[str]) -> None:
    """Raise for wrong options of the job before a fleet is started for it."""
    name, rest = split_command(job)
    if name is None:
        JOB.parse(rest, words_before_arguments=TARGET_AND_FUNCTION)


def _run_job(fleet: DemoFleet, job: Sequence[str], console: Console) -> int:
    from saltlite.cli.main import run as run_command

    console.note(f"saltlite {' '.join(job)}")
    return run_command(["-c", fleet.config_dir, *job], console)


def _stay(fleet: DemoFleet, console: Console) -> int:
    command = command_for(fleet.config_dir)
    console.note("")
    console.note("Try in a second terminal:")
    for example in ("'*' test.ping", "'*' pkg.list_installed", "demo-1 cmd.run 'uname -a'", "key list"):
        console.note(f"  {command} {example}")
    console.note("")
    console.note("Ctrl-C stops the fleet and removes it.")
    # A closed terminal or a `kill` cleans up, too.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGINT))
    try:
        signal.pause()
    except KeyboardInterrupt:
        console.note("stopping ...")
    return exitcodes.OK
