"""Memory that a short process writes to once."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from saltlite.adapters.process import LARGE_BYTES, expect_large

HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def may_be_huge(address: int) -> bool:
    """Whether the kernel was told to use huge pages at this address of this process, if it has any."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if "-" in first and not first.endswith(":"):
            begin, end = (int(edge, 16) for edge in first.split("-"))
            inside = begin <= address < end
        elif inside and first == "VmFlags:":
            return "hg" in line.split()
    return False


def is_asked_for(size: int, *, prepared: bool) -> bool:
    """Whether a process that asks for so many bytes is given memory that may be huge pages."""
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            if prepared:
                expect_large()
            large = bytearray(size)
            status = int(may_be_huge(ctypes.addressof(ctypes.c_char.from_buffer(large, size // 2))))
        finally:
            os._exit(status)
    return bool(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


@pytest.mark.skipif(
    not HUGE.exists() or "[madvise]" not in HUGE.read_text(), reason="this kernel gives huge pages to all or to nobody"
)
def test_large_memory_is_asked_for_in_huge_pages_once_it_is_expected() -> None:
    size = LARGE_BYTES // 4
    assert is_asked_for(size, prepared=True)
    assert not is_asked_for(size, prepared=False)
