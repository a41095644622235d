"""Report what would be called, and call nothing.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.plugins.executors._arguments import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.plugins.executors import Function, Values

SAFE_OPTS: dict[str, type] = {}


def execute(opts: Values, data: Values, func: Function, args: Sequence[Any], kwargs: Values) -> dict[str, Any] | None:
    """Return the function, its arguments without secrets, and the user who would call it.

    CLI Example: ``saltlite --module-executors=dry '*' pkg.remove nginx``
    """
    if isinstance(func, str):
        return None
    user = opts.get("sudo_user") or ""
    arguments, keywords = shown(func, args, kwargs)
    return {
        "dry": True,
        "fun": data["fun"],
        "args": arguments,
        "kwargs": keywords,
        **({"sudo_user": user} if user else {}),
    }
