"""The minion's spool: one file for each result, `<id>.ret`, until the master has confirmed that it stored it.

    file    magic(4) | u32 format | u32 crc32 of id and map | msgpack map            all integers big endian

Rules: a file gets this name only when its content is on disk (G6). A small result is first written as `<id>.new`,
without a sync: it survives the end of every process, but not a power failure. `sync` gives it its name, unless the
master has confirmed it before. File names are validated ids of parts and segments. An unreadable `.ret` file is
renamed, never deleted. An unreadable `.new` file is what a power failure left, and is deleted.

`reserve` is an empty file with SPOOL_RESERVE preallocated bytes. A writer that finds the disk full deletes it and uses
its space; until it can be created again, the spool reports that it is full.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import JournalError, UnwrittenError, UsageError
from saltlite.minion.protocol.effects import SPOOL_RESERVE, SpoolEntry
from saltlite.model.job import TERMINAL, TargetState, is_segment_id, parse_part_id
from saltlite.platform.files import FULL, Folder, Handle
from saltlite.wire.limits import SPOOL_BYTES, SPOOL_RESULTS
from saltlite.wire.messages import unfit_field

MAGIC = b"SLRT"
FORMAT = 1
HEADER = struct.Struct(">4sII")

RESULT = ".ret"
UNSYNCED = ".new"
UNFINISHED = ".tmp"
DAMAGED = ".bad"
RESERVE = "reserve"

_FIELDS: dict[str, type] = {
    "state": str,
    "code": int,
    "body": bytes,
    "start_ms": int,
    "dur_ms": int,
    "reason": str,
}


class DiskSpool:
    """The port `saltlite.minion.protocol.effects.Spool` over a folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._unsynced: set[str] = set()

    def open(self) -> None:
        """Delete unfinished files, sync the others and count them; see the port."""
        try:
            for name in self._folder.names():
                if _id_of(name, UNFINISHED) or ((jid := _id_of(name, UNSYNCED)) and not self._is_whole(jid)):
                    self._folder.remove(name)
                elif jid := _id_of(name, UNSYNCED):
                    self._promote(jid)
            # A writer that was killed after its rename may have left a name that is not on disk yet.
            self._folder.sync()
        except OSError as error:
            raise JournalError(f"the spool {self._folder.path} cannot be used: {error.strerror}") from error
        self.full()
        self.jids()

    def write(self, jid: str, result: SpoolEntry, *, sync: bool = True) -> bool:
        """Write, sync, rename, sync the folder; see the port."""
        known = _checked(jid)
        data = encode(jid, result)
        try:
            there = self._size(known)
            if not there:
                self._store_somehow(known, data, sync=sync)
            elif known in self._unsynced:
                self._promote(known)
            if there:
                self._folder.sync()
        except OSError as error:
            raise UnwrittenError(
                f"the result of job {jid} cannot be kept in {self._folder.path}: {error.strerror}; "
                "make room on that disk, or repair it",
                _why(error),
            ) from error
        self._count(known, there or len(data))
        return not there

    def sync(self, jids: Iterable[str]) -> dict[str, str]:
        """Sync the files, rename them, and sync the folder once; see the port."""
        failed: dict[str, str] = {}
        renamed = []
        for jid in self._unsynced.intersection(jids):
            try:
                self._promote(jid)
                renamed.append(jid)
            except OSError as error:
                failed[jid] = _why(error)
        if renamed:
            try:
                self._folder.sync()
            except OSError as error:
                failed |= dict.fromkeys(renamed, _why(error))
        return failed

    def sync_in_place(self, jid: str) -> None:
        """Put a result that was written without a sync on disk under the name that it has, for its job server may be
        using it. Does nothing if it is gone, and raises nothing."""
        with suppress(OSError):
            handle = self._folder.reopen(jid + UNSYNCED)
            try:
                handle.sync()
            finally:
                handle.close()
            self._folder.sync()

    def is_synced(self, jid: str) -> bool:
        """Whether that result is on disk, as far as this instance has noticed it; see the port."""
        return jid not in self._unsynced

    def read(self, jid: str) -> SpoolEntry:
        """Read and check one result; see the port."""
        path = f"{self._folder.path}/{_checked(jid)}{RESULT}"
        try:
            data = self._folder.read(self._name(jid))
        except OSError as error:
            raise JournalError(f"the result {path} cannot be read: {error.strerror}") from error
        try:
            return decode(jid, data)
        except ValueError as error:
            self._put_aside(jid)
            raise JournalError(f"the result {path} is damaged ({error}); it was renamed to {jid}{DAMAGED}") from error

    def remove(self, jid: str) -> None:
        """Delete one result, without a sync: if it reappears it is offered again, which is harmless."""
        try:
            self._folder.remove(self._name(_checked(jid)))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise JournalError(
                f"the result of job {jid} cannot be removed from {self._folder.path}: {error.strerror}"
            ) from error
        self._count(jid, 0)

    def jids(self) -> list[str]:
        """List the folder; see the port."""
        try:
            names = self._folder.names()
            found = {jid: self._size(jid) for name in names if (jid := _id_of(name, RESULT) or _id_of(name, UNSYNCED))}
        except OSError as error:
            raise JournalError(f"the spool {self._folder.path} cannot be read: {error.strerror}") from error
        self._sizes = {jid: size for jid, size in found.items() if size}
        self._bytes = sum(self._sizes.values())
        return sorted(self._sizes)

    def noticed(self, jid: str, *, reported: bool = False) -> bool:
        """Get the size of the file; see the port."""
        known = _checked(jid)
        try:
            there = self._size(known)
            if there and not reported and known not in self._unsynced:
                # Its writer may have been killed before the name was on disk.
                self._folder.sync()
        except OSError as error:
            raise JournalError(f"the spool {self._folder.path} cannot be read: {error.strerror}") from error
        self._count(known, there)
        return there > 0

    def usage(self) -> tuple[int, int]:
        """The last counted usage; see the port."""
        return len(self._sizes), self._bytes

    def full(self) -> str:
        """Restore the reserve if it is gone; see the port."""
        try:
            self._folder.size(RESERVE)
        except FileNotFoundError:
            try:
                self._set_aside()
            except OSError as error:
                return error.strerror or "it is full"
        except OSError as error:
            return error.strerror or "it cannot be read"
        return ""

    def has_room(self) -> bool:
        """Whether SPOOL_RESULTS and SPOOL_BYTES both allow more; see the port."""
        return len(self._sizes) < SPOOL_RESULTS and self._bytes < SPOOL_BYTES

    # -- inside

    def _set_aside(self) -> None:
        handle = self._folder.create(RESERVE)
        try:
            handle.reserve(SPOOL_RESERVE)
        except OSError as error:
            # A file system without preallocation is not full for that reason.
            if error.errno in FULL:
                self._folder.remove(RESERVE)
                raise
        finally:
            handle.close()

    def _store_somehow(self, jid: str, data: bytes, *, sync: bool) -> None:
        """Store a new result, in the space of the reserve if necessary. Raises OSError."""
        try:
            self._store(jid, data, sync=sync)
        except OSError as error:
            if error.errno not in FULL:
                raise
            with suppress(FileNotFoundError):
                self._folder.remove(RESERVE)
            self._store(jid, data, sync=sync)

    def _store(self, jid: str, data: bytes, *, sync: bool) -> None:
        """Store a new result. Raises OSError, without any effect."""
        handle = self._create(jid + UNFINISHED)
        name = jid + (RESULT if sync else UNSYNCED)
        try:
            handle.write(data)
            if sync:
                handle.sync()
            self._folder.rename(jid + UNFINISHED, name)
            if sync:
                self._folder.sync()
            else:
                self._unsynced.add(jid)
        except OSError:
            for leftover in (jid + UNFINISHED, name):
                with suppress(OSError):
                    self._folder.remove(leftover)
            raise
        finally:
            handle.close()

    def _promote(self, jid: str) -> None:
        """Sync the content of a result, then give the file its name. Raises OSError."""
        handle = self._folder.reopen(jid + UNSYNCED)
        try:
            handle.sync()
        finally:
            handle.close()
        self._folder.rename(jid + UNSYNCED, jid + RESULT)
        self._unsynced.discard(jid)

    def _is_whole(self, jid: str) -> bool:
        """Whether the content of a result without a sync is all there. Raises OSError."""
        try:
            decode(jid, self._folder.read(jid + UNSYNCED))
        except ValueError:
            return False
        except JournalError:
            # Of another format: its reader says so.
            return True
        return True

    def _create(self, unfinished: str) -> Handle:
        try:
            return self._folder.create(unfinished)
        except FileExistsError:
            # Its writer is dead: only one process at a time writes for one job.
            self._folder.remove(unfinished)
            return self._folder.create(unfinished)

    def _put_aside(self, jid: str) -> None:
        # If even this fails the file stays, and the next reader gets the same error.
        with suppress(OSError):
            self._folder.rename(self._name(jid), jid + DAMAGED)
            self._count(jid, 0)

    def _name(self, jid: str) -> str:
        """The name of its file. Raises OSError."""
        if jid not in self._sizes:
            self._size(jid)
        return jid + (UNSYNCED if jid in self._unsynced else RESULT)

    def _size(self, jid: str) -> int:
        """The size of that result in bytes, 0 if it is gone. Notes whether it is on disk."""
        for suffix in (UNSYNCED, RESULT):
            with suppress(FileNotFoundError):
                size = self._folder.size(jid + suffix)
                (self._unsynced.add if suffix == UNSYNCED else self._unsynced.discard)(jid)
                return size
        return 0

    def _count(self, jid: str, size: int) -> None:
        self._bytes += size - self._sizes.pop(jid, 0)
        if size:
            self._sizes[jid] = size
        else:
            self._unsynced.discard(jid)


