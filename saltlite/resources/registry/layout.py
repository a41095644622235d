"""The format of the registry's file: headers, records of the log, and slots of the index.

    0        header: constant during the life of a file, stored twice
    1024     state: changed by every commit, in two copies that alternate, so that one of them is always complete
    3072     two words for readers: superseded by another file, number of the last commit
    4096     index: slots of two words, a fingerprint and the offset of the row's record
    log      records, from a page boundary to the end

Everything is little-endian; the words of the index have the byte order of the machine, which the header records.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Protocol
from zlib import crc32

from saltlite.errors import DamagedError, StoreError
from saltlite.model.dataclass import dataclass

# -- Records of the log: one row each, checked by a CRC, immutable after the commit
#
#     u32  size of the record in bytes, a multiple of 8, with the kind in its three low bits
#     u16  bytes of the key      u16  bytes of the value
#     key (an SRN, UTF-8), value (JSON, UTF-8), zeros up to the size
#     u32  CRC-32 of everything before it
#
# A record does not contain its position, so it can be moved. The CRC is at the end because the CRC of a whole record is
# then one constant: it is checked without parsing the record.


PUT = 1
DELETE = 2
LAST = 4
"""Flag of the last record of a transaction: without it, the records before it were never acknowledged."""

KIND = 7
HEAD = Struct("<IHH")
RECORD_MIN = HEAD.size + 8
RECORD_MAX = 4096
"""Bytes of one record: a key has at most 320, a value a few hundred."""

WHOLE = 0x2144DF1C
"""CRC-32 of anything that is followed by its own CRC-32."""

OWNERS_KEPT = 65_536
"""Cached values: there is one for each type of each minion."""

Change = tuple[bytes, bytes | None]
"""A key with its new value, None for a deletion."""


class Mapped(Protocol):
    """Bytes of a file, in memory or mapped."""

    def __getitem__(self, part: slice, /) -> bytes: ...

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...


def payload(minion: str, resource_type: str) -> bytes:
    """The value of a row: `{"m": <minion id>, "t": <type>}` as JSON without spaces."""
    return json.dumps({"m": minion, "t": resource_type}, separators=(",", ":")).encode()


@lru_cache(maxsize=OWNERS_KEPT)
def owner_in(value: bytes) -> tuple[str, str]:
    """Minion and type in a row's value. Raises DamagedError."""
    try:
        row = json.loads(value)
        minion, resource_type = row["m"], row["t"]
    except (ValueError, TypeError, KeyError, RecursionError):
        minion = resource_type = None
    if not isinstance(minion, str) or not isinstance(resource_type, str):
        raise DamagedError(f"the registry holds a row that names no owner: {value[:80]!r}")
    return minion, resource_type


def is_possible(key: bytes, value: bytes) -> bool:
    """Whether this can be a row of a registry: the type in its key equals the one in its value."""
    try:
        key.decode()
        return key.startswith(owner_in(value)[1].encode() + b":")
    except (DamagedError, UnicodeDecodeError):
        return False


def encoded(changes: Sequence[Change]) -> list[bytes]:
    """One transaction of at least one change: a record for each, in order. Raises StoreError when a row is too long."""
    lines: list[bytes] = []
    known: bytes | None = b"no value yet"
    shapes: dict[int, tuple[bytes, bytes]] = {}
    for key, value in changes:
        # Rows of one minion differ in their keys only, so the bytes around a key are made once for each length.
        if value != known:
            known, shapes = value, {}
        if (shape := shapes.get(len(key))) is None:
            shape = shapes[len(key)] = _shape(key, value, 0)
        line = shape[0] + key + shape[1]
        lines.append(line + crc32(line).to_bytes(4, "little"))
    before, after = _shape(*changes[-1], LAST)
    line = before + changes[-1][0] + after
    lines[-1] = line + crc32(line).to_bytes(4, "little")
    return lines


def _shape(key: bytes, value: bytes | None, flags: int) -> tuple[bytes, bytes]:
    """The bytes before the key, and between the key and the CRC."""
    body = value or b""
    used = HEAD.size + len(key) + len(body) + 4
    size = (used + 7) & ~7
    if size > RECORD_MAX:
        raise StoreError(f"the row {key[:80]!r} has {size} bytes, and the registry takes {RECORD_MAX}: shorten the id")
    kind = (DELETE if value is None else PUT) | flags
    return HEAD.pack(size | kind, len(key), len(body)), body + bytes(size - used)


