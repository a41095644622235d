"""When what was committed is on the disk.

SQLite's own sync of a commit happens while the writer holds the lock, so writers would wait for the disk one after the
other. Here a commit goes to the log without one. The writer releases the lock, syncs the log, and only then returns
from `write()`. So syncs of several processes overlap, and each one covers all commits before it.

Other processes can read a commit before it is synced. A power failure in that moment takes it back. That is harmless
for keys, sessions and states of targets, because the writer has answered no one yet. It is not for what has a number:
an event, a return, and a job. `LogSync` knows up to which number the log is synced, for all processes: readers return
no event above it, and sync the log themselves before they return a job or a return above it.

SQLite still syncs the log before a checkpoint copies it into the file, and the head of each new log.
"""

from __future__ import annotations

import mmap
import os

from saltlite.errors import StoreError
from saltlite.master.store.sqlite.connection import explain

# Words of the shared memory, each 8 bytes, which the processor reads and writes as a whole.
_NEWEST = 0
"""The last number of the last transaction that was about to commit; written under the lock of writers."""
_SYNCED = 1
"""All numbers up to this one are on the disk. It may be too low for a moment, never too high."""
_FAILED = 2
"""Not 0: a sync failed. The kernel reports that once, so a later success does not say that the log is on the disk."""
_BYTES = 3 * 8


class LogSync:
    """Syncs the log of one store. Its words are in the file that writers lock."""

    def __init__(self, path: str, lock_fd: int) -> None:
        """Under the lock of writers, with a connection to the store open. Raises StoreError."""
        self._path = f"{path}-wal"
        try:
            # A full disk is an error here, where it would be a signal at a hole in the file.
            os.posix_fallocate(lock_fd, 0, _BYTES)
            self._memory = mmap.mmap(lock_fd, _BYTES)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise explain(error, self._path) from error
        self._words = memoryview(self._memory).cast("Q")

    def begin(self, last_seq: int) -> None:
        """Sync all that was committed, up to this number: under the lock, when a process opens the store, or after a
        sync that failed. It makes up for a process that ended between its commit and its sync. The words of an earlier
        start of the machine, or of a store that was replaced, are void. Raises StoreError."""
        self._words[_FAILED] = 0
        self.sync(last_seq)
        self._words[_SYNCED] = self._words[_NEWEST] = last_seq

    @property
    def has_failed(self) -> bool:
        """Whether a sync has failed since the store was last opened."""
        return self._words[_FAILED] != 0

    @property
    def synced(self) -> int:
        """The last number that is on the disk, and all before it."""
        return self._words[_SYNCED]

    def is_behind(self) -> bool:
        """Whether a transaction may have committed that is not synced."""
        return self._words[_NEWEST] > self._words[_SYNCED]

    def committing(self, last_seq: int) -> None:
        """A transaction up to this number is about to commit: under the lock. 0: it has no number."""
        self._words[_NEWEST] = max(self._words[_NEWEST], last_seq)

    def sync(self, last_seq: int) -> None:
        """Sync what was committed, with the numbers up to `last_seq`. Raises StoreError, from then on in all processes,
        until one of them has called `begin`."""
        if self.has_failed:
            raise StoreError(
                f"the store could not read or write {self._path} (an earlier sync failed); check the disk below it"
            )
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            self._words[_FAILED] = 1
            raise explain(error, self._path) from error
        # Another process may write a higher number between the two: one that is too low costs a sync later.
        self._words[_SYNCED] = max(self._words[_SYNCED], last_seq)

    def ensure(self, seq: int) -> None:
        """Sync the log unless this number is synced. Raises StoreError."""
        if seq > self._words[_SYNCED]:
            self.sync(seq)

    def close(self) -> None:
        """Let go of the log; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._words.release()
            self._memory.close()
