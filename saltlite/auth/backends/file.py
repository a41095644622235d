"""
Names and Argon2id hashes in a file of their own, which master option ``auth_file`` names.

A line is ``name:hash`` or ``name:hash:group,group``; ``saltlite auth entry NAME`` makes one. The file belongs to root,
or to whoever starts the master, and no other user may read it.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__

try:
    from cryptography.exceptions import InvalidKey
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    HAS_ARGON2 = True
except ImportError:
    HAS_ARGON2 = False

_NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$4RpbfAb+US+r66fXuVipVw$vkmSraj41FVWSGBouesde70XSrxR2R+XUZcDrU6m8Ek"
"""A hash for unknown names, so that the response time does not reveal which names exist."""


def __virtual__() -> bool | tuple[bool, str]:
    """Only where Argon2id can be computed."""
    if not HAS_ARGON2:
        return False, "Argon2id takes the Python package cryptography 45 or newer"
    return True


def auth(username: str, password: str, **kwargs: Any) -> bool:
    """
    Whether the file has the name with this password.

    CLI Example: ``saltlite -T -a file '*' test.ping``
    """
    del kwargs
    found = _entries().get(username)
    hashed = found[0] if found is not None else _NOBODY
    try:
        Argon2id.verify_phc_encoded(password.encode(), hashed)
    except InvalidKey:
        return False
    return found is not None


def groups(username: str, **kwargs: Any) -> list[str]:
    """
    The groups that the file gives the user.

    CLI Example: ``saltlite acl explain file:fred '*' test.ping``
    """
    del kwargs
    return list(_entries().get(username, ("", ()))[1])


def _entries() -> dict[str, tuple[str, tuple[str, ...]]]:
    """name -> (hash, groups). Raises CommandExecutionError for a file that others may read or write."""
    path = str(__opts__["auth_file"])
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o077:
            raise CommandExecutionError(f"{path} must be a file of root that no other user may read: chmod 600 {path}")
        lines = file.read().splitlines()
    entries: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in lines:
        name, colon, rest = line.strip().partition(":")
        hashed, _, listed = rest.partition(":")
        if colon and not name.startswith("#"):
            entries[name] = (hashed, tuple(group for group in listed.split(",") if group))
    return entries
