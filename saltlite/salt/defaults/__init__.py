"""`salt.defaults`: values that several of Salt's modules share."""

from __future__ import annotations

from typing import Any

DEFAULT_TARGET_DELIM = ":"


class _Constant:
    """A value that is equal to those of its name and value only."""

    def __init__(self, name: str, value: Any = None) -> None:
        self.name = name
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constant) and (self.name, self.value) == (other.name, other.value)

    def __hash__(self) -> int:
        return hash((self.name, self.value))

    def __repr__(self) -> str:
        return f"<Constant.{self.name} value={self.value}>" if self.value else f"<Constant.{self.name}>"


NOT_SET = _Constant("NOT_SET")
