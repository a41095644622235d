"""`saltlite help`: the pages of the documentation in `saltlite/docs`."""

from __future__ import annotations

import os

import saltlite
from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS, VERSIONS, begin, members
from saltlite.cli.options import NO_PAGER, Table
from saltlite.errors import UsageError

TYPE_CHECKING = False  # the completion of topics imports this file, and typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


DOCS = os.path.join(os.path.dirname(saltlite.__file__), "docs")
_ENDING = ".md"


_INDEX = "index"
"""The page that has the sections and the order of all others."""


def sections() -> dict[str, dict[str, str]]:
    """Title of a section -> name of a page -> what it covers, in the order of the page `index`."""
    found: dict[str, dict[str, str]] = {}
    for line in page(_INDEX).splitlines():
        if line.startswith("## "):
            listed = found[line[3:]] = {}
        elif line.startswith("- ["):
            name, _, about = line[3:].partition("](")
            listed[name] = about.partition("): ")[2]
    return found


def titles() -> dict[str, str]:
    """The name of each page and what it covers, in the order of the page `index`."""
    return {name: about for listed in sections().values() for name, about in listed.items()}


def page(name: str) -> str:
    """The text of a page that `titles` has, in Markdown."""
    with open(os.path.join(DOCS, name + _ENDING), encoding="utf-8") as file:
        return file.read()


def run(argv: Sequence[str], console: Console) -> int:
    """Print one page, the help of a command, or the list of all pages. Raises UsageError for an unknown topic."""
    parsed = Table(*COMMANDS["help"], (NO_PAGER,)).parse(argv)
    known = {_INDEX: "", **titles()}
    if parsed.words and parsed.words[0] in members("") and parsed.words[0] not in known:
        return _command_help(parsed.words, console)
    if len(parsed.words) > 1:
        raise UsageError("saltlite help shows one page at a time: saltlite help TOPIC")
    if not parsed.words:
        width = max(map(len, known))
        lines = ["pages, each shown by `saltlite help TOPIC`:"]
        for section, listed in sections().items():
            lines += ["", f"{section}:", *(f"  {name:{width}}  {about}" for name, about in listed.items())]
        console.data("\n".join([*lines, ""]))
        return exitcodes.OK
    topic = parsed.words[0].lower().removesuffix(".md")
    if topic not in known:
        from saltlite.errors import nearest  # difflib is slow to import

        near = nearest(topic, known)
        hint = f"did you mean {near}?" if near else "`saltlite help` lists the pages"
        raise UsageError(f"there is no page {parsed.words[0][:40]!r}: {hint}")
    console.paged(page(topic), off=parsed.on("no_pager"))
    return exitcodes.OK


def _command_help(words: Sequence[str], console: Console) -> int:
    """Print the help text of a command, as its `--help` does."""
    from saltlite.cli.main import run as run_line  # it imports the verbs

    return run_line([*words, "--help"], console)


def run_version(argv: Sequence[str], console: Console) -> int:
    """Print the version. Raises UsageError for words."""
    parsed = Table(*COMMANDS["version"], VERSIONS).parse(argv)
    if parsed.words:
        raise UsageError(f"version takes no {parsed.words[0]!r}")
    begin(parsed, "saltlite", console)
    console.data(f"saltlite {saltlite.__version__}\n")
    return exitcodes.OK
