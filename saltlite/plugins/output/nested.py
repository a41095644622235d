"""The default outputter: Salt's nested format for people."""

from __future__ import annotations

from saltlite.model.plain import printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import Any


# --- Colours: the SGR codes of ECMA-48 that Salt's outputters take ---

KEY, BAD, TEXT, VALUE, CHANGED = "36", "31", "32", "93", "33"


class Paint:
    """Colours text, or returns it unchanged."""

    __slots__ = ("_on",)

    def __init__(self, *, color: bool) -> None:
        self._on = color

    def __call__(self, code: str, text: str) -> str:
        """Return `text` in the colour of that SGR code."""
        return f"\x1b[{code}m{text}\x1b[0m" if self._on else text


INDENT = 4


def output(data: Any, color: bool = False, indent: int | None = None, _retcode: int = 0, **_kwargs: Any) -> str:
    """Return a map as sorted keys with their values indented below them; other values as they are."""
    writer = _Writer(Paint(color=color), INDENT if indent is None else max(indent, 0), failed=bool(_retcode))
    if isinstance(data, dict):
        writer.entries(0, data)
    else:
        writer.value(0, data)
    return writer.text()


def body(value: Any, *, color: bool, failed: bool = False) -> str:
    """Return the lines of one return, without an id."""
    writer = _Writer(Paint(color=color), INDENT, failed=failed)
    writer.value(INDENT, value)
    return writer.text()


class _Writer:
    def __init__(self, paint: Paint, step: int, *, failed: bool) -> None:
        self._paint = paint
        self._step = step
        self._key_color = BAD if failed else KEY
        self._lines: list[str] = []

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def entries(self, indent: int, value: dict[Any, Any]) -> None:
        for key in sorted(value, key=str):
            self._line(indent, self._key_color, printable(str(key)), after=":")
            self.value(indent + self._step, value[key])

    def value(self, indent: int, value: Any, prefix: str = "") -> None:
        match value:
            case dict():
                self._line(indent, self._key_color, "----------")
                self.entries(indent, value)
            case list() | tuple():
                for item in value:
                    self._item(indent, item)
            case str():
                for number, line in enumerate(value.splitlines()):
                    lead = " " * len(prefix) if number else prefix
                    self._line(indent, TEXT, lead + printable(line))
            case _:
                self._line(indent, VALUE, f"{prefix}{value!r}")

    def _item(self, indent: int, item: Any) -> None:
        if isinstance(item, dict | list):
            self._line(indent, TEXT, "|_")
            self.value(indent + 2, item)
        else:
            self.value(indent, item, "- ")

    def _line(self, indent: int, color: str, text: str, after: str = "") -> None:
        self._lines.append(" " * indent + self._paint(color, text) + after)
