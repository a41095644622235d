"""Report what would be called, and call nothing.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltlite.plugins.executors._arguments import shown

SAFE_OPTS: dict[str, type] = {}


def execute(
    opts: Mapping[str, Any],
    data: Mapping[str, Any],
    func: Callable[..., Any] | str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Any] | None:
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
