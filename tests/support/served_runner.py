"""Stands in for `saltlite.api.runner_process --serve`: each call does what its function names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial

from saltlite.wire.framing import LENGTH, framed, read_frame, unpack

WAIT_S = 60.0


def main() -> None:
    """Serve calls until one of them is the last."""
    calls = 0
    while (data := read_frame(partial(os.read, 0))) is not None:
        wanted, calls = unpack(data), calls + 1
        more = wanted["fun"] != "t.last"
        match wanted["fun"]:
            case "t.dies":
                print("no room", file=sys.stderr, flush=True)
                return
            case "t.hangs":
                with subprocess.Popen(["sleep", str(WAIT_S)]) as child, open(wanted["args"][0], "w") as out:
                    out.write(str(child.pid))
                    out.flush()
                    child.wait()
            case "t.waits":
                give_up_at = time.monotonic() + WAIT_S
                while not os.path.exists(wanted["args"][0]) and time.monotonic() < give_up_at:
                    time.sleep(0.01)
            case "t.floods":
                os.write(1, LENGTH.pack(2**31))
            case "t.garbles":
                os.write(1, framed(b"{"))
                continue
            case "t.lacks":
                os.write(1, framed(b"{}"))
                continue
        value = {"pid": os.getpid(), "calls": calls, "token": wanted["token"]}
        os.write(1, framed(json.dumps({"value": value, "retcode": 0, "more": more}).encode()))


if __name__ == "__main__":
    main()
