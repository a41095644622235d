"""The output of commands: outputters, options of the output, and aligned columns.

A shipped outputter is imported on its first use. Any other name is looked up as a plug-in of the type `output`: in
`module_dirs`, among synced files, in `outputter_dirs` and in packages (`saltlite.cli.custom_output`).
"""

from __future__ import annotations

import os
import sys

from saltlite.cli.options import NO_PAGER, Option
from saltlite.config.paths import require_path
from saltlite.errors import UsageError
from saltlite.model.plain import printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.cli.out_file import OutFile

    Outputter = Callable[..., Any]


SHIPPED = ("nested", "json", "yaml", "txt", "raw", "pprint", "table", "key", "highstate", "no_return", "quiet")
STREAMS = ("json-full", "jsonl")
"""What `--out` also accepts for a job: formats with more than the returns (`saltlite.cli.printers`)."""
FOR_PROGRAMS = frozenset({"json", "json-full", "jsonl", "yaml"})
"""Formats that are always UTF-8."""

DEFAULT = "nested"


STATE_VIEW = ("state_output", "state_verbose", "state_output_diff", "state_output_profile")
"""Options of the configuration for the outputter `highstate`."""


class OutputStyle:
    """The style of the output: colours, spaces per level (None: the outputter's default), and how states are shown."""

    __slots__ = ("color", "indent", "states")

    def __init__(
        self, *, color: bool = False, indent: int | None = None, states: Mapping[str, Any] | None = None
    ) -> None:
        self.color = color
        self.indent = indent
        self.states = states or {}


PLAIN = OutputStyle()


class Outputters:
    """Finds outputters and renders data. `opts` returns the options that name folders of plug-ins; it is called on
    demand.
    """

    def __init__(self, opts: Callable[[], Mapping[str, Any]]) -> None:
        self._opts = opts
        self._found: dict[str, Outputter] = {}

    def render(self, out: str, data: Any, style: OutputStyle = PLAIN, retcode: int = 0) -> str:
        """`data` as text in the format `out`. Raises UsageError for an unknown outputter."""
        more = self._states(style) if out == "highstate" else {}
        return str(self.find(out, style)(data, color=style.color, indent=style.indent, _retcode=retcode, **more) or "")

    def _states(self, style: OutputStyle) -> dict[str, Any]:
        """How states are shown: by the configuration, and by the command line."""
        opts = self._opts()
        return {**{name: opts[name] for name in STATE_VIEW if name in opts}, **style.states}

    def choose(self, asked: str, wanted: str | None, style: OutputStyle = PLAIN) -> str:
        """The outputter that the user asked for, or else the one that the function prefers, if it exists."""
        if asked or not wanted:
            return asked or DEFAULT
        try:
            self.find(wanted, style)
        except UsageError:
            return DEFAULT  # an outputter that does not exist must not hide the return
        return wanted

    def find(self, out: str, style: OutputStyle = PLAIN) -> Outputter:
        """The function of an outputter. Raises UsageError for an unknown one."""
        if out not in self._found:
            if out in SHIPPED:
                name = f"saltlite.plugins.output.{out}"
                __import__(name)  # importlib is slow to import
                self._found[out] = sys.modules[name].output
            else:
                from saltlite.cli.custom_output import custom_outputter

                self._found[out] = custom_outputter(out, self._opts(), style)
        return self._found[out]


def render(out: str, data: Any, style: OutputStyle = PLAIN) -> str:
    """`data` as text by a shipped outputter."""
    return Outputters(dict).render(out, data, style)


class outputter:  # noqa: N801 - it is called as other converters of options are, which are functions
    """A converter that accepts the name of any outputter, shipped or not; `names` are its suggestions."""

    __slots__ = ("names",)

    def __init__(self, *more: str) -> None:
        self.names = (*SHIPPED, *more)

    def __call__(self, text: str) -> str:
        plausible = text.replace("_", "").isalnum() and text.isascii() and not text.startswith("_")
        if text not in self.names and not plausible:
            raise UsageError(
                f"{text!r} cannot be the name of an outputter: there are {', '.join(self.names)}, and custom ones"
            )
        return text


INDENT_MAX = 64
"""Spaces per level."""


def _indent(text: str) -> int:
    """Convert --out-indent; below 0 everything is on one line, where the format can."""
    try:
        number = int(text)
    except ValueError:
        number = INDENT_MAX + 1
    if not -1 <= number <= INDENT_MAX:
        raise UsageError(f"say a number of spaces, -1 to {INDENT_MAX}, not {text!r}")
    return number


def _state_mode(text: str) -> str:
    """Convert --state-output."""
    from saltlite.config.values import STATE_OUTPUTS  # it loads regular expressions

    if text not in STATE_OUTPUTS:
        raise UsageError(f"{text!r} is not a way to show states: there are {', '.join(STATE_OUTPUTS)}")
    return text


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"say True or False, not {text!r}")
    return text.lower() == "true"


