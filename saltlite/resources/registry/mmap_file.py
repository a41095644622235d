"""One open file of the registry: its two maps, its log and its index, its repair and its compaction.

The header and the index are mapped for writing, and their blocks are allocated when the file is created, so a full disk
cannot break a write to a map. The log is mapped for reading only and written by system calls, which report a lack of
space. Behind its end there are always zeros: anything else there is an unfinished write.
"""

from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, compress
from operator import itemgetter
from zlib import crc32

from saltlite.errors import DamagedError
from saltlite.model.dataclass import dataclass
from saltlite.resources.registry import layout
from saltlite.resources.registry.layout import (
    COMMITTED,
    DELETE,
    EMPTY,
    HEAD,
    INDEX_START,
    KIND,
    LAST,
    RECORD_MIN,
    SLOT,
    SPARE_SLOTS,
    SUPERSEDED,
    WHOLE,
    Change,
    Header,
    NoRoomError,
    State,
    capacity_for,
    changes_in,
    encoded,
    fingerprint,
    is_possible,
    pack_sorted,
    probe,
    read,
    shift_for,
    whole_records,
)

ROOM_MIN = 64 * 1024
"""Bytes that the log's file is longer than the log, at least: every process has to map a longer file again."""


PIECE = 4 * 1024 * 1024
"""Bytes of a new file that are synced at once."""


class RegistryFile:
    """The file behind `fd`, which this object owns from now on.

    Raises OSError, and DamagedError when header or state cannot be read or the file is shorter than they say.
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
        """The state after the last commit. Raises DamagedError, also when the file is shorter than its log."""
        try:
            state = layout.read_state(self.log, self.header)
        except DamagedError:
            # Each copy may have been read while it was written, two commits apart, but not twice in a row.
            state = layout.read_state(self.log, self.header)
        if state.tail > os.fstat(self._fd).st_size:
            raise DamagedError(f"it is cut off: its log goes to byte {state.tail}, and the file ends before that")
        if max(state.live, state.records) * RECORD_MIN > state.tail:
            raise DamagedError(f"it is damaged: a log of {state.tail} bytes cannot hold {state.live} rows")
        return state

    def size(self) -> int:
        """Bytes of the file, including the space behind the log."""
        return os.fstat(self._fd).st_size

    def superseded(self) -> bool:
        """Whether another file has replaced this one."""
        return self.words[SUPERSEDED] != 0

    def committed(self) -> int:
        """Number of the last commit; it only reads a word."""
        return self.words[COMMITTED]

    def reach(self, end: int) -> None:
        """Extend the map of the log to at least `end`, a committed offset."""
        if end > len(self.log):
            fresh = _readable(self._fd, end)
            self.log.close()
            self.log = fresh

    def row(self, offset: int) -> tuple[bytes, bytes | None]:
        """Key and value of the record at the offset in a slot. Raises DamagedError."""
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
        """Whether the space behind the end of the log is empty: a killed writer leaves bytes there."""
        return not any(os.pread(self._fd, 8, tail))

    def append(self, lines: Sequence[bytes], tail: int, *, sync: bool) -> int:
        """Write records behind `tail`, with `sync` to disk; returns the new end. After an OSError they are removed, as
        far as the disk allows it."""
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

        Each piece is synced before the next one, because the syncs of other writers wait for dirty pages.
        """
        rest = memoryview(data).cast("B")
        for start in range(0, len(rest), PIECE):
            _write(self._fd, rest[start : start + PIECE], at + start, os.RWF_DSYNC)

    def cut(self, tail: int) -> None:
        """Write zeros behind the end of the log."""
        room = self.size()
        os.ftruncate(self._fd, tail)
        os.ftruncate(self._fd, max(room, tail + 8))

    def enter(self, changes: Sequence[Change], offsets: Iterable[int]) -> tuple[int, int]:
        """Set the slot of each key to the offset of its record; returns the numbers of new rows and new slots.

        Raises NoRoomError and DamagedError. Entering them twice is harmless, but the numbers are unknown then.
        """
        slots, shift, salt = self.slots, self._shift, self.header.hash_key
        rows = used = 0
        numbers = layout.fingerprints(salt, [key for key, _ in changes])
        for (key, value), offset, number in zip(changes, offsets, numbers, strict=True):
            at = 2 * (number >> shift)
            if slots[at] != EMPTY:
                at = self._slot(key, number)
            if slots[at] == EMPTY:
                used += 1
                rows += value is not None
            else:
                was_deleted = HEAD.unpack_from(self.log, slots[at + 1])[0] & DELETE
                rows += (value is not None) - (not was_deleted)
            # In this order: the fingerprint makes a new slot visible.
            slots[at + 1] = offset
            slots[at] = number
        return rows, used

    def declare(self, state: State) -> None:
        """Publish `state` to the readers."""
        packed, start = state.pack(), layout.STATES[state.commit & 1]
        self._bytes[start : start + len(packed)] = packed
        self.words[COMMITTED] = state.commit

    def seal(self, header: Header) -> None:
        """Write another header, while no other process knows this file yet."""
        for start in layout.HEADERS:
            self._bytes[start : start + len(header.pack())] = header.pack()
        self.header = header

    def supersede(self, *, there_is_another: bool) -> None:
        """Tell all processes that have this file open to look for another one, or that they need not."""
        self.words[SUPERSEDED] = int(there_is_another)

    def touch(self, wall_ns: int) -> None:
        """Set the file's time of change, which other programs watch together with the inode."""
        os.utime(self._fd, ns=(wall_ns, wall_ns))

    def sync(self) -> None:
        """Return when the whole file is on disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close file and maps. A second close does nothing."""
        if self._fd >= 0:
            for part in (self.slots, self.words, self._bytes):
                part.release()
            self._index.close()
            self.log.close()
            os.close(self._fd)
            self._fd = -1


