"""Starts a master that counts its SQL statements: `python -m tests.bench.statements FILE -c DIR`.

Every statement that SQLite runs counts, once a row where it is run for many, with BEGIN and COMMIT. The counts are in
shared memory, the file FILE, so that counting adds no system call: each process has the slot of its pid.
"""

from __future__ import annotations

import importlib
import mmap
import os
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from saltlite.master.store.sqlite import connection

SLOT = struct.Struct("<Q")
SLOTS = 4096
TEXTS = "SALTLITE_STATEMENTS"
"""Set in the environment to a folder: each process appends the texts of its statements to the file of its pid there."""


def read(path: Path) -> int:
    """The statements of all processes so far."""
    data = path.read_bytes()
    return sum(count for (count,) in SLOT.iter_unpack(data))


def texts(folder: Path) -> Counter[str]:
    """The statements in the files of TEXTS."""
    return Counter(line for path in folder.iterdir() for line in path.read_text().splitlines())


def main() -> int:
    """Be the master, with counted statements."""
    path, *arguments = sys.argv[1:]
    with open(path, "w+b") as file:
        file.truncate(SLOT.size * SLOTS)
        counts = mmap.mmap(file.fileno(), 0)
    opened = connection.SqliteConnection.__init__

    def counted(self: connection.SqliteConnection, *args: Any, **kwargs: Any) -> None:
        opened(self, *args, **kwargs)
        at = os.getpid() % SLOTS * SLOT.size
        folder = os.environ.get(TEXTS)

        def ran(text: str) -> None:
            SLOT.pack_into(counts, at, SLOT.unpack_from(counts, at)[0] + 1)
            if folder:
                with open(f"{folder}/{os.getpid()}", "a", encoding="utf-8") as out:
                    out.write(" ".join(text.split()) + "\n")

        self._sqlite.set_trace_callback(ran)

    connection.SqliteConnection.__init__ = counted  # type: ignore[method-assign]  # the product has no hook for it
    result: int = importlib.import_module("saltlite_master").main(arguments)
    return result


if __name__ == "__main__":
    sys.exit(main())
