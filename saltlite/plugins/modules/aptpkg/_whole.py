"""Files written whole or not at all."""

from __future__ import annotations

import os

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules._safe_files import write_whole

NEW_MODE = 0o644
"""apt reads its sources, and checks signatures, as a user without rights."""


def write(path: str, data: bytes) -> None:
    """Put `data` in the place of a file, which keeps its owner and mode; symbolic links are followed.

    Raises CommandExecutionError, and then the file is as it was.
    """
    write_whole(path, data, new_mode=NEW_MODE)


def remove(path: str) -> None:
    """Remove a file. Raises CommandExecutionError."""
    try:
        os.unlink(path)
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be removed: {error.strerror}.") from error
