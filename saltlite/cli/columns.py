"""Rows as aligned columns, no wider than the terminal that they go to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from saltlite.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

COLUMN_MIN = 8
"""A column that is cut short keeps so many characters."""

CUT = "..."
GAP = "  "


def width_for(console: Console) -> int | None:
    """The columns of the terminal that data goes to; None when it goes anywhere else."""
    if not console.shows_data():
        return None
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None


def columns(rows: Sequence[Sequence[str]], *, cut: Sequence[int], width: int | None) -> str:
    """The rows, the first one being the heading, each line with a newline at its end.

    Where they are wider than `width` (None: nothing is too wide), the columns with the numbers `cut` are cut
    short, one after the other and none to less than COLUMN_MIN: a very narrow terminal wraps the rest.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for number in cut if width is not None else ():
        over = sum(widths) + len(GAP) * (len(widths) - 1) - (width or 0)
        widths[number] = max(min(widths[number], COLUMN_MIN), widths[number] - max(0, over))
    lines = (map(str.ljust, map(shorter, row, widths), widths) for row in shown)
    return "".join(GAP.join(line).rstrip() + "\n" for line in lines)


def shorter(text: str, length: int) -> str:
    """The text, or its beginning and three dots, in so many characters."""
    return text if len(text) <= length else text[: max(0, length - len(CUT))] + CUT
