"""Target lists as they are stored with a job, and the last ones that were decoded.

A reconnecting fleet asks for the open jobs of ten thousand minions, and each answer carries the same lists.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.model.ids import MinionId, TargetId
from saltlite.model.parts import resource_parts

AUDIENCES_KEPT = 32
"""Decoded target lists that a reader remembers: one of 10,000 ids takes about 1 MB and 0.5 ms to decode."""

Packed = tuple[bytes, bytes]
"""The two columns of a job that hold its targets: minions, and resources by their minion."""


def pack_targets(minions: tuple[MinionId, ...], resources: Mapping[MinionId, tuple[TargetId, ...]]) -> Packed:
    """Target lists as they are stored."""
    return msgpack.packb(minions), msgpack.packb(dict(resources))


class Audience:
    """The decoded target lists of one job."""

    def __init__(self, packed: Packed) -> None:
        self.minions: tuple[MinionId, ...] = msgpack.unpackb(packed[0], use_list=False)
        self.resources: Mapping[MinionId, tuple[TargetId, ...]] = msgpack.unpackb(packed[1], use_list=False)
        if not isinstance(self.minions, tuple) or not isinstance(self.resources, dict):
            raise TypeError("its list of targets is none")
        self._parts: dict[MinionId, dict[int, tuple[TargetId, ...]]] = {}

    def part(self, minion: MinionId, number: int, most: int) -> tuple[TargetId, ...]:
        """The resources of that part, of which each of this job has `most` at most; () for a minion's own."""
        if not number:
            return ()
        if minion not in self._parts:
            self._parts[minion] = dict(resource_parts(self.resources[minion], most))
        return self._parts[minion][number]


class Audiences:
    """Decoded target lists by the seq of their job, the longest unused one forgotten first.

    By seq, not by jid: a seq is never given out again, so an entry cannot go stale.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Audience] = OrderedDict()

    def get(self, seq: int, load: Callable[[int], Packed | None]) -> Audience | None:
        """The lists of a job, from `load` if they are not kept; None when `load` knows no such job."""
        known = self._kept.pop(seq, None)
        if known is None:
            packed = load(seq)
            if packed is None:
                return None
            known = Audience(packed)
            if len(self._kept) >= AUDIENCES_KEPT:
                self._kept.popitem(last=False)
        self._kept[seq] = known
        return known
