"""Memory that a short process writes to once."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from saltlite.adapters.process import LARGE_BYTES, expect_large

HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PAGE = 4096


def faults_of(size: int, *, prepared: bool) -> int:
    """Page faults of a process that writes to so many bytes, in thousands, rounded up."""
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            if prepared:
                expect_large()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            large = bytearray(size)
            large[::PAGE] = b"x" * (size // PAGE)
            status = min(255, -(-(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 1000))
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(
    not HUGE.exists() or "[madvise]" not in HUGE.read_text(), reason="this kernel gives huge pages to all or to nobody"
)
def test_large_memory_comes_in_few_faults_once_it_is_expected() -> None:
    size = LARGE_BYTES // 4
    assert faults_of(size, prepared=True) < faults_of(size, prepared=False)
