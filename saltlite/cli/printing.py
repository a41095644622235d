"""How the data of a command is printed: its options, and where the text goes."""

from __future__ import annotations

import contextlib

from saltlite.cli.options import Option
from saltlite.cli.outputters import FOR_PROGRAMS, SHIPPED, STREAMS, OutputStyle, Outputters, outputter
from saltlite.config.paths import require_path
from saltlite.errors import UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

INDENT_MAX = 64
"""Spaces a level."""


def _indent(text: str) -> int:
    """For --out-indent; below 0 means that everything stands on one line, where the format can."""
    try:
        number = int(text)
    except ValueError:
        number = INDENT_MAX + 1
    if not -1 <= number <= INDENT_MAX:
        raise UsageError(f"say a number of spaces, -1 to {INDENT_MAX}, not {text!r}")
    return number


_LOOK = (
    Option("--out-indent", metavar="N", convert=_indent, help="spaces a level; -1: one line, if it can"),
    Option(
        "--out-file", metavar="PATH", convert=require_path, help="write the output to this file, whole or not at all"
    ),
    Option("--out-file-append", help="with --out-file: behind what is in it"),
    Option("--no-color", help="no colours"),
    Option("--force-color", help="colours, whatever reads the output"),
)
OUTPUT_OPTIONS = (
    Option("--out", metavar="FORMAT", convert=outputter(), help="nested, json, yaml, txt, table, quiet ..."),
    *_LOOK,
)
"""Of commands that print one value."""
JOB_OUTPUT_OPTIONS = (
    Option("--out", metavar="FORMAT", convert=outputter(*STREAMS), help="nested, json, jsonl, yaml, txt, quiet ..."),
    *_LOOK,
)
"""Of commands that follow a job."""


FORMATS_TEXT = f"""\
formats: {", ".join(SHIPPED[:8])},
  {", ".join(SHIPPED[8:])}; and one's own, in outputter_dirs"""
JOB_FORMATS_TEXT = f"""\
{FORMATS_TEXT};
  {" and ".join(STREAMS)} tell more than the returns"""


def look_of(parsed: Parsed, console: Console) -> OutputStyle:
    """What the options say of the look. Raises UsageError when they contradict each other."""
    if parsed.on("no_color") and parsed.on("force_color"):
        raise UsageError("--no-color and --force-color exclude each other")
    color = parsed.on("force_color") or (not parsed.on("no_color") and console.wants_colors())
    return OutputStyle(color=color, indent=parsed.options.get("out_indent"))


@contextlib.contextmanager
def opened_output(parsed: Parsed, console: Console) -> Iterator[Console]:
    """The console that data is to be written to: with --out-file one whose stdout is that file.

    Raises UsageError, and SaltliteError when the file cannot be created or completed.
    """
    if "out_file" not in parsed.options:
        if parsed.on("out_file_append"):
            raise UsageError("--out-file-append needs --out-file PATH")
        yield console
        return
    from saltlite.cli.outfile import OutFile

    with OutFile(parsed.options["out_file"], append=parsed.on("out_file_append")) as stream:
        yield console.writing_to(stream)


class Printing:
    """Prints values as the options say. `opts` gives the options that name folders of outputters.

    Made before anything is done: raises UsageError when there is no such outputter.
    """

    def __init__(self, parsed: Parsed, console: Console, opts: Callable[[], Mapping[str, Any]]) -> None:
        self._console = console
        self._asked: str = parsed.options.get("out", "")
        self._outputters = Outputters(opts)
        self._look = look_of(parsed, console)
        if self._asked:
            self._outputters.find(self._asked, self._look)

    def show(self, value: Any, wanted: str | None = None, retcode: int = 0) -> None:
        """Print `value`, with the outputter that its function wants where nobody asked for another."""
        out = self._outputters.choose(self._asked, wanted, self._look)
        if out in FOR_PROGRAMS:
            self._console.use_utf8()
        text = self._outputters.render(out, value, self._look, retcode)
        if text:
            self._console.data(text)
