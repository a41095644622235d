"""Which outputter prints what: the ones that ship by name, and those of operators, of packages and of Salt.

The file of one that ships is imported on its first use, and nothing is looked for. Any other name is looked for as a
plug-in of the type `output`: in `module_dirs`, among what was synced, in `outputter_dirs` and in packages.
"""

from __future__ import annotations

import importlib

from saltlite.errors import UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

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
