"""Python's own notation on one line."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any


def output(data: Any, **_kwargs: Any) -> str:
    """Return text that `ast.literal_eval` can read."""
    return f"{data!r}\n"
