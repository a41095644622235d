"""The options of a job, which are also those of `saltlite` itself, and its help text."""

from __future__ import annotations

from saltlite.cli.commands import CONFIG_DIR, LOG_LEVEL, LOGIN_OPTIONS, NO_PARSE, VERSIONS, command_lines
from saltlite.cli.options import ARGS_STDIN, ARGUMENTS_TEXT, Option, Table, parse_duration
from saltlite.cli.output import JOB_FORMATS_TEXT, JOB_OUTPUT_OPTIONS
from saltlite.cli.targets import TARGET_OPTIONS
from saltlite.errors import UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any

TARGET_AND_FUNCTION = 2
"""Words of a job before those that belong to its function."""


def accepted_risks(text: str) -> tuple[str, ...]:
    """The names in the value of `--accept-risk`, which are separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _executors(text: str) -> list[str]:
    from saltlite.client.arguments import parse_value  # few jobs need these two
    from saltlite.model.execution import checked_executors

    return checked_executors(parse_value(text))


def _executor_options(text: str) -> dict[str, Any]:
    from saltlite.client.arguments import parse_value
    from saltlite.model.execution import checked_options

    return checked_options(parse_value(text))


def _returners(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"{text!r} is not a list of returners: write --return json_file,http")
    return names


def parse_count(text: str) -> int:
    """A number of targets, 1 or more. Raises UsageError."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if number < 1:
        raise UsageError(f"{text!r} is not a number of targets: say 1 or more")
    return number


def parse_batch(text: str) -> tuple[int, bool]:
    """A number of targets or a percentage (`25%`, `%25`): the number, and whether it is one. Raises UsageError."""
    text = text.strip()
    number = text.removesuffix("%").removeprefix("%")
    count, is_share = parse_count(number), number != text
    if is_share and count > 100:
        raise UsageError(f"{text!r} is more than all of them: say 1% to 100%")
    return count, is_share


SAFE_SIZE = (8, False)
"""The size of the batches that --batch-safe-limit causes."""


def _metadata(text: str) -> dict[str, Any]:
    from saltlite.client.arguments import parse_value  # few jobs need it

    value = parse_value(text)
    if not isinstance(value, dict):
        raise UsageError(f"{text!r} is not a map: write --metadata '{{ticket: OPS-1}}'")
    return value


def _separator(text: str) -> str:
    if not text:
        raise UsageError("the separator is at least one character")
    return text


EXECUTION_OPTIONS = (
    Option(
        "--module-executors", metavar="LIST", convert=_executors, help="call it through these: '[splay, direct_call]'"
    ),
    Option("--executor-opts", metavar="MAP", convert=_executor_options, help="their options: '{splaytime: 30}'"),
)

_INTRO = """\
  saltlite '*' test.ping                          which minions answer
  saltlite -G os:Debian pkg.install nginx         one function on many machines
  saltlite key list pending                       keys of new minions, to accept

Documentation: `saltlite help` lists the pages, `saltlite help command-line`
shows this one in full, and `saltlite help from-salt` is for who knows Salt."""
_EPILOG = f"""\
{ARGUMENTS_TEXT}

TIME is seconds, or has a unit: 30, 30s, 5m, 1h.

{JOB_FORMATS_TEXT}

commands (`saltlite run -- TARGET ...` is always a job):
{command_lines()}

exit codes: 0 all is well, 1 defect in saltlite, 2 usage or configuration,
  3 nothing matched, 4 a target failed, 5 a target did not return, 6 refused,
  7 master unreachable, 130 interrupted, 141 the reader of the output is gone;
  with --retcode-passthrough the highest return code instead of 4"""

_TIMEOUT = Option(
    "-t", "--timeout", metavar="TIME", convert=parse_duration, help="how long to wait without news of a minion"
)

FOLLOW_OPTIONS = (
    _TIMEOUT,
    *JOB_OUTPUT_OPTIONS,
    Option("--summary", help="tell on stderr how many returned, failed, did not"),
    Option("-v", "--verbose", help="tell on stderr what runs where, and since when"),
    Option("-q", "--quiet", help="print returns and errors only"),
    *LOGIN_OPTIONS,
    CONFIG_DIR,
)
"""The options that `saltlite.cli.job.follow_job` reads."""

JOB = Table(
    "saltlite [options] TARGET MODULE.FUNCTION [ARGUMENT...] [NAME=VALUE...]",
    "Run a function on every minion and resource that matches, and print the returns.",
    (
        *TARGET_OPTIONS,
        Option("--subset", metavar="N", convert=parse_count, help="run on N of them only, chosen by chance"),
        Option(
            "-b",
            "--batch-size",
            "--batch",
            metavar="N|N%",
            convert=parse_batch,
            help="how many targets run at a time",
        ),
        Option("--batch-wait", metavar="TIME", convert=parse_duration, help="pause after each target of a batch"),
        Option("--failhard", help="begin on no further target once one has failed"),
        Option("--batch-safe-limit", metavar="N", convert=parse_count, help="in batches where N or more match"),
        Option("--batch-safe-size", metavar="N|N%", convert=parse_batch, help="their size: 8"),
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
        *EXECUTION_OPTIONS,
        Option("--return", metavar="LIST", convert=_returners, help="send returns to these returners of the master"),
        Option("--test", help="only say what it would do; refused where it cannot"),
        Option("--accept-risk", metavar="RISK", convert=accepted_risks, help="do not ask: remove,reboot"),
        Option("--async", help="print the job id and do not wait"),
        Option("--show-jid", help="print the job id on stderr"),
        Option("-d", "--documentation", "--doc", help="print the documentation of functions, and run none"),
        Option("--preview-target", help="print what the target selects, and run nothing"),
        Option("--metadata", metavar="MAP", convert=_metadata, help="store this with the job: '{ticket: OPS-1}'"),
        Option("--args-separator", metavar="TEXT", convert=_separator, help="between the arguments of functions: ,"),
        NO_PARSE,
        ARGS_STDIN,
        Option("--hide-timeout", help="do not name targets that did not return"),
        Option("--retcode-passthrough", help="end with the highest return code of the functions"),
        *FOLLOW_OPTIONS,
        LOG_LEVEL,
        *VERSIONS,
    ),
    _EPILOG,
    salt="salt",
    intro=_INTRO,
)
