"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile

from saltlite.errors import CommandExecutionError

NEW_MODE = 0o644
"""apt reads its sources, and checks signatures, as a user without rights."""


def write(path: str, data: bytes) -> None:
    """Put `data` in the place of a file, which keeps its owner and mode; symbolic links are followed.

    Raises CommandExecutionError, and then the file is as it was.
    """
    place = os.path.realpath(path)
    made = ""
    try:
        number, made = tempfile.mkstemp(prefix=".", suffix=".new", dir=os.path.dirname(place))
        with open(number, "wb") as stream:
            stream.write(data)
            stream.flush()
            known = os.stat(place) if os.path.exists(place) else None
            os.fchmod(number, known.st_mode & 0o7777 if known else NEW_MODE)
            if known:
                os.fchown(number, known.st_uid, known.st_gid)
            os.fsync(number)
        os.replace(made, place)
    except OSError as error:
        if made:
            with contextlib.suppress(OSError):
                os.unlink(made)
        raise CommandExecutionError(f"{path} cannot be written: {error.strerror}.") from error


def remove(path: str) -> None:
    """Remove a file. Raises CommandExecutionError."""
    try:
        os.unlink(path)
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be removed: {error.strerror}.") from error
