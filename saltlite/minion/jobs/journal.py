"""The minion's journal: one file in a private folder, appended to and synced before each step of a job.

Rules: the file gets its name only after it was synced as a whole. What `open()` returns is on disk. After a failed sync
the journal is unusable, because the kernel may mark pages clean that never reached the disk.

A full disk is harmless. JOURNAL_RESERVE bytes are preallocated behind the end of the file, so that the progress of
accepted jobs can still be written; while they cannot be, no new job is accepted. On a file system without preallocation
(such as ZFS) each record finds out by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from saltlite.errors import JournalError, UnwrittenError
from saltlite.minion.protocol.effects import JOURNAL_COMPACT_BYTES, JOURNAL_RESERVE, JournalEntry, Record
from saltlite.minion.protocol.journal_format import (
    FLOOR,
    HEADER,
    Replay,
    changes,
    frame,
    header,
    kept,
    kept_map,
    record_map,
    replay,
)
from saltlite.model.ids import PartId
from saltlite.platform.files import FULL, Folder, Handle
from saltlite.wire.messages import RUN_MAX

NAME = "journal"
REWRITE = "journal.tmp"
RUNS = "runs"
RUNS_NEW = "runs.tmp"


class RunCounter:
    """Counts the starts of the network process on this disk, which puts the sessions of this minion in order: a master
    that was stopped for a while must not take it back by an older one. The file is beside the journal."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._last = 0

    def next(self) -> int:
        """The number of this start, on disk if that is possible. Without a file, or with a damaged one, it begins with
        1."""
        with suppress(OSError, ValueError):
            self._last = max(self._last, int(self._folder.read(RUNS)))
        self._last = min(self._last, RUN_MAX - 1) + 1
        # A full or failing disk costs only the order of the next start, and must not keep the minion from its master.
        with suppress(OSError):
            self._write(f"{self._last}\n".encode())
        return self._last

    def _write(self, content: bytes) -> None:
        with suppress(FileNotFoundError):
            self._folder.remove(RUNS_NEW)
        handle = self._folder.create(RUNS_NEW)
        try:
            handle.write(content)
            handle.sync()
        finally:
            handle.close()
        self._folder.rename(RUNS_NEW, RUNS)
        self._folder.sync()


