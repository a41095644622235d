"""Python's own notation, over several lines."""

from __future__ import annotations

from pprint import pformat

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any

INDENT = 4


def output(data: Any, indent: int | None = None, **_kwargs: Any) -> str:
    """Return text that `ast.literal_eval` can read."""
    return f"{pformat(data, indent=INDENT if indent is None else max(indent, 0))}\n"
