"""What is done about a registry's file that was left in the middle of something, or that is damaged."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from saltlite.adapters.resource_registry.file import RegistryFile, create
from saltlite.core.resources.layout import INCOMPLETE, Header, State, capacity_for, fingerprint
from saltlite.core.resources.records import DELETE, HEAD, KIND, LAST, Change, DamagedError, encoded, read, whole_records
from saltlite.core.resources.slots import pack_sorted
from saltlite.core.resources.views import Views


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
    file.enter(changes, offsets)
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


def _counted(file: RegistryFile, end: int) -> tuple[int, int, int]:
    """Rows, used slots, and records of the log."""
    live = used = records = 0
    for fingerprint_, offset in zip(file.slots[0::2].tolist(), file.slots[1::2].tolist(), strict=True):
        if fingerprint_:
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
    state: State | None
    """None when not even the state could be read."""


def salvage(file: RegistryFile) -> Salvaged:
    """The rows of which there is no doubt: where the newest whole record in the log is the one the index says.

    When the record of a later owner is damaged, the one of an earlier owner must not come back.
    """
    try:
        state: State | None = file.state()
    except DamagedError:
        state = None
    with suppress(DamagedError):
        file.reach(min(state.tail, file.size()) if state else file.size())
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    for at, _, key, value in whole_records(file.log, file.header.log_start, len(file.log)):
        newest[key] = at, value
    said = {
        (fingerprint_, offset)
        for fingerprint_, offset in zip(file.slots[0::2].tolist(), file.slots[1::2].tolist(), strict=True)
        if fingerprint_
    }
    salt = file.header.hash_key
    rows = [(key, value) for key, (at, value) in newest.items() if value and (fingerprint(salt, key), at) in said]
    return Salvaged([row for row in rows if _is_possible(row)], state)


def _is_possible(row: Change) -> bool:
    try:
        Views().apply([row])
    except DamagedError:
        return False
    return True


def problems_in(file: RegistryFile, state: State) -> Iterator[str]:
    """A sentence for each record that is damaged, and for each row of which log and index disagree.

    Takes no lock: what others commit meanwhile is left out of the question.
    """
    file.reach(state.tail)
    log, salt, at = file.log, file.header.hash_key, file.header.log_start
    newest: dict[bytes, int] = {}
    for offset, _, key, value in whole_records(log, at, state.tail):
        if offset != at:
            yield f"the log is damaged from byte {at} to byte {offset}"
        at = offset + (HEAD.unpack_from(log, offset)[0] & ~KIND)
        newest[key] = offset
        if value is not None and not _is_possible((key, value)):
            yield f"the record at byte {offset} is no row of a registry"
    if at != state.tail:
        yield f"the log is damaged from byte {at} to byte {state.tail}"
    said = dict(zip(file.slots[1::2].tolist(), file.slots[0::2].tolist(), strict=True))
    later = {fingerprint_ for offset, fingerprint_ in said.items() if offset >= state.tail}
    for key, offset in newest.items():
        wanted = fingerprint(salt, key)
        if said.get(offset) != wanted and wanted not in later:
            yield f"the index does not know the record at byte {offset}, {key.decode(errors='replace')!r}"


def rewritten(
    path: str, rows: list[Change], *, entropy: bytes, capacity: int, commit: int, boot: bytes, incomplete: bool
) -> RegistryFile:
    """A file under that name with these rows, on disk; `entropy` has 32 bytes. Raises OSError and NoRoomError."""
    header = Header(capacity_for(len(rows), capacity), entropy[:16], entropy[16:])
    lines = encoded(rows) if rows else []
    entries, tail = [], header.log_start
    for (key, _), line in zip(rows, lines, strict=True):
        entries.append((fingerprint(header.hash_key, key), tail))
        tail += len(line)
    packed: array[int] = pack_sorted(sorted(entries), header.capacity)
    flags = INCOMPLETE if incomplete else 0
    blank = State(commit, header.log_start, 0, 0, 0, header.log_start, flags, boot)
    file = create(path, header, blank, packed)
    try:
        if lines:
            file.append(lines, header.log_start, sync=False)
        count = len(rows)
        file.declare(replace(blank, commit=commit + 1, tail=tail, live=count, used=count, records=count, checkpoint=tail))
        file.sync()
    except BaseException:
        file.close()
        os.unlink(path)
        raise
    return file
