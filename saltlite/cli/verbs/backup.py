"""`saltlite backup` and `saltlite restore`: everything that this machine's master owns, in one file.

Both work on the files of this machine and run as their owner, root, because no process of the master has all keys.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.connect import ask_password
from saltlite.cli.options import Option
from saltlite.cli.output import print_answer
from saltlite.config.load import load_master
from saltlite.config.paths import require_path
from saltlite.errors import UsageError
from saltlite.master.backup.archive import PASSPHRASE_MIN, read_header
from saltlite.master.backup.program import make_backup, restore_backup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

_INSTEAD = "name the file that has it with --passphrase-file"
PASSPHRASE_MAX = 4096
"""Bytes."""
_FROM_FILE = Option(
    "--passphrase-file", metavar="PATH", convert=require_path, help="the file whose first line is the passphrase"
)


def run(argv: Sequence[str], console: Console) -> int:
    """Back up this machine's master, which may run. Raises SaltliteError."""
    parsed = command_table(
        "backup", Option("--encrypt", help="ask for a passphrase and encrypt the file with it"), _FROM_FILE
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    path = _one_file(parsed)
    config_dir = config_dir_of(parsed)
    config = load_master(config_dir).config
    passphrase = _new_passphrase(parsed)
    about = make_backup(config, config_dir, path, passphrase, console.now())
    size = os.stat(path).st_size
    answer = {"file": path, "bytes": size, "fleet": about.fleet, "encrypted": passphrase is not None}
    print_answer(answer, f"{path}: {size} bytes, fleet {about.fleet}\n", parsed, console)
    if passphrase is None:
        console.note(
            "It has the keys of the fleet and the secrets of the configuration in plain text: keep it where only root "
            "reads it, or use --encrypt."
        )
    return exitcodes.OK


def run_restore(argv: Sequence[str], console: Console) -> int:
    """Put a backup back, while the master does not run here. Raises SaltliteError."""
    parsed = command_table(
        "restore",
        Option("--keep-options", help="keep the configuration files of this machine"),
        Option("--replace", help="put a master that is here already aside"),
        _FROM_FILE,
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    path = _one_file(parsed)
    restored = restore_backup(
        path,
        config_dir_of(parsed),
        _known_passphrase(path, parsed),
        keep_options=parsed.on("keep_options"),
        replace=parsed.on("replace"),
        stamp=time.strftime("%Y%m%d-%H%M%S", time.gmtime(console.now())),
    )
    about, config = restored.about, restored.config
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(about.made_at))
    answer = {"fleet": about.fleet, "made_at": about.made_at, "saltlite": about.saltlite, "aside": restored.aside}
    text = f"fleet {about.fleet}, as of {made}, in {config.data_dir} and {config.pki_dir}\n"
    text += "".join(f"put aside: {aside}\n" for aside in restored.aside)
    print_answer(answer, text, parsed, console)
    console.note(
        "Start the master. The other one of this backup must never run again: two masters would share its keys."
    )
    return exitcodes.OK


def _one_file(parsed: Parsed) -> str:
    if len(parsed.words) != 1:
        raise UsageError("name one file, as in saltlite backup /var/backups/saltlite.backup")
    return os.path.abspath(parsed.words[0])


def _new_passphrase(parsed: Parsed) -> bytes | None:
    if parsed.on("passphrase_file"):
        return _long_enough(_first_line(parsed))
    if not parsed.on("encrypt"):
        return None
    passphrase = _long_enough(ask_password("passphrase of the backup: ", _INSTEAD))
    if ask_password("again: ", _INSTEAD) != passphrase:
        raise UsageError("that was another passphrase; no backup was made")
    return passphrase


def _known_passphrase(path: str, parsed: Parsed) -> bytes | None:
    if parsed.on("passphrase_file"):
        return _first_line(parsed)
    try:
        with open(path, "rb") as file:
            encrypted = read_header(file, path)[1]["salt"] is not None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return ask_password("passphrase of the backup: ", _INSTEAD) if encrypted else None


def _first_line(parsed: Parsed) -> bytes:
    path = parsed.options["passphrase_file"]
    try:
        with open(path, "rb") as file:
            return file.readline(PASSPHRASE_MAX).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"--passphrase-file {path} cannot be read: {error.strerror}") from error


def _long_enough(passphrase: bytes) -> bytes:
    if len(passphrase) < PASSPHRASE_MIN:
        raise UsageError(f"a passphrase has {PASSPHRASE_MIN} characters or more")
    return passphrase
