"""How often functions that are no part of their interface were called on this minion, over all its jobs.

One file a function below `<cachedir>/smi`, one byte a call: jobs are processes of their own, and appending a byte is
the count that none of them can get wrong. The time of a file is that of the last call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from saltlite.model.signature import is_function_name

LOG_SECONDS = 60.0
"""A function is logged at most once in that time, however often it is called."""


class UndeclaredCalls:
    """The counts in one folder; "" counts nothing. A folder that cannot be written costs the counts, and no more."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def count(self, name: str) -> bool:
        """Count a call of `module.function`; whether it is the first in LOG_SECONDS."""
        if not self._folder or not is_function_name(name):
            return True
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            descriptor = os.open(os.path.join(self._folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return True
        try:
            before = os.fstat(descriptor)
            os.write(descriptor, b".")
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return before.st_size == 0 or time.time() - before.st_mtime >= LOG_SECONDS

    def counts(self) -> Mapping[str, int]:
        """`module.function` -> calls so far."""
        try:
            with os.scandir(self._folder) as entries:
                return {entry.name: entry.stat().st_size for entry in sorted(entries, key=lambda entry: entry.name)}
        except OSError:
            return {}
