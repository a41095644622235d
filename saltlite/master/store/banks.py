"""The default driver of the cache banks: one file per value in `<cachedir>/banks/<bank>`, shared by all processes.

Implements the ports of `saltlite.targeting.banks`. A bank's folder has a file per key, a lock, and a change feed.
Nothing is synced: minions send again what a crash of the machine destroys, and no value is ever half written.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes
from zlib import crc32

from saltlite.errors import StoreError, UsageError
from saltlite.platform.files import FULL, WriteLock
from saltlite.targeting.banks import DIGEST_MAX, Changes, Value, ValueLimits, check_bank, check_digest, decoded, encoded

# -- one value as the content of its file: a head with the digest and checksums, then the value in msgpack
#
# 4 bytes   format
# 64 bytes  the digest that came with the value, padded with zeros
# 4 bytes   length of the value
# 4 bytes   CRC-32 of the value
# 4 bytes   CRC-32 of the head before this field

MAGIC = b"SLB\x01"
_ENTRY_HEAD = struct.Struct(f">4s{DIGEST_MAX}sII")
_ENTRY_CHECK = struct.Struct(">I")
ENTRY_HEAD_BYTES = _ENTRY_HEAD.size + _ENTRY_CHECK.size


def entry(value: bytes, digest: str) -> bytes:
    """The content of the file."""
    head = _ENTRY_HEAD.pack(MAGIC, digest.encode("ascii"), len(value), crc32(value))
    return head + _ENTRY_CHECK.pack(crc32(head)) + value


def digest_in(content: bytes) -> str | None:
    """The digest in the first HEAD_BYTES of a file, None when they are damaged."""
    if not _head_is_whole(content):
        return None
    digest: bytes = _ENTRY_HEAD.unpack_from(content)[1]
    return digest.rstrip(b"\0").decode("ascii")


def value_in(content: bytes) -> bytes | None:
    """The value in a file, None when it is damaged."""
    if not _head_is_whole(content):
        return None
    _, _, size, check = _ENTRY_HEAD.unpack_from(content)
    value = content[ENTRY_HEAD_BYTES:]
    return value if len(value) == size and crc32(value) == check else None


def _head_is_whole(content: bytes) -> bool:
    if len(content) < ENTRY_HEAD_BYTES or not content.startswith(MAGIC):
        return False
    check: int = _ENTRY_CHECK.unpack_from(content, _ENTRY_HEAD.size)[0]
    return crc32(content[: _ENTRY_HEAD.size]) == check


# -- the change feed of one bank: a file with a line for each put and delete, in order
#
#     saltlite feed 1 <generation> <base>     the generation stays the same while the feed is not lost;
#     1<CRC-32 of the name><name>             base: how many bytes of lines were cut off before the first one
#
# A cursor is a generation and an offset, which keeps counting when the older half is cut off. A line starts with `0`
# until its change was made. A reader that sees `0` in the last line reads that line again the next time, so no change
# is missed, even when a writer is killed between the line and the change. A `0` before another line was made, or
# never will be: writers hold a lock.

FEED_FILE = ".feed"
NEW_FEED_FILE = ".feed-new"

FEED_MAX = 4 * 1024 * 1024
"""Bytes from which on the older half is cut off: some 140,000 changes."""

GENERATION_BYTES = 16
_FEED_HEAD = re.compile(rb"saltlite feed 1 ([0-9a-f]{32}) ([0-9]{20})\n")
_FEED_HEAD_BYTES = 16 + 32 + 1 + 20 + 1


class FeedRead(NamedTuple):
    """What a reader gets: file names, the next cursor, and whether the past was lost."""

    names: set[str]
    cursor: str
    lost: bool


class _OpenFeed(NamedTuple):
    fd: int
    inode: int
    generation: str
    base: int


class BankFeed:
    """The feed in the folder behind `folder`, a descriptor. Every method raises OSError.

    `begin`, `done`, `drop` and `make` are for the one who holds the lock of the bank.
    """

    def __init__(self, folder: int, limit: int = FEED_MAX) -> None:
        self._folder = folder
        self._limit = limit
        self._open: _OpenFeed | None = None
        self._line = 0

    # -- reading

    def exists(self) -> bool:
        """Whether there is a readable feed. Without one, all keys count as changed."""
        return self._opened() is not None

    def read(self, cursor: str) -> FeedRead:
        """What was noted since that cursor. A feed has to exist."""
        opened = self._opened()
        if opened is None:
            return FeedRead(set(), "", lost=True)
        length = os.fstat(opened.fd).st_size - _FEED_HEAD_BYTES
        since = _offset(cursor, opened, length)
        if since == length:
            return FeedRead(set(), cursor, lost=False)
        start = 0 if since is None else since
        lines = os.pread(opened.fd, length - start, _FEED_HEAD_BYTES + start).split(b"\n")
        lines.pop()  # behind the last line break: nothing, or a line that is being written
        end = start + sum(len(line) + 1 for line in lines)
        if lines and lines[-1].startswith(b"0"):
            end -= len(lines[-1]) + 1
        names = [_name_in(line) for line in lines]
        whole = None not in names and since is not None
        return FeedRead({name for name in names if name is not None}, _cursor(opened, end), lost=not whole)

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
        if end < _FEED_HEAD_BYTES:
            self.drop()
            raise OSError(errno.EIO, "the change feed was cut off")
        if end - _FEED_HEAD_BYTES > self._limit:
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
            os.unlink(FEED_FILE, dir_fd=self._folder)

    def close(self) -> None:
        """Give the file back."""
        if self._open is not None:
            os.close(self._open.fd)
            self._open = None

    # -- the file

    def _opened(self) -> _OpenFeed | None:
        """The feed that is in the folder now. While a file is open, no other can have its inode."""
        try:
            inode = os.stat(FEED_FILE, dir_fd=self._folder, follow_symlinks=False).st_ino
        except FileNotFoundError:
            self.close()
            return None
        if self._open is None or self._open.inode != inode:
            self.close()
            self._open = self._opened_anew()
        return self._open

    def _opened_anew(self) -> _OpenFeed | None:
        try:
            fd = os.open(FEED_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        head = _FEED_HEAD.fullmatch(os.pread(fd, _FEED_HEAD_BYTES, 0))
        if head is None:
            os.close(fd)
            return None
        return _OpenFeed(fd, os.fstat(fd).st_ino, head[1].decode(), int(head[2]))

    def _cut_torn_line(self, fd: int) -> int:
        """Where the next line begins: a writer that was killed may have left half of one."""
        end = os.fstat(fd).st_size
        if os.pread(fd, 1, end - 1) != b"\n":
            end = os.pread(fd, end, 0).rfind(b"\n") + 1
            os.ftruncate(fd, end)
        return end

    def _compact(self, opened: _OpenFeed) -> tuple[_OpenFeed, int]:
        lines = os.pread(opened.fd, os.fstat(opened.fd).st_size, _FEED_HEAD_BYTES)
        cut = lines.index(b"\n", len(lines) // 2) + 1
        self._replace(opened.generation, opened.base + cut, lines[cut:])
        fresh = self._opened()
        if fresh is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return fresh, _FEED_HEAD_BYTES + len(lines) - cut

    def _replace(self, generation: str, base: int, lines: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(NEW_FEED_FILE, flags, 0o600, dir_fd=self._folder), "wb") as file:
            file.write(b"saltlite feed 1 %s %020d\n" % (generation.encode("ascii"), base))
            file.write(lines)
        os.replace(NEW_FEED_FILE, FEED_FILE, src_dir_fd=self._folder, dst_dir_fd=self._folder)


def _cursor(opened: _OpenFeed, end: int) -> str:
    return f"{opened.generation}:{opened.base + end}"


def _offset(cursor: str, opened: _OpenFeed, length: int) -> int | None:
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


# -- keys as file names: no key becomes a path, a hidden file, or a file of the driver itself

NAME_MAX = 240
"""Bytes of a file name, at most: prefixes of the driver's own fit before it."""


