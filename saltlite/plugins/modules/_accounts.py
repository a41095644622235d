"""Users, groups and password hashes, as `user`, `group`, `shadow` and other modules read them.

The account files `/etc/passwd`, `/etc/group` and `/etc/shadow` are also read below another root, where no name service
is asked. Hashes are made by the system's libcrypt.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Iterator
from typing import Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _programs

PASSWD_FIELDS = 7
GROUP_FIELDS = 4
SHADOW_FIELDS = 9

_NEW_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*\$?", re.ASCII)


def failed(context: dict[str, Any], sentence: str) -> bool:
    """Let the call whose `__context__` this is fail as Salt's functions do: False is its value, and here its return
    code is 1 and the sentence its note."""
    context["retcode"] = 1
    note(sentence)
    return False


def succeeds(context: dict[str, Any], argv: list[Any], stdin: str | None = None) -> bool:
    """Run a program; `failed` with what it said if it fails."""
    try:
        _programs.checked(argv, stdin=stdin)
    except CommandExecutionError as error:
        return failed(context, str(error))
    return True


def in_root(root: str | None) -> list[str]:
    """The option with which programs of the shadow suite use the files below `root`."""
    return [] if root is None else ["--root", root]


def user_name(name: Any) -> str:
    """The name of a user. Raises SaltInvocationError if it is invalid."""
    return _programs.name(name, "user", without="/:,")


def group_name(name: Any) -> str:
    """The name of a group. Raises SaltInvocationError if it is invalid."""
    return _programs.name(name, "group", without="/:,")


def new_name(name: Any, what: str) -> str:
    """The name of a new `what` (user or group). Raises SaltInvocationError if it is invalid.

    Only safe names are accepted: some systems accept others, which scripts may then execute.
    """
    found = _programs.name(name, what, without="/:,")
    if not _NEW_NAME.fullmatch(found):
        raise SaltInvocationError(f"{found!r} is not the name of a {what}: use ASCII letters, digits and _ . - + @.")
    return found


def users(root: str | None) -> list[pwd.struct_passwd]:
    """All users; on this machine from its name service."""
    if root is None:
        return pwd.getpwall()
    return [
        pwd.struct_passwd((row[0], row[1], int(row[2]), int(row[3]), *row[4:PASSWD_FIELDS]))
        for row in _rows(root, "passwd", PASSWD_FIELDS)
        if row[2].isdecimal() and row[3].isdecimal()
    ]


def user(name: str, root: str | None) -> pwd.struct_passwd | None:
    """One user; None if there is none."""
    if root is not None:
        return next((one for one in users(root) if one.pw_name == name), None)
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def groups(root: str | None) -> list[grp.struct_group]:
    """All groups; on this machine from its name service."""
    if root is None:
        return grp.getgrall()
    return [
        grp.struct_group((row[0], row[1], int(row[2]), [one for one in row[3].split(",") if one]))
        for row in _rows(root, "group", GROUP_FIELDS)
        if row[2].isdecimal()
    ]


def group(name: str, root: str | None) -> grp.struct_group | None:
    """One group; None if there is none."""
    if root is not None:
        return next((one for one in groups(root) if one.gr_name == name), None)
    try:
        return grp.getgrnam(name)
    except KeyError:
        return None


def passwords(root: str | None) -> Iterator[list[str]]:
    """The rows of `/etc/shadow`, nine fields each. Raises CommandExecutionError if it cannot be read."""
    for row in _rows(root or "/", "shadow", 2):
        yield (row + [""] * SHADOW_FIELDS)[:SHADOW_FIELDS]


def _rows(root: str, file: str, fields: int) -> Iterator[list[str]]:
    path = os.path.join(root, "etc", file)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            rows = [line.rstrip("\n").split(":") for line in stream]
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise CommandExecutionError(f"Only root can read {path}, and this minion runs as another user.") from error
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}.") from error
    yield from (row for row in rows if len(row) >= fields and row[0])


# --- password hashes by libcrypt: Python has no module for them since 3.13


ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The characters of salts, 64."""

LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", "libc.so")
"""Libraries with `crypt`: of glibc, of libxcrypt, and musl's libc."""

PREFIXES = {
    "sha512": ("$6$", 16),
    "sha256": ("$5$", 16),
    "blowfish": ("$2b$12$", 22),
    "md5": ("$1$", 8),
    "crypt": ("", 2),
}
"""Algorithm -> prefix of its salts, and number of random characters after it."""

_ROUNDS = {"blowfish": ""}
"""Algorithm -> prefix of the number of rounds in a salt, if it is not `rounds=`."""


def hashed(password: str, algorithm: str, salt: str | None = None) -> str:
    """The hash of a password. Raises SaltInvocationError, and CommandExecutionError if libcrypt cannot make it."""
    if algorithm not in PREFIXES:
        raise SaltInvocationError(f"{algorithm!r} is not an algorithm: use {', '.join(PREFIXES)}.")
    if "\x00" in password:
        raise SaltInvocationError("A password cannot have a NUL character.")
    prefix, size = PREFIXES[algorithm]
    if salt is None:
        salt = "".join(ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(size))
        # Only two bits of the last character of a blowfish salt are used, and libcrypt refuses others.
        salt = salt[:-1] + "." if algorithm == "blowfish" else salt
    elif not re.fullmatch(rf"(?:{_ROUNDS.get(algorithm, 'rounds=')}[0-9]+\$)?[./0-9A-Za-z_]+", salt, re.ASCII):
        raise SaltInvocationError(f"{salt!r} is not a salt: only letters, digits, dots and slashes are allowed.")
    elif algorithm == "blowfish" and "$" in salt:
        prefix = "$2b$"  # the salt begins with its number of rounds
    made = _crypt()(password.encode(), f"{prefix}{salt}".encode())
    if not made or made.startswith(b"*"):
        raise CommandExecutionError(f"The libcrypt of this machine cannot make a {algorithm} hash with this salt.")
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
