"""A Python that another user can run: a way to start a command so that the path to the interpreter is open to all.

The interpreter of a developer often lives in a folder that is closed to others. The command is then started in a mount
namespace of its own, in which the first closed folder of the path holds nothing but what is needed.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

OTHER = "nobody"

_OPEN = """
set -e
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
for pair in $1; do
    closed=${pair%%=*} needed=${pair#*=}
    mkdir -p "$work/x"; mount --bind "$needed" "$work/x"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$needed"; mount --bind "$work/x" "$needed"; umount "$work/x"
done
umount "$work"; rmdir "$work"
shift
exec "$@"
"""


def closed_folders() -> dict[Path, Path]:
    """Closed folder -> the folder below it that the interpreter needs."""
    found: dict[Path, Path] = {}
    for needed in {Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[1]}:
        real = needed.resolve()
        closed = [one for one in reversed(real.parents) if not one.stat().st_mode & stat.S_IXOTH]
        if closed:
            found[closed[0]] = real
    return found


def opening() -> list[str | Path]:
    """What to put in front of a command."""
    pairs = " ".join(f"{closed}={needed}" for closed, needed in closed_folders().items())
    return ["unshare", "-m", "sh", "-c", _OPEN, "sh", pairs] if pairs else []


def why_not() -> str:
    """Why no other user can call functions here; empty when one can."""
    if os.geteuid() != 0:
        return "only root may become another user without a rule in sudoers"
    if shutil.which("sudo") is None:
        return "there is no sudo on this machine"
    tried = subprocess.run(
        [*opening(), "sudo", "-n", "-u", OTHER, "--", sys.executable, "-c", "import msgpack"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"{OTHER} cannot run {sys.executable}: {tried.stderr.strip()[-200:]}" if tried.returncode else ""
