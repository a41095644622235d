"""A disk in memory that loses data like a real one: unsynced writes may be missing, partial or complete.

Journal and spool run on it with their production code, so a simulation has the real order of writes, syncs and renames.
`before` is called with the name of each operation, and causes faults: OSError(ENOSPC), OSError(EIO), or any other
exception to cut the power.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from saltlite.minion.jobs.journal import DiskJournal
from saltlite.minion.jobs.spool import DiskSpool

JOURNAL_FOLDER = "/data"
SPOOL_FOLDER = "/data/spool"

Tear = Callable[[bytes], bytes]
"""Of the bytes that were not synced, the ones that are on the disk after the power came back."""


def nothing_landed(_: bytes) -> bytes:
    """The tear of a disk that keeps what was synced, and no more."""
    return b""


class MemoryFile:
    """One file: what programs see, and what would be left without power."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.durable = content
        self.reserved = 0
        """Bytes of the disk that are set aside for it, those of its content included."""
        self.unsound = False
        """A sync failed: later ones succeed and keep nothing, as Linux does since pages are marked clean."""

    def used(self) -> int:
        """Bytes of the disk that it takes."""
        return max(len(self.content), self.reserved)

    def after_crash(self, tear: Tear) -> MemoryFile:
        """The file as it is found afterwards. A cut that was not synced never happened."""
        synced = len(self.durable)
        if self.content[:synced] != self.durable:
            return MemoryFile(self.durable)
        return MemoryFile(self.durable + tear(bytes(self.content[synced:])))


class MemoryDisk:
    """Folders with files. `capacity` is in bytes; a write that does not fit stores what fits, then fails."""

    def __init__(self, *, before: Callable[[str], None] = lambda _: None, capacity: int | None = None) -> None:
        self.before = before
        self.capacity = capacity
        self._folders: dict[str, MemoryFolder] = {}

    def folder(self, path: str) -> MemoryFolder:
        """The folder of that name; it is there from the start."""
        return self._folders.setdefault(path, MemoryFolder(self, path))

    def copied(self, before: Callable[[str], None]) -> MemoryDisk:
        """Another disk with the same files, as in the image of a machine."""
        other = MemoryDisk(before=before, capacity=self.capacity)
        for path, folder in self._folders.items():
            folder.copy_into(other.folder(path))
        return other

    def crash(self, *, tear: Tear = nothing_landed, names_landed: bool = False) -> None:
        """Power off and on. Handles from before lead nowhere afterwards: open everything anew.

        `names_landed`: renames and removals reached the disk although their folder was not synced.
        """
        for folder in self._folders.values():
            folder.crash(tear, names_landed=names_landed)

    def room(self) -> int:
        """Bytes that still fit."""
        if self.capacity is None:
            return 2**63
        return self.capacity - sum(folder.used() for folder in self._folders.values())


class MemoryHandle:
    """The port `saltlite.platform.files.Handle` on a file in memory."""

    def __init__(self, disk: MemoryDisk, file: MemoryFile) -> None:
        self._disk = disk
        self._file = file

    def write(self, data: bytes) -> None:
        self._disk.before("write")
        room = max(0, self._disk.room()) + max(0, self._file.reserved - len(self._file.content))
        self._file.content += data[:room]
        if len(data) > room:
            raise _error(errno.ENOSPC)

    def sync(self) -> None:
        try:
            self._disk.before("sync")
        except OSError:
            self._file.unsound = True
            raise
        if not self._file.unsound:
            self._file.durable = bytes(self._file.content)

    def reserve(self, length: int) -> None:
        self._disk.before("reserve")
        if length - self._file.used() > self._disk.room():
            raise _error(errno.ENOSPC)
        self._file.reserved = max(self._file.reserved, length)

    def size(self) -> int:
        return len(self._file.content)

    def truncate(self, length: int) -> None:
        self._disk.before("truncate")
        del self._file.content[length:]
        self._file.reserved = 0

    def close(self) -> None:
        pass


class MemoryFolder:
    """The port `saltlite.platform.files.Folder` on a disk in memory."""

    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._files: dict[str, MemoryFile] = {}
        self._durable: dict[str, MemoryFile] = {}

    def names(self) -> list[str]:
        self._disk.before("names")
        return list(self._files)

    def size(self, name: str) -> int:
        return len(self._file(name).content)

    def read(self, name: str) -> bytes:
        self._disk.before("read")
        return bytes(self._file(name).content)

    def create(self, name: str) -> MemoryHandle:
        self._disk.before("create")
        if name in self._files:
            raise _error(errno.EEXIST)
        self._files[name] = MemoryFile()
        return MemoryHandle(self._disk, self._files[name])

    def reopen(self, name: str) -> MemoryHandle:
        self._disk.before("reopen")
        return MemoryHandle(self._disk, self._file(name))

    def rename(self, old: str, new: str) -> None:
        self._disk.before("rename")
        self._file(old)
        self._files[new] = self._files.pop(old)

    def remove(self, name: str) -> None:
        self._disk.before("remove")
        self._file(name)
        del self._files[name]

    def sync(self) -> None:
        self._disk.before("sync folder")
        self._durable = dict(self._files)

    def crash(self, tear: Tear, *, names_landed: bool) -> None:
        """Forget what was not synced; see `MemoryDisk.crash`."""
        left = self._files if names_landed else self._durable
        self._files = {name: file.after_crash(tear) for name, file in left.items()}
        self._durable = dict(self._files)

    def copy_into(self, other: MemoryFolder) -> None:
        """The other folder has these files, all of them synced."""
        other._files = {name: MemoryFile(bytes(file.content)) for name, file in self._files.items()}
        other._durable = dict(other._files)

    def used(self) -> int:
        """Bytes of all files, with the room that is set aside for them."""
        return sum(file.used() for file in self._files.values())

    def _file(self, name: str) -> MemoryFile:
        if name not in self._files:
            raise _error(errno.ENOENT)
        return self._files[name]


def memory_journal(disk: MemoryDisk, *, entropy: Callable[[int], bytes]) -> DiskJournal:
    """The journal of a minion whose disk this is."""
    return DiskJournal(disk.folder(JOURNAL_FOLDER), entropy=entropy)


def memory_spool(disk: MemoryDisk) -> DiskSpool:
    """The spool of a minion whose disk this is."""
    return DiskSpool(disk.folder(SPOOL_FOLDER))


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
