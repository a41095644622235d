"""The cache banks: data that minions reported, or that the master compiled for them. All of it can be recreated.

Keys are minion ids, in every bank:

    grains           the grains of the minion
    pillar           its pillar, as last compiled
    resource_grains  {SRN: {"grains": {...}, "stale_since": None or seconds since 1970}} of the resources it manages
    resource_types   {"functions": {type: [signatures]}, ...} of what it registered last:
    saltlite.master.processes.fleet
    mine             {name: [digest, encoded value, allow_tgt, allow_tgt_type]}: saltlite.master.handlers.mine
    mine_times       {name: seconds since 1970 when the minion last confirmed the value}

Any process of the master may write and read. Readers follow changes by a cursor. This module has the ports `Bank` and
`Banks`, the limits, and the encoding of values; `saltlite.master.store.banks` stores them in files.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol

from saltlite.errors import LocalProtocolError, RemoteProtocolError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.wire.codec import Limits, decode, encode_checked
from saltlite.wire.limits import DOC_MAX, RESOURCE_GRAINS_TOTAL_MAX

GRAINS = "grains"
PILLAR = "pillar"
RESOURCE_GRAINS = "resource_grains"
RESOURCE_TYPES = "resource_types"
MINE = "mine"
MINE_TIMES = "mine_times"

_KIB = 1024

GRAINS_MAX = 256 * _KIB
"""Encoded bytes of one minion's grains. More is refused."""

RESOURCE_GRAINS_MAX = 64 * _KIB
"""Encoded bytes of one resource's grains. More is refused."""


RESOURCE_KEYS_MAX = 256
"""Top-level names in the grains of one resource. Grains with more are refused."""

KEY_NAMES_MAX = 1000
"""Different top-level names in the grains of one minion and all its resources, each of which is a column of the index.
Grains with further names are refused."""

RESOURCE_LEAVES_MAX = 1_000_000
"""Plain values, empty maps and empty lists in the grains of all resources of one minion: ten each for 100,000
resources. Further grains are refused."""

LEAVES_MAX = 20_000
"""Plain values, empty maps and empty lists in the grains of one minion or resource. More is refused."""

VALUE_DEPTH_MAX = 32
"""Nested maps and lists in the grains of one minion or resource. Deeper ones are refused."""

MINE_MAX = 1024 * _KIB
"""Encoded bytes of the values in the mine of one minion. More is refused."""

DIGEST_MAX = 64
"""ASCII characters of a digest."""


class ValueLimits(NamedTuple):
    """The largest size of a value in bytes, and its depth."""

    most: int
    depth: int = VALUE_DEPTH_MAX


NAMES = {
    GRAINS: ValueLimits(GRAINS_MAX),
    PILLAR: ValueLimits(DOC_MAX),
    # The names of a complete document, and the grains, which are two levels below it.
    RESOURCE_GRAINS: ValueLimits(DOC_MAX + 2 * RESOURCE_GRAINS_TOTAL_MAX, VALUE_DEPTH_MAX + 2),
    RESOURCE_TYPES: ValueLimits(DOC_MAX),
    # With the names, digests and targets of readers of each value.
    MINE: ValueLimits(3 * MINE_MAX),
    MINE_TIMES: ValueLimits(64 * _KIB),
}
"""The banks with the limits of their values."""

Value = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes in a bank since a cursor."""

    keys: frozenset[str]
    """Keys that were put or deleted; with `whole`, all existing keys."""
    cursor: str
    """The cursor for the next call."""
    whole: bool = False
    """The history was lost, or the cursor was empty: keys that are not listed do not exist."""


class Bank(Protocol):
    """One bank. Every method raises StoreError when the disk fails, and UsageError for an invalid key."""

    def get(self, key: str) -> Value | None:
        """The value; None if there is none, or if it is damaged."""
        ...

    def put(self, key: str, value: Mapping[str, Any], digest: str = "") -> None:
        """Replace the value and its digest atomically.

        Raises UsageError for a value that is too large or too deep or has other types than msgpack. Raises StoreError
        when the disk fails; the old value is kept then.
        """
        ...

    def digest(self, key: str) -> str:
        """The digest stored with the value; "" if there is none."""
        ...

    def delete(self, key: str) -> bool:
        """Remove the value, also on a full disk. True if there was one."""
        ...

    def keys(self) -> list[str]:
        """Every key with a value, sorted."""
        ...

    def changed_at(self, key: str) -> float | None:
        """Seconds since 1970 of the last put; None without a value."""
        ...

    def changes(self, cursor: str) -> Changes:
        """The changes by any process since `cursor`; "" for the complete bank.

        Values that are read after this call are at least as new. It is cheap while nothing changes.
        """
        ...


class Banks(Protocol):
    """The banks of one master."""

    def bank(self, name: str) -> Bank:
        """The bank of that name. Raises UsageError for an unknown one."""
        ...

    def look_again(self) -> None:
        """Have what is read from now on, and resources as well, contain all that any master committed before. Without a
        call, changes of other masters are seen a moment later."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


def check_bank(name: str) -> ValueLimits:
    """The limits of a value in that bank. Raises UsageError for an unknown bank."""
    if name not in NAMES:
        raise UsageError(f"there is no cache bank {name[:40]!r}: there are {', '.join(NAMES)}")
    return NAMES[name]


def encoded(value: Mapping[str, Any], most: int, depth: int = VALUE_DEPTH_MAX) -> bytes:
    """The value in msgpack, at most `most` bytes and `depth` levels. Raises UsageError."""
    try:
        return encode_checked(dict(value), limits_of(most, depth))
    except LocalProtocolError as error:
        raise UsageError(f"this cannot be cached: {error}") from None


def decoded(data: bytes, most: int, depth: int = VALUE_DEPTH_MAX) -> Value | None:
    """The value in these bytes; None if they are invalid."""
    try:
        value = decode(data, limits_of(most, depth))
    except RemoteProtocolError:
        return None
    return value if isinstance(value, dict) else None


def check_digest(digest: str) -> str:
    """`digest`, if it is valid. Raises UsageError."""
    if len(digest) > DIGEST_MAX or not digest.isascii() or "\0" in digest:
        raise UsageError(f"a digest has at most {DIGEST_MAX} ASCII characters")
    return digest


_EMPTY = (None,)


def leaves_of(content: Mapping[Any, Any], depth: int = VALUE_DEPTH_MAX) -> int:
    """The number of plain values, empty maps and empty lists, which an index may have to hold.

    Raises UsageError for more than `depth` nested maps and lists.
    """
    count, level = 0, [content.values() or _EMPTY]
    for _ in range(depth):
        below: list[Any] = []
        for values in level:
            count += len(values)
            for value in values:
                if isinstance(value, dict):
                    below.append(value.values() or _EMPTY)
                elif isinstance(value, list):
                    below.append(value or _EMPTY)
        if not below:
            return count
        count -= len(below)
        level = below
    raise UsageError(f"this cannot be cached: there are more than {depth} levels of maps and lists")


@cache
def limits_of(most: int, depth: int) -> Limits:
    """The codec's limits for a value of this size and depth."""
    return Limits(depth=depth, map=most, array=most, string=most, binary=most, containers=most, total=most)
