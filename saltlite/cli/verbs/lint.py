"""`saltlite lint`: check the text of plug-in files and interfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS, QUIET
from saltlite.cli.options import Option, Table, choice
from saltlite.errors import UsageError
from saltlite.lint.rules import Severity, codes_table
from saltlite.lint.run import as_data, as_sarif, as_text, lint
from saltlite.plugins.output.json import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

_FORMATS = ("text", "json", "sarif")


def run(argv: Sequence[str], console: Console) -> int:
    """Check the files and print the findings. FAILED for errors, not for warnings and notes."""
    parsed = _table().parse(argv)
    if not parsed.words:
        raise UsageError("say which files or folders: saltlite lint /srv/salt/_modules")
    report = lint(parsed.words)
    out = parsed.options.get("out", "text")
    if out == "text":
        console.data(as_text(report))
    else:
        console.use_utf8()
        console.data(document(as_data(report) if out == "json" else as_sarif(report)))
    return exitcodes.FAILED if report.count(Severity.ERROR) else exitcodes.OK


def _table() -> Table:
    usage, summary = COMMANDS["lint"]
    out = Option("--out", metavar="FORMAT", convert=choice(*_FORMATS), help="text, json or sarif")
    epilog = f"""\
Nothing is imported or run. `# noqa: CODE` on a line allows what it says there.
Interfaces are those that ship, and those among the files.

codes:
{codes_table()}

exit codes: 0 no errors, 2 usage, 4 there are errors"""
    return Table(usage, summary, (out, QUIET), epilog)
