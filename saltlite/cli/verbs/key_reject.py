"""`saltlite key reject`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli.keys import Change, run_change
from saltlite.model.keys import KeyState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

_CHANGE = Change(
    "reject",
    by_glob=frozenset({KeyState.PENDING, KeyState.CONFLICT}),
    by_id=frozenset({KeyState.PENDING, KeyState.CONFLICT}),
)


def run(argv: Sequence[str], console: Console) -> int:
    """Reject keys that wait for a decision."""
    return run_change(argv, console, _CHANGE)
