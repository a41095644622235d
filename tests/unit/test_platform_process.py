"""Names, parents and identities of processes, as the kernel shows them."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from saltlite.platform.process import (
    TITLE_BYTES,
    freeze_heap,
    raise_open_files,
    set_parent_death_signal,
    set_title,
    start_ticks,
    unmap_clean_pages,
)


def in_child(work: Callable[[], str]) -> str:
    """What `work` returned in a forked process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, work().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


@pytest.mark.parametrize(
    ("title", "shown"),
    [("saltlite-link", "saltlite-link"), ("x" * 40, "x" * TITLE_BYTES), ("é" * 20, "é" * 7)],
)
def test_the_title_is_what_the_kernel_shows_cut_between_characters(title: str, shown: str) -> None:
    def work() -> str:
        set_title(title)
        return Path("/proc/self/comm").read_text()

    assert in_child(work) == f"{shown}\n"


def test_a_child_dies_with_its_parent() -> None:
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        here = os.getpid()
        child = os.fork()
        if child == 0:
            os.close(reading)
            set_parent_death_signal(signal.SIGKILL, here)
            os.write(writing, b"ready")
            signal.pause()
        os.close(writing)
        os.read(reading, 5)
        os._exit(0)
    os.close(writing)
    os.waitpid(parent, 0)
    # The pipe ends only when the last process that holds its writing end is dead.
    with os.fdopen(reading) as pipe:
        assert pipe.read() in ("", "ready")


def test_a_child_whose_parent_died_before_it_asked_gets_the_signal_at_once() -> None:
    pid = os.fork()
    if pid == 0:
        set_parent_death_signal(signal.SIGKILL, 1 << 30)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_start_ticks_name_a_process_as_long_as_it_lives() -> None:
    mine = start_ticks(os.getpid())
    assert mine is not None
    assert start_ticks(os.getpid()) == mine
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        set_title(") R 1 (x")
        os.write(writing, b"x")
        signal.pause()
    os.read(reading, 1)
    child = start_ticks(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    zombie = start_ticks(pid)
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)
    assert child is not None
    assert child >= mine
    assert zombie is None
    assert start_ticks(pid) is None


def test_the_limit_of_descriptors_is_raised_but_not_beyond_the_hard_one() -> None:
    def work() -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))
        raised = raise_open_files(100), raise_open_files(1000), raise_open_files(50)
        return f"{raised} {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}"

    assert in_child(work) == "(100, 200, 200) 200"


def test_a_frozen_heap_is_not_looked_at_by_the_collector() -> None:
    def work() -> str:
        freeze_heap()
        return str(gc.get_freeze_count() > 1000)

    assert in_child(work) == "True"


def test_a_trimmed_heap_gives_free_memory_between_blocks_back() -> None:
    script = (
        "import sys\n"
        "from saltlite.platform.process import trim_heap\n"
        "blocks = [bytes([1]) * 6000 for _ in range(5000)]\n"
        "kept = blocks[::100]; del blocks\n"
        "if sys.argv[1] == 'trimmed': trim_heap()\n"
        "print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmRSS')))\n"
    )
    sizes = {
        way: int(subprocess.run([sys.executable, "-c", script, way], capture_output=True, check=True, text=True).stdout)
        for way in ("trimmed", "default")
    }
    assert sizes["trimmed"] + 20_000 < sizes["default"]


def test_freed_large_blocks_return_to_the_kernel() -> None:
    # Without the call glibc raises its threshold with the first freed block, and what follows stays in the heap.
    script = (
        "import sys\n"
        "from saltlite.platform.process import return_freed_memory\n"
        "if sys.argv[1] == 'returned': return_freed_memory()\n"
        "large = bytes(20_000_000); del large\n"
        "pieces = [bytes([1]) * 1_000_000 for _ in range(40)]\n"
        "kept = pieces.pop(); small = [b'x' * 600 for _ in range(2000)]; del pieces\n"
        "print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmRSS')))\n"
    )
    sizes = {
        way: int(subprocess.run([sys.executable, "-c", script, way], capture_output=True, check=True, text=True).stdout)
        for way in ("returned", "default")
    }
    assert sizes["returned"] + 20_000 < sizes["default"]


def resident(address: int) -> int:
    """KiB of memory behind the mapping at that address."""
    smaps = Path("/proc/self/smaps").read_text()
    return int(re.findall(r"Rss: +(\d+)", smaps[smaps.index(f"{address:08x}-") :])[0])


def test_pages_of_a_file_are_unmapped_unless_this_process_has_changed_or_may_change_them(tmp_path: Path) -> None:
    size = 16 * mmap.PAGESIZE
    path = tmp_path / "library"
    path.write_bytes(b"read" * (size // 4))

    def work() -> str:
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        with path.open("rb") as file:
            clean, changed, writable = (
                libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, file.fileno(), 0)
                for _ in range(3)
            )
        ctypes.memmove(changed, b"kept", 4)
        for address in (clean, changed):
            libc.mprotect(ctypes.c_void_p(address), size, mmap.PROT_READ)
        for address in (clean, writable):
            ctypes.string_at(address, 4)
        before = [resident(address) > 0 for address in (clean, changed, writable)]
        unmap_clean_pages()
        after = [resident(address) > 0 for address in (clean, changed, writable)]
        return f"{before} {after} {[ctypes.string_at(address, 4) for address in (clean, changed, writable)]}"

    assert in_child(work) == "[True, True, True] [False, True, True] [b'read', b'kept', b'read']"