class DiskJournal:
    """The port `saltlite.minion.protocol.effects.Journal` over a folder. `entropy(n)` returns n random bytes for a new
    journal."""

    def __init__(self, folder: Folder, *, entropy: Callable[[int], bytes]) -> None:
        self.incarnation = ""
        self.floor = ""
        self.repaired = ""
        self._folder = folder
        self._entropy = entropy
        self._path = f"{folder.path}/{NAME}"
        self._handle: Handle | None = None
        self._entries: dict[PartId, JournalEntry] = {}
        self._dead = "it is not open"
        self._header = b""
        self._seed = 0
        self._size = 0
        self._synced = 0
        self._compact_above = 0
        self._reserved = 0
        self._full = ""

    def open(self) -> list[JournalEntry]:
        """Read or create the file; see the port."""
        try:
            if REWRITE in (names := self._folder.names()):
                self._folder.remove(REWRITE)
            if NAME in names:
                self._load()
            else:
                self._believe(Replay(self._entropy(16), 0, 0))
                self._rewrite([])
        except OSError as error:
            raise JournalError(f"the journal {self._path} cannot be opened: {error.strerror}") from error
        self._dead = ""
        return sorted(self._entries.values(), key=lambda entry: entry.jid)

    def append(self, records: Sequence[Record]) -> None:
        """Write all records in one call; see the port."""
        handle = self._living()
        changed = changes(self._entries, records, self.floor)
        lines = [frame(record_map(record), seed=self._seed, synced=self._synced) for record in records]
        data = b"".join(lines)
        if self._reserved < self._size + len(data) + JOURNAL_RESERVE:
            self._reserve(handle, len(data))
        try:
            handle.write(data)
        except OSError as error:
            self._not_written(handle, error)
        self._size += len(data)
        self._entries.update(changed)

    def full(self) -> str:
        """See the port. It makes a system call only while the reserve is incomplete."""
        if self._full and self._handle is not None and not self._dead:
            self._reserve(self._handle, 0)
        return self._full

    def sync(self) -> None:
        """Call fdatasync if something is unsynced; see the port."""
        handle = self._living()
        if self._synced == self._size:
            return
        try:
            handle.sync()
        except OSError as error:
            self._die(f"a sync failed: {error.strerror}", error)
        self._synced = self._size

    def entry(self, jid: str) -> JournalEntry | None:
        return self._entries.get(jid)

    def should_compact(self) -> bool:
        """See the port. A file that stays large is compacted when it has doubled."""
        return self._size > self._compact_above

    def compact(self, now_ms: int) -> None:
        """Write the remaining entries into a new file and rename it; see the port."""
        old = self._living()
        staying, floor = kept(self._entries.values(), now_ms, self.floor)
        before, self.floor = self.floor, floor
        try:
            self._rewrite(staying)
        except OSError as error:
            self.floor = before
            # Not before it has doubled: a new attempt for every job would only load the disk.
            self._compact_above = max(JOURNAL_COMPACT_BYTES, 2 * self._size)
            with suppress(OSError):
                self._folder.remove(REWRITE)
            raise JournalError(
                f"the journal {self._path} could not be rewritten and is used as it was: {error.strerror}"
            ) from error
        old.close()
        self._entries = {entry.jid: entry for entry in staying}

    def close(self) -> None:
        """Close the file, without a sync. A second close does nothing."""
        if self._handle is not None:
            self._handle.close()
        self._handle = None
        self._dead = "it is closed"

    # -- inside

    def _load(self) -> None:
        data = self._folder.read(NAME)
        found = replay(data, self._path)
        self._believe(found)
        self._handle = self._folder.reopen(NAME)
        self._size = found.end
        self._compact_above = HEADER.size
        if found.end < len(data):
            self._handle.truncate(found.end)
            self.repaired = (
                f"the journal {self._path} ended in a record that was never finished: "
                f"{len(data) - found.end} bytes were cut off at byte {found.end}"
            )
        # A killed process may have written records without a sync; from here on they have effects.
        self._handle.sync()
        self._synced = found.end
        self._reserve(self._handle, 0)

    def _believe(self, found: Replay) -> None:
        self.incarnation = found.incarnation.hex()
        self.floor = found.floor
        self._entries = found.entries
        self._header = header(found.incarnation)
        self._seed = int.from_bytes(self._header[-4:], "big")

    def _rewrite(self, entries: Iterable[JournalEntry]) -> None:
        """Replace the journal by a new file. Raises OSError while the old one is still in use."""
        parts = [self._header]
        size = len(self._header)
        # Each record declares what is before it as synced: the file is renamed only after that is true.
        for payload in [*map(kept_map, entries), {"k": FLOOR, "j": self.floor}]:
            line = frame(payload, seed=self._seed, synced=size)
            parts.append(line)
            size += len(line)
        handle = self._folder.create(REWRITE)
        try:
            handle.write(b"".join(parts))
            handle.sync()
            self._folder.rename(REWRITE, NAME)
        except OSError:
            handle.close()
            raise
        try:
            self._folder.sync()
        except OSError as error:
            handle.close()
            self._die(f"its folder could not be synced: {error.strerror}", error)
        self._handle = handle
        self._size = self._synced = size
        self._compact_above = max(JOURNAL_COMPACT_BYTES, 2 * size)
        self._reserve(handle, 0)

    def _reserve(self, handle: Handle, further: int) -> None:
        """Preallocate `further` bytes and the reserve, twice over, so that few records need a system call."""
        needed = self._size + further + JOURNAL_RESERVE
        for wanted in (needed + JOURNAL_RESERVE, needed):
            try:
                handle.reserve(wanted)
            except OSError as error:
                # Without preallocation there is nothing to wait for either.
                self._full = (error.strerror or "it is full") if error.errno in FULL else ""
            else:
                self._full, self._reserved = "", wanted
                return

    def _living(self) -> Handle:
        if self._dead or self._handle is None:
            raise JournalError(f"the journal {self._path} takes no records, because {self._dead}")
        return self._handle

    def _not_written(self, handle: Handle, error: OSError) -> NoReturn:
        """Remove the part of a record that a full disk accepted; any other error disables this journal."""
        if error.errno not in FULL:
            self._die(f"a write failed: {error.strerror}", error)
        self._reserved = 0
        try:
            handle.truncate(self._size)
            left = handle.size() - self._size
        except OSError as again:
            self._die(f"an unfinished record could not be removed: {again.strerror}", again)
        if left:
            self._die(f"{left} bytes of an unfinished record could not be removed", error)
        why = error.strerror or "it is full"
        raise UnwrittenError(f"the journal {self._path} cannot be written: {why}", why) from error

    def _die(self, why: str, error: OSError) -> NoReturn:
        self._dead = f"{why}; check the disk, then start the minion again"
        raise JournalError(f"the journal {self._path} takes no more records, because {self._dead}") from error
