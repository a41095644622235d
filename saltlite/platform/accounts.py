"""Users of this machine as it names them, with their groups."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable

from saltlite.errors import RefusedError


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


def require_trusted(folders: Iterable[str]) -> None:
    """Return when each folder that exists, and each folder in it, can be changed by root, its own user and no other.

    An operator is mostly root, and the master's processes are not: what they could write must not become code that
    root runs (S10). Raises RefusedError, which names the folder and how to mend it.
    """
    for folder in folders:
        for path in [folder, *_inside(folder)]:
            try:
                found = os.stat(path)
            except OSError:
                continue  # nothing is loaded from it then
            _check(path, found)


def _inside(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _check(path: str, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise RefusedError(
            f"{path} belongs to user {found.st_uid}, who could have you run any code: "
            f"`chown -R {os.geteuid()} {path}` when you trust what is in it, or take it out of the configuration"
        )
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())):
        raise RefusedError(
            f"others may write to {path}, and could have you run any code: `chmod go-w {path}` when you trust "
            "what is in it"
        )
