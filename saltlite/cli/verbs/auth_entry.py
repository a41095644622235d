"""`saltlite auth entry`."""

from __future__ import annotations

import getpass
import os
import re
import sys
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS, parse_descriptor
from saltlite.cli.options import Option, Table
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

MEMORY_KIB, ITERATIONS, LANES, LENGTH = 19_456, 2, 1, 32
"""Parameters of Argon2id, the least that OWASP's Password Storage Cheat Sheet recommends: 19 MiB and 25 ms a login."""

_NAME = re.compile(r"[^\s:#,][^\s:,]*")


def run(argv: Sequence[str], console: Console) -> int:
    """Print the line of a user for the file that master option auth_file names; the password is asked for, or read."""
    parsed = Table(
        *COMMANDS["auth entry"],
        (
            Option("--group", metavar="NAME", many=True, help="a group that the user is in"),
            Option("--password-fd", metavar="N", convert=parse_descriptor, help="read the password there; 0 is stdin"),
        ),
    ).parse(argv)
    names = [*parsed.words, *parsed.options.get("group", [])]
    if len(parsed.words) != 1 or not all(map(_NAME.fullmatch, names)):
        raise UsageError("say one name, without blanks, colons and commas: saltlite auth entry fred")
    password = _password(parsed.options.get("password_fd"), console)
    if not password:
        raise UsageError("the password is empty")
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    made = Argon2id(
        salt=os.urandom(16), length=LENGTH, iterations=ITERATIONS, lanes=LANES, memory_cost=MEMORY_KIB
    ).derive_phc_encoded(password)
    groups = ",".join(parsed.options.get("group", []))
    console.data(f"{parsed.words[0]}:{made}{':' + groups if groups else ''}\n")
    return exitcodes.OK


def _password(descriptor: int | None, console: Console) -> bytes:
    if descriptor is not None:
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.readline(4096).rstrip(b"\r\n")
        except OSError as error:
            raise UsageError(f"no password could be read from descriptor {descriptor}: {error.strerror}") from error
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask for the password: give it on a descriptor, as in --password-fd 0")
    first, second = getpass.getpass("password: "), getpass.getpass("again: ")
    if first != second:
        raise UsageError("the two are not the same")
    console.note("saltlite: append the line to the file that auth_file names, of mode 0600")
    return first.encode()
