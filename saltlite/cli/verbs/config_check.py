"""`saltlite config check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.configs import ALL, SIDES, config_dir_of, is_configured, load_side, missing_folders, sides_of
from saltlite.cli.keys import print_answer
from saltlite.cloud.program.files import cloud_files, load_cloud
from saltlite.config.load import load_api
from saltlite.config.paths import config_files
from saltlite.errors import ConfigError, UsageError
from saltlite.targeting.nodegroups import parse_nodegroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.config.load import Loaded
    from saltlite.config.master import MasterConfig
    from saltlite.config.minion import MinionConfig

CLOUD = "cloud"
"""What is said for the files of `saltlite cloud` alone."""
API = "api"
"""What is said for the file of `saltlite-api` alone."""


def run(argv: Sequence[str], console: Console) -> int:
    """Read the files as the daemons do, and print every problem; the daemons need not run."""
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
    """The sides besides the files of clouds and of the API, which may be all that there is."""
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
    """Nodegroups that select nothing but an error. The master starts with them: they are read when used."""
    groups = getattr(loaded.config, "nodegroups", None) or {}
    found = []
    for name in groups:
        try:
            parse_nodegroup(name, groups)
        except UsageError as error:
            found.append(f"{loaded.places['nodegroups'].position()}: 'nodegroups': {error}")
    return found
