"""Disks that are small, full, or broken: a tmpfs below a folder, and `strace` that lets system calls fail."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.fleet import wait_until

MIB = 1024 * 1024
FILLER = "filler"


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of `size` bytes at `folder`; the test is skipped where it cannot be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    options = f"size={size},mode=0700"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        # Lazily: a process of the fleet that has not quite ended may still have a file open.
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path, *, leave: int = 0) -> None:
    """Take all its room, but for `leave` bytes."""
    room = os.statvfs(folder)
    size = room.f_bavail * room.f_frsize - leave
    with (folder / FILLER).open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while size > 0:
            size -= file.write(b"\0" * min(size, MIB))


def empty(folder: Path) -> None:
    """Give the room back."""
    (folder / FILLER).unlink()


@contextlib.contextmanager
def failing_syncs(pids: Sequence[int], error: str = "EIO") -> Iterator[None]:
    """While inside, fsync and fdatasync of these processes and of those that they fork fail with this errno."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    calls = "fsync,fdatasync"
    injected = ["-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
    tracer = subprocess.Popen(["strace", *injected, *(word for pid in pids for word in ("-p", str(pid)))])
    try:
        wait_until(lambda: tracer.poll() is not None or all(map(_traced, pids)), "strace is attached")
        if tracer.returncode is not None:
            pytest.skip("strace may not attach to processes here")
        yield
    finally:
        tracer.terminate()
        tracer.wait()


def _traced(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return status.partition("TracerPid:")[2].split()[0] != "0"
