"""`saltlite config check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.configs import config_dir_of, load_side, missing_folders, sides_of
from saltlite.cli.keys import print_answer
from saltlite.config.paths import config_files
from saltlite.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


def run(argv: Sequence[str], console: Console) -> int:
    """Read the files as the daemons do, and print every problem; the daemons need not run."""
    parsed = command_table("config check").parse(argv)
    console.quiet = parsed.on("quiet")
    config_dir = config_dir_of(parsed)
    files: list[str] = []
    problems: list[str] = []
    for side in sides_of(parsed.words, config_dir):
        files += _files(config_dir, side)
        problems += _problems(config_dir, side)
    lines = "".join(f"{line}\n" for line in problems)
    if not problems:
        lines = f"{len(files)} file{'' if len(files) == 1 else 's'}, no problem\n"
    print_answer({"files": files, "problems": problems}, lines, parsed, console)
    return exitcodes.USAGE if problems else exitcodes.OK


def _files(config_dir: str, side: str) -> list[str]:
    try:
        return config_files(config_dir, side)
    except OSError:
        return []  # reading the configuration says what is wrong there


def _problems(config_dir: str, side: str) -> list[str]:
    try:
        return missing_folders(load_side(config_dir, side))
    except ConfigError as error:
        return str(error).split("\n")
