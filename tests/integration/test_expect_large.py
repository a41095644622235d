"""Memory that a short process writes to once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")

ASKS = """
import ctypes
from pathlib import Path
from saltlite.platform.process import LARGE_BYTES, expect_large

if {prepared}:
    expect_large()
large = bytearray(LARGE_BYTES // 4)
address = ctypes.addressof(ctypes.c_char.from_buffer(large, len(large) // 2))
inside = False
for line in Path("/proc/self/smaps").read_text().splitlines():
    first = line.split(maxsplit=1)[0]
    if not first.endswith(":"):
        begin, end = (int(edge, 16) for edge in first.split("-"))
        inside = begin <= address < end
    elif inside and first == "VmFlags:":
        print("hg" in line.split())
"""


def is_asked_for_in_huge_pages(*, prepared: bool) -> bool:
    """Whether the kernel was told to use huge pages, if it has any, for what a fresh process asks for."""
    script = ASKS.format(prepared=prepared)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.skipif(
    not HUGE.exists() or "[madvise]" not in HUGE.read_text(), reason="this kernel gives huge pages to all or to nobody"
)
def test_large_memory_is_asked_for_in_huge_pages_once_it_is_expected() -> None:
    assert is_asked_for_in_huge_pages(prepared=True)
    assert not is_asked_for_in_huge_pages(prepared=False)
