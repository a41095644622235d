"""`id: line` for each line of a return, for grep and awk."""

from __future__ import annotations

from saltlite.model.plain import printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any


def output(data: Any, **_kwargs: Any) -> str:
    """Return text line by line and other values as Python writes them. A list has one item per line."""
    if isinstance(data, dict):
        return "".join(
            f"{printable(str(key))}: {line}\n" for key in sorted(data, key=str) for line in _lines(data[key])
        )
    return "".join(f"{line}\n" for item in (data if isinstance(data, list) else [data]) for line in _lines(item))


def _lines(value: Any) -> list[str]:
    shown = (value.splitlines() or [""]) if isinstance(value, str) else [repr(value)]
    return [printable(line) for line in shown]
