"""Target lists as they are stored with a job, and the last ones that were decoded.

A reconnecting fleet asks for the open jobs of ten thousand minions, and each answer carries the same list.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.model.ids import MinionId

AUDIENCES_KEPT = 32
"""Decoded target lists that a reader remembers: one of 10,000 ids takes about 1 MB and 0.5 ms to decode."""


def pack_minions(minions: tuple[MinionId, ...]) -> bytes:
    """A target list as one blob."""
    packed: bytes = msgpack.packb(minions)
    return packed


def unpack_minions(packed: bytes) -> tuple[MinionId, ...]:
    """The list that pack_minions packed."""
    minions: tuple[MinionId, ...] = msgpack.unpackb(packed, use_list=False)
    return minions


class Audiences:
    """Decoded target lists by the seq of their job, the longest unused one forgotten first.

    By seq, not by jid: a seq is never given out again, so an entry cannot go stale.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[MinionId, ...]] = OrderedDict()

    def get(self, seq: int, load: Callable[[int], bytes | None]) -> tuple[MinionId, ...] | None:
        """The list of a job, from `load` if it is not kept; None when `load` knows no such job."""
        known = self._kept.pop(seq, None)
        if known is None:
            packed = load(seq)
            if packed is None:
                return None
            known = unpack_minions(packed)
            if len(self._kept) >= AUDIENCES_KEPT:
                self._kept.popitem(last=False)
        self._kept[seq] = known
        return known
