"""The output of commands: outputters, options of the output, --out-file, and aligned columns.

A shipped outputter is imported on its first use. Any other name is looked up as a plug-in of the type `output`: in
`module_dirs`, among synced files, in `outputter_dirs` and in packages (`saltlite.cli.custom_output`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import stat

from saltlite.cli.options import Option
from saltlite.config.paths import require_path
from saltlite.errors import SaltliteError, UsageError
from saltlite.model.plain import printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TextIO

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

    Outputter = Callable[..., Any]


SHIPPED = ("nested", "json", "yaml", "txt", "raw", "pprint", "table", "key", "highstate", "no_return", "quiet")
STREAMS = ("json-full", "jsonl")
"""What `--out` also accepts for a job: formats with more than the returns (`saltlite.cli.printers`)."""
FOR_PROGRAMS = frozenset({"json", "json-full", "jsonl", "yaml"})
"""Formats that are always UTF-8."""

DEFAULT = "nested"


class OutputStyle:
    """The style of the output: colours, and spaces per level (None: the outputter's default)."""

    __slots__ = ("color", "indent")

    def __init__(self, *, color: bool = False, indent: int | None = None) -> None:
        self.color = color
        self.indent = indent


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
        return str(self.find(out, style)(data, color=style.color, indent=style.indent, _retcode=retcode) or "")

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
                self._found[out] = importlib.import_module(f"saltlite.plugins.output.{out}").output
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


class OutFile:
    """`--out-file`: a context whose value is the stream to write to. The file is complete or does not appear.

    When an exception ends the context, the output is deleted and an existing file stays unchanged. With `append` the
    output is added to the file at the end of the context. A path to something other than a file, such as a pipe, is
    written directly. Raises UsageError when the file cannot be created, SaltliteError when it cannot be completed.
    """

    def __init__(self, path: str, *, append: bool = False) -> None:
        self._path = path
        self._append = append
        self._final = os.path.realpath(path)
        self._temporary = ""
        self._stream: TextIO | None = None

    def __enter__(self) -> TextIO:
        try:
            descriptor = self._open()
        except OSError as error:
            raise UsageError(self._sentence(error)) from error
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
        return self._stream

    def _open(self) -> int:
        try:
            # By the given name, so that the kernel refuses another user's link in a shared folder.
            old = os.stat(self._path)
        except FileNotFoundError:
            old = None
        if old is not None and not stat.S_ISREG(old.st_mode):
            return os.open(self._final, os.O_WRONLY | os.O_CLOEXEC)
        folder, name = os.path.split(self._final)
        self._temporary = os.path.join(folder, f".{name}.{os.getpid()}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._temporary, flags, 0o666)
        if old is not None:
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        return descriptor

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        assert self._stream is not None  # noqa: S101 - __enter__ ran
        try:
            if kind is None:
                self._complete(self._stream)
        except OSError as error:
            raise SaltliteError(self._sentence(error)) from error
        finally:
            self._discard()

    def _complete(self, stream: TextIO) -> None:
        stream.flush()
        if self._temporary:
            os.fsync(stream.fileno())  # some file systems report only now that they are full
            if self._append and os.path.exists(self._final):
                self._join(self._final)
                return
            os.rename(self._temporary, self._final)
            self._temporary = ""

    def _join(self, final: str) -> None:
        import shutil  # slow to import

        with open(self._temporary, "rb") as written, open(final, "ab") as old:
            before = old.tell()
            try:
                shutil.copyfileobj(written, old)
                old.flush()
                os.fsync(old.fileno())
            except OSError:
                os.ftruncate(old.fileno(), before)
                raise

    def _discard(self) -> None:
        if self._stream is not None:
            try:
                self._stream.close()
            except OSError:
                self._stream = None  # discarded output need not be written
        if self._temporary:
            os.unlink(self._temporary)

    def _sentence(self, error: OSError) -> str:
        return f"--out-file {self._path} cannot be written: {error.strerror}"


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


_STYLE_OPTIONS = (
    Option("--out-indent", metavar="N", convert=_indent, help="spaces per level; -1: one line, if it can"),
    Option(
        "--out-file", metavar="PATH", convert=require_path, help="write the output to this file, whole or not at all"
    ),
    Option("--out-file-append", help="with --out-file: append to the file"),
    Option("--no-color", help="no colours"),
    Option("--force-color", help="colours, whatever reads the output"),
)
OUTPUT_OPTIONS = (
    Option("--out", metavar="FORMAT", convert=outputter(), help="nested, json, yaml, txt, table, quiet ..."),
    *_STYLE_OPTIONS,
)
"""Of commands that print one value."""
JOB_OUTPUT_OPTIONS = (
    Option("--out", metavar="FORMAT", convert=outputter(*STREAMS), help="nested, json, jsonl, yaml, txt, quiet ..."),
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
    return OutputStyle(color=color, indent=parsed.options.get("out_indent"))


@contextlib.contextmanager
def opened_output(parsed: Parsed, console: Console) -> Iterator[Console]:
    """The console for data: with --out-file one whose stdout is that file.

    Raises UsageError, and SaltliteError when the file cannot be created or completed.
    """
    if "out_file" not in parsed.options:
        if parsed.on("out_file_append"):
            raise UsageError("--out-file-append needs --out-file PATH")
        yield console
        return

    with OutFile(parsed.options["out_file"], append=parsed.on("out_file_append")) as stream:
        yield console.writing_to(stream)


class Printing:
    """Prints values as the options say. `opts` returns the options that name folders of outputters.

    Create it before any work: it raises UsageError for an unknown outputter.
    """

    def __init__(self, parsed: Parsed, console: Console, opts: Callable[[], Mapping[str, Any]]) -> None:
        self._console = console
        self._asked: str = parsed.options.get("out", "")
        self._outputters = Outputters(opts)
        self._style = style_of(parsed, console)
        if self._asked:
            self._outputters.find(self._asked, self._style)

    def show(self, value: Any, wanted: str | None = None, retcode: int = 0) -> None:
        """Print `value`; `wanted` is the outputter that its function prefers."""
        out = self._outputters.choose(self._asked, wanted, self._style)
        if out in FOR_PROGRAMS:
            self._console.use_utf8()
        text = self._outputters.render(out, value, self._style, retcode)
        if text:
            self._console.data(text)


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
        console.data(text)
