"""`saltlite interface show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.columns import columns, width_for
from saltlite.cli.commands import command_table
from saltlite.cli.interfaces import read_interface
from saltlite.cli.keys import print_answer
from saltlite.errors import UsageError
from saltlite.interfaces.smi.platforms import Platforms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.lint.source import Declaration, SourceInterface


def run(argv: Sequence[str], console: Console) -> int:
    """Show what the functions of an interface take, return, and where they are to be had."""
    parsed = command_table("interface show").parse(argv)
    if len(parsed.words) != 1:
        raise UsageError("say one interface: saltlite interface show pkg")
    interface = read_interface(parsed.words[0])
    rows = {fun: _row(declared) for fun, declared in sorted(interface.functions.items())}
    answer = {
        "interface": interface.module or interface.extends,
        "version": interface.version,
        "path": interface.path,
        "functions": rows,
    }
    print_answer(answer, _text(interface, rows, console), parsed, console)
    return exitcodes.OK


def _row(declared: Declaration) -> dict[str, Any]:
    return {
        "signature": f"{declared.function.name}{declared.function.signature}",
        "returns": declared.function.returns or "any",
        "doc": declared.function.doc,
        "supported": declared.supported,
        "not_applicable": declared.not_applicable,
    }


def _text(interface: SourceInterface, rows: Mapping[str, Mapping[str, Any]], console: Console) -> str:
    table = [("FUNCTION", "RETURNS", "WHERE")]
    for fun, row in rows.items():
        signature = str(interface.functions[fun].function.signature).replace("'", "")
        table.append((f"{fun}{signature}", row["returns"], _where(row)))
    title = f"interface {interface.module or interface.extends} {interface.version}, {len(rows)} functions\n"
    return title + columns(table, cut=(2, 0), width=width_for(console))


def _where(row: Mapping[str, Any]) -> str:
    where = Platforms(row["supported"]).text() if row["supported"] else "everywhere"
    return where + (f"; nothing to do on {Platforms(row['not_applicable']).text()}" if row["not_applicable"] else "")
