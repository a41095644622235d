"""The signed directory of the masters that share a store: their addresses, and which of them is the home of a minion.

The content is a msgpack list with one `[name, address, weight, is_up]` for each master. The job key of the sending
master signs it, so neither a stranger nor the link process of that master, which talks to the network, can make a
directory. A minion verifies the signature by the certificate of the master, which the pinned fleet key signed.

Each directory has a number: the time of the database at which the masters were read. So a minion refuses a directory
that was signed earlier than the one it has, whichever master signed it, and a restored database does not start again.
The number is an entry of its own, `["signed at N", address of a master, 1, false]`. Minions of the previous version
read it as a master that is not up, at an address that they know. They would refuse any other addition.

Each minion ranks the masters by a weighted hash of its id and the name of the master. So the minions are distributed
over the masters by weight. If a master is lost, its minions are distributed over all others. A new master takes its
share from all others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from saltlite.errors import RemoteProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId
from saltlite.model.sha256 import sha256
from saltlite.wire import codec
from saltlite.wire.certificates import is_name
from saltlite.wire.limits import MASTER_WEIGHT_MAX, MASTERS_MAX
from saltlite.wire.signatures import is_signed, sign

MASTERS_LISTED = MASTERS_MAX - 1
"""Masters in a directory: one entry is its number. Further masters, by name, are omitted."""
ADDRESS_MAX = 262
"""The longest address, a host name and a port, in characters."""

AHEAD_MS = 3_600_000
"""A minion remembers no number that is further ahead of its own clock: neither a clock that was wrong nor a master that
was removed makes it refuse what the others sign for longer."""

_SIGNED_AT = re.compile(r"signed at ([0-9]{1,15})")
_DOMAIN = b"saltlite directory of masters 1\0"
_HOME = b"saltlite home 1\0"


@dataclass(frozen=True, slots=True)
class MasterEntry:
    """One master. `address` is `host:port`; `is_up`: it takes new sessions."""

    name: str
    address: str
    weight: int
    is_up: bool


@dataclass(frozen=True, slots=True)
class Directory:
    """The masters of a fleet that share a store. If it is empty, minions use only their configuration."""

    masters: tuple[MasterEntry, ...]
    number: int = 0
    """When the masters were read, in milliseconds since 1970 by the clock of their database; 0 if a master of the
    version before signed it."""

    def after(self, before: Directory, now: float) -> Directory | None:
        """This directory as a minion keeps it in place of that one; None if it is an earlier one. `now` is the wall
        clock of the minion. One without masters sends minions to their configuration, and is always used. One that
        lists the same masters is used as well, because each master signs its own at another moment."""
        latest = int(now * 1000) + AHEAD_MS
        # A number that is far ahead was remembered while the clock of this machine was.
        known = before.number if before.number <= latest else 0
        if self.masters and self.number < known:
            return before if self.masters == before.masters else None
        return replace(self, number=max(known, min(self.number, latest)))

    def ranked(self, minion: MinionId) -> list[MasterEntry]:
        """The masters in the order in which this minion tries them: its home first, masters that are not up last."""
        return sorted(self.masters, key=lambda one: (not one.is_up, -_rank(minion, one), one.name))

    def home(self, minion: MinionId) -> str:
        """The name of the minion's home; "" if no master is up."""
        up = [one for one in self.masters if one.is_up]
        return max(up, key=lambda one: (_rank(minion, one), one.name)).name if up else ""

    def rows(self) -> list[list[object]]:
        """The content as plain values, for `from_rows`."""
        signed_at: list[list[object]] = []
        if self.number and self.masters:
            signed_at = [[f"signed at {self.number}", self.masters[0].address, 1, False]]
        return [*signed_at, *([one.name, one.address, one.weight, one.is_up] for one in self.masters)]


NOWHERE = Directory(())
"""The directory without masters."""


def _rank(minion: MinionId, master: MasterEntry) -> float:
    """Weighted rendezvous hashing: the master with the highest value is the home."""
    number = int.from_bytes(sha256(_HOME + f"{minion}\0{master.name}".encode())[:8], "big") >> 12
    # 52 bits and a half are exact in a float, so the quotient is never 1, which has the logarithm 0.
    return -master.weight / math.log((number + 0.5) / 2**52)


def from_rows(rows: object) -> Directory:
    """The directory with these rows. Raises RemoteProtocolError("bad-directory")."""
    if not isinstance(rows, list) or len(rows) > MASTERS_MAX:
        raise RemoteProtocolError("bad-directory", f"it is not a list of at most {MASTERS_MAX} masters")
    entries = tuple(map(_entry, rows))
    masters = tuple(one for one in entries if not _SIGNED_AT.fullmatch(one.name))
    numbers = [one for one in entries if one not in masters]
    if len({one.name for one in masters}) != len(masters) or len(numbers) > 1:
        raise RemoteProtocolError("bad-directory", "a master, or the number, comes twice")
    if not numbers:
        return Directory(masters)
    if not masters or numbers[0].is_up:
        raise RemoteProtocolError("bad-directory", "it has a number, and no masters or a master of that name")
    return Directory(masters, int(numbers[0].name.rpartition(" ")[2]))


def _entry(row: object) -> MasterEntry:
    match row:
        case [str() as name, str() as address, int() as weight, bool() as is_up] if (
            is_name(name) and _is_address(address) and not isinstance(weight, bool) and 1 <= weight <= MASTER_WEIGHT_MAX
        ):
            return MasterEntry(name, address, weight, is_up)
    raise RemoteProtocolError("bad-directory", "an entry is not that of a master")


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and len(text) <= ADDRESS_MAX and text.isascii() and text.isprintable() and port.isdigit()


def signed(seed: bytes, masters: Iterable[MasterEntry], number: int = 0) -> tuple[bytes, bytes]:
    """The content of a directory of these masters, and its signature. `seed`: of the job key, 32 bytes."""
    chosen = sorted(masters, key=lambda one: one.name)[:MASTERS_LISTED]
    content = codec.encode(Directory(tuple(chosen), number).rows())
    return content, sign(seed, _DOMAIN, content)


def read(content: bytes, signature: bytes, job_keys: Sequence[bytes]) -> Directory:
    """The directory that the holder of one of these job keys signed. Raises RemoteProtocolError with the reason
    `bad-directory`, or one of `codec.decode`."""
    if not any(is_signed(key, _DOMAIN, content, signature) for key in job_keys):
        raise RemoteProtocolError("bad-directory", "no master that this minion trusts signed it")
    return from_rows(codec.decode(content))
