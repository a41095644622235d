"""Stands in for the program of one runner: it says that it is there, waits for a file `go`, and answers.

`python -m tests.support.slow_runner`, with the call on stdin as `saltlite.api.runner_process` gets it; the
first argument of the call is the folder where all of them meet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from saltlite.wire.framing import unpack

WAIT_S = 60.0


def main() -> None:
    """Wait, with a child that would wait for longer."""
    folder = Path(unpack(sys.stdin.buffer.read())["args"][0])
    mine = folder / f"running-{os.getpid()}"
    with subprocess.Popen(["sleep", str(2 * WAIT_S)], stdout=subprocess.DEVNULL) as child:
        mine.write_text(str(child.pid))
        (folder / f"peak-{len(list(folder.glob('running-*')))}").touch()
        give_up_at = time.monotonic() + WAIT_S
        while not (folder / "go").exists() and time.monotonic() < give_up_at:
            time.sleep(0.01)
        child.kill()
    mine.unlink()
    json.dump({"value": None, "retcode": 0}, sys.stdout)


if __name__ == "__main__":
    main()
