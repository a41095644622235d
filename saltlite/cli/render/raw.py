"""Python's own notation, one `{id: return}` a line."""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from saltlite.cli.render.outputters import Paint


def render(returns: Mapping[str, Any], paint: Paint) -> str:  # noqa: ARG001 - has no colours
    """`ast.literal_eval` reads each line back."""
    entries = [{minion: returns[minion]} for minion in sorted(returns)]
    return "".join(f"{entry!r}\n" for entry in entries)


def alone(value: Any, paint: Paint) -> str:  # noqa: ARG001 - has no colours
    """`ast.literal_eval` reads it back."""
    return f"{value!r}\n"
