"""The entry points `saltlite`, `saltlite-key` and their like: from a command line to an exit code.

A command line is a job or a command, which is decided before its options are read. A function (`test.ping`) as the
second word makes a job, whatever the first word is, unless that is a command that takes such a word itself
(`saltlite doc test.ping`). A word with a slash is an event tag, not a function. Otherwise a first word that names a
command is that command. `saltlite run -- key test.ping` is a job for a minion whose id is a command's name; what
follows that `--` is read as if it stood alone, with its options.
"""

from __future__ import annotations

import gc
import os
import sys

from saltlite.cli import commands, exitcodes
from saltlite.cli.console import Console
from saltlite.cli.job_options import JOB, TARGET_AND_FUNCTION
from saltlite.cli.options import HELP, NO_PAGER, HelpAsked, is_option
from saltlite.cli.start import COLLECT_AFTER
from saltlite.errors import SaltliteError, UsageError, nearest

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.options import Table

RUN = "run"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of the process; the exit code."""
    return run(_own_words() if argv is None else argv, Console.of_process())


def main_key(argv: Sequence[str] | None = None) -> int:
    """`saltlite-key …` is `saltlite key …`, or takes the options of salt-key in place of a verb."""
    return main([commands.SALT_KEY, *(_own_words() if argv is None else argv)])


def main_call(argv: Sequence[str] | None = None) -> int:
    """`saltlite-call …` is `saltlite call …`."""
    return main(["call", *(_own_words() if argv is None else argv)])


def main_run(argv: Sequence[str] | None = None) -> int:
    """`saltlite-run …` is `saltlite runner …`."""
    return main(["runner", *(_own_words() if argv is None else argv)])


def main_cp(argv: Sequence[str] | None = None) -> int:
    """`saltlite-cp …` is `saltlite cp …`."""
    return main(["cp", *(_own_words() if argv is None else argv)])


def main_cloud(argv: Sequence[str] | None = None) -> int:
    """`saltlite-cloud …` is `saltlite cloud …`."""
    return main(["cloud", *(_own_words() if argv is None else argv)])


def _own_words() -> list[str]:
    """The command line of this process, which from now on seldom looks for cycles of objects."""
    gc.set_threshold(COLLECT_AFTER)
    return sys.argv[1:]


def run(argv: Sequence[str], console: Console) -> int:
    """Run one command line on these streams; the exit code. Every error becomes a sentence on stderr."""
    try:
        return _dispatch(argv, console)
    except HelpAsked as asked:
        return _print_help(str(asked), argv, console)
    except SaltliteError as error:
        console.error(f"saltlite: {error}")
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        console.error(f"saltlite: {interrupt}" if str(interrupt) else "saltlite: interrupted")
        return exitcodes.INTERRUPTED
    except BrokenPipeError:
        console.abandon_output()
        return exitcodes.READER_GONE
    except Exception as error:  # noqa: BLE001 - the last supervision point of the command
        _report_defect(error, console)
        return exitcodes.INTERNAL


def _dispatch(argv: Sequence[str], console: Console) -> int:
    name, rest = split_command(argv)
    if name in commands.WITHOUT_CONFIG and rest[:1] == ["-c"]:
        rest = rest[2:]
    return _run_job(rest, console) if name is None else commands.load(name)(rest, console)


def _run_job(argv: Sequence[str], console: Console) -> int:
    if not argv:
        console.error(JOB.help())
        return exitcodes.USAGE
    parsed = JOB.parse(argv, words_before_arguments=TARGET_AND_FUNCTION)
    commands.begin(parsed, "saltlite", console)
    from saltlite.cli import job  # a help text does not need the client and its socket

    return job.run(parsed, console)


def _print_help(text: str, argv: Sequence[str], console: Console) -> int:
    try:
        console.paged(f"{text}\n", off=NO_PAGER.names[0] in argv)
    except BrokenPipeError:
        console.abandon_output()
        return exitcodes.READER_GONE
    return exitcodes.OK


def _report_defect(error: Exception, console: Console) -> None:
    if os.environ.get("SALTLITE_TRACEBACK") == "1":
        import traceback

        console.error("".join(traceback.format_exception(error)).rstrip("\n"))
    console.error(
        f"saltlite: {type(error).__name__}: {error} - this is a defect in saltlite; "
        "SALTLITE_TRACEBACK=1 shows where, please report it"
    )


def split_command(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The command's full name (`key accept`; None for a job), and the command line without it.

    Raises UsageError for a group without its second word, HelpAsked for the help of a group.
    """
    rest = list(argv)
    if rest[:1] in ([commands.COMPLETE], [commands.SALT_KEY]):
        return rest[0], rest[1:]
    first = next_word(rest, 0)
    if first is None:
        return None, rest
    second = next_word(rest, first + 1)
    if second is not None and makes_job(rest[first], rest[second]):
        return None, rest
    if rest[first] == RUN:
        return None, _job_of_run(rest, first)
    if rest[first] not in commands.members(""):
        return None, rest
    return full_name(rest)


def makes_job(first: str, second: str) -> bool:
    """Whether the first two words of a command line are a target and a function, even if the first is a command."""
    return first not in commands.TAKES_DOTS and "." in second and "/" not in second


def _job_of_run(line: list[str], run: int) -> list[str]:
    """The line of a job without `run`, and without the `--` before its target."""
    rest = [*line[:run], *line[run + 1 :]]
    if "--" in rest and next_word(rest, run) is None:
        rest.remove("--")
    return rest


def full_name(rest: list[str]) -> tuple[str, list[str]]:
    """The full name of the command that a line names, and the line without it. It raises what `split_command` does."""
    name = ""
    while name not in commands.COMMANDS:
        known = commands.members(name)
        index = next_word(rest, 0)
        if index is None:
            if not set(HELP.names).isdisjoint(rest):
                raise HelpAsked(f"usage: saltlite {name} COMMAND\n\n{commands.command_lines(name)}")
            raise UsageError(f"`saltlite {name}` needs one of {', '.join(known)} after it")
        word = rest.pop(index)
        if word not in known:
            raise UsageError(f"there is no command `saltlite {name} {word}`: {_hint(name, word, known)}")
        name = f"{name} {word}".strip()
    return name, rest


def _hint(group: str, word: str, known: Sequence[str]) -> str:
    near = nearest(word, known)
    return f"did you mean saltlite {group} {near}?" if near else f"use one of {', '.join(known)}"


def next_word(argv: Sequence[str], start: int, table: Table = JOB) -> int | None:
    """The index of the first word from `start` on that is not the value of an option, or None; `--` ends the search."""
    index = start
    while index < len(argv) and argv[index] != "--":
        token = argv[index]
        if not is_option(token):
            return index
        found = table.find(token)
        takes_next = found is not None and found[0].metavar and found[1] is None
        index += 2 if takes_next else 1
    return None
