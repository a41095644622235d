"""The state of a rate limiter that several processes share, in a table in shared memory.

The table is made before the processes are forked. A row is eight bytes of the key's hash, and a time. No lock is taken:
if two processes write the same row within one microsecond, one of the two changes is lost.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Hashable

ROWS = 4096
"""Keys that are remembered."""
ROWS_OF_KEY = 8
"""Rows that one key may use; if other keys use all of them, the one that is full soonest is forgotten."""

_ROW = struct.Struct("=Qd")


class SharedFillTimes:
    """Implements `saltlite.limits.FillTimes`."""

    def __init__(self) -> None:
        self._table = mmap.mmap(-1, ROWS * _ROW.size)

    def get(self, key: Hashable) -> float:
        mark, offsets = _rows_of(key)
        return max((full_at for found, full_at in map(self._row, offsets) if found == mark), default=0.0)

    def put(self, key: Hashable, full_at: float) -> None:
        mark, offsets = _rows_of(key)
        used = [offset for offset in offsets if self._row(offset)[0] == mark]
        offset = used[0] if used else min(offsets, key=lambda each: self._row(each)[1])
        _ROW.pack_into(self._table, offset, mark, full_at)

    def _row(self, offset: int) -> tuple[int, float]:
        mark, full_at = _ROW.unpack_from(self._table, offset)
        return mark, full_at


def _rows_of(key: Hashable) -> tuple[int, list[int]]:
    mark = int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big") or 1
    return mark, [(mark + number) % ROWS * _ROW.size for number in range(ROWS_OF_KEY)]