def create(path: str, header: Header, state: State) -> RegistryFile:
    """Create a file under that name, replacing any other, with an empty index and no records. Raises OSError."""
    # Always a new inode: an old registry may still be mapped.
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
    """The whole file, for reading. Raises DamagedError when it ends before byte `end`."""
    size = os.fstat(fd).st_size
    if end > size:
        raise DamagedError(f"it is cut off: it has {size} bytes, and byte {end} is needed")
    return mmap.mmap(fd, size, access=mmap.ACCESS_READ)


def _write(fd: int, data: bytes | memoryview, at: int, flags: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwritev(fd, [rest], at, flags)
        at, rest = at + written, rest[written:]


# -- Recovery of a file that is unfinished or damaged


def roll_forward(file: RegistryFile, state: State, boot: bytes) -> State:
    """Bring index and state up to the log; returns the new state, already published. Needs the lock.

    A transaction with its last record was synced before its writer was killed, and is completed; a partial one is cut
    off. After a start of the machine the index is valid only up to the checkpoint. Raises NoRoomError, and DamagedError
    when the log is damaged before its committed end.
    """
    start = state.checkpoint if state.boot != boot else state.tail
    file.reach(state.tail)
    changes, offsets, end = _finished(file, start)
    if end < state.tail:
        raise DamagedError(f"the registry's log is damaged at byte {end} or behind it")
    try:
        file.enter(changes, offsets)
    except NoRoomError:
        if start < state.tail:
            raise DamagedError("the registry's index has no room for rows that it had room for") from None
        raise
    if not file.is_finished(end):
        file.cut(end)
    # Some slots may have been entered before the writer died: only a count tells what changed.
    live, used, records = _counted(file, end)
    file.sync()
    fresh = State(state.commit + 1, end, live, used, records, end, state.flags, boot)
    file.declare(fresh)
    return fresh


def _finished(file: RegistryFile, start: int) -> tuple[list[Change], list[int], int]:
    """All complete transactions from `start` on: changes, offsets of their records, end of the last one."""
    file.reach(file.size())
    changes: list[Change] = []
    offsets: list[int] = []
    at, end, whole = start, start, 0
    while True:
        try:
            size, flags, key, value = read(file.log, at, len(file.log))
        except DamagedError:
            return changes[:whole], offsets[:whole], end
        changes.append((key, value))
        offsets.append(at)
        at += size
        if flags & LAST:
            whole, end = len(changes), at


def finished_end(file: RegistryFile, tail: int) -> int:
    """The end of the last complete transaction behind `tail`."""
    return _finished(file, tail)[2]


def _counted(file: RegistryFile, end: int) -> tuple[int, int, int]:
    """Rows, used slots, and records of the log."""
    live = used = records = 0
    for number, offset in zip(*_slots(file), strict=True):
        if number:
            used += 1
            if offset + HEAD.size > len(file.log):
                raise DamagedError(f"the registry's index points behind the log, to byte {offset}")
            live += not HEAD.unpack_from(file.log, offset)[0] & DELETE
    at = file.header.log_start
    while at < end:
        size = HEAD.unpack_from(file.log, at)[0] & ~KIND
        if not size:
            raise DamagedError(f"the registry's record at byte {at} is damaged")
        at, records = at + size, records + 1
    return live, used, records


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The usable content of a damaged file."""

    rows: list[Change]
    commit: int
    """Number of the last commit, as far as it is known."""


def salvage(file: RegistryFile) -> Salvaged:
    """The rows that are certain: the newest complete record in the log is the one in the index.

    If the record of a later owner is damaged, the one of an earlier owner must not come back.
    """
    try:
        state = file.state()
        end, commit = state.tail, state.commit
    except DamagedError:
        # The word may be damaged as well: an impossible number is not used.
        end, commit = file.size(), file.committed() & 0xFFFF_FFFF
    with suppress(DamagedError):
        file.reach(end)
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    for at, _, key, value in whole_records(file.log, file.header.log_start, min(end, len(file.log))):
        newest[key] = at, value
    stored = set(zip(*_slots(file), strict=True))
    salt = file.header.hash_key
    rows: list[Change] = [
        (key, value)
        for key, (at, value) in newest.items()
        if value is not None and (fingerprint(salt, key), at) in stored and is_possible(key, value)
    ]
    return Salvaged(rows, commit)


def problems_in(file: RegistryFile, state: State) -> Iterator[str]:
    """A sentence for each damaged record, and for each row on which log and index disagree.

    Takes no lock: later commits are ignored.
    """
    file.reach(state.tail)
    at, newest = file.header.log_start, dict[bytes, tuple[int, bool]]()
    for offset, _, key, value in whole_records(file.log, at, state.tail):
        if offset != at:
            yield f"the log is damaged from byte {at} to byte {offset}"
        at = offset + (HEAD.unpack_from(file.log, offset)[0] & ~KIND)
        newest[key] = offset, value is not None
        if value is not None and not is_possible(key, value):
            yield f"the record at byte {offset} is not a row of a registry"
    if at != state.tail:
        yield f"the log is damaged from byte {at} to byte {state.tail}"
    slots: dict[int, int] = {}
    changed: set[int] = set()
    for number, offset in zip(*_slots(file), strict=True):
        if number and offset < state.tail:
            slots[offset] = number
        elif number and _leads_home(file, number, offset):
            # Entered after `state`: the earlier content is not checked.
            changed.add(number)
        elif number:
            yield f"the index leads to byte {offset}, behind the log"
    known = set(slots.values())
    for key, (offset, alive) in newest.items():
        wanted = fingerprint(file.header.hash_key, key)
        # A deleted key loses its slot when the table grows; its record stays until the next compaction.
        expected = alive or wanted in known
        if slots.pop(offset, None) != wanted and wanted not in changed and expected:
            yield f"the index does not lead to the record at byte {offset}, {key.decode(errors='replace')!r}"
    for offset in slots:
        yield f"the index leads to byte {offset}, where no row stands"


def _leads_home(file: RegistryFile, number: int, offset: int) -> bool:
    """Whether the record at that offset has a key with that fingerprint."""
    try:
        return fingerprint(file.header.hash_key, file.row(offset)[0]) == number
    except DamagedError:
        return False


def _slots(file: RegistryFile) -> tuple[list[int], list[int]]:
    """Fingerprints and offsets of all slots; a visible fingerprint has its offset."""
    numbers = file.slots[0::2].tolist()
    return numbers, file.slots[1::2].tolist()


def rewritten(path: str, rows: list[Change], *, entropy: bytes, capacity: int, state: State) -> RegistryFile:
    """A file under that name with these rows, on disk.

    `entropy` has 32 bytes; the number of the last commit, flags and boot come from `state`. Raises OSError.
    """
    homes = capacity_for(len(rows), capacity)
    lines = encoded(rows) if rows else []
    while True:
        header = Header(homes, entropy[:16], entropy[16:])
        places = accumulate(map(len, lines), initial=header.log_start)
        entries = [(fingerprint(header.hash_key, key), place) for (key, _), place in zip(rows, places, strict=False)]
        try:
            packed = pack_sorted(sorted(entries), homes)
        except NoRoomError:
            homes *= 2
        else:
            break
    log, count, start = b"".join(lines), len(rows), header.log_start
    file = create(path, header, replace(state, tail=start, checkpoint=start))
    try:
        file.fill(log, start)
        file.fill(packed, INDEX_START)
        tail = start + len(log)
        file.declare(
            replace(state, commit=state.commit + 1, tail=tail, live=count, used=count, records=count, checkpoint=tail)
        )
        file.sync()
    except BaseException:
        file.close()
        os.unlink(path)
        raise
    return file


# -- Compaction: the same rows in a new file, packed in order or with a larger table
#
# A `Rebuild` starts from a snapshot without the lock. Later commits are behind the snapshot in the old log. They are
# copied first in rounds without the lock, and at last with the lock, before the new file takes the name.


ROUND_BYTES = 64 * 1024
"""Bytes that remain to be copied with the lock, at most, unless writers are faster."""

ROUNDS = 8

BLOCK_RECORDS = 32_768
"""Records copied at once."""

PACKED = ".packed"
"""Suffix of the file of a running compaction."""
GROWN = ".grown"
"""Suffix of the file of a writer whose table grows."""


class Rebuild:
    """A new file with the rows of `old`, which will take the name `target`.

    `entropy` has 16 bytes. Until then its name is `target` with `suffix`, one for each lock, so that no other process
    creates that file. Without `squeeze` the log is copied with its obsolete records, which is faster. Raises OSError,
    DamagedError when a record of the old file is damaged, and NoRoomError when `capacity` is not enough; the new file
    is then removed.
    """

    def __init__(
        self, old: RegistryFile, target: str, *, suffix: str, capacity: int, entropy: bytes, squeeze: bool
    ) -> None:
        self._old = old
        self._target = target
        self._path = target + suffix
        state = old.state()
        old.reach(state.tail)
        entries = _snapshot(old, state)
        header = Header(capacity, entropy, old.header.hash_key, old.header.incarnation)
        start, live = header.log_start, len(entries)
        self.file = create(self._path, header, State(state.commit, start, 0, 0, 0, start, state.flags, state.boot))
        try:
            # If every record is needed there is nothing to choose.
            if squeeze and state.records != live:
                places, tail = self._copy_rows(list(map(itemgetter(1), entries)))
                records = live
            else:
                shift, records = start - old.header.log_start, state.records
                self.file.fill(old.log[old.header.log_start : state.tail], start)
                places, tail = [offset + shift for _, offset in entries], state.tail + shift
            numbers = map(itemgetter(0), entries)
            self.file.fill(pack_sorted(zip(numbers, places, strict=True), capacity), INDEX_START)
            self._state = State(state.commit, tail, live, live, records, tail, state.flags, state.boot)
            self.file.declare(self._state)
        except BaseException:
            self.drop()
            raise
        self._taken = state.tail

    def _copy_rows(self, offsets: list[int]) -> tuple[list[int], int]:
        """Copy the records at these offsets to the new file, in this order; returns their new offsets and the end."""
        places: list[int] = []
        at = self.file.header.log_start
        for first in range(0, len(offsets), BLOCK_RECORDS):
            records = _records(self._old, offsets[first : first + BLOCK_RECORDS])
            block = b"".join(records)
            self.file.fill(block, at)
            places += accumulate(map(len, records[:-1]), initial=at)
            at += len(block)
        return places, at

    def catch_up(self) -> None:
        """Copy most of the later commits and sync, so that little is left for `publish`."""
        for _ in range(ROUNDS):
            self._take_over()
            if self._old.state().tail - self._taken <= ROUND_BYTES:
                break
        self.file.sync()

    def publish(self, pending: int | None = None) -> None:
        """With the lock, and with `old` under the name: make the new file the registry.

        `pending` is the end of a transaction that is in the old log, and in the state of the new file only.
        """
        self._take_over()
        if pending is not None:
            self._take_over(pending)
            self._state = replace(self._state, commit=self._state.commit + 1)
        self.file.seal(replace(self.file.header, carried=self._state.tail))
        self.file.declare(replace(self._state, checkpoint=self._state.tail))
        self.file.sync()
        # Announced before it is true: a reader that finds no new file looks again. Announced later, a crash in between
        # could leave readers with a file without writers.
        self._old.supersede(there_is_another=True)
        os.replace(self._path, self._target)
        sync_folder(os.path.dirname(self._target))

    def drop(self) -> None:
        """Discard the new file."""
        self.file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _take_over(self, pending: int = 0) -> None:
        """Copy what was committed to the old file since the last time, up to `pending` if that is further."""
        now, state = self._old.state(), self._state
        end = max(now.tail, pending)
        self._old.reach(end)
        block = self._old.log[self._taken : end]
        if block:
            changes = list(changes_in(block, 0, len(block)))
            tail = self.file.append([block], state.tail, sync=False)
            rows, used = self.file.enter(changes, _offsets(block, state.tail))
            state = replace(
                state, tail=tail, live=state.live + rows, used=state.used + used, records=state.records + len(changes)
            )
        self._taken = end
        self._state = replace(state, commit=now.commit, flags=now.flags, boot=now.boot)


def sync_folder(path: str) -> None:
    """Return when the names in a folder are on disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _snapshot(old: RegistryFile, state: State) -> list[tuple[int, int]]:
    """(fingerprint, offset) of the rows of `state`, in order of the fingerprints.

    Fingerprints are read first, because a slot with one has an offset. A slot that was changed meanwhile has an offset
    behind the snapshot, and comes with a later copy.
    """
    numbers = old.slots[0::2].tolist()
    offsets = old.slots[1::2].tolist()
    entries = list(zip(compress(numbers, numbers), compress(offsets, numbers), strict=True))
    if max(offsets) >= state.tail:
        entries = [entry for entry in entries if entry[1] < state.tail]
    if state.used != state.live:
        log, head = old.log, HEAD.unpack_from
        entries = [entry for entry in entries if not head(log, entry[1])[0] & DELETE]
    # Nearly in order already: rows whose home was taken are a little behind it.
    entries.sort(key=itemgetter(0))
    return entries


def _records(old: RegistryFile, offsets: list[int]) -> list[bytes]:
    """The complete records at these offsets. Raises DamagedError: a compaction does not copy damage."""
    log, head = old.log, HEAD.unpack_from
    records = [log[offset : offset + (head(log, offset)[0] & ~KIND)] for offset in offsets]
    # With 1,000,000 rows a loop would take a tenth of the whole compaction.
    if set(map(crc32, records)) - {WHOLE}:
        damaged = next(offset for offset, record in zip(offsets, records, strict=True) if crc32(record) != WHOLE)
        raise DamagedError(f"the registry's record at byte {damaged} is damaged")
    return records


def _offsets(block: bytes, start: int) -> list[int]:
    """The offsets of the records of a block that is written at `start`."""
    at, offsets = 0, []
    while at < len(block):
        offsets.append(start + at)
        at += HEAD.unpack_from(block, at)[0] & ~KIND
    return offsets
