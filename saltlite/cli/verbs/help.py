"""`saltlite help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS
from saltlite.cli.options import Table
from saltlite.cli.pages import page, titles
from saltlite.config.nearest import nearest
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Print one page, or the list of all pages. Raises UsageError for a page that does not exist."""
    parsed = Table(*COMMANDS["help"], ()).parse(argv)
    known = titles()
    if len(parsed.words) > 1:
        raise UsageError("saltlite help shows one page at a time: saltlite help TOPIC")
    if not parsed.words:
        width = max(map(len, known))
        lines = [f"  {name:{width}}  {title}" for name, title in known.items()]
        console.data("\n".join(["pages, each shown by `saltlite help TOPIC`:", *lines, ""]))
        return exitcodes.OK
    topic = parsed.words[0].lower().removesuffix(".md")
    if topic not in known:
        near = nearest(topic, known)
        hint = f"did you mean {near}?" if near else "`saltlite help` lists the pages"
        raise UsageError(f"there is no page {parsed.words[0][:40]!r}: {hint}")
    console.data(page(topic))
    return exitcodes.OK
