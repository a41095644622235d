"""The pillar that a minion was given last, for `saltlite call`, where the configuration wants it kept.

One file that its owner alone can read; whoever may not read it has no pillar.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from saltlite.errors import CommandExecutionError, ProtocolError
from saltlite.wire.codec import decode_document, encode_document

FILE = "pillar"


def keep_pillar(cachedir: str, pillar: Mapping[str, Any]) -> None:
    """Keep it in place of the one before. Raises CommandExecutionError when it cannot be written."""
    path = os.path.join(cachedir, FILE)
    fresh = f"{path}.new"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:
            stream.write(encode_document(pillar))
        os.replace(fresh, path)
    except OSError as error:
        raise CommandExecutionError(f"the pillar cannot be kept in {path}: {error.strerror}") from error


def forget_pillar(cachedir: str) -> None:
    """Keep none."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(cachedir, FILE))


def kept_pillar(cachedir: str) -> dict[str, Any]:
    """What is kept; nothing when nothing is. Raises CommandExecutionError when it is there and cannot be read."""
    path = os.path.join(cachedir, FILE)
    try:
        with open(path, "rb") as stream:
            return decode_document(stream.read())
    except FileNotFoundError:
        return {}
    except (OSError, ProtocolError) as error:
        raise CommandExecutionError(f"the pillar in {path} cannot be read: {error}") from error
