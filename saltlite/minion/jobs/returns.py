"""Encoding of return values; a value that is too large is truncated here, and kept whole on the minion if there is
room.

    a text, bytes        the first part, and a last line that says how much is missing and where the rest is
    any other value      {"$truncated": {"bytes": n, "kept": bool}, "head": the value, truncated in place}

`bytes` is the full size: of the text, or of the encoded value. State and retcode are those of the full value, and the
reason of the return begins with `truncated:`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from saltlite.errors import JournalError
from saltlite.loader.encode import NOTICES_BYTES, encode_return, encode_whole
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import parse_jid
from saltlite.model.job import HEADER_BYTES, SUFFIX, TRUNCATED, TRUNCATED_NOTE, header
from saltlite.model.sha256 import sha256
from saltlite.platform.files import Folder, PosixFolder

# -- Oversized returns: one file each, the oldest is deleted first
#
# They are not guaranteed: the return says whether the full value was kept. Several jobs may write at once; each deletes
# what it finds beyond the limit.


log = logging.getLogger(__name__)

UNFINISHED = ".tmp"


class OversizedReturns:
    """A folder of kept returns with at most `limit` bytes."""

    def __init__(self, folder: Folder, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def keep(self, jid: str, whole: bytes) -> bool:
        """Keep a return; False if it is larger than the limit, or the disk does not take it."""
        size = HEADER_BYTES + len(whole)
        if size > self._limit:
            return False
        name = parse_jid(jid) + SUFFIX
        try:
            self._make_room(size)
            self._write(name, header(sha256(whole)), whole)
        except OSError as error:
            log.warning("the whole return is not kept in %s: %s; make room there", self._folder.path, error.strerror)
            for leftover in (name, name + UNFINISHED):
                with suppress(OSError):
                    self._folder.remove(leftover)
            return False
        return True

    def _make_room(self, size: int) -> None:
        sizes: dict[str, int] = {}
        for name in self._folder.names():
            with suppress(FileNotFoundError):
                sizes[name] = self._folder.size(name)
        over = sum(sizes.values()) + size - self._limit
        # Jids sort by time. Unfinished files of killed processes are deleted in their turn.
        for name in sorted(sizes):
            if over <= 0:
                return
            with suppress(FileNotFoundError):
                self._folder.remove(name)
            over -= sizes[name]

    def _write(self, name: str, head: bytes, whole: bytes) -> None:
        handle = self._folder.create(name + UNFINISHED)
        try:
            handle.write(head)
            handle.write(whole)
            handle.sync()
            self._folder.rename(name + UNFINISHED, name)
        finally:
            handle.close()


NOTICE_BYTES = 1024
"""Reserved for the line or the map that describes the truncation."""


@dataclass(frozen=True, slots=True)
class EncodedReturn:
    """The encoded return, and a note about truncation for its reason ("" if it is whole)."""

    body: bytes
    note: str = ""


@dataclass(frozen=True, slots=True)
class Returns:
    """Encodes the returns of one minion: up to `limit` bytes are sent, up to `kept_max` bytes of truncated ones stay in
    `kept_dir` (0 keeps none)."""

    minion: str
    limit: int
    kept_dir: str
    kept_max: int

    def seal(self, jid: str, value: Any) -> EncodedReturn:
        """Encode a value; no value of a module makes this fail."""
        whole = encode_whole(value, max(self.kept_max, self.limit))
        if whole.fits(self.limit):
            return EncodedReturn(whole.body)
        kept = whole.complete and self._keep(jid, whole.body)
        rest = f"all of it: saltlite job fetch {jid} {self.minion}" if kept else "the minion did not keep the rest"
        if isinstance(value, str | bytes | bytearray):
            raw = str.encode(value, errors="replace") if isinstance(value, str) else bytes(value)
            return EncodedReturn(self._cut(raw, rest, text=isinstance(value, str)), _note(len(raw), rest))
        notice = {TRUNCATED: {"bytes": whole.size, "kept": kept}}
        return EncodedReturn(_joined(notice, encode_return(value, self.limit - NOTICE_BYTES)), _note(whole.size, rest))

    def _keep(self, jid: str, body: bytes) -> bool:
        try:
            return OversizedReturns(PosixFolder(self.kept_dir), self.kept_max).keep(jid, body)
        except JournalError as error:
            log.warning("the whole return is not kept: %s", error)
            return False

    def _cut(self, raw: bytes, rest: str, *, text: bool) -> bytes:
        head = raw[: self.limit - NOTICES_BYTES - NOTICE_BYTES]
        if text:
            head = head.decode(errors="ignore").encode()
        line = f"\n[{len(raw) - len(head)} of {len(raw)} bytes are missing here; {rest}]\n".encode()
        return encode_return((head + line).decode() if text else head + line, self.limit)


def _note(size: int, rest: str) -> str:
    return f"{TRUNCATED_NOTE} {size} bytes; {rest}"


def _joined(notice: dict[str, Any], head: bytes) -> bytes:
    """The map `notice` with one more entry `head`, which is encoded already."""
    ((key, entry),) = notice.items()
    return b"\x82" + encode_return(key) + encode_return(entry) + encode_return("head") + head
