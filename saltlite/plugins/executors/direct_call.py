"""Call the function.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltlite.model.execution import RETURNED_NONE

SAFE_OPTS: dict[str, type] = {}


def execute(
    opts: Mapping[str, Any],
    data: Mapping[str, Any],
    func: Callable[..., Any] | str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call the function. A missing function is left to the next executor."""
    if isinstance(func, str):
        return None
    value = func(*args, **kwargs)
    return RETURNED_NONE if value is None else value
