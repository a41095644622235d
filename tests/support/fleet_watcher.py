"""Ends the daemons of a test process once that process is gone, also when it was killed.

Daemons have sessions of their own, so neither Ctrl-C nor the end of the test process reaches them. `watch` starts one
program a test process: this file, as a daemon. It waits for the end of the test process, then ends each process that
has its mark: the value of the variable MARK begins with the pid of the test process. Where the tests have ended their
daemons themselves, there is none.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

MARK = "SALTLITE_E2E"
ROUNDS = 20
PAUSE_S = 0.05


def mark(name: object) -> str:
    """The value of MARK for a group of processes that this test process starts."""
    return f"{os.getpid()}-{name}"


@functools.cache
def watch() -> None:
    """Start the watcher of this process, unless it runs."""
    subprocess.run([sys.executable, "-I", "-S", __file__, str(os.getpid())], check=True, stdin=subprocess.DEVNULL)


def marked(value: bytes) -> list[int]:
    """The processes whose variable MARK begins with `value`."""
    begins = f"{MARK}=".encode() + value
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
            if any(variable.startswith(begins) for variable in file.read().split(b"\0")):
                found.append(int(entry))
    return found


def _watch(pid: int) -> None:
    process = os.pidfd_open(pid)
    if os.fork():
        os._exit(0)
    os.setsid()
    os.closerange(0, process)
    select.select([process], [], [])
    for _ in range(ROUNDS):  # a process may start another one while it is found
        pids = marked(f"{pid}-".encode())
        if not pids:
            return
        for one in pids:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        time.sleep(PAUSE_S)  # at most ROUNDS times; this program imports nothing of the tests


if __name__ == "__main__":
    _watch(int(sys.argv[1]))
