"""`saltlite key delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli.keys import Change, run_change
from saltlite.model.keys import KeyState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

_CHANGE = Change("delete", by_glob=frozenset(KeyState), by_id=frozenset(KeyState))


def run(argv: Sequence[str], console: Console) -> int:
    """Delete keys in any state."""
    return run_change(argv, console, _CHANGE)
