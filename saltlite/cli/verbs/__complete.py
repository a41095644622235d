"""What the completion scripts call: `saltlite __complete -- WORD... BEGUN`."""

from __future__ import annotations

from saltlite.cli import exitcodes
from saltlite.cli.completion.answer import answer

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Print the words that may stand in the place of the last one, a line each."""
    console.use_utf8()
    console.data(answer(argv[1:] if argv[:1] == ["--"] else argv))
    return exitcodes.OK
