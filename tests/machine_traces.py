"""What machines of namespaces need, and what they leave on this host: for tests that may leave nothing."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from saltlite.cloud.machines.limits import folders_of


def why_not() -> str:
    """Why no machine can be made here; empty when one can."""
    if platform.system() != "Linux":
        return "machines are made of Linux' namespaces"
    if os.geteuid() != 0:
        return "only root makes machines of namespaces"
    if shutil.which("ip") is None:
        return "there is no ip(8) here"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--net", "--uts", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"this host makes no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


WHY_NOT = why_not()
needs_machines = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "machines can be made")


def traces(folder: Path, within_s: float = 2.0) -> list[str]:
    """What there is of machines whose folder is `folder`, or is below it: processes, mounts and files.

    A machine of somebody else that starts just now has every mount of this host for a moment: this looks again until
    nothing is found, or the time is over.
    """
    deadline = time.monotonic() + within_s
    while True:
        found = [str(path) for path in folder.rglob("*")] if folder.is_dir() else []
        found += [f"process {pid}, or mounts that it sees" for pid in _seeing(str(folder))]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def _seeing(folder: str) -> list[str]:
    """The processes that have a mount at or from below the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if folder in Path(f"/proc/{pid}/mountinfo").read_text():
                found.append(pid)
    return found


def traces_of(uid: str) -> list[str]:
    """What there is of one machine that belongs to the kernel: its interface and control group."""
    return [group for group in folders_of(f"saltlite-machine-{uid}") if os.path.isdir(group)] + [
        name for name, label in labels().items() if uid in label
    ]


def labels() -> dict[str, str]:
    """Interface of this host -> what is written on it."""
    found = {}
    for path in Path("/sys/class/net").iterdir():
        with contextlib.suppress(OSError):
            found[path.name] = (path / "ifalias").read_text().strip()
    return found
