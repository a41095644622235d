"""The entry points `saltlite`, `saltlite-key` and their like: from a command line to an exit code, whatever happens."""

from __future__ import annotations

import importlib
import os
import sys

from saltlite import __version__
from saltlite.cli import exitcodes, grammar
from saltlite.cli.console import Console
from saltlite.cli.joboptions import JOB, TARGET_AND_FUNCTION
from saltlite.cli.options import HelpAsked
from saltlite.errors import SaltliteError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of the process; the exit code."""
    return run(sys.argv[1:] if argv is None else argv, Console.of_process())


def run(argv: Sequence[str], console: Console) -> int:
    """Run one command line on these streams; the exit code. Every error becomes a sentence on stderr."""
    try:
        return _dispatch(argv, console)
    except HelpAsked as asked:
        return _print_help(str(asked), console)
    except SaltliteError as error:
        console.error(f"saltlite: {error}")
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        console.error(f"saltlite: {interrupt}" if str(interrupt) else "saltlite: interrupted")
        return exitcodes.INTERRUPTED
    except BrokenPipeError:
        console.abandon_output()
        return exitcodes.INTERNAL
    except Exception as error:  # noqa: BLE001 - the last supervision point of the command
        _tell_defect(error, console)
        return exitcodes.INTERNAL


def main_key(argv: Sequence[str] | None = None) -> int:
    """`saltlite-key …` is `saltlite key …`."""
    return main(["key", *(sys.argv[1:] if argv is None else argv)])


def main_call(argv: Sequence[str] | None = None) -> int:
    """`saltlite-call …` is `saltlite call …`."""
    return main(["call", *(sys.argv[1:] if argv is None else argv)])


def main_run(argv: Sequence[str] | None = None) -> int:
    """`saltlite-run …` is `saltlite runner …`."""
    return main(["runner", *(sys.argv[1:] if argv is None else argv)])


def main_cp(argv: Sequence[str] | None = None) -> int:
    """`saltlite-cp …` is `saltlite cp …`."""
    return main(["cp", *(sys.argv[1:] if argv is None else argv)])


def main_cloud(argv: Sequence[str] | None = None) -> int:
    """`saltlite-cloud …` is `saltlite cloud …`."""
    return main(["cloud", *(sys.argv[1:] if argv is None else argv)])


def _dispatch(argv: Sequence[str], console: Console) -> int:
    name, rest = grammar.split_command(argv)
    if name is None:
        return _run_job(rest, console)
    command = importlib.import_module(f"saltlite.cli.verbs.{name.replace(' ', '_').replace('-', '_')}")
    code: int = command.run(rest, console)
    return code


def _run_job(argv: Sequence[str], console: Console) -> int:
    if not argv:
        console.error(JOB.help())
        return exitcodes.USAGE
    parsed = JOB.parse(argv, words_before_arguments=TARGET_AND_FUNCTION)
    if parsed.on("version"):
        raise HelpAsked(f"saltlite {__version__}")
    from saltlite.cli import job  # the client and its socket, which a help text does without

    return job.run(parsed, console)


def _print_help(text: str, console: Console) -> int:
    try:
        console.data(f"{text}\n")
    except BrokenPipeError:
        console.abandon_output()
    return exitcodes.OK


def _tell_defect(error: Exception, console: Console) -> None:
    if os.environ.get("SALTLITE_TRACEBACK") == "1":
        import traceback

        console.error("".join(traceback.format_exception(error)).rstrip("\n"))
    console.error(
        f"saltlite: {type(error).__name__}: {error} - this is a defect in saltlite; "
        "SALTLITE_TRACEBACK=1 shows where, please report it"
    )
