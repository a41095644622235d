"""Which process has a file open, found in /proc: who holds a lock that a program only says is held.

What belongs here: looking at the files of processes. It knows no lock and no program.
"""

from __future__ import annotations

import os


def holder(path: str) -> str:
    """The process that has the file open, as it stands behind a word: ` (process 12, name)`; an empty text for none.

    Processes of other users can be looked at by root only.
    """
    wanted = os.path.realpath(path)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{number}") == wanted:
                    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
                        return f" (process {pid}, {stream.read().strip()})"
        except OSError:
            continue  # it has ended meanwhile, or is not ours to look at
    return ""
