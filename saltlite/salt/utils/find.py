"""`salt.utils.find`: files below a folder by criteria, as the function `file.find` finds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from saltlite.salt.modules import function_of


class Finder:
    """Finds by the options of `file.find`, such as `{"name": "*.log", "size": "+1m"}`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)

    def find(self, path: str) -> Iterator[Any]:
        """The paths, or what the actions among the options give. Raises SaltInvocationError for a wrong option."""
        find = function_of("file", "find")
        assert find is not None  # noqa: S101 - it ships
        yield from find(path, **self._options)
