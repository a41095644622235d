"""Whether code from a folder may be run with the rights of the person at the command line."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from saltlite.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable


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
