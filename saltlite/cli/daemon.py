"""The command line of the daemons, and how they report a failed start."""

from __future__ import annotations

import sys
from collections.abc import Callable

from saltlite import __version__
from saltlite.config.paths import DEFAULT_CONFIG_DIR, is_url, require_path
from saltlite.errors import SaltliteError, UsageError


def config_dir_of(program: str, what: str, argv: list[str] | None) -> str:
    """The configuration folder of a daemon's command line."""
    match sys.argv[1:] if argv is None else argv:
        case []:
            return DEFAULT_CONFIG_DIR
        case ["-c" | "--config-dir", folder] if not folder.startswith("-") and not is_url(folder):
            return folder
        case words:
            return _parsed(program, what, words)


def _parsed(program: str, what: str, words: list[str]) -> str:
    import argparse  # 1 MiB of each process of the daemon, and the usual command lines need no parser

    def folder(text: str) -> str:
        try:
            return require_path(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    parser = argparse.ArgumentParser(prog=program, description=what, allow_abbrev=False)
    parser.add_argument(
        "-c",
        "--config-dir",
        default=DEFAULT_CONFIG_DIR,
        metavar="DIR",
        type=folder,
        help=f"default: {DEFAULT_CONFIG_DIR}",
    )
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    config_dir: str = parser.parse_args(words).config_dir
    return config_dir


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
