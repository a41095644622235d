"""Lists and maps of rows as tables.

a list of maps        a column for each key, in order of first appearance
a map of maps         the same, after a column with the outer keys
a map, a list         two columns, one column
anything else         as `nested` prints it, also rows with few columns in common
"""

from __future__ import annotations

import unicodedata

from saltlite.model.plain import printable
from saltlite.plugins.output import nested
from saltlite.plugins.output.nested import BAD, KEY, Paint

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any

CELL_MAX = 80
"""Maximum columns of a terminal for one cell; longer text is cut and ends with `…`."""
INDENT = 4
SPARSE_MIN, SPARSE_TIMES = 10_000, 8
"""A table with more than SPARSE_MIN cells and SPARSE_TIMES as many cells as values is not printed as one: rows without
common columns would take quadratic time and space."""


def output(data: Any, color: bool = False, indent: int | None = None, _retcode: int = 0, **_kwargs: Any) -> str:
    """Return one table for each id, or one table for a value without an id."""
    paint, margin = Paint(color=color), " " * (INDENT if indent is None else max(indent, 0))
    if not isinstance(data, dict) or not any(isinstance(value, dict | list) for value in data.values()):
        return _table(data, paint, "") or nested.output(data, color=color, indent=indent, _retcode=_retcode)
    if _is_rows(list(data.values())):
        return _table(data, paint, "") or nested.output(data, color=color, indent=indent, _retcode=_retcode)
    text = ""
    for key in sorted(data, key=str):
        body = _table(data[key], paint, margin) or nested.body(data[key], color=color, failed=bool(_retcode))
        text += f"{paint(BAD if _retcode else KEY, printable(str(key)))}:\n{body}"
    return text


def _is_rows(values: list[Any]) -> bool:
    """Whether these are several maps of plain values, which form one table."""
    return len(values) > 1 and all(
        isinstance(value, dict) and value and not any(isinstance(one, dict | list) for one in value.values())
        for value in values
    )


def _table(value: Any, paint: Paint, margin: str) -> str:
    """Return the lines of a table, or "" if the value is not one."""
    if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
        rows: list[dict[str, Any]] = [{"": key, **value[key]} for key in sorted(value, key=str)]
    elif isinstance(value, dict) and value:
        rows = [{"key": key, "value": value[key]} for key in sorted(value, key=str)]
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        rows = value
    elif isinstance(value, list) and value:
        rows = [{"value": one} for one in value]
    else:
        return ""
    columns = list(dict.fromkeys(str(key) for row in rows for key in row))
    if len(columns) * len(rows) > max(SPARSE_MIN, SPARSE_TIMES * sum(map(len, rows))):
        return ""
    named = [{str(key): one for key, one in row.items()} for row in rows]
    cells = [[_cell(row.get(column, "")) for column in columns] for row in named]
    heads = [_cell(column) for column in columns]
    widths = [max(map(_width, column)) for column in zip(heads, *cells, strict=True)]
    lines = [[paint(KEY, _padded(head, width)) for head, width in zip(heads, widths, strict=True)]]
    lines.append(["-" * width for width in widths])
    lines += [[_padded(cell, width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    return "".join(f"{margin}{'  '.join(line).rstrip()}\n" for line in lines)


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else str(value)
    line = printable(" ".join(text.split("\n")))
    while _width(line) > CELL_MAX:
        line = line[: min(len(line) - 2, CELL_MAX - 1)] + "…"
    return line


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """Return the number of terminal columns; wide letters take two and combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )
