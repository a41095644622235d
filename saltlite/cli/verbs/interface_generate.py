"""`saltlite interface generate`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS
from saltlite.cli.options import Option, Table
from saltlite.config.paths import require_path
from saltlite.errors import UsageError
from saltlite.lint.generate import generate
from saltlite.lint.source import SourceModule, read_module, read_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Print the source of an interface that the named modules keep to."""
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
