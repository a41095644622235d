"""`id: line` for each line of each return: for grep and awk."""

from __future__ import annotations

from saltlite.cli.console import printable

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from saltlite.cli.render.outputters import Paint


def render(returns: Mapping[str, Any], paint: Paint) -> str:  # noqa: ARG001 - for programs that read lines
    """Text by its lines, anything else as Python writes it; a return of empty text is `id: `."""
    lines = []
    for minion in sorted(returns):
        value = returns[minion]
        shown = (value.splitlines() or [""]) if isinstance(value, str) else [repr(value)]
        lines += [f"{minion}: {printable(line)}\n" for line in shown]
    return "".join(lines)