def file_name(key: str) -> str:
    """The name of the file of that key. Letters, digits and `_ . - ~` are themselves, all else is `%XX`, as is a dot in
    front. Raises UsageError for an empty key, and for one whose name gets too long.
    """
    try:
        name = quote(key, safe="")
    except UnicodeEncodeError:
        name = ""
    if name.startswith("."):
        name = "%2E" + name[1:]
    if not 0 < len(name) <= NAME_MAX:
        raise UsageError(f"{key[:40]!r} cannot be a key of the cache: use 1 to {NAME_MAX} letters, digits, _ . and -")
    return name


def key_of(name: str) -> str | None:
    """The key that has this file name, None for a file of another origin."""
    try:
        key = unquote_to_bytes(name).decode()
        return key if file_name(key) == name else None
    except (UnicodeError, UsageError):
        return None


# -- the banks

log = logging.getLogger(__name__)

FOLDER = "banks"
"""Where the banks are below `cachedir`."""

NEW_FILE = ".new"
LOCK_FILE = ".lock"
COPY_FILE = ".copy"
"""A mark: the bank is a copy of a shared one (`saltlite.master.store.projection`), without gaps."""
DAMAGED_PREFIX = ".damaged-"

_READ_BYTES = 64 * 1024

_DAMAGED = frozenset({errno.EIO, errno.EISDIR, errno.ELOOP, errno.EUCLEAN, errno.EBADMSG})
"""Errors of a damaged file, or of something else under its name, which is moved aside as well."""