def encode(jid: str, result: SpoolEntry) -> bytes:
    """The encoded result. Raises JournalError when its state is not terminal."""
    if result.state not in TERMINAL:
        raise JournalError(f"job {jid} is {result.state}: only what has ended has a result")
    values: dict[str, Any] = {name: getattr(result, name) for name in _FIELDS}
    payload: bytes = msgpack.packb(values | {"state": result.state.value})
    return HEADER.pack(MAGIC, FORMAT, _checksum(jid, payload)) + payload


def decode(jid: str, data: bytes) -> SpoolEntry:
    """Decode the result of that jid.

    Raises ValueError with the reason for invalid data, and JournalError for another format, which is not damage.
    """
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise ValueError("it does not begin as a result does")
    _, version, crc = HEADER.unpack_from(data)
    if version != FORMAT:
        raise JournalError(
            f"the result of job {jid} has format {version}, and this saltlite reads format {FORMAT}: "
            "let the version that wrote it hand it over"
        )
    payload = memoryview(data)[HEADER.size :]
    if crc != _checksum(jid, payload):
        raise ValueError("wrong checksum")
    values = msgpack.unpackb(payload)
    if type(values) is not dict or {name: type(value) for name, value in values.items()} != _FIELDS:
        raise ValueError("its fields are not those of a result")
    state, unfit = TargetState(values["state"]), unfit_field(values)
    if unfit or state not in TERMINAL:
        # The master would end the session because of it, each time.
        raise ValueError(f"no result has such a {unfit or 'state'}")
    return SpoolEntry(**values | {"state": state})


def _why(error: OSError) -> str:
    return error.strerror or "the disk does not take it"


def _checksum(jid: str, payload: bytes | memoryview) -> int:
    # The jid is covered, so that a renamed file is not taken for another job's result.
    return zlib.crc32(payload, zlib.crc32(jid.encode("ascii")))


def _checked(text: str) -> str:
    """`text`, if it is the id of a part or a segment. Raises UsageError."""
    return text if is_segment_id(text) else parse_part_id(text)


def _id_of(name: str, suffix: str) -> str | None:
    stem = name.removesuffix(suffix)
    if stem == name:
        return None
    try:
        return _checked(stem)
    except UsageError:
        return None