_STYLE_OPTIONS = (
    Option(
        "--output-indent",
        "--out-indent",
        metavar="N",
        convert=_indent,
        help="spaces per level; -1: one line, if it can",
    ),
    Option(
        "--output-file",
        "--out-file",
        metavar="PATH",
        convert=require_path,
        help="write the output to this file, whole or not at all",
    ),
    Option("--output-file-append", "--out-file-append", help="with --out-file: append to the file"),
    Option("--no-colour", "--no-color", help="no colours"),
    NO_PAGER,
    Option("--force-colour", "--force-color", help="colours, whatever reads the output"),
    Option(
        "--state_output",
        "--state-output",
        metavar="MODE",
        convert=_state_mode,
        help="states: full, terse, mixed or changes; with _id by ID",
    ),
    Option(
        "--state_verbose",
        "--state-verbose",
        metavar="BOOL",
        convert=_truth,
        help="False: only states that failed or changed",
    ),
    Option("--output-diff", "--out-diff", help="states: as --state-verbose False"),
)
OUTPUT_OPTIONS = (
    Option(
        "--output", "--out", metavar="FORMAT", convert=outputter(), help="nested, json, yaml, txt, table, quiet ..."
    ),
    *_STYLE_OPTIONS,
)
"""Of commands that print one value."""
JOB_OUTPUT_OPTIONS = (
    Option(
        "--output",
        "--out",
        metavar="FORMAT",
        convert=outputter(*STREAMS),
        help="nested, json, jsonl, yaml, txt, quiet ...",
    ),
    *_STYLE_OPTIONS,
)
"""Of commands that follow a job."""


FORMATS_TEXT = f"""\
formats: {", ".join(SHIPPED[:8])},
  {", ".join(SHIPPED[8:])}; and custom ones, in outputter_dirs"""
JOB_FORMATS_TEXT = f"""\
{FORMATS_TEXT};
  {" and ".join(STREAMS)} tell more than the returns"""


def style_of(parsed: Parsed, console: Console) -> OutputStyle:
    """The style that the options ask for. Raises UsageError when they contradict each other."""
    if parsed.on("no_color") and parsed.on("force_color"):
        raise UsageError("--no-color and --force-color exclude each other")
    color = parsed.on("force_color") or (not parsed.on("no_color") and console.wants_colors())
    states: dict[str, Any] = {name: parsed.options[name] for name in STATE_VIEW if name in parsed.options}
    if parsed.on("out_diff"):
        states["state_output_diff"] = True
    return OutputStyle(color=color, indent=parsed.options.get("out_indent"), states=states)


class opened_output:  # noqa: N801 - it is called as a function is, and contextlib is slow to import
    """A context whose value is the console for data: with --out-file one whose stdout is that file.

    Raises UsageError, and SaltliteError when the file cannot be created or completed.
    """

    __slots__ = ("_console", "_file")

    def __init__(self, parsed: Parsed, console: Console) -> None:
        self._console = console
        self._file: OutFile | None = None
        if "out_file" in parsed.options:
            from saltlite.cli.out_file import OutFile

            self._file = OutFile(parsed.options["out_file"], append=parsed.on("out_file_append"))
        elif parsed.on("out_file_append"):
            raise UsageError("--out-file-append needs --out-file PATH")

    def __enter__(self) -> Console:
        return self._console if self._file is None else self._console.writing_to(self._file.__enter__())

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        if self._file is not None:
            self._file.__exit__(kind)


class Printing:
    """Prints values as the options say. `opts` returns the options that name folders of outputters.

    Create it before any work: it raises UsageError for an unknown outputter.
    """

    def __init__(self, parsed: Parsed, console: Console, opts: Callable[[], Mapping[str, Any]]) -> None:
        self._console = console
        self._asked: str = parsed.options.get("out", "")
        self._outputters = Outputters(opts)
        self._style = style_of(parsed, console)
        self._unpaged = parsed.on("no_pager")
        if self._asked:
            self._outputters.find(self._asked, self._style)

    def show(self, value: Any, wanted: str | None = None, retcode: int = 0) -> None:
        """Print `value`; `wanted` is the outputter that its function prefers."""
        out = self._outputters.choose(self._asked, wanted, self._style)
        if out in FOR_PROGRAMS:
            self._console.use_utf8()
        text = self._outputters.render(out, value, self._style, retcode)
        if text:
            self._console.paged(text, off=self._unpaged)


COLUMN_MIN = 8
"""A column that is cut keeps at least this many characters."""

CUT = "..."
GAP = "  "


def width_for(console: Console) -> int | None:
    """The width of the terminal that data goes to; None when it goes elsewhere."""
    if not console.shows_data():
        return None
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None


def columns(rows: Sequence[Sequence[str]], *, cut: Sequence[int], width: int | None) -> str:
    """Rows as aligned lines; the first row is the heading.

    Where they are wider than `width` (None: unlimited), the columns with the numbers `cut` are shortened in that order,
    none below COLUMN_MIN; a very narrow terminal wraps the rest.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for number in cut if width is not None else ():
        over = sum(widths) + len(GAP) * (len(widths) - 1) - (width or 0)
        widths[number] = max(min(widths[number], COLUMN_MIN), widths[number] - max(0, over))
    lines = (map(str.ljust, map(shorter, row, widths), widths) for row in shown)
    return "".join(GAP.join(line).rstrip() + "\n" for line in lines)


def shorter(text: str, length: int) -> str:
    """The text, shortened to `length` characters with three dots at its end."""
    return text if len(text) <= length else text[: max(0, length - len(CUT))] + CUT


def print_answer(value: Any, text: str, parsed: Parsed, console: Console) -> None:
    """Print one answer: `value` as a JSON object with `--out json`, otherwise `text`."""
    if parsed.options.get("out") == "json":
        from saltlite.plugins.output.json import document

        console.use_utf8()
        console.data(document(value))
    elif text:
        console.paged(text, off=parsed.on("no_pager"))
