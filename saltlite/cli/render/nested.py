"""The default outputter, for people: Salt's nested look."""

from __future__ import annotations

from saltlite.cli.console import printable

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from saltlite.cli.render.outputters import Paint

_KEY, _FAILED_KEY, _TEXT, _VALUE = "36", "31", "32", "93"


def render(returns: Mapping[str, Any], paint: Paint) -> str:
    """The id, a colon, and the return below it, indented by four; keys sorted."""
    lines: list[str] = []
    for minion in sorted(returns):
        writer = _Writer(paint, _FAILED_KEY if minion in paint.red_ids else _KEY, lines)
        writer.key(0, minion)
        writer.value(4, returns[minion])
    return "".join(f"{line}\n" for line in lines)


def body(value: Any, paint: Paint, *, failed: bool = False) -> str:
    """The lines of one return, without an id."""
    lines: list[str] = []
    _Writer(paint, _FAILED_KEY if failed else _KEY, lines).value(4, value)
    return "".join(f"{line}\n" for line in lines)


def alone(value: Any, paint: Paint) -> str:
    """The value from the margin on; the keys of a map stand there, as the ids of minions do."""
    lines: list[str] = []
    writer = _Writer(paint, _KEY, lines)
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            writer.key(0, key)
            writer.value(4, value[key])
    else:
        writer.value(0, value)
    return "".join(f"{line}\n" for line in lines)


class _Writer:
    def __init__(self, paint: Paint, key_color: str, lines: list[str]) -> None:
        self._paint = paint
        self._key_color = key_color
        self._lines = lines

    def key(self, indent: int, key: object) -> None:
        self._line(indent, self._key_color, printable(str(key)), after=":")

    def value(self, indent: int, value: Any, prefix: str = "") -> None:
        match value:
            case dict():
                self._line(indent, self._key_color, "----------")
                for key in sorted(value, key=str):
                    self.key(indent, key)
                    self.value(indent + 4, value[key])
            case list():
                for item in value:
                    self._item(indent, item)
            case str():
                for number, line in enumerate(value.splitlines()):
                    lead = " " * len(prefix) if number else prefix
                    self._line(indent, _TEXT, lead + printable(line))
            case _:
                self._line(indent, _VALUE, f"{prefix}{value!r}")

    def _item(self, indent: int, item: Any) -> None:
        if isinstance(item, dict | list):
            self._line(indent, _TEXT, "|_")
            self.value(indent + 2, item)
        else:
            self.value(indent, item, "- ")

    def _line(self, indent: int, color: str, text: str, after: str = "") -> None:
        self._lines.append(" " * indent + self._paint(color, text) + after)
