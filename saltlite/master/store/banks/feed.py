"""The change feed of one bank: a file with a line for each put and delete, in their order.

    saltlite feed 1 <generation> <base>     as long as the feed was never lost, the generation is the same;
    1<CRC-32 of the name><name>             base: how many bytes of lines were cut off before the first one

A cursor is a generation and an offset, which goes on counting when the older half is cut off. The first character of a
line is `0` until the change that it announces was made. Who sees a `0` in the last line looks at that line again the
next time, so a change is missed by nobody, also when its writer is killed between the line and the change. A `0` that
is followed by another line was made, or never will be: writers hold a lock.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

FILE = ".feed"
NEW_FILE = ".feed-new"

FEED_MAX = 4 * 1024 * 1024
"""Bytes from which on the older half is cut off: some 140,000 changes."""

GENERATION_BYTES = 16
_HEAD = re.compile(rb"saltlite feed 1 ([0-9a-f]{32}) ([0-9]{20})\n")
_HEAD_BYTES = 16 + 32 + 1 + 20 + 1


class Read(NamedTuple):
    """What a reader gets: file names, the next cursor, and whether the past was lost."""

    names: set[str]
    cursor: str
    lost: bool


class _Open(NamedTuple):
    fd: int
    inode: int
    generation: str
    base: int


class Feed:
    """The feed in the folder behind `folder`, a descriptor. Every method raises OSError.

    `begin`, `done`, `drop` and `make` are for the one who holds the lock of the bank.
    """

    def __init__(self, folder: int, limit: int = FEED_MAX) -> None:
        self._folder = folder
        self._limit = limit
        self._open: _Open | None = None
        self._line = 0

    # -- reading

    def exists(self) -> bool:
        """Whether there is a feed that can be read. Without one, nobody can say what changed."""
        return self._opened() is not None

    def read(self, cursor: str) -> Read:
        """What was noted since that cursor. A feed has to exist."""
        opened = self._opened()
        if opened is None:
            return Read(set(), "", lost=True)
        length = os.fstat(opened.fd).st_size - _HEAD_BYTES
        since = _offset(cursor, opened, length)
        if since == length:
            return Read(set(), cursor, lost=False)
        start = 0 if since is None else since
        lines = os.pread(opened.fd, length - start, _HEAD_BYTES + start).split(b"\n")
        lines.pop()  # behind the last line break: nothing, or a line that is being written
        end = start + sum(len(line) + 1 for line in lines)
        if lines and lines[-1].startswith(b"0"):
            end -= len(lines[-1]) + 1
        names = [_name_in(line) for line in lines]
        whole = None not in names and since is not None
        return Read({name for name in names if name is not None}, _cursor(opened, end), lost=not whole)

    # -- writing, by the one who holds the lock

    def make(self, entropy: bytes) -> None:
        """Begin a new generation, named by these GENERATION_BYTES, unless there is a feed."""
        if self._opened() is None:
            self._replace(entropy.hex(), 0, b"")

    def begin(self, name: str) -> None:
        """Note that `name` is about to change. After an OSError nothing is noted."""
        opened = self._opened()
        if opened is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        end = self._cut_torn_line(opened.fd)
        if end < _HEAD_BYTES:
            self.drop()
            raise OSError(errno.EIO, "the change feed was cut off")
        if end - _HEAD_BYTES > self._limit:
            with suppress(OSError):  # it goes on being too long, and the next one tries again
                opened, end = self._compact(opened)
        raw = name.encode("ascii")
        line = b"0%08x%s\n" % (crc32(raw), raw)
        try:
            written = os.pwrite(opened.fd, line, end)
            if written < len(line):
                os.pwrite(opened.fd, line[written:], end + written)
        except OSError:
            os.ftruncate(opened.fd, end)
            raise
        self._line = end

    def done(self) -> None:
        """The change that was noted last was made, or will not be."""
        opened = self._opened()
        if opened is not None:
            os.pwrite(opened.fd, b"1", self._line)

    def drop(self) -> None:
        """Lose the feed: everybody looks at the whole bank again."""
        with suppress(FileNotFoundError):
            os.unlink(FILE, dir_fd=self._folder)

    def close(self) -> None:
        """Give the file back."""
        if self._open is not None:
            os.close(self._open.fd)
            self._open = None

    # -- the file

    def _opened(self) -> _Open | None:
        """The feed that is in the folder now. While a file is open, no other can have its inode."""
        try:
            inode = os.stat(FILE, dir_fd=self._folder, follow_symlinks=False).st_ino
        except FileNotFoundError:
            self.close()
            return None
        if self._open is None or self._open.inode != inode:
            self.close()
            self._open = self._opened_anew()
        return self._open

    def _opened_anew(self) -> _Open | None:
        try:
            fd = os.open(FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        head = _HEAD.fullmatch(os.pread(fd, _HEAD_BYTES, 0))
        if head is None:
            os.close(fd)
            return None
        return _Open(fd, os.fstat(fd).st_ino, head[1].decode(), int(head[2]))

    def _cut_torn_line(self, fd: int) -> int:
        """Where the next line begins: a writer that was killed may have left half of one."""
        end = os.fstat(fd).st_size
        if os.pread(fd, 1, end - 1) != b"\n":
            end = os.pread(fd, end, 0).rfind(b"\n") + 1
            os.ftruncate(fd, end)
        return end

    def _compact(self, opened: _Open) -> tuple[_Open, int]:
        lines = os.pread(opened.fd, os.fstat(opened.fd).st_size, _HEAD_BYTES)
        cut = lines.index(b"\n", len(lines) // 2) + 1
        self._replace(opened.generation, opened.base + cut, lines[cut:])
        fresh = self._opened()
        if fresh is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return fresh, _HEAD_BYTES + len(lines) - cut

    def _replace(self, generation: str, base: int, lines: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(NEW_FILE, flags, 0o600, dir_fd=self._folder), "wb") as file:
            file.write(b"saltlite feed 1 %s %020d\n" % (generation.encode("ascii"), base))
            file.write(lines)
        os.replace(NEW_FILE, FILE, src_dir_fd=self._folder, dst_dir_fd=self._folder)


def _cursor(opened: _Open, end: int) -> str:
    return f"{opened.generation}:{opened.base + end}"


def _offset(cursor: str, opened: _Open, length: int) -> int | None:
    """Where in the lines the cursor points; None when they are not there, or not of this feed."""
    generation, _, offset = cursor.partition(":")
    if generation != opened.generation or not offset.isdecimal():
        return None
    start = int(offset) - opened.base
    return start if 0 <= start <= length else None


def _name_in(line: bytes) -> str | None:
    name = line[9:]
    if line[:1] not in {b"0", b"1"} or line[1:9] != b"%08x" % crc32(name) or not name.isascii():
        return None
    return name.decode("ascii")
