"""What is done about a registry's file that was left in the middle of something, or that is damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate

from saltlite.errors import DamagedError
from saltlite.resources.registry.layout import INDEX_START, Header, State, capacity_for, fingerprint
from saltlite.resources.registry.mmap.file import RegistryFile, create
from saltlite.resources.registry.records import (
    DELETE,
    HEAD,
    KIND,
    LAST,
    Change,
    encoded,
    is_possible,
    read,
    whole_records,
)
from saltlite.resources.registry.slots import NoRoomError, pack_sorted


def roll_forward(file: RegistryFile, state: State, boot: bytes) -> State:
    """Bring index and state up to what the log says. The new state, declared already.

    A transaction whose last record is there was synced before its writer was killed, and is finished; a part of one
    is cut off. After a start of the machine the index is only believed up to the checkpoint. To be called by the one
    who holds the lock. Raises NoRoomError, and DamagedError when the log is damaged before its committed end.
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
    # Some slots may have been entered before the writer died: what changed is only known by counting.
    live, used, records = _counted(file, end)
    file.sync()
    fresh = State(state.commit + 1, end, live, used, records, end, state.flags, boot)
    file.declare(fresh)
    return fresh


def _finished(file: RegistryFile, start: int) -> tuple[list[Change], list[int], int]:
    """All whole transactions from `start` on: changes, offsets of their records, end of the last one."""
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
    """Where the last whole transaction behind `tail` ends."""
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
    """What is left of a damaged file."""

    rows: list[Change]
    commit: int
    """Number of the last commit, as far as it is known."""


def salvage(file: RegistryFile) -> Salvaged:
    """The rows of which there is no doubt: where the newest whole record in the log is the one the index says.

    When the record of a later owner is damaged, the one of an earlier owner must not come back.
    """
    try:
        state = file.state()
        end, commit = state.tail, state.commit
    except DamagedError:
        # The word may be damaged as well: a number that nothing could count to is not taken over.
        end, commit = file.size(), file.committed() & 0xFFFF_FFFF
    with suppress(DamagedError):
        file.reach(end)
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    for at, _, key, value in whole_records(file.log, file.header.log_start, min(end, len(file.log))):
        newest[key] = at, value
    said = set(zip(*_slots(file), strict=True))
    salt = file.header.hash_key
    rows: list[Change] = [
        (key, value)
        for key, (at, value) in newest.items()
        if value is not None and (fingerprint(salt, key), at) in said and is_possible(key, value)
    ]
    return Salvaged(rows, commit)


def problems_in(file: RegistryFile, state: State) -> Iterator[str]:
    """A sentence for each record that is damaged, and for each row of which log and index disagree.

    Takes no lock: what others commit meanwhile is left out of the question.
    """
    file.reach(state.tail)
    at, newest = file.header.log_start, dict[bytes, tuple[int, bool]]()
    for offset, _, key, value in whole_records(file.log, at, state.tail):
        if offset != at:
            yield f"the log is damaged from byte {at} to byte {offset}"
        at = offset + (HEAD.unpack_from(file.log, offset)[0] & ~KIND)
        newest[key] = offset, value is not None
        if value is not None and not is_possible(key, value):
            yield f"the record at byte {offset} is no row of a registry"
    if at != state.tail:
        yield f"the log is damaged from byte {at} to byte {state.tail}"
    slots: dict[int, int] = {}
    changed: set[int] = set()
    for number, offset in zip(*_slots(file), strict=True):
        if number and offset < state.tail:
            slots[offset] = number
        elif number and _leads_home(file, number, offset):
            # Entered after `state`: what stood there before is not asked for.
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
    """Fingerprints and offsets of all slots; a fingerprint that is there has its offset."""
    numbers = file.slots[0::2].tolist()
    return numbers, file.slots[1::2].tolist()


def rewritten(path: str, rows: list[Change], *, entropy: bytes, capacity: int, state: State) -> RegistryFile:
    """A file under that name with these rows, on disk.

    `entropy` has 32 bytes; of `state`, the number of the last commit, flags and boot are taken. Raises OSError.
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
