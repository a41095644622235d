"""Memory that the master's processes share: the board of their current turns, and the state of a rate limiter.

Both are created before the fork, and neither uses locks. Each watched process writes its turn, or that it is idle, to
its own slot of the board; the supervisor judges a slot only when it has not changed for many seconds. It records the
turns that it ended in a ring, which each process reads before it repeats work.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

TEXT_BYTES = 120
"""Bytes of the text that names a turn; a longer one is cut."""
ENDED_MAX = 64
"""Ended turns in the ring; a new one replaces the oldest."""
REFUSED_S = 600.0
"""How long work is refused after its turn was ended."""
CAREFUL_S = 120.0
"""How long reports are handled one by one after a turn with reports was ended. The link process gives the batch to the
next MWorker at once, so the report that blocks this one, too, is identified within one turn."""

_DIGEST_BYTES = 32
_NAME_BYTES = 32
_NUMBER = struct.Struct("=Q")
_SLOT = struct.Struct(f"=Q?{_DIGEST_BYTES}s{TEXT_BYTES}s")
"""The turn's number, 0 while the process waits; whether it is about reports; digest; text."""
_HEAD = struct.Struct("=Qdd")
"""How many turns were ended, until when any is refused, and until when reports are judged one by one."""
_ENDED = struct.Struct(f"={_DIGEST_BYTES}sdd?{_NAME_BYTES}s{TEXT_BYTES}s")
"""Digest, time, duration, whether it was reported, process, text."""


class TurnLabel(NamedTuple):
    """A piece of work. `text` names it in the log. Work with a `digest` (see `TurnBoard.digest`) is refused once its
    turn was ended. `is_reports`: it consists of messages that are handled one by one after it was ended."""

    text: str
    digest: bytes = b""
    is_reports: bool = False


class SlotState(NamedTuple):
    """The content of a slot. Two turns of one process never have the same `number`."""

    number: int
    turn: TurnLabel


class EndedTurn(NamedTuple):
    """A turn that was ended: in which process, and after how many seconds."""

    text: str
    process: str
    held_s: float
    digest: bytes
    place: int


NAMELESS = TurnLabel("unnamed work")


class TurnBoard:
    """Slots of the processes with these names, and the ring of turns that were ended. Build it before the fork."""

    def __init__(
        self, mworkers: Sequence[str], own: Sequence[str] = (), now: Callable[[], float] = time.monotonic
    ) -> None:
        """`own` are processes that serve no requests; the first MWorker reports their ended turns. `now` is a clock
        that all processes of a machine share."""
        self._now = now
        self._key = os.urandom(32)
        self.own = frozenset(own)
        self._first = mworkers[0]
        names = [*mworkers, *own]
        self._slots = {name: index * _SLOT.size for index, name in enumerate(names)}
        self._head = len(names) * _SLOT.size
        self._ring = self._head + _HEAD.size
        self._memory = mmap.mmap(-1, self._ring + ENDED_MAX * _ENDED.size)

    @property
    def names(self) -> Collection[str]:
        """The watched processes."""
        return self._slots.keys()

    def close(self) -> None:
        """Unmap the memory, in a process that is not watched: it cannot read or write the board afterwards."""
        self._memory.close()
        self._key = b""

    def digest(self, *parts: bytes) -> bytes:
        """The digest of this work. It is keyed, because requests may contain passwords."""
        made = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=self._key)
        for part in parts:
            made.update(_NUMBER.pack(len(part)))
            made.update(part)
        return made.digest()

    def marks(self, name: str) -> Marks:
        """The writer for the slot of this process."""
        return Marks(self, name, self._memory, self._slots[name])

    def seen(self, name: str) -> SlotState | None:
        """The current turn of this process; None while it is idle."""
        number, is_reports, digest, text = _SLOT.unpack_from(self._memory, self._slots[name])
        if not number:
            return None
        return SlotState(number, TurnLabel(_text(text), digest if any(digest) else b"", is_reports))

    def end(self, name: str, turn: TurnLabel, held_s: float) -> None:
        """Record that this turn was ended after `held_s`: its work is refused from now on."""
        count, _refusing_until, careful_until = _HEAD.unpack_from(self._memory, self._head)
        at = self._now()
        place = self._ring + count % ENDED_MAX * _ENDED.size
        _ENDED.pack_into(
            self._memory, place, turn.digest, at, held_s, False, name.encode()[:_NAME_BYTES], _bytes(turn.text)
        )
        careful_until = at + CAREFUL_S if turn.is_reports else careful_until
        _HEAD.pack_into(self._memory, self._head, count + 1, at + REFUSED_S, careful_until)

    def ended(self, digest: bytes) -> EndedTurn | None:
        """The turn about the same work that was ended less than REFUSED_S ago."""
        if not digest or not self.is_refusing():
            return None
        place = self._memory.find(digest, self._ring)
        if place < 0:
            return None
        found, at, *_rest = _ENDED.unpack_from(self._memory, place)
        if found != digest or self._now() - at > REFUSED_S:
            return None
        return self._read(place)

    def renew(self, ended: EndedTurn) -> None:
        """Refuse this work for another REFUSED_S, because it was requested again."""
        _digest, _at, *rest = _ENDED.unpack_from(self._memory, ended.place)
        at = self._now()
        _ENDED.pack_into(self._memory, ended.place, ended.digest, at, *rest)
        count, _refusing_until, careful_until = _HEAD.unpack_from(self._memory, self._head)
        _HEAD.pack_into(self._memory, self._head, count, at + REFUSED_S, careful_until)

    def is_refusing(self) -> bool:
        """Whether any work is refused at present; if not, no digests are needed."""
        return bool(_HEAD.unpack_from(self._memory, self._head)[1] > self._now())

    def is_careful(self) -> bool:
        """Whether reports are handled one by one."""
        return bool(_HEAD.unpack_from(self._memory, self._head)[2] > self._now())

    def untold(self, name: str) -> list[EndedTurn]:
        """Ended turns that this MWorker has to report: its own, and for the first MWorker those of `own`, too."""
        count = min(_NUMBER.unpack_from(self._memory, self._head)[0], ENDED_MAX)
        every = [self._ring + index * _ENDED.size for index in range(count)]
        rows = [self._read(place) for place in every if not self._row(place)[3]]
        return [row for row in rows if name in (row.process, self._first if row.process in self.own else "")]

    def mark_reported(self, ended: EndedTurn) -> None:
        """Mark it as reported."""
        digest, at, held_s, _reported, process, text = self._row(ended.place)
        _ENDED.pack_into(self._memory, ended.place, digest, at, held_s, True, process, text)

    def _row(self, place: int) -> tuple[bytes, float, float, bool, bytes, bytes]:
        digest, at, held_s, reported, process, text = _ENDED.unpack_from(self._memory, place)
        return digest, at, held_s, reported, process, text

    def _read(self, place: int) -> EndedTurn:
        digest, _at, held_s, _reported, process, text = self._row(place)
        return EndedTurn(_text(text), _text(process), held_s, digest, place)


