"""Python's own notation, broken into lines."""

from __future__ import annotations

from pprint import pformat

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any

INDENT = 4


def output(data: Any, indent: int | None = None, **_kwargs: Any) -> str:
    """`ast.literal_eval` reads it back."""
    return f"{pformat(data, indent=INDENT if indent is None else max(indent, 0))}\n"