def read(log: Mapped, at: int, end: int) -> tuple[int, int, bytes, bytes | None]:
    """The record at that offset: its size, its flags, key, and value (None for a deletion).

    Raises DamagedError when there is no complete record between `at` and `end`.
    """
    if at + RECORD_MIN <= end:
        word, keys, values = HEAD.unpack_from(log, at)
        size = word & ~KIND
        record = log[at : at + size] if RECORD_MIN <= size <= RECORD_MAX and at + size <= end else b""
        if record and crc32(record) == WHOLE:
            middle = HEAD.size + keys
            return (
                size,
                word & KIND,
                record[HEAD.size : middle],
                record[middle : middle + values] if word & PUT else None,
            )
    raise DamagedError(f"the registry's record at byte {at} is damaged")


def changes_in(log: Mapped, start: int, end: int) -> Iterator[Change]:
    """The changes between two offsets, in order. Raises DamagedError at an incomplete record."""
    unpack, head, at = HEAD.unpack_from, HEAD.size, start
    # The loop of a full build of the views: `read` is inlined, because it runs a million times.
    while at < end:
        word, keys, values = unpack(log, at) if at + RECORD_MIN <= end else (0, 0, 0)
        size = word & ~KIND
        record = log[at : at + size]
        if crc32(record) != WHOLE or at + size > end or size < RECORD_MIN:
            raise DamagedError(f"the registry's record at byte {at} is damaged")
        middle = head + keys
        yield record[head:middle], record[middle : middle + values] if word & PUT else None
        at += size


def whole_records(log: Mapped, start: int, end: int) -> Iterator[tuple[int, int, bytes, bytes | None]]:
    """Every complete record with its offset and its flags; after damage it continues at the next complete record."""
    at = start
    while at + RECORD_MIN <= end:
        try:
            size, flags, key, value = read(log, at, end)
        except DamagedError:
            at += 8
            continue
        yield at, flags, key, value
        at += size


VERSION = 1
MAGIC = b"saltlreg"
PAGE = 4096
HEADERS = (0, 512)
STATES = (1024, 2048)
SUPERSEDED = 3072 // 8
"""Index, in words, of the word that is 1 after another file has replaced this one."""
COMMITTED = SUPERSEDED + 1
"""Index, in words, of the number of the last commit, which readers watch."""
INDEX_START = PAGE

SLOT = 16
SPARE_SLOTS = 64
"""Slots behind the last home, so that no row wraps around; when they are used up the table grows."""
CAPACITY_MIN = 128
CAPACITY_MAX = 1 << 32
LOAD_MAX = 0.7
"""Used slots for each home, above which linear probing is slow and the table grows."""
GROW_TWICE = 1 << 20
"""Homes up to which a table grows fourfold, so that a large size takes few steps."""

COMMIT_MAX = 1 << 62
"""More commits than a registry can have: a state with such a number is damaged, and its successor would not fit into a
word."""
INCOMPLETE = 1
"""Flag of the state: rows were lost, and not all minions have registered again yet."""

_NOBODY = bytes(16)
_HEADER = Struct("<8sI4sQ16s16s16sQ")
_STATE = Struct("<QQQQQQQ16s")
_ORDER = array("I", [0x01020304]).tobytes()
"""The byte order of this machine, so that a file of the other order is not read as damage."""


@dataclass(frozen=True, slots=True)
class Header:
    """The constant part of a file's header."""

    capacity: int
    """Homes in the index, a power of two."""
    incarnation: bytes
    """16 random bytes that identify this file's content."""
    hash_key: bytes
    """16 random bytes in the fingerprints, so that an attacker cannot choose colliding ids."""
    parent: bytes = _NOBODY
    """Incarnation of the file that this one continues, zeros for none."""
    carried: int = 0
    """End of the rows taken from the parent: a reader that has read all of the parent continues there."""

    @property
    def log_start(self) -> int:
        """Offset of the first record."""
        return (INDEX_START + (self.capacity + SPARE_SLOTS) * SLOT + PAGE - 1) & -PAGE

    def pack(self) -> bytes:
        body = _HEADER.pack(
            MAGIC,
            VERSION,
            _ORDER,
            self.capacity,
            self.incarnation,
            self.hash_key,
            self.parent,
            self.carried,
        )
        return body + crc32(body).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class State:
    """The state after the last commit."""

    commit: int
    """Number of the last commit; it continues in the successor of this file."""
    tail: int
    """End of the committed log."""
    live: int
    """Rows."""
    used: int
    """Used slots, including those of deleted keys."""
    records: int
    """Records of the log, including replaced ones."""
    checkpoint: int
    """The index is on disk up to here; after a power failure later records are entered again."""
    flags: int
    boot: bytes
    """16 bytes that change with each start of the machine."""

    def pack(self) -> bytes:
        body = _STATE.pack(
            self.commit, self.tail, self.live, self.used, self.records, self.checkpoint, self.flags, self.boot
        )
        return body + crc32(body).to_bytes(4, "little")


