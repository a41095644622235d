"""Returns that were too large to travel, kept whole on the minion: one file each, the oldest goes first.

They are no part of what is guaranteed: a return is kept when there is room, and what was sent says whether it was.
Several jobs may write at once; each removes what it finds beyond the limit.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress

from saltlite.model.ids import parse_jid
from saltlite.model.job import HEADER_BYTES, SUFFIX, header
from saltlite.platform.files import Folder

log = logging.getLogger(__name__)

UNFINISHED = ".tmp"


class KeptReturns:
    """A folder of kept returns with at most `limit` bytes."""

    def __init__(self, folder: Folder, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def keep(self, jid: str, whole: bytes) -> bool:
        """Keep a return; False when it is larger than the limit, or the disk does not take it."""
        size = HEADER_BYTES + len(whole)
        if size > self._limit:
            return False
        name = parse_jid(jid) + SUFFIX
        try:
            self._make_room(size)
            self._write(name, header(hashlib.sha256(whole).digest()), whole)
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
        # Jids sort by time. What a killed process left unfinished goes in its turn.
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
