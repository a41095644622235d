"""`saltlite config show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.configs import config_dir_of, load_side, sides_of
from saltlite.cli.keys import print_answer
from saltlite.cli.options import Option
from saltlite.config.kinds import quote
from saltlite.config.options import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from saltlite.cli.console import Console
    from saltlite.config.load import Loaded
    from saltlite.config.master import MasterConfig
    from saltlite.config.minion import MinionConfig

HIDDEN = "***"
"""What stands in the place of a secret."""

DEFAULT = "default"

_SECRET_WORDS = ("pass", "secret", "token", "key", "credential")
"""Module configuration has no descriptors, so what is named like a secret is taken for one."""

Row = tuple[str, Any, str, str]
"""Name of an option, its value, the value as YAML, and where it comes from."""


def run(argv: Sequence[str], console: Console) -> int:
    """Print the values that a daemon started now would have. Raises ConfigError for files that cannot be used."""
    parsed = command_table(
        "config show",
        Option("--origin", help="with each value, the file and line that set it"),
    ).parse(argv)
    config_dir = config_dir_of(parsed)
    sides = {side: list(_rows(load_side(config_dir, side))) for side in sides_of(parsed.words, config_dir)}
    with_origin = parsed.on("origin")
    text = "\n".join(_text(side, rows, with_origin=with_origin, alone=len(sides) == 1) for side, rows in sides.items())
    print_answer({side: _map(rows, with_origin=with_origin) for side, rows in sides.items()}, text, parsed, console)
    return exitcodes.OK


def _rows(loaded: Loaded[MasterConfig] | Loaded[MinionConfig]) -> Iterator[Row]:
    config, origins = loaded.config, loaded.origins
    for name, known in options_of(type(config)).items():
        value = getattr(config, name)
        if known.secret and value:
            yield name, HIDDEN, quote(HIDDEN), origins.get(name, DEFAULT)
        else:
            yield name, value, known.takes.spell(value), origins.get(name, DEFAULT)
    for name, value in getattr(config, "module_config", {}).items():
        shown = without_secrets(name, value)
        yield name, shown, json.dumps(shown, ensure_ascii=False), origins[name]


def without_secrets(name: str, value: Any) -> Any:
    """A value of a module's configuration; what is named like a secret, at any depth, is hidden."""
    if isinstance(value, dict):
        return {key: without_secrets(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_secrets(name, inner) for inner in value]
    return HIDDEN if value and any(word in name.lower() for word in _SECRET_WORDS) else value


def _text(side: str, rows: Sequence[Row], *, with_origin: bool, alone: bool) -> str:
    lines = [f"{name}: {spelled}" for name, _, spelled, _ in rows]
    if with_origin:
        width = min(max(map(len, lines)), 60)
        lines = [f"{line:<{width}}  # {row[3]}" for line, row in zip(lines, rows, strict=True)]
    heading = [] if alone else [f"# {side}"]
    return "".join(f"{line}\n" for line in [*heading, *lines])


def _map(rows: Sequence[Row], *, with_origin: bool) -> dict[str, Any]:
    if with_origin:
        return {name: {"value": value, "origin": origin} for name, value, _, origin in rows}
    return {name: value for name, value, _, _ in rows}
