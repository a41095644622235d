"""`salt.defaults`: values that several of Salt's modules share."""

from __future__ import annotations

from typing import Any

DEFAULT_TARGET_DELIM = ":"


class _Constant:
    """A value that is equal to itself only, and stays the same object when it is copied or pickled."""

    def __init__(self, name: str, value: Any = None) -> None:
        self.name = name
        self.value = value

    def __repr__(self) -> str:
        return f"<Constant.{self.name} value={self.value}>"

    def __reduce__(self) -> str:
        return self.name

    def __copy__(self) -> _Constant:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _Constant:
        return self


NOT_SET = _Constant("NOT_SET")
