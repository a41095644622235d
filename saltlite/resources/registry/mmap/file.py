"""One open file of the registry: its two maps, its log, its index. Which file is the right one is not known here.

The header and the index are mapped for writing, and their blocks are allocated when the file is made: a full disk
can not strike at a store into a map. The log is mapped for reading only and written by system calls, which say so
when there is no room. Behind its end there are always zeros: what stands there was not finished.
"""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress

from saltlite.errors import DamagedError
from saltlite.resources.registry import layout
from saltlite.resources.registry.layout import COMMITTED, INDEX_START, SLOT, SPARE_SLOTS, SUPERSEDED, Header, State
from saltlite.resources.registry.records import DELETE, HEAD, KIND, Change, read
from saltlite.resources.registry.slots import EMPTY, probe, shift_for

ROOM_MIN = 64 * 1024
"""Bytes that the log's file is longer than the log, at least: a longer file has to be mapped again by everybody."""


PIECE = 4 * 1024 * 1024
"""Bytes of a new file that are synced at once."""


class RegistryFile:
    """The file behind `fd`, which belongs to this object from now on.

    Raises DamagedError when header or state cannot be read or the file is shorter than they say, and OSError.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.inode = os.fstat(fd).st_ino
        try:
            self.log = _readable(fd, layout.PAGE)
            try:
                self.header = layout.read_header(self.log)
                self.reach(self.header.log_start)
            except BaseException:
                self.log.close()
                raise
            self._index = mmap.mmap(fd, self.header.log_start, access=mmap.ACCESS_WRITE)
        except BaseException:
            os.close(fd)
            raise
        self._bytes = memoryview(self._index)
        self.words = self._bytes.cast("Q")
        self.slots = self.words[INDEX_START // 8 :][: (self.header.capacity + SPARE_SLOTS) * (SLOT // 8)]
        self._shift = shift_for(self.header.capacity)

    # -- looking

    def state(self) -> State:
        """What the last commit left. Raises DamagedError, also when the file is shorter than its log."""
        try:
            state = layout.read_state(self.log, self.header)
        except DamagedError:
            # Each copy may have been met while it was written, two commits apart: not a second time in a row.
            state = layout.read_state(self.log, self.header)
        if state.tail > os.fstat(self._fd).st_size:
            raise DamagedError(f"it is cut off: its log goes to byte {state.tail}, and the file ends before that")
        return state

    def size(self) -> int:
        """Bytes of the file, room behind the log included."""
        return os.fstat(self._fd).st_size

    def superseded(self) -> bool:
        """Whether another file has taken the place of this one."""
        return self.words[SUPERSEDED] != 0

    def committed(self) -> int:
        """Number of the last commit, for the price of reading a word."""
        return self.words[COMMITTED]

    def reach(self, end: int) -> None:
        """Let the map of the log go to `end` at least, an offset that was committed."""
        if end > len(self.log):
            fresh = _readable(self._fd, end)
            self.log.close()
            self.log = fresh

    def row(self, offset: int) -> tuple[bytes, bytes | None]:
        """Key and value of the record at an offset that a slot says. Raises DamagedError."""
        if offset + HEAD.size > len(self.log):
            self.reach(offset + HEAD.size)
        size = HEAD.unpack_from(self.log, offset)[0] & ~KIND
        if offset + size > len(self.log):
            self.reach(offset + size)
        return read(self.log, offset, len(self.log))[2:]

    def value(self, key: bytes) -> bytes | None:
        """The value of a key, None without one. Raises DamagedError when its record is damaged."""
        slots, wanted = self.slots, layout.fingerprint(self.header.hash_key, key)
        at, end = 2 * (wanted >> self._shift), len(slots)
        while at < end:
            found = slots[at]
            if found == EMPTY:
                break
            if found == wanted:
                have, value = self.row(slots[at + 1])
                if have == key:
                    return value
            at += 2
        return None

    def _slot(self, key: bytes, fingerprint: int) -> int:
        return probe(self.slots, fingerprint, self._shift, lambda offset: self.row(offset)[0] == key)

    # -- writing, by the one who holds the lock

    def is_finished(self, tail: int) -> bool:
        """Whether nothing stands behind the end of the log: a writer that was killed leaves something there."""
        return not any(os.pread(self._fd, 8, tail))

    def append(self, lines: Sequence[bytes], tail: int, *, sync: bool) -> int:
        """Write records behind `tail`; with `sync` they are on disk when this returns. The new end.

        After an OSError nothing of them is left, as far as the disk allows it.
        """
        end = tail + sum(map(len, lines))
        try:
            if end + 8 > self.size():
                os.ftruncate(self._fd, end + max(ROOM_MIN, (end - self.header.log_start) // 8))
            block = lines[0] if len(lines) == 1 else b"".join(lines)
            _write(self._fd, block, tail, os.RWF_DSYNC if sync else 0)
        except OSError:
            with suppress(OSError):
                self.cut(tail)
            raise
        self.reach(end)
        return end

    def fill(self, data: bytes | array[int], at: int) -> None:
        """Write a part of a new file at that byte. Raises OSError.

        Each piece is on disk before the next is written: the syncs of others wait for what is on its way.
        """
        rest = memoryview(data).cast("B")
        for start in range(0, len(rest), PIECE):
            _write(self._fd, rest[start : start + PIECE], at + start, os.RWF_DSYNC)

    def cut(self, tail: int) -> None:
        """Put zeros behind the end of the log."""
        room = self.size()
        os.ftruncate(self._fd, tail)
        os.ftruncate(self._fd, max(room, tail + 8))

    def enter(self, changes: Sequence[Change], offsets: Iterable[int]) -> tuple[int, int]:
        """Let the slot of each key say the offset of its record.

        How many rows and how many slots there are more. Raises NoRoomError and DamagedError; to enter them again
        is no harm, but then nobody knows how many there are more.
        """
        slots, shift, salt = self.slots, self._shift, self.header.hash_key
        rows = used = 0
        numbers = layout.fingerprints(salt, [key for key, _ in changes])
        for (key, value), offset, fingerprint in zip(changes, offsets, numbers, strict=True):
            at = 2 * (fingerprint >> shift)
            if slots[at] != EMPTY:
                at = self._slot(key, fingerprint)
            if slots[at] == EMPTY:
                used += 1
                rows += value is not None
            else:
                was_deleted = HEAD.unpack_from(self.log, slots[at + 1])[0] & DELETE
                rows += (value is not None) - (not was_deleted)
            # In this order: the fingerprint is what makes a new slot visible.
            slots[at + 1] = offset
            slots[at] = fingerprint
        return rows, used

    def declare(self, state: State) -> None:
        """Make `state` the state, and tell the readers."""
        packed, start = state.pack(), layout.STATES[state.commit & 1]
        self._bytes[start : start + len(packed)] = packed
        self.words[COMMITTED] = state.commit

    def seal(self, header: Header) -> None:
        """Write another header, while nobody else knows this file yet."""
        for start in layout.HEADERS:
            self._bytes[start : start + len(header.pack())] = header.pack()
        self.header = header

    def supersede(self, *, there_is_another: bool) -> None:
        """Tell everybody who has this file open to look for another one, or that they need not."""
        self.words[SUPERSEDED] = int(there_is_another)

    def touch(self, wall_ns: int) -> None:
        """Set the file's time of change: with the inode it is the version that others may watch."""
        os.utime(self._fd, ns=(wall_ns, wall_ns))

    def sync(self) -> None:
        """Return when the whole file is on disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Give file and maps back. A second close does nothing."""
        if self._fd >= 0:
            for part in (self.slots, self.words, self._bytes):
                part.release()
            self._index.close()
            self.log.close()
            os.close(self._fd)
            self._fd = -1


def create(path: str, header: Header, state: State) -> RegistryFile:
    """A new file under that name, in place of what is there, with an empty index and no records. Raises OSError."""
    # Another inode, whatever is there: what has been a registry may still be mapped.
    with suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(fd, 0, header.log_start)
        for start in layout.HEADERS:
            os.pwrite(fd, header.pack(), start)
        os.pwrite(fd, state.pack(), layout.STATES[state.commit & 1])
    except BaseException:
        os.close(fd)
        os.unlink(path)
        raise
    return RegistryFile(fd)


def _readable(fd: int, end: int) -> mmap.mmap:
    """All of the file, for reading. Raises DamagedError when it ends before byte `end`."""
    size = os.fstat(fd).st_size
    if end > size:
        raise DamagedError(f"it is cut off: it has {size} bytes, and byte {end} is needed")
    return mmap.mmap(fd, size, access=mmap.ACCESS_READ)


def _write(fd: int, data: bytes | memoryview, at: int, flags: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwritev(fd, [rest], at, flags)
        at, rest = at + written, rest[written:]
