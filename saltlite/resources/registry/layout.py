"""Where things stand in the registry's file, and its two headers.

    0        header: what never changes in the life of a file, twice
    1024     state: what every commit changes, in two copies that take turns, so that one of them is always whole
    3072     two words that readers look at: superseded by another file, number of the last commit
    4096     index: slots of two words, a fingerprint and the offset of the row's record
    log      records (`records`), from a page boundary to the end

Everything is little-endian; the words of the index are those of the machine, and the header says how it writes them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from zlib import crc32

from saltlite.errors import DamagedError
from saltlite.resources.registry.records import Mapped

VERSION = 1
MAGIC = b"saltlreg"
PAGE = 4096
HEADERS = (0, 512)
STATES = (1024, 2048)
SUPERSEDED = 3072 // 8
"""Index, in words, of the word that is 1 once another file stands in place of this one."""
COMMITTED = SUPERSEDED + 1
"""Index, in words, of the number of the last commit: what readers watch."""
INDEX_START = PAGE

SLOT = 16
SPARE_SLOTS = 64
"""Slots behind the last home, so that no row wraps around; when they do not suffice the table grows."""
CAPACITY_MIN = 128
CAPACITY_MAX = 1 << 32
LOAD_MAX = 0.7
"""Used slots for each home; above it linear probing gets slow, and the table grows."""
GROW_TWICE = 1 << 20
"""Homes up to which a table grows fourfold, so that few growths are needed to become large."""

COMMIT_MAX = 1 << 62
"""No registry has so many commits: a state that says so is damaged, and its successor would fit into no word."""
INCOMPLETE = 1
"""Flag of the state: rows were lost, and not all minions have registered again since."""

_NOBODY = bytes(16)
_HEADER = Struct("<8sI4sQ16s16s16sQ")
_STATE = Struct("<QQQQQQQ16s")
_ORDER = array("I", [0x01020304]).tobytes()
"""Bytes of a number on this machine: a file of a machine with the other order is not read as damage."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stays the same as long as a file lives."""

    capacity: int
    """Homes in the index, a power of two."""
    incarnation: bytes
    """16 random bytes: the name of this file's content."""
    hash_key: bytes
    """16 random bytes that fingerprints depend on, so that nobody can choose ids that pile up."""
    parent: bytes = _NOBODY
    """Incarnation of the file that this one continues, zeros when it continues none."""
    carried: int = 0
    """End of what this file took over: who had read all of the parent goes on from there."""

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
    """What the last commit left."""

    commit: int
    """Number of the last commit; it goes on counting in the file that comes after this one."""
    tail: int
    """End of the committed log."""
    live: int
    """Rows."""
    used: int
    """Slots in use: rows, and keys that were deleted."""
    records: int
    """Records of the log, those that a later one replaced included."""
    checkpoint: int
    """Up to here the index is on disk; after a power failure what follows is entered again."""
    flags: int
    boot: bytes
    """16 bytes that are others after each start of the machine."""

    def pack(self) -> bytes:
        body = _STATE.pack(
            self.commit, self.tail, self.live, self.used, self.records, self.checkpoint, self.flags, self.boot
        )
        return body + crc32(body).to_bytes(4, "little")


def read_header(file: Mapped) -> Header:
    """The header. Raises DamagedError for a file that is damaged, of another version or of something else."""
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
    """The newest state that is whole. Raises DamagedError when none is."""
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
    """Homes for that many rows and a quarter more, before the table is too full. Raises OverflowError."""
    capacity = CAPACITY_MIN
    while capacity * LOAD_MAX < 1.25 * rows or capacity < at_least:
        capacity *= 2
    if capacity > CAPACITY_MAX:
        raise OverflowError(f"the registry's table cannot have {capacity} slots")
    return capacity
