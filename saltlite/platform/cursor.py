"""A small file that says where a reader of the event log stands; replaced as a whole, and synced."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from saltlite.errors import StoreError


class CursorFile:
    """One file; `read` of what is missing or damaged is empty, which means to begin anew."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        """What was written last."""
        try:
            with open(self._path, "rb") as file:
                found = json.loads(file.read())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, what: dict[str, Any]) -> None:
        """Replace it. Raises StoreError."""
        fresh = f"{self._path}.new"
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(json.dumps(what).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from error
