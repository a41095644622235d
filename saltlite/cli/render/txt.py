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
        lines += [f"{minion}: {line}\n" for line in _lines(returns[minion])]
    return "".join(lines)


def alone(value: Any, paint: Paint) -> str:  # noqa: ARG001 - for programs that read lines
    """An item a line: those of a list, the entries of a map as `key: value`."""
    items = [f"{key}: {item}" for key, item in value.items()] if isinstance(value, dict) else value
    many = items if isinstance(items, list) else [items]
    return "".join(f"{line}\n" for item in many for line in _lines(item))


def _lines(value: Any) -> list[str]:
    shown = (value.splitlines() or [""]) if isinstance(value, str) else [repr(value)]
    return [printable(line) for line in shown]
