"""What each process of the master is doing at this moment, in memory that the supervisor reads.

The supervisor makes the board before it forks. Each watched process writes only its own slot: which turn it is in, or
that it waits. The supervisor writes the ring of turns that it has ended, and each process looks there before it begins
something again. Nobody takes a lock: a slot is judged only when it has not changed for many seconds.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

TEXT_BYTES = 120
"""Bytes of the text that names a turn; the rest of a longer one is left out."""
ENDED_MAX = 64
"""Turns that were ended and are remembered; the oldest makes room for the next."""
REFUSED_S = 600.0
"""How long work whose turn was ended is refused."""
CAREFUL_S = 120.0
"""How long reports are judged one by one after a turn with reports was ended. The link process hands the batch to the
next MWorker at once, and the report that holds this one as well is found out within the time of one turn."""

_DIGEST_BYTES = 32
_NAME_BYTES = 32
_NUMBER = struct.Struct("=Q")
_SLOT = struct.Struct(f"=Q?{_DIGEST_BYTES}s{TEXT_BYTES}s")
"""The turn's number, 0 while the process waits; whether it is about reports; digest; text."""
_HEAD = struct.Struct("=Qdd")
"""How many turns were ended, until when any is refused, and until when reports are judged one by one."""
_ENDED = struct.Struct(f"={_DIGEST_BYTES}sdd?{_NAME_BYTES}s{TEXT_BYTES}s")
"""Digest, when, how long, whether it was told, process, text."""


class TurnLabel(NamedTuple):
    """A piece of work. `text` names it in the log. Work with a `digest` (see `TurnBoard.digest`) is refused when it was
    ended; work without one cannot be told from other work, and is not. `is_reports`: of several minions, maybe."""

    text: str
    digest: bytes = b""
    is_reports: bool = False


class SlotState(NamedTuple):
    """What stands in a slot. Two turns of one process never have the same `number`."""

    number: int
    turn: TurnLabel


class EndedTurn(NamedTuple):
    """A turn that was ended: in which process, and after how many seconds."""

    text: str
    process: str
    held_s: float
    digest: bytes
    place: int


NAMELESS = TurnLabel("work that has no name of its own")


class TurnBoard:
    """Slots of the processes with these names, and the ring of turns that were ended. Build it before the fork."""

    def __init__(
        self, mworkers: Sequence[str], own: Sequence[str] = (), now: Callable[[], float] = time.monotonic
    ) -> None:
        """`own` are processes that do nothing but the master's own work; the first MWorker tells what became of them.
        `now` is a clock that all processes of a machine share."""
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
        """Give the memory back: a process that is not watched cannot read or write the board from here on."""
        self._memory.close()
        self._key = b""

    def digest(self, *parts: bytes) -> bytes:
        """What stands for that work on this board. It is keyed, for requests may have passwords."""
        made = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=self._key)
        for part in parts:
            made.update(_NUMBER.pack(len(part)))
            made.update(part)
        return made.digest()

    def marks(self, name: str) -> Marks:
        """How the process of that name writes its slot."""
        return Marks(self, name, self._memory, self._slots[name])

    def seen(self, name: str) -> SlotState | None:
        """The turn that this process is in; None while it waits for work."""
        number, is_reports, digest, text = _SLOT.unpack_from(self._memory, self._slots[name])
        if not number:
            return None
        return SlotState(number, TurnLabel(_text(text), digest if any(digest) else b"", is_reports))

    def end(self, name: str, turn: TurnLabel, held_s: float) -> None:
        """This turn of that process is ended after so many seconds: it is refused from now on."""
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
        """It was asked for again: it is refused for REFUSED_S from now on."""
        _digest, _at, *rest = _ENDED.unpack_from(self._memory, ended.place)
        at = self._now()
        _ENDED.pack_into(self._memory, ended.place, ended.digest, at, *rest)
        count, _refusing_until, careful_until = _HEAD.unpack_from(self._memory, self._head)
        _HEAD.pack_into(self._memory, self._head, count, at + REFUSED_S, careful_until)

    def is_refusing(self) -> bool:
        """Whether any work is refused at present; if not, nobody has to make digests."""
        return bool(_HEAD.unpack_from(self._memory, self._head)[1] > self._now())

    def is_careful(self) -> bool:
        """Whether reports are to be judged one by one."""
        return bool(_HEAD.unpack_from(self._memory, self._head)[2] > self._now())

    def untold(self, name: str) -> list[EndedTurn]:
        """Ended turns that this MWorker reports to operators: its own, and for the first one those of others."""
        count = min(_NUMBER.unpack_from(self._memory, self._head)[0], ENDED_MAX)
        every = [self._ring + index * _ENDED.size for index in range(count)]
        rows = [self._read(place) for place in every if not self._row(place)[3]]
        return [row for row in rows if name in (row.process, self._first if row.process in self.own else "")]

    def told(self, ended: EndedTurn) -> None:
        """Operators were told of it."""
        digest, at, held_s, _told, process, text = self._row(ended.place)
        _ENDED.pack_into(self._memory, ended.place, digest, at, held_s, True, process, text)

    def _row(self, place: int) -> tuple[bytes, float, float, bool, bytes, bytes]:
        digest, at, held_s, told, process, text = _ENDED.unpack_from(self._memory, place)
        return digest, at, held_s, told, process, text

    def _read(self, place: int) -> EndedTurn:
        digest, _at, held_s, _told, process, text = self._row(place)
        return EndedTurn(_text(text), _text(process), held_s, digest, place)


class Marks:
    """One process's own slot. The reactor marks every turn; what knows more names its part of one."""

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
        """A turn begins whose name is not known yet."""
        self._put(NAMELESS)

    def idle(self) -> None:
        """This process waits for work."""
        _NUMBER.pack_into(self._memory, self._slot, 0)

    @property
    def now(self) -> TurnLabel:
        """The turn that this process is in."""
        return self._turn

    @contextmanager
    def named(self, turn: TurnLabel) -> Iterator[None]:
        """What is done in this block is that; it has a deadline of its own."""
        outer = self._turn
        self._put(turn)
        try:
            yield
        finally:
            self._put(outer)

    def _put(self, turn: TurnLabel) -> None:
        self._turn = turn
        self._number += 1
        text, digest, is_reports = turn
        _SLOT.pack_into(self._memory, self._slot, self._number, is_reports, digest, _bytes(text))


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")[:TEXT_BYTES]


def _text(raw: bytes) -> str:
    """Only what can be printed in one line: parts of names come from whoever asks."""
    text = raw.rstrip(b"\0").decode(errors="ignore")
    return "".join(one if one.isprintable() else "?" for one in text)
