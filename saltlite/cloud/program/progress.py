"""What is done with each machine just now, for a person who waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TextIO

Say = Callable[[str, str], None]
"""Takes the name of a machine, and what is done with it."""


class Lines:
    """A line for each thing that is done: `web1: waits for ssh (3.2 s)`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._began = time.monotonic()

    def __call__(self, machine: str, text: str) -> None:
        self._write(f"{machine}: {text} ({time.monotonic() - self._began:.1f} s)")


class Block:
    """One line for each machine on a terminal, written over when something new is done with it."""

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream = stream
        self._width = max(20, width - 1)
        self._rows: dict[str, str] = {}
        self._began = time.monotonic()
        self._drawn = 0
        self._lock = threading.Lock()

    def __call__(self, machine: str, text: str) -> None:
        with self._lock:
            self._rows[machine] = f"{machine}: {text} ({time.monotonic() - self._began:.1f} s)"
            self._draw()

    def _draw(self) -> None:
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        rows = "".join(f"\r\x1b[2K{row[: self._width]}\n" for row in self._rows.values())
        self._stream.write(f"{up}{rows}")
        self._stream.flush()
        self._drawn = len(self._rows)
