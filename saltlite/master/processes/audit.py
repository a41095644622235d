"""The audit log: who asked this master for what, in append-only files that reveal any change.

Each MWorker writes a chain of its own, as JSON lines in `<data_dir>/audit/<process>.<number of the first entry>.log`:

    {"n": 7, "at": 1795428283.6, "who": "ada (uid 1000)", "did": "publish", "jid": …, "hash": …}

`hash` is the SHA-256 of the hash before it and of the line without `hash`. So an entry that is altered, inserted or
removed breaks the chain after it. The heads reveal entries that were cut off at the end: a head is the number and the
hash of the last entry of a chain. Heads are stored as events, `salt/audit/head`, and event_return can send them to
another machine at once.

The size of the files is limited. A full file is followed by the next one. Before the oldest file is removed, an entry
`audit_removed` records which entries it had.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from saltlite.errors import SaltliteError
from saltlite.model.dataclass import dataclass
from saltlite.model.sha256 import sha256

log = logging.getLogger(__name__)

SEGMENTS = 8
"""Files of a chain, which share the space that the chain may take."""
SEGMENT_MIN = 64 * 1024
ENTRY_MAX = 16 * 1024
"""The largest entry, in bytes. A longer one has `shortened` in place of its details."""
REPEAT_S = 60.0
"""For this many seconds the same refusal is only counted, so that nobody can push other entries out of the files."""
REFUSALS_KEPT = 256
REMOVED = "audit_removed"
START_HASH = ""
"""The hash before the first entry of a chain."""

Details = Mapping[str, Any]


def entry_hash(before: str, entry: Mapping[str, Any]) -> str:
    """The hash of an entry without its `hash`; `before` is the hash of the previous entry."""
    return _hash(before, _line(entry))


def _hash(before: str, line: str) -> str:
    return sha256(f"{before}\n{line}".encode()).hex()


# One encoder, because `json.dumps` makes one for each call.
_line: Callable[[Mapping[str, Any]], str] = json.JSONEncoder(separators=(",", ":"), default=str).encode


def audit_dir(data_dir: str) -> str:
    """The folder of the audit log of a master."""
    return os.path.join(data_dir, "audit")


def digest_of_options(options: Mapping[str, Any]) -> str:
    """A digest of the options, for the entry of a start: it differs when an option has changed."""
    return sha256(json.dumps(options, sort_keys=True, default=str).encode()).hex()[:16]


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The last entry of a chain."""

    chain: str
    number: int
    hash: str


