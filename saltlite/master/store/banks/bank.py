"""`LocalBanks`: the port `saltlite.targeting.banks.Banks` over folders of files."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.store.banks import entries
from saltlite.master.store.banks.feed import FEED_MAX, GENERATION_BYTES, Feed
from saltlite.master.store.banks.names import file_name, key_of
from saltlite.platform.file_lock import WriteLock
from saltlite.platform.folder import FULL
from saltlite.targeting.bank_values import check_digest, decoded, encoded
from saltlite.targeting.banks import Changes, Room, Value, check_bank

log = logging.getLogger(__name__)

FOLDER = "banks"
"""Where the banks are below `cachedir`."""

NEW_FILE = ".new"
LOCK_FILE = ".lock"
DAMAGED_PREFIX = ".damaged-"

_READ_BYTES = 64 * 1024

_DAMAGED = frozenset({errno.EIO, errno.EISDIR, errno.ELOOP, errno.EUCLEAN, errno.EBADMSG})
"""Errors of a file that is damaged, or is none: what it is kept under is moved aside as well."""


class _Folder:
    """The folder of one bank, open, with its lock and its feed."""

    def __init__(self, path: str, feed_max: int) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.lock = WriteLock(os.path.join(path, LOCK_FILE))
        self.feed = Feed(self.fd, feed_max)

    def is_gone(self) -> bool:
        """Whether somebody has removed the folder."""
        return os.fstat(self.fd).st_nlink == 0

    def close(self) -> None:
        self.feed.close()
        self.lock.close()
        os.close(self.fd)


class LocalBank:
    """The port `saltlite.targeting.banks.Bank` over the folder `path`, which is made when it is not there."""

    def __init__(self, path: str, room: Room, *, feed_max: int = FEED_MAX) -> None:
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
            value = entries.value_in(content)
            if value is None:
                self._set_aside(folder, name, key)
                return None
        found = decoded(value, *self._room)
        if found is None and key not in self._unreadable:
            self._unreadable.add(key)
            log.error(
                "what %s holds of %r is no value that this version reads: it is empty until the minion says it again",
                self._path,
                key,
            )
        return found

    def put(self, key: str, value: Mapping[str, Any], digest: str = "") -> None:
        name, data = file_name(key), entries.entry(encoded(value, *self._room), check_digest(digest))
        with self._writing() as folder:
            try:
                # No key's file begins with a dot, and what is found under this name is of a writer that was killed.
                _write(folder.fd, NEW_FILE, data)
                folder.feed.begin(name)
                os.replace(NEW_FILE, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
            except OSError:
                with suppress(OSError):
                    os.unlink(NEW_FILE, dir_fd=folder.fd)
                raise
            folder.feed.done()

    def digest(self, key: str) -> str:
        with self._using("read") as folder:
            head = _content(folder.fd, file_name(key), entries.HEAD_BYTES)
        return "" if head is None else entries.digest_in(head) or ""

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
            if content is None or entries.value_in(content) is not None:
                return
            os.replace(name, DAMAGED_PREFIX + name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
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


def _noted(feed: Feed, name: str) -> bool:
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
