"""The tree of this machine, as root of a program that may change all of it: nothing that it writes outlives it.

An overlay in memory lies over the root file system in namespaces of mounts and processes, so a package is installed by
the real dpkg, with the real database, in a second. A saltlite that this machine has is not in it. It needs root.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

_ENTER = """
set -e
mount --make-rprivate /
mkdir -p "$1"
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/tmp"
mount -t tmpfs tmpfs "$1/root/run"
rm -rf "$1/root"/opt/saltlite "$1/root"/etc/saltlite "$1/root"/var/*/saltlite
mkdir "$1/root/tmp/in"
mount --bind "$2" "$1/root/tmp/in"
exec chroot "$1/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root sh -euc "$3"
"""


_PROBE = """
mount -t tmpfs t /mnt
cd /mnt
mkdir u w r
mount -t overlay o -o lowerdir=/,upperdir=u,workdir=w r
"""


def in_tree(folder: Path, given: Path, script: str, timeout: float = 500) -> str:
    """Run a shell script in the tree, where the folder `given` is /tmp/in; what it printed.

    `folder` is a place for the mounts. Raises AssertionError with all output if the script fails.
    """
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", _ENTER, "sh"]
    done = subprocess.run(
        [*command, str(folder), str(given), script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@cache
def is_possible() -> bool:
    """Whether this machine lets this process have such a tree."""
    if shutil.which("unshare") is None:
        return False
    probe = subprocess.run(["unshare", "--mount", "sh", "-euc", _PROBE], capture_output=True, check=False)
    return probe.returncode == 0
