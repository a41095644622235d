"""A systemd of a test's own, as the first process of namespaces, and execution modules called beside it.

What belongs here: starting it, calling functions there, ending it. Nothing of the machine can be written from there but
`/etc/systemd/system`, which is a folder of the test's as `/usr/lib/systemd/system` is, and `/run`, which is memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.fleet import WAIT_S

ROOT = Path(__file__).parents[2]

_ENTER = """
set -e
echo $$ >"$GROUP/cgroup.procs"
exec unshare --pid --fork --mount --cgroup --uts --ipc --net sh -c "$BOOT"
"""

_BOOT = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,ro,bind /proc/sys
mount -t tmpfs -o mode=755 tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -o remount,ro,bind /
mount --bind "$UNITS/etc" /etc/systemd/system
mount -o remount,rw,bind /etc/systemd/system
mount --bind "$UNITS/lib" /usr/lib/systemd/system
exec env -i container=test PATH="$PATH" "$SYSTEMD" --system --log-target=null --show-status=no --unit=slt.target
"""

_CALLER = """
import json, sys
from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
index, opts, grains = build_index(search_layers({})), json.loads(sys.argv[1]), json.loads(sys.argv[2])
for line in sys.stdin:
    fun, args, kwargs = json.loads(line)
    outcome = call(Loader(index, {"smi_returns": "strict", **opts}, grains, {}), fun, args, kwargs)
    print(json.dumps([outcome.value, outcome.retcode]), flush=True)
"""


class NoSystemdError(Exception):
    """This machine does not let a test have a systemd of its own; the text says what refused."""


def control_group() -> Path:
    """A new control group below this process's own, so that all that a systemd makes can be removed with it."""
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    mounts = [row[4] for row in rows if row[row.index("-") + 1] == "cgroup2"]
    own = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    if not mounts or not own:
        raise NoSystemdError("there are no control groups of version 2")
    found = Path(f"{mounts[0]}{own[0]}") / f"slt-{os.getpid()}-{time.monotonic_ns()}"
    try:
        found.mkdir()
    except OSError as error:
        raise NoSystemdError(f"no control group can be made: {error}") from error
    return found


class Machine:
    """A running systemd, with a process beside it that calls functions."""

    def __init__(self, units: Path, grains: dict[str, Any], opts: dict[str, Any]) -> None:
        """`units` has folders `lib`, with a `slt.target` to start, and `etc`. Raises NoSystemdError."""
        systemd = shutil.which("systemd") or "/lib/systemd/systemd"
        if os.geteuid() != 0 or not Path(systemd).exists():
            raise NoSystemdError("only root can start one, where it is installed")
        self._group = control_group()
        variables = {"UNITS": str(units), "SYSTEMD": systemd, "GROUP": str(self._group), "BOOT": _BOOT}
        self._outer = subprocess.Popen(
            ["sh", "-c", _ENTER],
            env={"PATH": os.environ["PATH"], **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._caller: subprocess.Popen[str] | None = None
        self._first = 0
        try:
            self._wait_for_boot()
            self._caller = subprocess.Popen(
                [*self._inside(), sys.executable, "-c", _CALLER, json.dumps(opts), json.dumps(grains)],
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'daemons'}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except BaseException:
            self.close()
            raise

    def run(self, fun: str, *args: Any, **kwargs: Any) -> tuple[Any, int]:
        """Value and return code of one call."""
        assert self._caller is not None
        assert self._caller.stdin is not None
        assert self._caller.stdout is not None
        self._caller.stdin.write(json.dumps([fun, args, kwargs]) + "\n")
        self._caller.stdin.flush()
        value, retcode = json.loads(self._caller.stdout.readline())
        return value, retcode

    def ask(self, *words: str) -> str:
        """What systemctl prints there."""
        done = subprocess.run(
            [*self._inside(), "systemctl", *words], capture_output=True, text=True, check=False, timeout=WAIT_S
        )
        return done.stdout.strip()

    def close(self) -> None:
        """End systemd, and with it all that runs there."""
        if self._caller is not None:
            assert self._caller.stdin is not None
            assert self._caller.stdout is not None
            self._caller.stdin.close()
            self._caller.wait(WAIT_S)
            self._caller.stdout.close()
        if self._first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._first, signal.SIGKILL)
        else:
            self._outer.kill()
        self._outer.wait(WAIT_S)
        if self._outer.stderr is not None:
            self._outer.stderr.close()
        deadline = time.monotonic() + WAIT_S
        while self._group.exists() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(self._group, topdown=False):
                with contextlib.suppress(OSError):  # a process of it is not gone yet
                    os.rmdir(folder)
            time.sleep(0.01)

    def _inside(self) -> list[str]:
        return ["nsenter", "--target", str(self._first), "--mount", "--pid", "--net", "--ipc", "--uts"]

    def _wait_for_boot(self) -> None:
        deadline = time.monotonic() + WAIT_S
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        while time.monotonic() < deadline:
            if self._outer.poll() is not None:
                assert self._outer.stderr is not None
                raise NoSystemdError(self._outer.stderr.read().strip() or "it ended at once")
            if not self._first and (found := children.read_text().split()):
                self._first = int(found[0])
            if self._first and self.ask("is-active", "slt.target") == "active":
                return
            time.sleep(0.02)
        raise NoSystemdError(f"it did not start within {WAIT_S:g} s")
