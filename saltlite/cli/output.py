"""Which outputter prints what: the ones that ship by name, and those of operators, of packages and of Salt.

The file of one that ships is imported on its first use, and nothing is looked for. Any other name is looked for as a
plug-in of the type `output`: in `module_dirs`, among what was synced, in `outputter_dirs` and in packages.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import stat

from saltlite.cli.options import Option
from saltlite.config.paths import require_path
from saltlite.errors import SaltliteError, UsageError
from saltlite.model.display import printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TextIO

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

    Outputter = Callable[..., Any]


SHIPPED = ("nested", "json", "yaml", "txt", "raw", "pprint", "table", "key", "highstate", "no_return", "quiet")
STREAMS = ("json-full", "jsonl")
"""What `--out` takes beside them for a job: more than the returns (`saltlite.cli.printers`)."""
FOR_PROGRAMS = frozenset({"json", "json-full", "jsonl", "yaml"})
"""Always UTF-8."""

DEFAULT = "nested"


class OutputStyle:
    """How output is to look: colours, and spaces a level (None: as the outputter has it)."""

    __slots__ = ("color", "indent")

    def __init__(self, *, color: bool = False, indent: int | None = None) -> None:
        self.color = color
        self.indent = indent


PLAIN = OutputStyle()


class Outputters:
    """`opts` gives the options in which folders of plug-ins are named; it is asked for a name that does not ship."""

    def __init__(self, opts: Callable[[], Mapping[str, Any]]) -> None:
        self._opts = opts
        self._found: dict[str, Outputter] = {}

    def render(self, out: str, data: Any, look: OutputStyle = PLAIN, retcode: int = 0) -> str:
        """`data` as text in the format `out`. Raises UsageError when there is no such outputter."""
        return str(self.find(out, look)(data, color=look.color, indent=look.indent, _retcode=retcode) or "")

    def choose(self, asked: str, wanted: str | None, look: OutputStyle = PLAIN) -> str:
        """The outputter that somebody asked for, or else the one that the function wants, where there is such a one."""
        if asked or not wanted:
            return asked or DEFAULT
        try:
            self.find(wanted, look)
        except UsageError:
            return DEFAULT  # a module's wish is no reason to keep its return from anybody
        return wanted

    def find(self, out: str, look: OutputStyle = PLAIN) -> Outputter:
        """The function of that outputter. Raises UsageError when there is none."""
        if out not in self._found:
            if out in SHIPPED:
                self._found[out] = importlib.import_module(f"saltlite.plugins.output.{out}").output
            else:
                from saltlite.cli.custom_output import own_outputter

                self._found[out] = own_outputter(out, self._opts(), look)
        return self._found[out]


def render(out: str, data: Any, look: OutputStyle = PLAIN) -> str:
    """`data` as text by an outputter that ships."""
    return Outputters(dict).render(out, data, look)


class outputter:  # noqa: N801 - it is called as other converters of options are, which are functions
    """A converter that takes the name of an outputter, whether it ships or not; `names` are those that it suggests."""

    __slots__ = ("names",)

    def __init__(self, *more: str) -> None:
        self.names = (*SHIPPED, *more)

    def __call__(self, text: str) -> str:
        own = text.replace("_", "").isalnum() and text.isascii() and not text.startswith("_")
        if text not in self.names and not own:
            raise UsageError(f"no outputter can be called {text!r}: there are {', '.join(self.names)}, and one's own")
        return text


class OutFile:
    """A context whose value is the stream to write to; the file gets its name at the end of it.

    When an exception ends the context, what was written is gone and a file of that name is what it was before. With
    `append` the output comes behind what is in the file, all of it at the end of the context.
    A path that names something else than a file, a pipe for one, is written as it is.
    Raises UsageError when it cannot be created, and SaltliteError when it cannot be completed.
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
            # By the name that was given: then the kernel refuses a link that somebody else left in a shared folder.
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
        assert self._stream is not None  # noqa: S101 - a context is left after it was entered
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
            os.fsync(stream.fileno())  # some file systems say only now that there is no room
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
                self._stream = None  # of what is thrown away nothing needs to be written
        if self._temporary:
            os.unlink(self._temporary)

    def _sentence(self, error: OSError) -> str:
        return f"--out-file {self._path} cannot be written: {error.strerror}"


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


COLUMN_MIN = 8
"""A column that is cut short keeps so many characters."""

CUT = "..."
GAP = "  "


def width_for(console: Console) -> int | None:
    """The columns of the terminal that data goes to; None when it goes anywhere else."""
    if not console.shows_data():
        return None
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None


def columns(rows: Sequence[Sequence[str]], *, cut: Sequence[int], width: int | None) -> str:
    """The rows, the first one being the heading, each line with a newline at its end.

    Where they are wider than `width` (None: nothing is too wide), the columns with the numbers `cut` are cut
    short, one after the other and none to less than COLUMN_MIN: a very narrow terminal wraps the rest.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for number in cut if width is not None else ():
        over = sum(widths) + len(GAP) * (len(widths) - 1) - (width or 0)
        widths[number] = max(min(widths[number], COLUMN_MIN), widths[number] - max(0, over))
    lines = (map(str.ljust, map(shorter, row, widths), widths) for row in shown)
    return "".join(GAP.join(line).rstrip() + "\n" for line in lines)


def shorter(text: str, length: int) -> str:
    """The text, or its beginning and three dots, in so many characters."""
    return text if len(text) <= length else text[: max(0, length - len(CUT))] + CUT


def print_answer(value: Any, text: str, parsed: Parsed, console: Console) -> None:
    """One answer on stdout: `value` as a JSON object with `--out json`, otherwise `text`."""
    if parsed.options.get("out") == "json":
        from saltlite.plugins.output.json import document

        console.use_utf8()
        console.data(document(value))
    elif text:
        console.data(text)
