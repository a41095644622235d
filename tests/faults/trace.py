"""One line of a run's history, written by whatever process saw it: in one call, so that lines never mix."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any


def note(path: str, kind: str, **fields: Any) -> None:
    """Append an event in the form that `tests.support.guarantees.History.load` reads, in monotonic seconds."""
    line = json.dumps({"at": time.monotonic(), "kind": kind, **fields}) + "\n"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def digest_of(body: bytes) -> str:
    """What stands for a value in events; "" for an end without one."""
    return hashlib.sha256(body).hexdigest() if body else ""
