"""The command line of the daemons, and how they report a failed start."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from saltlite import __version__
from saltlite.config.paths import DEFAULT_CONFIG_DIR, require_path
from saltlite.errors import SaltliteError, UsageError


def options(program: str, what: str, argv: list[str] | None) -> argparse.Namespace:
    """Parse a daemon's command line: `config_dir`."""
    parser = argparse.ArgumentParser(prog=program, description=what, allow_abbrev=False)
    parser.add_argument(
        "-c",
        "--config-dir",
        default=DEFAULT_CONFIG_DIR,
        metavar="DIR",
        type=_folder,
        help=f"default: {DEFAULT_CONFIG_DIR}",
    )
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    return parser.parse_args(argv)


def _folder(text: str) -> str:
    try:
        return require_path(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def reported(program: str, run: Callable[[], None]) -> int:
    """Run the daemon; an error becomes one sentence on stderr and its exit code."""
    try:
        run()
    except SaltliteError as error:
        print(f"{program}: {error}", file=sys.stderr)  # noqa: T201 - the log may not exist yet
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0
