"""Users of this machine as it names them, with their groups."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterable


def name_of(uid: int) -> str:
    """The name of a user; `uid-1234` for one that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


def groups_of(user: str) -> frozenset[str]:
    """The names of all groups of a user; none of one that there is not."""
    try:
        gids = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except (KeyError, ValueError):  # a name with a NUL is a ValueError
        return frozenset()
    return frozenset(_names(gids))


def _names(gids: Iterable[int]) -> Iterable[str]:
    for gid in gids:
        try:
            yield grp.getgrgid(gid).gr_name
        except KeyError:
            continue


def uid_of(user: str) -> int:
    """The uid of a user; -1, which nobody has, when there is none of that name."""
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return -1
