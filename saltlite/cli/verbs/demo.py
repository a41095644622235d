"""`saltlite demo`: the fleet itself is in `saltlite.demo`, which reads its own options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.demo import main

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:  # noqa: ARG001 - the demo writes to the process's streams
    """Hand the command line on; the exit code."""
    return main(list(argv))
