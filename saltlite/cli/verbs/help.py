"""`saltlite help`: the pages of the documentation in `saltlite/docs`."""

from __future__ import annotations

import os

import saltlite
from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS
from saltlite.cli.options import Table
from saltlite.errors import UsageError

TYPE_CHECKING = False  # the completion of topics imports this file, and typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


DOCS = os.path.join(os.path.dirname(saltlite.__file__), "docs")
_ENDING = ".md"


def titles() -> dict[str, str]:
    """The name of each page and its title, sorted by name."""
    names = sorted(name.removesuffix(_ENDING) for name in os.listdir(DOCS) if name.endswith(_ENDING))
    return {name: page(name).partition("\n")[0].removeprefix("# ") for name in names}


def page(name: str) -> str:
    """The text of a page that `titles` has, in Markdown."""
    with open(os.path.join(DOCS, name + _ENDING), encoding="utf-8") as file:
        return file.read()


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
        from saltlite.errors import nearest  # difflib is slow to import

        near = nearest(topic, known)
        hint = f"did you mean {near}?" if near else "`saltlite help` lists the pages"
        raise UsageError(f"there is no page {parsed.words[0][:40]!r}: {hint}")
    console.data(page(topic))
    return exitcodes.OK
