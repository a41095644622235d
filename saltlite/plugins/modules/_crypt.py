"""Hashes of passwords by the system's libcrypt: Python has had no module for it since 3.13.

What belongs here: the salt that an algorithm wants, and the one foreign function.
"""

from __future__ import annotations

import os
import re
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The characters of salts, 64."""

LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", "libc.so")
"""Where `crypt` is: glibc's and libxcrypt's library, musl's libc."""

PREFIXES = {
    "sha512": ("$6$", 16),
    "sha256": ("$5$", 16),
    "blowfish": ("$2b$12$", 22),
    "md5": ("$1$", 8),
    "crypt": ("", 2),
}
"""Algorithm -> what its salts begin with, and how many random characters follow."""

_ROUNDS = {"blowfish": ""}
"""Algorithm -> what stands before the number of rounds in a salt that says it, where that is not `rounds=`."""


def hashed(password: str, algorithm: str, salt: str | None = None) -> str:
    """The hash of a password. Raises SaltInvocationError, and CommandExecutionError where libcrypt does not make it."""
    if algorithm not in PREFIXES:
        raise SaltInvocationError(f"{algorithm!r} is no algorithm: {', '.join(PREFIXES)} are.")
    if "\x00" in password:
        raise SaltInvocationError("A password cannot have a NUL character.")
    prefix, size = PREFIXES[algorithm]
    if salt is None:
        salt = "".join(ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(size))
        # Of the last character of a blowfish salt only two bits count, and libcrypt refuses it where others are set.
        salt = salt[:-1] + "." if algorithm == "blowfish" else salt
    elif not re.fullmatch(rf"(?:{_ROUNDS.get(algorithm, 'rounds=')}[0-9]+\$)?[./0-9A-Za-z_]+", salt, re.ASCII):
        raise SaltInvocationError(f"{salt!r} is no salt: letters, digits, dots and slashes make one.")
    elif algorithm == "blowfish" and "$" in salt:
        prefix = "$2b$"  # the salt begins with its number of rounds
    made = _crypt()(password.encode(), f"{prefix}{salt}".encode())
    if not made or made.startswith(b"*"):
        raise CommandExecutionError(f"The libcrypt of this machine makes no {algorithm} hash with this salt.")
    return bytes(made).decode("ascii")


def _crypt() -> Any:
    import ctypes  # costs milliseconds, and most jobs make no hash

    for name in LIBRARIES:
        try:
            function = ctypes.CDLL(name).crypt
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_char_p
        function.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        return function
    raise CommandExecutionError("This machine has no libcrypt: install it (package libcrypt1, libxcrypt or musl).")
