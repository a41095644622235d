"""Whether code from a folder may be run with the rights of the person at the command line."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from saltlite.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable


def require_trusted(folders: Iterable[str]) -> None:
    """Return when each folder that exists can be changed by root, its own user and no other.

    An operator is mostly root, and the master's processes are not: what they could write must not become code that
    root runs (S10). Raises RefusedError, which names the folder and how to mend it.
    """
    for folder in folders:
        try:
            found = os.stat(folder)
        except OSError:
            continue  # nothing is loaded from it then
        if found.st_uid not in (0, os.geteuid()):
            raise RefusedError(
                f"{folder} belongs to user {found.st_uid}, who could have you run any code: "
                f"`chown -R {os.geteuid()} {folder}` when you trust what is in it, or take it out of the configuration"
            )
        if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())):
            raise RefusedError(
                f"others may write to {folder}, and could have you run any code: `chmod go-w {folder}` when you trust "
                "what is in it"
            )
