"""Documents in transit in one MWorker's memory: grains and resources that minions send, pillars that they fetch.

A document is assembled from pieces. All pieces of one go to the same MWorker while it lives; the next one has none of
them and says so, and the minion starts again. Limits: incomplete documents fill at most DOCUMENTS_MEMORY, and one is
forgotten IDLE_S after its last piece. Each minion has a share of the memory; one minion at a time may exceed it. When
memory is short, documents that arrive too slowly are dropped, and a small document displaces the largest one. A piece
that does not fit is answered with `busy`, and is sent again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from saltlite.model.clock import Clock
from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import MemoryPillarFiles, PillarFiles, has_top
from saltlite.pillar.evaluation import Evaluator, MemoryEvaluator
from saltlite.targeting.banks import GRAINS_MAX
from saltlite.wire.limits import DOC_MAX, KIB, MIB
from saltlite.wire.messages import Message, response_message

DOCUMENTS_MEMORY = 2 * DOC_MAX
"""Bytes of incomplete documents in one MWorker."""
SHARES = 8
"""A minion's share of the memory is 1/SHARES. Only one minion at a time may exceed it."""
IDLE_S = 60.0
"""An incomplete document is dropped this long after its last piece."""
RATE_MIN = 128 * KIB
"""Bytes per second that a document older than IDLE_S needs, to keep its memory when another one needs it."""
SMALL = MIB
"""Bytes up to which a document is small. Larger ones do not displace each other: none would ever complete."""
PER_MINUTE = 30
"""Documents of one kind per minion and minute. More are answered with `busy`."""
BYTES_PER_MINUTE = DOC_MAX
"""Bytes of documents per minion and minute."""

_SIZE_MAX = {"grains": GRAINS_MAX, "resources": DOC_MAX}

_Key = tuple[MinionId, str]


@dataclass(frozen=True, slots=True)
class Document:
    """A complete document whose digest is right; its content is not checked yet."""

    kind: str
    data: bytes


@dataclass(slots=True)
class _Arriving:
    digest: bytes
    size: int
    begun_at: float
    touched_at: float
    """When its last piece arrived."""
    data: bytearray = field(default_factory=bytearray)


class _Window:
    """The documents of one minion in the last minute: when, which kind, how many bytes."""

    def __init__(self) -> None:
        self._sent: deque[tuple[float, str, int]] = deque()

    def problem(self, kind: str, size: int, now: float) -> str:
        """Why a document of that size exceeds the rate, "" if it does not."""
        sent = self._sent
        while sent and now - sent[0][0] >= 60.0:
            sent.popleft()
        if sum(1 for _, one, _ in sent if one == kind) >= PER_MINUTE:
            return f"the master takes {PER_MINUTE} times {kind} of a minion in a minute"
        if sent and size + sum(size for _, _, size in sent) > BYTES_PER_MINUTE:
            return f"the master takes {BYTES_PER_MINUTE} bytes of documents of a minion in a minute"
        return ""

    def add(self, kind: str, size: int, now: float) -> None:
        self._sent.append((now, kind, size))

    def is_over(self, now: float) -> bool:
        """Whether the last minute is empty."""
        return not self._sent or now - self._sent[-1][0] >= 60.0


