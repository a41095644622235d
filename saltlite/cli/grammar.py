"""Job or command: what a command line is, before its options are read.

A function (`test.ping`) as the second word makes a job, whatever the first word is, unless that is a command which
takes such a word itself (`saltlite doc test.ping`); a word with a slash is the tag of an event, and no function.
Otherwise a first word that names a command is that command. `run` is a job too: `saltlite run -- key test.ping` is
for a minion whose id is a command's name. What follows that `--` is a job as if it stood alone, with its options.
"""

from __future__ import annotations

from saltlite.cli import commands
from saltlite.cli.joboptions import JOB
from saltlite.cli.options import HELP, HelpAsked, is_option
from saltlite.errors import UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence

RUN = "run"

COMPLETE = "__complete"
"""What the shells' completion scripts call. No help text has it, and its words are another command line's."""


def split_command(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The command's full name (`key accept`; None for a job), and the command line without it.

    Raises UsageError for a group without its second word, HelpAsked for the help of a group.
    """
    rest = list(argv)
    if rest[:1] == [COMPLETE]:
        return COMPLETE, rest[1:]
    first = _next_word(rest, 0)
    if first is None:
        return None, rest
    second = _next_word(rest, first + 1)
    if second is not None and makes_job(rest[first], rest[second]):
        return None, rest
    if rest[first] == RUN:
        return None, _job_of_run(rest, first)
    if rest[first] not in commands.members(""):
        return None, rest
    return _full_name(rest)


def _job_of_run(line: list[str], run: int) -> list[str]:
    """The line of a job without `run`, and without the `--` in front of its target."""
    rest = [*line[:run], *line[run + 1 :]]
    if "--" in rest and _next_word(rest, run) is None:
        rest.remove("--")
    return rest


def makes_job(first: str, second: str) -> bool:
    """Whether the first two words of a command line are a target and a function, even if the first is a command."""
    return first not in commands.TAKES_DOTS and "." in second and "/" not in second


def _full_name(rest: list[str]) -> tuple[str, list[str]]:
    name = ""
    while name not in commands.COMMANDS:
        known = commands.members(name)
        index = _next_word(rest, 0)
        if index is None:
            if not set(HELP.names).isdisjoint(rest):
                raise HelpAsked(f"usage: saltlite {name} COMMAND\n\n{commands.command_lines(name)}")
            raise UsageError(f"`saltlite {name}` needs one of {', '.join(known)} after it")
        word = rest.pop(index)
        if word not in known:
            raise UsageError(f"there is no command `saltlite {name} {word}`: use one of {', '.join(known)}")
        name = f"{name} {word}".strip()
    return name, rest


def _next_word(argv: Sequence[str], start: int) -> int | None:
    """The index of the first word at or after `start`, or None; the search ends at `--`."""
    index = start
    while index < len(argv) and argv[index] != "--":
        token = argv[index]
        if not is_option(token):
            return index
        found = JOB.find(token)
        takes_next = found is not None and found[0].metavar and found[1] is None
        index += 2 if takes_next else 1
    return None
