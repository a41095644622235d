"""Call the function.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.model.execution import RETURNED_NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.plugins.executors import Function, Values

SAFE_OPTS: dict[str, type] = {}


def execute(opts: Values, data: Values, func: Function, args: Sequence[Any], kwargs: Values) -> Any:
    """Call the function. A missing function is left to the next executor."""
    if isinstance(func, str):
        return None
    value = func(*args, **kwargs)
    return RETURNED_NONE if value is None else value
