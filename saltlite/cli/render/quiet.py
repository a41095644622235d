"""Nothing: for those who want the exit code only."""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from saltlite.cli.render.outputters import Paint


def render(returns: Mapping[str, Any], paint: Paint) -> str:  # noqa: ARG001 - that is the point
    """No text."""
    return ""


def alone(value: Any, paint: Paint) -> str:  # noqa: ARG001 - as above
    """No text."""
    return ""