class _Folder:
    """The folder of one bank, open, with its lock and its feed."""

    def __init__(self, path: str, feed_max: int) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.lock = WriteLock(os.path.join(path, LOCK_FILE))
        self.feed = BankFeed(self.fd, feed_max)

    def is_gone(self) -> bool:
        """Whether the folder was removed."""
        return os.fstat(self.fd).st_nlink == 0

    def close(self) -> None:
        self.feed.close()
        self.lock.close()
        os.close(self.fd)


class LocalBank:
    """The port `saltlite.targeting.banks.Bank` over the folder `path`, which is made when it is not there."""

    def __init__(self, path: str, room: ValueLimits, *, feed_max: int = FEED_MAX) -> None:
        self._path = path
        self._room = room
        self._feed_max = feed_max
        self._held: _Folder | None = None
        self._unreadable: set[str] = set()
        """Keys whose value was named in the log."""

    def get(self, key: str) -> Value | None:
        name = file_name(key)
        with self._using("read") as folder:
            content = _content(folder.fd, name)
            if content is None:
                return None
            value = value_in(content)
            if value is None:
                self._set_aside(folder, name, key)
                return None
        found = decoded(value, *self._room)
        if found is None and key not in self._unreadable:
            self._unreadable.add(key)
            log.error(
                "the value of %s for %r cannot be read by this version: it is empty until the minion sends it again",
                self._path,
                key,
            )
        return found

    def put(self, key: str, value: Mapping[str, Any], digest: str = "") -> None:
        self.put_encoded(file_name(key), encoded(value, *self._room), digest)

    def put_encoded(self, name: str, data: bytes, digest: str, at: float | None = None) -> None:
        """Replace the value in the file of that name; `at` is the time of the put, None for now. Raises as `put`."""
        content = entry(data, check_digest(digest))
        with self._writing() as folder:
            try:
                # No key's file begins with a dot, and what is found under this name is of a writer that was killed.
                _write(folder.fd, NEW_FILE, content)
                if at is not None:
                    os.utime(NEW_FILE, (at, at), dir_fd=folder.fd)
                folder.feed.begin(name)
                os.replace(NEW_FILE, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
            except OSError:
                with suppress(OSError):
                    os.unlink(NEW_FILE, dir_fd=folder.fd)
                raise
            folder.feed.done()

    def digest(self, key: str) -> str:
        with self._using("read") as folder:
            head = _content(folder.fd, file_name(key), ENTRY_HEAD_BYTES)
        return "" if head is None else digest_in(head) or ""

    def delete(self, key: str) -> bool:
        name = file_name(key)
        with self._writing() as folder:
            if not _exists(folder.fd, name):
                return False
            noted = _noted(folder.feed, name)
            os.unlink(name, dir_fd=folder.fd)
            if noted:
                folder.feed.done()
            else:
                folder.feed.drop()
        return True

    def keys(self) -> list[str]:
        with self._using("read") as folder:
            return self._keys(folder)

    def contents(self) -> Iterator[tuple[str, bytes, str, float]]:
        """(file name, encoded value, digest, time of the put) of each value that is not damaged."""
        for key in self.keys():
            name = file_name(key)
            with self._using("read") as folder:
                content = _content(folder.fd, name) or b""
            data = value_in(content)
            if data is not None:
                yield name, data, digest_in(content) or "", self.changed_at(key) or 0.0

    def is_copy(self) -> bool:
        """Whether this bank has all values of the store that masters share; `set_copy` says so."""
        return os.path.exists(os.path.join(self._path, COPY_FILE))

    def set_copy(self) -> None:
        """Note that the values were copied. A bank that loses one, or its folder, is no copy any more."""
        with self._using("written") as folder:
            _write(folder.fd, COPY_FILE, b"")

    def changed_at(self, key: str) -> float | None:
        with self._using("read") as folder, suppress(FileNotFoundError):
            return os.stat(file_name(key), dir_fd=folder.fd, follow_symlinks=False).st_mtime
        return None

    def changes(self, cursor: str) -> Changes:
        with self._using("read") as folder:
            if not folder.feed.exists():
                with folder.lock, _unless_full():
                    folder.feed.make(os.urandom(GENERATION_BYTES))
            found = folder.feed.read(cursor)
            if found.lost:
                return Changes(frozenset(self._keys(folder)), found.cursor, whole=True)
        keys = (key_of(name) for name in found.names)
        return Changes(frozenset(key for key in keys if key is not None), found.cursor)

    def close(self) -> None:
        """Give everything back; the next call opens it again."""
        if self._held is not None:
            self._held.close()
            self._held = None

    @contextmanager
    def _writing(self) -> Iterator[_Folder]:
        with self._using("written") as folder, folder.lock:
            folder.feed.make(os.urandom(GENERATION_BYTES))
            yield folder

    @contextmanager
    def _using(self, how: str) -> Iterator[_Folder]:
        try:
            # Somebody may clear the cache of a master that runs.
            if self._held is not None and self._held.is_gone():
                self.close()
            if self._held is None:
                self._held = _Folder(self._path, self._feed_max)
            yield self._held
        except OSError as error:
            raise StoreError(
                f"the cache {self._path} cannot be {how}: {error.strerror}; see to the disk and the folder's owner"
            ) from error

    def _keys(self, folder: _Folder) -> list[str]:
        keys = (key_of(name) for name in os.listdir(folder.fd) if not name.startswith("."))
        return sorted(key for key in keys if key is not None)

    def _set_aside(self, folder: _Folder, name: str, key: str) -> None:
        with folder.lock:
            # Meanwhile another may have been put in its place.
            content = _content(folder.fd, name)
            if content is None or value_in(content) is not None:
                return
            os.replace(name, DAMAGED_PREFIX + name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
            with suppress(FileNotFoundError):
                os.unlink(COPY_FILE, dir_fd=folder.fd)
        log.error(
            "what %s held of %r was damaged and is kept as %s%s: it is empty until the minion connects again",
            self._path,
            key,
            DAMAGED_PREFIX,
            name,
        )


class LocalBanks:
    """The banks below `cachedir`. Folders are made when they are first used."""

    def __init__(self, cachedir: str) -> None:
        self._root = os.path.join(cachedir, FOLDER)
        self._banks: dict[str, LocalBank] = {}

    def bank(self, name: str) -> LocalBank:
        """One object a process and bank."""
        room = check_bank(name)
        if name not in self._banks:
            self._banks[name] = LocalBank(os.path.join(self._root, name), room)
        return self._banks[name]

    def look_again(self) -> None:
        """Nothing to do: no other master has these files."""

    def close(self) -> None:
        """Give everything back."""
        for bank in self._banks.values():
            bank.close()


@contextmanager
def _unless_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise


def _noted(feed: BankFeed, name: str) -> bool:
    try:
        feed.begin(name)
    except OSError:  # the disk is full, and what is to go has to go all the same
        return False
    return True


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _content(folder: int, name: str, most: int | None = None) -> bytes | None:
    """The first `most` bytes of a file, or all of it; None when it is not there, nothing when it cannot be read."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _nothing(error)
    try:
        content = os.read(fd, most or _READ_BYTES)
        if most is not None or len(content) < _READ_BYTES:
            return content
        parts = [content]
        while part := os.read(fd, _READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    except OSError as error:
        return _nothing(error)
    finally:
        os.close(fd)


def _nothing(error: OSError) -> bytes:
    # One file that cannot be read must not keep anybody from reading all the others.
    if error.errno in _DAMAGED:
        return b""
    raise error


def _write(folder: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(name, flags, 0o600, dir_fd=folder), "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]


__all__ = ["FOLDER", "LocalBank", "LocalBanks"]