def read_header(file: Mapped) -> Header:
    """The header. Raises DamagedError for a damaged file, another version or another kind of file."""
    size, why = _HEADER.size, "it is damaged"
    for start in HEADERS:
        body, check = file[start : start + size], file[start + size : start + size + 4]
        if len(check) < 4 or crc32(body).to_bytes(4, "little") != check:
            continue
        magic, version, order, capacity, *rest = _HEADER.unpack(body)
        if magic != MAGIC or version != VERSION or order != _ORDER:
            why = (
                f"it has format {version}, and this program knows {VERSION}" if magic == MAGIC else "it is another file"
            )
        elif CAPACITY_MIN <= capacity <= CAPACITY_MAX and capacity & (capacity - 1) == 0:
            return Header(capacity, *rest)
    raise DamagedError(f"the header cannot be read: {why}")


def read_state(file: Mapped, header: Header) -> State:
    """The newest complete state. Raises DamagedError if there is none."""
    found: list[State] = []
    for start in STATES:
        body, check = file[start : start + _STATE.size], file[start + _STATE.size : start + _STATE.size + 4]
        if len(check) == 4 and crc32(body).to_bytes(4, "little") == check:
            found.append(State(*_STATE.unpack(body)))
    fitting = [
        state for state in found if header.log_start <= state.checkpoint <= state.tail and state.commit < COMMIT_MAX
    ]
    if not fitting:
        raise DamagedError("the state cannot be read: it is damaged")
    return max(fitting, key=lambda state: state.commit)


def fingerprint(hash_key: bytes, key: bytes) -> int:
    """64 bits of a key, never 0 (an empty slot)."""
    return int.from_bytes(blake2b(hash_key + key, digest_size=8).digest(), "little") or 1


def fingerprints(hash_key: bytes, keys: Iterable[bytes]) -> list[int]:
    """`fingerprint` of many keys."""
    number, digest = int.from_bytes, blake2b
    return [number(digest(hash_key + key, digest_size=8).digest(), "little") or 1 for key in keys]


def capacity_for(rows: int, at_least: int = CAPACITY_MIN) -> int:
    """Homes for that many rows and a quarter more. Raises OverflowError."""
    capacity = CAPACITY_MIN
    while capacity * LOAD_MAX < 1.25 * rows or capacity < at_least:
        capacity *= 2
    if capacity > CAPACITY_MAX:
        raise OverflowError(f"the registry's table cannot have {capacity} slots")
    return capacity


# -- Slots of the index: open addressing with linear probing over pairs of words
#
# A slot is (fingerprint, offset of the key's newest record). A deleted key keeps its slot until the next compaction.
# The home slot is given by the top bits of the fingerprint, so a table in slot order is nearly in fingerprint order,
# and is packed again without hashing a key.
#
# Readers take no lock. A new slot gets its offset first and its fingerprint last, each as one aligned word: that last
# store makes it visible. A change of a row changes its offset, also one word.


EMPTY = 0


class NoRoomError(Exception):
    """The slots behind the last home are used up: the table has to grow. Never leaves the registry."""


def shift_for(capacity: int) -> int:
    """The shift that turns a fingerprint into its home in a table of that many homes."""
    return 64 - (capacity.bit_length() - 1)


def probe(words: Sequence[int], fingerprint: int, shift: int, has_key: Callable[[int], bool]) -> int:
    """The number of the word where that key's slot starts, or could start; that word is then EMPTY.

    `words` starts with the first slot. `has_key` tells whether the record at an offset has the key. Raises NoRoomError
    if there is neither.
    """
    at, end = 2 * (fingerprint >> shift), len(words)
    while at < end:
        found = words[at]
        if found == EMPTY or (found == fingerprint and has_key(words[at + 1])):
            return at
        at += 2
    raise NoRoomError


def pack_sorted(entries: Iterable[tuple[int, int]], capacity: int) -> array[int]:
    """A table of (fingerprint, offset) in ascending order: each is at its home or directly after the one before.

    Raises NoRoomError when they run over the end.
    """
    words = array("Q", bytes(16 * (capacity + SPARE_SLOTS)))
    shift, place = 64 - capacity.bit_length(), -2
    for fingerprint, offset in entries:
        # The shift is one bit shorter and the lowest bit cleared: the number of the word, not of the slot.
        home = fingerprint >> shift & -2
        place = home if home > place else place + 2
        try:
            words[place] = fingerprint
        except IndexError:
            raise NoRoomError from None
        words[place + 1] = offset
    return words
