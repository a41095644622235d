"""No output, for callers that only need the exit code."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any


def output(data: Any, **_kwargs: Any) -> str:  # noqa: ARG001 - that is the point
    """Return an empty text."""
    return ""