class AuditTrail:
    """Writes one chain. If an entry cannot be written, the log says so, and the master continues."""

    def __init__(self, folder: str, chain: str, room: int, wall: Callable[[], float]) -> None:
        """`room` is the space that the files of the chain may take, in bytes. With 0 nothing is written."""
        self._folder = folder
        self._chain = chain
        self._segment_max = max(room // SEGMENTS, SEGMENT_MIN)
        self._is_on = room > 0
        self._wall = wall
        self._fd = -1
        self._size = 0
        self._number, self._hash = 0, START_HASH
        self._told: AuditHead | None = None
        self._refusals: dict[tuple[str, str], tuple[float, int]] = {}
        if self._is_on:
            self._resume()

    def record(self, who: str, did: str, details: Details) -> None:
        """Append an entry. `details` must not contain secrets."""
        if not self._is_on:
            return
        try:
            self._append({"who": who, "did": did, **details})
            if self._size >= self._segment_max:
                self._begin_segment()
        except (OSError, RecursionError) as error:
            log.error("the audit log cannot be written (%s): %s did %s", error, who, did)  # noqa: TRY400 - a sentence

    def refused(self, who: str, did: str, why: str, details: Details) -> None:
        """Append a refusal. Further refusals of the same caller and request are only counted for REPEAT_S, whatever
        their reasons. Otherwise a caller who can vary the reason could push all other entries out of the chain."""
        key, now = (who, did), self._wall()
        at, count = self._refusals.get(key, (now - REPEAT_S, 0))
        if 0 <= now - at < REPEAT_S:
            self._refusals[key] = at, count + 1
            return
        if len(self._refusals) >= REFUSALS_KEPT:
            self._refusals.clear()
        self._refusals[key] = now, 0
        again = {"again": count} if count else {}
        self.record(who, did, {**details, "refused": why, **again})

    def new_head(self) -> AuditHead | None:
        """The head, if it is a new one. Everything in the files is on disk then."""
        head = AuditHead(self._chain, self._number, self._hash)
        if not self._number or head == self._told:
            return None
        with contextlib.suppress(OSError):
            os.fdatasync(self._fd)
        self._told = head
        return head

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, given: Mapping[str, Any]) -> None:
        entry = {"n": self._number + 1, "at": round(self._wall(), 3), **given}
        line = _line(entry)
        if len(line) > ENTRY_MAX:
            entry = {name: value for name, value in entry.items() if len(_line({name: value})) < 1024}
            line = _line({**entry, "shortened": True})
        digest = _hash(self._hash, line)
        # The hash is the last field of the same line.
        data = f'{line[:-1]},"hash":"{digest}"}}\n'.encode()
        if os.write(self._fd, data) != len(data):
            # A full disk took a part of it, which would break the chain.
            os.ftruncate(self._fd, self._size)
            raise OSError(28, "No space left on device")
        self._size += len(data)
        self._number, self._hash = self._number + 1, digest

    def _begin_segment(self) -> None:
        """Begin a new file, and make room for it. After an OSError the next entry tries again."""
        fd = os.open(self._path(self._number + 1), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.close()
        self._fd, self._size = fd, 0
        old = segments(self._folder, self._chain)[:-SEGMENTS]
        for first, path in old:
            last, digest = first, ""
            for entry in entries_of(path):
                last, digest = entry["n"], entry["hash"]
            self._append({"who": self._chain, "did": REMOVED, "first": first, "last": last, "of": digest})
            os.unlink(path)

    def _path(self, first: int) -> str:
        return os.path.join(self._folder, f"{self._chain}.{first:012d}.log")

    def _resume(self) -> None:
        """Continue the chain of the previous process."""
        there = segments(self._folder, self._chain)
        path = there[-1][1] if there else self._path(1)
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(path, "rb") as file:
                data = file.read()
            self._size = data.rfind(b"\n") + 1
            if self._size != len(data):
                os.ftruncate(self._fd, self._size)  # the process was killed while it wrote
            self._number, self._hash = self._end_of(there)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._is_on = False
            log.error("the audit log %s cannot be continued (%s): nothing is written to it", path, error)  # noqa: TRY400 - a sentence

    def _end_of(self, there: list[tuple[int, str]]) -> tuple[int, str]:
        for _first, path in reversed(there):
            for entry in list(entries_of(path))[-1:]:
                return int(entry["n"]), str(entry["hash"])
        return 0, START_HASH


# -- reading


class AuditDamagedError(SaltliteError):
    """A line of a file is no entry."""


def segments(folder: str, chain: str) -> list[tuple[int, str]]:
    """(number of the first entry, path) of the files of a chain, in order. Raises OSError."""
    found = []
    for name in os.listdir(folder):
        stem, _, number = name.removesuffix(".log").rpartition(".")
        if stem == chain and name.endswith(".log") and number.isascii() and number.isdigit():
            found.append((int(number), os.path.join(folder, name)))
    return sorted(found)


def chains(folder: str) -> list[str]:
    """The chains that have files. Raises OSError."""
    return sorted(
        {name.removesuffix(".log").rpartition(".")[0] for name in os.listdir(folder) if name.endswith(".log")}
    )


def entries_of(path: str) -> Iterator[dict[str, Any]]:
    """The entries of a file. Raises OSError, and AuditDamagedError for a line that is not an entry."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line)
                good = isinstance(entry, dict) and isinstance(entry.get("n"), int) and isinstance(entry["hash"], str)
            except (ValueError, KeyError, RecursionError):
                good = False
            if not good:
                raise AuditDamagedError(f"{path}:{number}: this is no entry of an audit log")
            yield entry


@dataclass(frozen=True, slots=True)
class Verified:
    """The entries of one chain, and the problems that were found."""

    chain: str
    first: int
    last: int
    problems: tuple[str, ...]


def verify(folder: str, chain: str, heads: Mapping[int, str]) -> Verified:
    """Check a chain, also against the numbers and hashes of entries in the store. Raises OSError."""
    checked = _Check(chain, heads)
    for number, path in segments(folder, chain):
        try:
            for place, entry in enumerate(entries_of(path), 1):
                checked.entry(f"{path}:{place}", entry, number)
        except AuditDamagedError as error:
            checked.problems.append(str(error))
    return checked.ended()


class _Check:
    """The check of one chain, entry by entry."""

    def __init__(self, chain: str, heads: Mapping[int, str]) -> None:
        self._chain = chain
        self._heads = dict(heads)
        self._before = START_HASH
        self._next = 1
        self._first = 0
        self._opening: tuple[str, dict[str, Any], str] | None = None
        """Place, content and hash of the first entry, if there were entries before it."""
        self._removed: dict[int, str] = {}
        """Number of the last entry of a removed file -> its hash."""
        self.problems: list[str] = []

    def entry(self, where: str, entry: dict[str, Any], first_of_file: int) -> None:
        given, number = entry.pop("hash"), entry["n"]
        if not self._first:
            self._first = self._next = first_of_file
            if first_of_file > 1:
                self._opening = where, dict(entry), given
        if number != self._next:
            self.problems.append(f"{where}: entry {self._next} is missing")
        elif entry_hash(self._before, entry) != given and (self._opening is None or self._opening[0] != where):
            self.problems.append(f"{where}: this entry, or the one before it, was altered")
        if self._heads.pop(number, given) != given:
            self.problems.append(f"{where}: the store knows entry {number} with another content")
        if entry.get("did") == REMOVED:
            self._removed[entry.get("last", 0)] = str(entry.get("of"))
        self._before, self._next = given, number + 1

    def ended(self) -> Verified:
        if self._opening is not None:
            where, entry, given = self._opening
            before = self._removed.get(self._first - 1)
            if before is None:
                self.problems.append(f"{self._chain}: entries before {self._first} are missing")
            elif entry_hash(before, entry) != given:
                self.problems.append(f"{where}: this entry was altered")
        lost = [number for number in self._heads if number >= self._next]
        if lost:
            self.problems.append(
                f"{self._chain}: the store knows entry {max(lost)}; the files end with {self._next - 1}"
            )
        return Verified(self._chain, self._first, self._next - 1, tuple(self.problems))
