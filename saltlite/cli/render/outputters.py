"""The outputters by name, and one function for all of them.

Rendering minions one by one and joining the texts gives the same as rendering all of them at once, but for
`json`, which is one document.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

NAMES = ("nested", "json", "yaml", "txt", "raw", "quiet")
FORMATS = (*NAMES, "json-full", "jsonl")
"""All that `--out` takes for a job: the last two are of more than the returns (`saltlite.cli.printers`)."""
FOR_PROGRAMS = frozenset({"json", "json-full", "jsonl", "yaml"})
"""Always UTF-8."""

DEFAULT = "nested"


class Paint:
    """Colours of a text for people. `red_ids` are the minions whose function failed."""

    __slots__ = ("colors", "red_ids")

    def __init__(self, *, colors: bool = False, red_ids: frozenset[str] = frozenset()) -> None:
        self.colors = colors
        self.red_ids = red_ids

    def __call__(self, code: str, text: str) -> str:
        """`text` in the colour of that SGR code, or as it is."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colors else text


PLAIN = Paint()


def render(out: str, returns: Mapping[str, Any], paint: Paint = PLAIN) -> str:
    """`{minion id: return}` in the format `out`, one of NAMES; text ends with a newline unless it is empty.

    The file of an outputter is imported on its first use.
    """
    module = importlib.import_module(f"saltlite.cli.render.{out}")
    outputter: Callable[[Mapping[str, Any], Paint], str] = module.render
    return outputter(returns, paint)


def render_alone(out: str, value: Any, paint: Paint = PLAIN) -> str:
    """One value that is no minion's, such as a runner's, in the format `out`; otherwise as `render`."""
    module = importlib.import_module(f"saltlite.cli.render.{out}")
    outputter: Callable[[Any, Paint], str] = module.alone
    return outputter(value, paint)
