"""An execution module that notes when it is entered and left, where a run keeps its history."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__


def run(trace: str, seconds: float = 0.0, size: int = 0, **about: Any) -> dict[str, Any]:
    """Note the entry in the file `trace`, take so long, note the end; who ran it, and a text of `size` bytes.

    CLI Example::

        saltlite '*' steps.run /tmp/trace 0.5
    """
    minion, jid = str(__opts__["id"]), str(about["__pub_jid"])
    _note(trace, "entered", jid, minion)
    time.sleep(seconds)
    _note(trace, "left", jid, minion)
    return {"minion": minion, "pid": os.getpid(), "text": "x" * size}


def _note(trace: str, kind: str, jid: str, minion: str) -> None:
    fields = {"at": time.monotonic(), "kind": kind, "jid": jid, "minion": minion, "run": os.getpid()}
    fd = os.open(trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(fd, json.dumps(fields).encode() + b"\n")
    finally:
        os.close(fd)
