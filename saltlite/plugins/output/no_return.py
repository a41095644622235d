"""Minions that did not return: the id and the reason."""

from __future__ import annotations

from saltlite.model.plain import printable
from saltlite.plugins.output.nested import BAD, Paint

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any


def output(data: Any, color: bool = False, **_kwargs: Any) -> str:
    """Return `id:` and a sentence below it, in the colour of failures."""
    paint = Paint(color=color)
    entries = data.items() if isinstance(data, dict) else [("", data)]
    lines: list[str] = []
    for key, value in sorted(entries, key=lambda entry: str(entry[0])):
        lines += [f"{paint(BAD, printable(str(key)))}:"] if key else []
        lines += [f"    {paint(BAD, printable(line))}" for line in str(value).splitlines()]
    return "".join(f"{line}\n" for line in lines)
