"""Documents that minions send, put together from their pieces in the memory of one MWorker.

All pieces of a document come to the same MWorker, while it lives; the next one has none of them, says so, and its
minion begins anew. Policy: what has arrived is kept for IDLE_S after its last piece and fills DOCUMENTS_MEMORY at most;
past that a piece is answered `busy`, and comes again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field

from saltlite.core.cache.ports import GRAINS_MAX
from saltlite.core.filelane import file_said
from saltlite.core.ports import Clock
from saltlite.model.ids import MinionId
from saltlite.wire.limits import DOC_MAX
from saltlite.wire.messages import Message

DOCUMENTS_MEMORY = 2 * DOC_MAX
"""Bytes of documents that are not whole yet, in one MWorker."""
IDLE_S = 60.0
PER_MINUTE = 30
"""Whole documents of one kind that one minion may send in a minute. More are answered `busy`."""

_SIZE_MAX = {"grains": GRAINS_MAX, "resources": DOC_MAX}


@dataclass(frozen=True, slots=True)
class Document:
    """One that is whole, and is what its digest says. Nobody has looked into it."""

    kind: str
    data: bytes


@dataclass(slots=True)
class _Arriving:
    digest: bytes
    touched_at: float
    data: bytearray = field(default_factory=bytearray)


class Documents:
    """The documents that are on their way to one MWorker."""

    def __init__(self, clock: Clock, memory: int = DOCUMENTS_MEMORY) -> None:
        """`memory`: bytes that documents on their way may fill."""
        self._clock = clock
        self._memory = memory
        self._arriving: dict[tuple[MinionId, str], _Arriving] = {}
        self._held = 0
        self._whole: dict[tuple[MinionId, str], deque[float]] = {}

    def put(self, minion: MinionId, message: Message) -> Message | Document:
        """Take a piece: the document when it was the last one, otherwise what to say.

        That has in `size` from which byte on the next piece is expected.
        """
        n, kind, size, data = message["n"], message["kind"], message["size"], message["data"]
        if not 0 < size <= _SIZE_MAX[kind]:
            return file_said(n, "refused", names=[f"{kind} of {size} bytes are too large: {_SIZE_MAX[kind]} may be"])
        place, now = (minion, kind), self._clock.monotonic()
        if message["offset"] == 0 and self._crowded(place, now):
            return file_said(n, "busy", names=[f"the master takes {PER_MINUTE} times {kind} of a minion in a minute"])
        self._forget_idle(now)
        arriving = self._arriving.get(place)
        if arriving is None or arriving.digest != message["sha256"]:
            self._forget(place)
            arriving = self._arriving[place] = _Arriving(message["sha256"], now)
        arriving.touched_at = now
        if message["offset"] == len(arriving.data) and len(arriving.data) + len(data) <= size:
            if self._held + len(data) > self._memory:
                return file_said(n, "busy", size=len(arriving.data))
            arriving.data += data
            self._held += len(data)
        if len(arriving.data) < size:
            return file_said(n, "ok", size=len(arriving.data))
        self._forget(place)
        if hashlib.sha256(arriving.data).digest() != arriving.digest:
            return file_said(n, "ok", size=0)
        self._whole.setdefault(place, deque(maxlen=PER_MINUTE)).append(now)
        return Document(kind, bytes(arriving.data))

    def _crowded(self, place: tuple[MinionId, str], now: float) -> bool:
        times = self._whole.get(place)
        return times is not None and len(times) == PER_MINUTE and now - times[0] < 60.0

    def _forget_idle(self, now: float) -> None:
        for place in [place for place, one in self._arriving.items() if now - one.touched_at > IDLE_S]:
            self._forget(place)

    def _forget(self, place: tuple[MinionId, str]) -> None:
        gone = self._arriving.pop(place, None)
        if gone is not None:
            self._held -= len(gone.data)
