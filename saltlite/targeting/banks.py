"""The cache banks: what minions said about themselves, and what was made for them. All of it can be made again.

Keys are minion ids, in every bank:

    grains           the grains of the minion
    pillar           its pillar, as it was compiled last
    resource_grains  {SRN: {"grains": {...}, "stale_since": None or seconds since 1970}} of the resources it manages
    resource_types   {"functions": {type: [signatures]}, ...} of what it registered last:
    saltlite.master.processes.fleet

Any process of the master may write and read. A reader follows by a cursor, and so never looks at what did not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

from saltlite.errors import LocalProtocolError, RemoteProtocolError, UsageError
from saltlite.wire.codec import Limits, decode, encode_checked
from saltlite.wire.limits import DOC_MAX

GRAINS = "grains"
PILLAR = "pillar"
RESOURCE_GRAINS = "resource_grains"
RESOURCE_TYPES = "resource_types"

_KIB = 1024

GRAINS_MAX = 256 * _KIB
"""Bytes of one minion's grains, encoded. More is refused."""

RESOURCE_GRAINS_MAX = 64 * _KIB
"""Bytes of one resource's grains, encoded. More is refused."""

RESOURCE_GRAINS_TOTAL_MAX = 16 * _KIB * _KIB
"""Bytes of the grains of all resources of one minion, encoded. The grains of further ones are refused."""

RESOURCE_KEYS_MAX = 256
"""Top-level names in the grains of one resource. Grains with more are refused."""

KEY_NAMES_MAX = 1000
"""Different top-level names in the grains of one minion, and in those of all its resources: each is a column of the
index. Grains that bring in further ones are refused."""

RESOURCE_LEAVES_MAX = 1_000_000
"""Plain values, with empty maps and lists, in the grains of all resources of one minion: ten each where it has
100,000. Grains beyond them are refused."""

LEAVES_MAX = 20_000
"""Plain values, with empty maps and lists, in the grains of one minion or of one resource. More is refused."""

VALUE_DEPTH_MAX = 32
"""Levels of maps and lists inside each other in the grains of one minion or one resource. Deeper is refused."""

DIGEST_MAX = 64
"""ASCII characters of a digest."""


class Room(NamedTuple):
    """How large a value may be, in bytes, and how deep."""

    most: int
    depth: int = VALUE_DEPTH_MAX


NAMES = {
    GRAINS: Room(GRAINS_MAX),
    PILLAR: Room(DOC_MAX),
    # The names of a whole document, the grains, and what stands around them: those are two levels below the whole.
    RESOURCE_GRAINS: Room(DOC_MAX + 2 * RESOURCE_GRAINS_TOTAL_MAX, VALUE_DEPTH_MAX + 2),
    RESOURCE_TYPES: Room(DOC_MAX),
}
"""The banks, with the room that a value of each has."""

Value = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed in a bank since a cursor was given."""

    keys: frozenset[str]
    """Keys that were put or deleted, one or many times; with `whole`, every key that there is."""
    cursor: str
    """What to ask with next."""
    whole: bool = False
    """The past was lost, or nothing was asked before: what is not among the keys is not there."""


class Bank(Protocol):
    """One bank. Every method raises StoreError when the disk fails, and UsageError for a key that cannot be one."""

    def get(self, key: str) -> Value | None:
        """The value, or None: nothing is there, or what was there is damaged."""
        ...

    def put(self, key: str, value: Mapping[str, Any], digest: str = "") -> None:
        """Store the value in place of the one that was there, together with what its maker calls its digest.

        Raises UsageError for a value that is too large or too deep, or that msgpack does not have, and StoreError when
        the disk does not take it: the old value is still there then. A reader has the old value or the new one.
        """
        ...

    def digest(self, key: str) -> str:
        """The digest that came with the value; "" when there is no value, or it came without."""
        ...

    def delete(self, key: str) -> bool:
        """Remove the value: whether there was one. It works on a full disk."""
        ...

    def keys(self) -> list[str]:
        """Every key with a value, sorted."""
        ...

    def changed_at(self, key: str) -> float | None:
        """Seconds since 1970 of the last put, None without a value."""
        ...

    def changes(self, cursor: str) -> Changes:
        """What any process has put or deleted since `cursor` was returned here; "" asks for the whole bank.

        Read the values after this call: they are at least as new as what it says. It costs next to nothing while
        nothing changes.
        """
        ...


class Banks(Protocol):
    """The banks of one master."""

    def bank(self, name: str) -> Bank:
        """The bank of that name. Raises UsageError for any that is not in NAMES."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


def check_bank(name: str) -> Room:
    """The room for a value in that bank. Raises UsageError for one that does not exist."""
    if name not in NAMES:
        raise UsageError(f"there is no cache bank {name[:40]!r}: there are {', '.join(NAMES)}")
    return NAMES[name]


def encoded(value: Mapping[str, Any], most: int, depth: int = VALUE_DEPTH_MAX) -> bytes:
    """The value in msgpack, at most `most` bytes, and `depth` levels deep. Raises UsageError with the reason."""
    try:
        return encode_checked(dict(value), limits_of(most, depth))
    except LocalProtocolError as error:
        raise UsageError(f"this cannot be cached: {error}") from None


def decoded(data: bytes, most: int, depth: int = VALUE_DEPTH_MAX) -> Value | None:
    """The value in these bytes; None when they are none."""
    try:
        value = decode(data, limits_of(most, depth))
    except RemoteProtocolError:
        return None
    return value if isinstance(value, dict) else None


def check_digest(digest: str) -> str:
    """`digest`, when it can be kept with a value. Raises UsageError."""
    if len(digest) > DIGEST_MAX or not digest.isascii() or "\0" in digest:
        raise UsageError(f"a digest has at most {DIGEST_MAX} ASCII characters")
    return digest


_EMPTY = (None,)


def leaves_of(content: Mapping[Any, Any], depth: int = VALUE_DEPTH_MAX) -> int:
    """How many plain values, empty maps and empty lists are in it: what an index may have to take up of it.

    Raises UsageError where maps and lists are inside each other for more than `depth` levels.
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
    """Limits of a value: only its size and its depth have some of their own."""
    return Limits(depth=depth, map=most, array=most, string=most, binary=most, containers=most, total=most)
