"""The digest of a file on this machine."""

from __future__ import annotations

import hashlib


def digest_of(path: str) -> bytes:
    """The SHA-256 of a file, b"" when there is no such file. Raises OSError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return b""
