"""`saltlite key accept`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli.keys import Change, run_change
from saltlite.model.keys import KeyState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

_CHANGE = Change(
    "accept",
    by_glob=frozenset({KeyState.PENDING}),
    by_id=frozenset({KeyState.PENDING, KeyState.REJECTED, KeyState.CONFLICT}),
    one_key_an_id=True,
)


def run(argv: Sequence[str], console: Console) -> int:
    """Accept keys; two keys of one id are never accepted together."""
    return run_change(argv, console, _CHANGE)
