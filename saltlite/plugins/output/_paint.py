"""Colours of what is printed for people: the codes of ECMA-48 that Salt's own outputters take."""

from __future__ import annotations

KEY, BAD, TEXT, VALUE, CHANGED = "36", "31", "32", "93", "33"


class Paint:
    """Puts text in a colour, or leaves it as it is."""

    __slots__ = ("_on",)

    def __init__(self, *, color: bool) -> None:
        self._on = color

    def __call__(self, code: str, text: str) -> str:
        """`text` in the colour of that SGR code."""
        return f"\x1b[{code}m{text}\x1b[0m" if self._on else text
