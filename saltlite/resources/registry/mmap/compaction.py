"""Another file for the same rows: packed in order, or with a larger table, and with every commit made meanwhile.

A `Rebuild` starts from a snapshot without the lock. What is committed meanwhile stands behind the snapshot in the old
log, and is taken over, first in rounds without the lock, then, with the lock, for the last time before the new file
gets the name.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, compress
from operator import itemgetter
from zlib import crc32

from saltlite.errors import DamagedError
from saltlite.resources.registry.layout import INDEX_START, Header, State
from saltlite.resources.registry.mmap.file import RegistryFile, create
from saltlite.resources.registry.records import DELETE, HEAD, KIND, WHOLE, changes_in
from saltlite.resources.registry.slots import pack_sorted

ROUND_BYTES = 64 * 1024
"""What is left to take over with the lock, at most, if the writers let it come to that."""

ROUNDS = 8

BLOCK_RECORDS = 32_768
"""Records that are copied at once."""

PACKED = ".packed"
"""Behind the name of the registry: the file of the one compaction that runs."""
GROWN = ".grown"
"""Behind the name of the registry: the file of the writer whose table grows."""


class Rebuild:
    """A new file with the rows of `old`, which is to take the name `target`. `entropy` has 16 bytes.

    Until then its name is `target` with `suffix` behind it: one for each lock, so that nobody else makes that file.

    Without `squeeze` the log is copied as it is, records that nobody needs included, which is quicker.
    Raises OSError, DamagedError when a record of the old file is damaged, and NoRoomError when `capacity` is not
    enough; then nothing is left of the new file.
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
            # Where every record is needed there is nothing to choose.
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
        """Write the records at these offsets of the old file to the new one, in this order: where, and their end."""
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
        """Take over most of what was committed meanwhile, and sync, so that little is left for `publish`."""
        for _ in range(ROUNDS):
            self._take_over()
            if self._old.state().tail - self._taken <= ROUND_BYTES:
                break
        self.file.sync()

    def publish(self, pending: int | None = None) -> None:
        """With the lock, and with `old` under the name: let the new file be the registry.

        `pending` is the end of a transaction that is in the old log, and in the state of the new file only.
        """
        self._take_over()
        if pending is not None:
            self._take_over(pending)
            self._state = replace(self._state, commit=self._state.commit + 1)
        self.file.seal(replace(self.file.header, carried=self._state.tail))
        self.file.declare(replace(self._state, checkpoint=self._state.tail))
        self.file.sync()
        # Told before it is true: who looks and finds nothing new looks again. Told after it, a crash in between could
        # leave readers with a file that nobody writes any more.
        self._old.supersede(there_is_another=True)
        os.replace(self._path, self._target)
        sync_folder(os.path.dirname(self._target))

    def drop(self) -> None:
        """Not this time."""
        self.file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _take_over(self, pending: int = 0) -> None:
        """Write and enter what was committed to the old file since the last time, up to `pending` if that is more."""
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

    Fingerprints are read first: who has one has an offset. A slot that was changed meanwhile says an offset behind
    the snapshot, and comes with what is taken over later.
    """
    numbers = old.slots[0::2].tolist()
    offsets = old.slots[1::2].tolist()
    entries = list(zip(compress(numbers, numbers), compress(offsets, numbers), strict=True))
    if max(offsets) >= state.tail:
        entries = [entry for entry in entries if entry[1] < state.tail]
    if state.used != state.live:
        log, head = old.log, HEAD.unpack_from
        entries = [entry for entry in entries if not head(log, entry[1])[0] & DELETE]
    # Nearly in order already: rows that found their home taken stand a little behind it.
    entries.sort(key=itemgetter(0))
    return entries


def _records(old: RegistryFile, offsets: list[int]) -> list[bytes]:
    """The whole records at these offsets. Raises DamagedError: a compaction hands no damage on."""
    log, head = old.log, HEAD.unpack_from
    records = [log[offset : offset + (head(log, offset)[0] & ~KIND)] for offset in offsets]
    # At 1,000,000 rows a loop would be a tenth of the whole compaction.
    if set(map(crc32, records)) - {WHOLE}:
        damaged = next(offset for offset, record in zip(offsets, records, strict=True) if crc32(record) != WHOLE)
        raise DamagedError(f"the registry's record at byte {damaged} is damaged")
    return records


def _offsets(block: bytes, start: int) -> list[int]:
    """Where the records of a block stand once it is written at `start`."""
    at, offsets = 0, []
    while at < len(block):
        offsets.append(start + at)
        at += HEAD.unpack_from(block, at)[0] & ~KIND
    return offsets
