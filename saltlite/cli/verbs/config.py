"""`saltlite config`: check and show the configuration files."""

from __future__ import annotations

import json
import os
import textwrap
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.options import Option
from saltlite.cli.output import print_answer
from saltlite.cloud.program.files import cloud_files, load_cloud
from saltlite.config.load import ALL, SIDES, is_configured, load_api, load_side, missing_folders, sides_of
from saltlite.config.options import options_of, quote
from saltlite.config.opts import shown_value
from saltlite.config.paths import config_files, require_path
from saltlite.errors import ConfigError, UsageError
from saltlite.platform.files import write_new
from saltlite.targeting.expression import parse_nodegroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from saltlite.cli.console import Console
    from saltlite.config.from_salt import Converted
    from saltlite.config.load import Loaded
    from saltlite.config.master import MasterConfig
    from saltlite.config.minion import MinionConfig


CLOUD = "cloud"
"""The word for the files of `saltlite cloud` alone."""
API = "api"
"""The word for the file of `saltlite-api` alone."""


def run_check(argv: Sequence[str], console: Console) -> int:
    """Read the files as the daemons do, which need not run, and print every problem."""
    parsed = command_table("config check").parse(argv)
    console.quiet = parsed.on("quiet")
    config_dir = config_dir_of(parsed)
    files: list[str] = []
    problems: list[str] = []
    clouds = cloud_files(config_dir) if parsed.words in ([], [ALL], [CLOUD]) else []
    api = parsed.words == [API] or (parsed.words in ([], [ALL]) and is_configured(config_dir, API))
    for side in _sides(parsed.words, config_dir, alone=api or bool(clouds)):
        files += _files(config_dir, side)
        problems += _problems(config_dir, side)
    if api:
        files += _files(config_dir, API)
        problems += _api_problems(config_dir)
    files += clouds
    problems += _cloud_problems(config_dir) if clouds else []
    lines = "".join(f"{line}\n" for line in problems)
    if not problems:
        lines = f"{len(files)} file{'' if len(files) == 1 else 's'}, no problem\n"
    print_answer({"files": files, "problems": problems}, lines, parsed, console)
    return exitcodes.USAGE if problems else exitcodes.OK


def _sides(words: Sequence[str], config_dir: str, *, alone: bool) -> Sequence[str]:
    """The sides to check besides the files of clouds and of the API."""
    if alone and (words in ([CLOUD], [API]) or not any(is_configured(config_dir, side) for side in SIDES)):
        return ()
    return sides_of(words, config_dir)


def _api_problems(config_dir: str) -> list[str]:
    try:
        load_api(config_dir)
    except ConfigError as error:
        return str(error).split("\n")
    return []


def _cloud_problems(config_dir: str) -> list[str]:
    try:
        return list(load_cloud(config_dir).catalogue.dropped.values())
    except ConfigError as error:
        return str(error).split("\n")


def _files(config_dir: str, side: str) -> list[str]:
    try:
        return config_files(config_dir, side)
    except OSError:
        return []  # reading the configuration says what is wrong there


def _problems(config_dir: str, side: str) -> list[str]:
    try:
        loaded = load_side(config_dir, side)
        return [*missing_folders(loaded), *_wrong_nodegroups(loaded)]
    except ConfigError as error:
        return str(error).split("\n")


def _wrong_nodegroups(loaded: Loaded[MasterConfig] | Loaded[MinionConfig]) -> list[str]:
    """Nodegroups with errors. The master starts with them, because it reads them when they are used."""
    groups = getattr(loaded.config, "nodegroups", None) or {}
    found = []
    for name in groups:
        try:
            parse_nodegroup(name, groups)
        except UsageError as error:
            found.append(f"{loaded.places['nodegroups'].position()}: 'nodegroups': {error}")
    return found


HIDDEN = "***"
"""Printed in place of a secret."""

DEFAULT = "default"

_SECRET_WORDS = ("pass", "secret", "token", "key", "credential")
"""Module configuration has no option descriptors, so a name with one of these counts as a secret."""

Row = tuple[str, Any, str, str]
"""Name of an option, its value, the value as YAML, and its origin."""


def run_show(argv: Sequence[str], console: Console) -> int:
    """Print the values that a daemon would have if it started now. Raises ConfigError for unusable files."""
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


SALTS_DIR = "/etc/salt"
REPORT_WIDTH = 116


def run_from_salt(argv: Sequence[str], console: Console) -> int:
    """Say what each option of Salt's files is here, and write our files on request."""
    from saltlite.config.from_salt import convert

    parsed = command_table(
        "config from-salt",
        Option("--write", metavar="FOLDER", convert=require_path, help="write the files master and minion there"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) > 1:
        raise UsageError("config from-salt takes one folder, /etc/salt if none is given")
    sides = convert(parsed.words[0] if parsed.words else SALTS_DIR)
    folder: str = parsed.options.get("write", "")
    written = [write_new(os.path.join(folder, one.side), one.text) for one in sides] if folder else []
    report = "\n".join(map(_report, sides))
    answer = {
        one.side: {
            "files": list(one.files),
            "options": {option.option: {"place": option.place, "is": option.group, "instead": option.instead}
                        for option in one.answers},
            "text": one.text,
        }
        for one in sides
    }  # fmt: skip
    print_answer(answer, report, parsed, console)
    for path in written:
        console.note(f"saltlite: wrote {path}: read it, then `saltlite config check -c {folder}`")
    if not folder:
        console.note("saltlite: nothing was written: --write FOLDER writes the files")
    return exitcodes.OK


def _report(converted: Converted) -> str:
    from saltlite.config.from_salt import grouped

    lines = [f"{', '.join(converted.files)}: {len(converted.answers)} options"]
    for group, answers in grouped(converted):
        lines.append(f"  {group}:")
        same: dict[str, list[str]] = {}
        for one in answers:
            same.setdefault(one.instead, []).append(f"{one.option}{_line_number(one.place) if one.instead else ''}")
        for instead, options in same.items():
            text = ", ".join(options) + (f": {instead}" if instead else "")
            lines += textwrap.wrap(
                text, REPORT_WIDTH, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False
            )
    return "\n".join(lines) + "\n"


def _line_number(place: str) -> str:
    path, _, number = place.rpartition(":")
    return f" ({os.path.basename(path)}:{number})"


def _rows(loaded: Loaded[MasterConfig] | Loaded[MinionConfig]) -> Iterator[Row]:
    config, origins = loaded.config, loaded.origins
    for name, known in options_of(type(config)).items():
        value = getattr(config, name)
        if known.secret and value:
            yield name, HIDDEN, quote(HIDDEN), origins.get(name, DEFAULT)
        else:
            shown = shown_value(value)
            yield name, shown, known.takes.spell(shown), origins.get(name, DEFAULT)
    for name, value in getattr(config, "module_config", {}).items():
        shown = without_secrets(name, value)
        yield name, shown, json.dumps(shown, ensure_ascii=False), origins[name]


def without_secrets(name: str, value: Any) -> Any:
    """A value of a module's configuration; values that are named like secrets, at any depth, are hidden."""
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
