"""The options of a job, which are also those of `saltlite` itself, and its help text."""

from __future__ import annotations

from saltlite.cli.commands import command_lines
from saltlite.cli.durations import parse_duration
from saltlite.cli.options import Option, Table, choice
from saltlite.cli.render import outputters

TARGET_AND_FUNCTION = 2
"""Words of a job before those that belong to its function."""

_EPILOG = f"""\
Options stand anywhere. Behind the function only those above are options, and
behind `--` nothing is. TIME is seconds, or has a unit: 30, 30s, 5m, 1h.

commands (`saltlite run -- TARGET ...` is always a job):
{command_lines()}

exit codes: 0 all is well, 1 defect in saltlite, 2 usage or configuration,
  3 nothing matched, 4 a minion failed, 5 a minion did not return, 6 refused,
  7 master unreachable, 130 interrupted"""

JOB = Table(
    "saltlite [options] TARGET MODULE.FUNCTION [ARGUMENT...] [NAME=VALUE...]",
    "Run a function on every minion that the target matches, and print the returns.",
    (
        Option("-E", "--pcre", help="the target is a regular expression on minion ids"),
        Option("-L", "--list", help="the target is a list of minion ids: web1,web2"),
        Option(
            "-t",
            "--timeout",
            metavar="TIME",
            convert=parse_duration,
            help="how long to wait for silent minions",
        ),
        Option(
            "--run-timeout",
            metavar="TIME",
            convert=parse_duration,
            help="kill it on a minion after that time",
        ),
        Option(
            "--deliver-by",
            metavar="TIME",
            convert=parse_duration,
            help="how long it may wait to reach a minion",
        ),
        Option("--async", help="print the job id and do not wait"),
        Option(
            "--out",
            metavar="FORMAT",
            convert=choice(*outputters.NAMES),
            help=", ".join(outputters.NAMES[:-1]) + f" or {outputters.NAMES[-1]}",
        ),
        Option("--static", help="no effect: --out json always is one object"),
        Option("--no-color", help="no colours"),
        Option("-q", "--quiet", help="print returns and errors only"),
        Option("-c", "--config-dir", metavar="DIR", help="the master's configuration folder (/etc/saltlite)"),
        Option("--version", help="show the version and end"),
    ),
    _EPILOG,
)