class Documents:
    """The incomplete documents of one MWorker."""

    def __init__(self, clock: Clock, memory: int = DOCUMENTS_MEMORY) -> None:
        """`memory`: bytes for incomplete documents."""
        self._clock = clock
        self._memory = memory
        self._arriving: OrderedDict[_Key, _Arriving] = OrderedDict()
        """The longest idle one comes first."""
        self._held = 0
        self._windows: OrderedDict[MinionId, _Window] = OrderedDict()
        """The latest sender comes last."""

    def put(self, minion: MinionId, message: Message) -> Message | Document:
        """Add a piece. Returns the document after the last one, else the response; its `size` is the next offset."""
        n, kind, size, data = message["n"], message["kind"], message["size"], message["data"]
        if not 0 < size <= _SIZE_MAX[kind]:
            return response_message(
                n, "refused", names=[f"{kind} of {size} bytes are too large: {_SIZE_MAX[kind]} may be"]
            )
        place, now = (minion, kind), self._clock.monotonic()
        self._forget_old(now)
        problem = self._windows[minion].problem(kind, size, now) if minion in self._windows else ""
        if message["offset"] == 0 and problem:
            return response_message(n, "busy", names=[problem])
        arriving = self._arriving.get(place)
        if arriving is None or arriving.digest != message["sha256"]:
            self._forget(place)
            arriving = self._arriving[place] = _Arriving(message["sha256"], size, now, now)
        if data and message["offset"] == len(arriving.data) and len(arriving.data) + len(data) <= size:
            if not self._has_room(place, len(data), now):
                return response_message(n, "busy", size=len(arriving.data))
            arriving.touched_at = now
            self._arriving.move_to_end(place)
            arriving.data += data
            self._held += len(data)
        if len(arriving.data) < size:
            return response_message(n, "ok", size=len(arriving.data))
        self._forget(place)
        self._windows.setdefault(minion, _Window()).add(kind, size, now)
        self._windows.move_to_end(minion)
        if hashlib.sha256(arriving.data).digest() != arriving.digest:
            return response_message(n, "ok", size=0)
        return Document(kind, bytes(arriving.data))

    def _has_room(self, place: _Key, more: int, now: float) -> bool:
        """Whether `more` bytes fit; drops other documents that have to yield."""
        minion, others = place[0], [other for other in self._arriving if other != place]
        if self._of(minion) + more > self._share():
            before = [other for other in others if other[0] != minion and self._of(other[0]) > self._share()]
            kept = [other for other in before if not self._yields(other, now)]
            if kept:
                return False
        if self._held + more <= self._memory:
            return True
        for other in others:
            self._yields(other, now)
        if self._held + more > self._memory and self._arriving[place].size <= SMALL:
            large = [other for other, one in self._arriving.items() if other != place and one.size > SMALL]
            if large:
                self._forget(max(large, key=self._size))
        return self._held + more <= self._memory

    def _yields(self, place: _Key, now: float) -> bool:
        """Whether this document arrives too slowly; if so, it is dropped."""
        arriving = self._arriving.get(place)
        if arriving is None:
            return True
        age = now - arriving.begun_at
        slow = age > IDLE_S and len(arriving.data) < age * RATE_MIN
        if slow:
            self._forget(place)
        return slow

    def _share(self) -> int:
        return self._memory // SHARES

    def _size(self, place: _Key) -> int:
        return len(self._arriving[place].data)

    def _of(self, minion: MinionId) -> int:
        return sum(self._size((minion, kind)) for kind in _SIZE_MAX if (minion, kind) in self._arriving)

    def _forget_old(self, now: float) -> None:
        while self._arriving and now - next(iter(self._arriving.values())).touched_at > IDLE_S:
            self._forget(next(iter(self._arriving)))
        while self._windows and next(iter(self._windows.values())).is_over(now):
            self._windows.popitem(last=False)

    def _forget(self, place: _Key) -> None:
        gone = self._arriving.pop(place, None)
        if gone is not None:
            self._held -= len(gone.data)


PILLARS_MEMORY = DOC_MAX
"""Bytes of pillars in one MWorker that are being fetched piece by piece. The oldest is dropped first; its minion starts
again."""

PILLARS_A_MINUTE = 60
"""Evaluations per minion and minute, so that one minion cannot keep an MWorker busy."""


@dataclass(slots=True)
class Pillars:
    """Pillars of one MWorker: `evaluator` makes them of `files`. `cached`: whether they are put into their bank."""

    files: PillarFiles = field(default_factory=lambda: MemoryPillarFiles({}))
    evaluator: Evaluator = field(default_factory=lambda: MemoryEvaluator(MemoryPillarFiles({})))
    cached: bool = True
    _made: dict[MinionId, tuple[float, int]] = field(default_factory=dict)
    _under_way: OrderedDict[MinionId, tuple[bytes, bytes]] = field(default_factory=OrderedDict)

    def any_to_make(self) -> bool:
        """Whether there is a top file."""
        return has_top(self.files)

    def may_make(self, minion: MinionId, now: float) -> bool:
        """Whether that minion may have another evaluation now; counts it. `now` is seconds."""
        since, count = self._made.get(minion, (now, 0))
        if now - since >= 60.0:
            since, count = now, 0
        if count >= PILLARS_A_MINUTE:
            return False
        self._made[minion] = since, count + 1
        return True

    def remember(self, minion: MinionId, sha256: bytes, data: bytes) -> None:
        """Keep a pillar that this minion fetches in pieces."""
        self._under_way[minion] = sha256, data
        self._under_way.move_to_end(minion)
        held = sum(len(data) for _sha256, data in self._under_way.values())
        while held > PILLARS_MEMORY and len(self._under_way) > 1:
            _minion, (_sha256, forgotten) = self._under_way.popitem(last=False)
            held -= len(forgotten)

    def remembered(self, minion: MinionId, sha256: bytes) -> bytes | None:
        """The pillar with that digest that this minion fetches; None if it was dropped."""
        known, data = self._under_way.get(minion, (b"", b""))
        return data if known == sha256 else None

    def forget(self, minion: MinionId) -> None:
        """This minion has its whole pillar."""
        self._under_way.pop(minion, None)
