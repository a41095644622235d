"""`saltlite interface` and `saltlite lint`: show, compare and generate interfaces of modules, and check their text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS, QUIET, command_table, config_dir_of
from saltlite.cli.options import Option, Table, choice
from saltlite.cli.output import columns, print_answer, width_for
from saltlite.cli.verbs.doc import configured_opts, custom_interfaces
from saltlite.config.paths import require_path
from saltlite.errors import UsageError
from saltlite.interfaces import Platforms
from saltlite.interfaces.smi.report import show_parameters
from saltlite.lint.interface import Kind, changes_between, generate, version_problem
from saltlite.lint.run import Severity, as_data, as_sarif, as_text, by_module, codes_table, lint, shipped_interfaces
from saltlite.lint.source import SourceInterface, SourceModule, read_interfaces, read_module, read_tree
from saltlite.plugins.output.json import document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.lint.source import Declaration


def read_interface(word: str, config_dir: str) -> SourceInterface:
    """The interface that a word names: one in a file, one in a folder of plug-ins, or one that ships.

    Raises UsageError, and ConfigError for a configuration that cannot be read.
    """
    shipped = shipped_interfaces()
    if not os.path.exists(word):
        here = by_module([*shipped, *custom_interfaces(configured_opts(config_dir), shipped)])
        parts = here.get(word)
        if parts is None:
            known = ", ".join(sorted(here))
            raise UsageError(f"there is no file {word} and no interface with that name: name a file, or one of {known}")
        return parts[0]
    try:
        found = read_interfaces(word, read_tree(word), {one.name: one for one in shipped})
    except SyntaxError as error:
        raise UsageError(f"{word}:{error.lineno or 1}: {error.msg}") from error
    if len(found) != 1:
        raise UsageError(f"{word} declares {len(found)} interfaces: name a file with one")
    return found[0]


def run_show(argv: Sequence[str], console: Console) -> int:
    """Show the functions of an interface: signatures, returns, platforms."""
    parsed = command_table("interface show").parse(argv)
    if len(parsed.words) != 1:
        raise UsageError("say one interface: saltlite interface show pkg")
    interface = read_interface(parsed.words[0], config_dir_of(parsed))
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
        signature = show_parameters(interface.functions[fun].function.signature)
        table.append((f"{fun}{signature}", row["returns"], _where(row)))
    title = f"interface {interface.module or interface.extends} {interface.version}, {len(rows)} functions\n"
    return title + columns(table, cut=(2, 0), width=width_for(console))


def _where(row: Mapping[str, Any]) -> str:
    where = Platforms(row["supported"]).text() if row["supported"] else "everywhere"
    return where + (f"; nothing to do on {Platforms(row['not_applicable']).text()}" if row["not_applicable"] else "")


def run_diff(argv: Sequence[str], console: Console) -> int:
    """Show the changes between two interfaces. FAILED when the later version number does not fit them."""
    parsed = command_table("interface diff").parse(argv)
    if len(parsed.words) != 2:
        raise UsageError("say two interfaces, the older one first: saltlite interface diff pkg pkg_new.py")
    before, after = (read_interface(word, config_dir_of(parsed)) for word in parsed.words)
    if before.module != after.module:
        raise UsageError(f"{parsed.words[0]} describes {before.module}, and {parsed.words[1]} {after.module}")
    changes = changes_between(before, after)
    problem = version_problem(before, after, changes)
    kind = next((kind for kind in Kind if any(one.kind is kind for one in changes)), None)
    answer = {
        "before": before.version,
        "after": after.version,
        "kind": str(kind or "identical"),
        "changes": [{"kind": str(one.kind), "function": one.function, "text": one.text} for one in changes],
        "problem": problem,
    }
    text = "".join(f"{one.sentence()}\n" for one in changes) or "no change\n"
    print_answer(answer, text, parsed, console)
    if problem:
        console.error(f"saltlite: {problem}")
    return exitcodes.FAILED if problem else exitcodes.OK


def run_generate(argv: Sequence[str], console: Console) -> int:
    """Print the source of an interface for the named modules."""
    parsed = _table().parse(argv)
    name, *files = [*parsed.words[:1], *parsed.options.get("from", ()), *parsed.words[1:]] or [""]
    if not name.isidentifier() or not files:
        raise UsageError(
            "say the virtual name and the modules: saltlite interface generate pkg --from aptpkg.py yum.py"
        )
    platforms: dict[str, dict[str, list[str]]] = {}
    for stem, grain, values in parsed.options.get("platform", ()):
        platforms.setdefault(stem, {}).setdefault(grain, []).extend(values)
    console.data(generate(name, [_read(file) for file in files], platforms))
    return exitcodes.OK


def _table() -> Table:
    usage, summary = COMMANDS["interface generate"]
    return Table(
        usage,
        summary,
        (
            Option(
                "--from",
                metavar="FILE",
                convert=require_path,
                many=True,
                help="modules that provide it; more may follow",
            ),
            Option(
                "--platform",
                metavar="MODULE:GRAIN=VALUE,...",
                many=True,
                convert=_platform,
                help="where it is used, if __virtual__ does not say",
            ),
        ),
        "Nothing is imported or run. What all modules have becomes the core; the rest\n"
        "is supported where its modules are used.",
    )


def _platform(text: str) -> tuple[str, str, list[str]]:
    stem, _, rest = text.partition(":")
    grain, _, values = rest.rpartition("=")
    if not stem or not grain or not values:
        raise UsageError(f"{text!r} is not MODULE:GRAIN=VALUE, as in yumpkg:os_family=RedHat")
    return stem, grain, values.split(",")


def _read(path: str) -> SourceModule:
    try:
        return read_module(path, os.path.basename(path).removesuffix(".py"), read_tree(path))
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno or 1}: {error.msg}") from error


_FORMATS = ("text", "json", "sarif")


def run_lint(argv: Sequence[str], console: Console) -> int:
    """Check the files and print the findings. FAILED for errors, not for warnings and notes."""
    parsed = _lint_table().parse(argv)
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


def _lint_table() -> Table:
    usage, summary = COMMANDS["lint"]
    out = Option("--out", metavar="FORMAT", convert=choice(*_FORMATS), help="text, json or sarif")
    epilog = f"""\
Nothing is imported or run. `# noqa: CODE` on a line allows what it says there.
Interfaces are those that ship, and those among the files.

codes:
{codes_table()}

exit codes: 0 no errors, 2 usage, 4 there are errors"""
    return Table(usage, summary, (out, QUIET), epilog)
