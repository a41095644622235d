"""Who was wrong too often, counted by several processes together: a table in memory that they share.

It is made before they are forked. A line is eight bytes of a hash of the name, and a time. Nobody takes a lock: when
two processes write the same line within the same microsecond, one wrong guess is not counted.
"""

from __future__ import annotations

import hashlib
import mmap
import struct

from saltlite.auth.guess_rate import Name

LINES = 4096
"""Names that are remembered."""
PLACES = 8
"""Lines that one name may have; when other names have all of them, the one that was wrong longest ago is forgotten."""

_LINE = struct.Struct("=Qd")


class SharedDebts:
    """Implements `saltlite.auth.guess_rate.Debts`."""

    def __init__(self) -> None:
        self._table = mmap.mmap(-1, LINES * _LINE.size)

    def get(self, name: Name) -> float:
        mark, offsets = _places(name)
        return max((until for found, until in map(self._line, offsets) if found == mark), default=0.0)

    def put(self, name: Name, until: float) -> None:
        mark, offsets = _places(name)
        own = [offset for offset in offsets if self._line(offset)[0] == mark]
        offset = own[0] if own else min(offsets, key=lambda each: self._line(each)[1])
        _LINE.pack_into(self._table, offset, mark, until)

    def _line(self, offset: int) -> tuple[int, float]:
        mark, until = _LINE.unpack_from(self._table, offset)
        return mark, until


def _places(name: Name) -> tuple[int, list[int]]:
    mark = int.from_bytes(hashlib.blake2b(repr(name).encode(), digest_size=8).digest(), "big") or 1
    return mark, [(mark + place) % LINES * _LINE.size for place in range(PLACES)]
