"""`saltlite key revoke`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli.keys import Change, run_change
from saltlite.model.keys import KeyState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

_CHANGE = Change(
    "revoke",
    by_glob=frozenset({KeyState.ACCEPTED}),
    by_id=frozenset({KeyState.ACCEPTED}),
)


def run(argv: Sequence[str], console: Console) -> int:
    """Revoke accepted keys."""
    return run_change(argv, console, _CHANGE)
