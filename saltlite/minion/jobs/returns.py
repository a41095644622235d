"""A function's value as the bytes that travel; what is too large is cut here, at its source, and says so.

    a text, bytes        the first part, and a last line that says how much is missing and where the rest is
    any other value      {"$truncated": {"bytes": n, "kept": bool}, "head": the value, cut in place}

`bytes` is the size of the whole: of the text itself, or of the value as it is encoded. State and retcode are those of
the whole, and the return's reason begins with `truncated:`, whatever the value is.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from saltlite.errors import JournalError
from saltlite.loader.encode import NOTICES_BYTES, encode_return, encode_whole
from saltlite.minion.jobs.oversized_returns import KeptReturns
from saltlite.model.job import TRUNCATED, TRUNCATED_NOTE
from saltlite.platform.files import PosixFolder

log = logging.getLogger(__name__)

NOTICE_BYTES = 1024
"""Kept free of the limit for the line or the map that says what was cut."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The encoded return, and what its reason has to say of it ("" when it is whole)."""

    body: bytes
    note: str = ""


@dataclass(frozen=True, slots=True)
class Returns:
    """How the returns of one minion are sealed: `limit` bytes travel, `kept_max` bytes of cut ones stay in
    `kept_dir`; 0 keeps none."""

    minion: str
    limit: int
    kept_dir: str
    kept_max: int

    def seal(self, jid: str, value: Any) -> Sealed:
        """Encode a value; nothing that a module returns makes this fail."""
        whole = encode_whole(value, max(self.kept_max, self.limit))
        if whole.fits(self.limit):
            return Sealed(whole.body)
        kept = whole.complete and self._keep(jid, whole.body)
        rest = f"all of it: saltlite job fetch {jid} {self.minion}" if kept else "the minion did not keep the rest"
        if isinstance(value, str | bytes | bytearray):
            raw = str.encode(value, errors="replace") if isinstance(value, str) else bytes(value)
            return Sealed(self._cut(raw, rest, text=isinstance(value, str)), _note(len(raw), rest))
        said = {TRUNCATED: {"bytes": whole.size, "kept": kept}}
        return Sealed(_joined(said, encode_return(value, self.limit - NOTICE_BYTES)), _note(whole.size, rest))

    def _keep(self, jid: str, body: bytes) -> bool:
        try:
            return KeptReturns(PosixFolder(self.kept_dir), self.kept_max).keep(jid, body)
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


def _joined(said: dict[str, Any], head: bytes) -> bytes:
    """The map of `said` with one more entry, `head`, that is encoded already."""
    ((key, entry),) = said.items()
    return b"\x82" + encode_return(key) + encode_return(entry) + encode_return("head") + head