class Marks:
    """The slot of one process. The reactor marks every turn; a handler can name its part of it."""

    def __init__(self, board: TurnBoard, name: str, memory: mmap.mmap, slot: int) -> None:
        self.board = board
        self.name = name
        self._memory = memory
        self._slot = slot
        self._turn = NAMELESS
        # The next process of this name counts from a later time, so no number comes again.
        self._number = time.monotonic_ns()
        self.idle()

    def begin(self) -> None:
        """Begin a turn whose name is not known yet."""
        self.put(NAMELESS)

    def idle(self) -> None:
        """Mark this process as idle."""
        _NUMBER.pack_into(self._memory, self._slot, 0)

    @property
    def now(self) -> TurnLabel:
        """The current turn of this process."""
        return self._turn

    def named(self, turn: TurnLabel) -> NamedTurn:
        """Name the work in this block, which gets a separate deadline."""
        return NamedTurn(self, turn)

    def put(self, turn: TurnLabel) -> None:
        """Begin a turn of this name, with a separate deadline."""
        self._turn = turn
        self._number += 1
        text, digest, is_reports = turn
        _SLOT.pack_into(self._memory, self._slot, self._number, is_reports, digest, _bytes(text))


class NamedTurn:
    """The context of `Marks.named`. It is a class, because an MWorker enters several for each request."""

    __slots__ = ("_marks", "_outer", "_turn")

    def __init__(self, marks: Marks, turn: TurnLabel) -> None:
        self._marks = marks
        self._turn = turn

    def __enter__(self) -> None:
        self._outer = self._marks.now
        self._marks.put(self._turn)

    def __exit__(self, *_raised: object) -> None:
        self._marks.put(self._outer)


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")[:TEXT_BYTES]


def _text(raw: bytes) -> str:
    """The text in one printable line: parts of names come from clients."""
    text = raw.rstrip(b"\0").decode(errors="ignore")
    return "".join(one if one.isprintable() else "?" for one in text)


ROWS = 4096
"""Keys in the table of a rate limiter."""
ROWS_OF_KEY = 8
"""Rows that one key may use; if other keys occupy all of them, the one that is full soonest is replaced."""

_ROW = struct.Struct("=Qd")


class SharedFillTimes:
    """Implements `saltlite.limits.FillTimes` in shared memory. A row is eight bytes of the key's hash, and a time.

    If two processes write the same row within one microsecond, one of the two changes is lost.
    """

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
