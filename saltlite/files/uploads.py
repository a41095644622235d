"""Files that minions send (`cp.push`): written piece by piece, moved into place when they are whole.

Everything of one minion is below `<folder>/<minion id>/`: `files/` has what arrived, under the path that the minion
gave; `arriving/` has what is on its way, named by its digest, so that a transfer goes on where it stopped. Whatever a
minion sends can fill its own folder only, and only within the limits.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import shutil

from saltlite.errors import UsageError
from saltlite.files.answers import SLICE
from saltlite.model.files import parse_path
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.platform.files import open_beneath
from saltlite.wire.messages import Message, response_message

log = logging.getLogger(__name__)

FREE_LEAST = 256 * 1024 * 1024
"""Bytes that uploads leave free on their disk, on which the store may be."""
ARRIVING_MAX = 16
"""Files of one minion that may be on their way; the one that waited longest makes room."""


class Arrival:
    """A file of which all pieces are there: hashed slice by slice, then moved into place."""

    def __init__(self, n: int, folder: str, message: Message) -> None:
        self._n = n
        self._folder = folder
        self._path: str = message["path"]
        self._digest: bytes = message["sha256"]
        self._hash = hashlib.sha256()
        self._size = 0

    def step(self) -> Message | None:
        """Hash the next slice; the answer when it was the last."""
        part = os.path.join(self._folder, "arriving", self._digest.hex())
        try:
            with open(part, "rb") as file:
                data = os.pread(file.fileno(), SLICE, self._size)
            self._hash.update(data)
            self._size += len(data)
            if len(data) == SLICE:
                return None
            if self._hash.digest() != self._digest:
                # It changed while it was read, or lost a piece: it has to come again from its beginning.
                os.unlink(part)
                return response_message(self._n, "ok", size=0)
            _into_place(part, os.path.join(self._folder, "files"), self._path)
        except FileNotFoundError:
            # Another transfer of the same content was first, and took it to its own place.
            return response_message(self._n, "ok", size=0)
        except OSError as error:
            log.warning("a file of a minion cannot be kept in %s: %s", self._folder, error.strerror)
            return response_message(self._n, "refused")
        return response_message(self._n, "ok", size=self._size, sha256=self._digest)


class Uploads:
    """`folder` has one folder a minion; `largest`: bytes of one file."""

    def __init__(self, folder: str, largest: int) -> None:
        self._folder = folder
        self._largest = largest

    def put(self, minion: MinionId, message: Message) -> Message | Arrival:
        """Take one piece. The answer has in `size` how many bytes are there, from which on the next is expected; with
        the last one the file is in place when the answer has its `sha256`, and to be sent again when that is empty."""
        n, size, offset, data = message["n"], message["size"], message["offset"], message["data"]
        try:
            path = parse_path(message["path"])
        except UsageError:
            return response_message(n, "refused")
        if not path or size > self._largest or offset + len(data) > size:
            return response_message(n, "refused")
        folder = os.path.join(self._folder, parse_minion_id(minion))
        try:
            there = self._write(folder, message)
        except OSError as error:
            log.warning("a file of %s cannot be kept in %s: %s", minion, folder, error.strerror)
            return response_message(n, "refused")
        return Arrival(n, folder, message) if there == size else response_message(n, "ok", size=there)

    def _write(self, folder: str, message: Message) -> int:
        """Write the piece where it belongs, if nothing before it is missing; how many bytes there are then."""
        arriving = os.path.join(folder, "arriving")
        os.makedirs(arriving, mode=0o700, exist_ok=True)
        part = os.path.join(arriving, message["sha256"].hex())
        if not os.path.exists(part):
            self._make_room(arriving, message["size"])
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            there = os.fstat(fd).st_size
            if message["offset"] == there and message["data"]:
                there += os.pwrite(fd, message["data"], there)
            return there
        finally:
            os.close(fd)

    def _make_room(self, arriving: str, size: int) -> None:
        names = [os.path.join(arriving, name) for name in os.listdir(arriving)]
        for stale in sorted(names, key=os.path.getmtime)[: max(0, len(names) - ARRIVING_MAX + 1)]:
            os.unlink(stale)
        if shutil.disk_usage(arriving).free - size < FREE_LEAST:
            raise OSError(errno.ENOSPC, "there is too little room on the disk")


def _into_place(part: str, files: str, path: str) -> None:
    """Rename `part` to `path` below `files`, making folders on the way. No link is followed out of there."""
    *folders, name = path.split("/")
    os.makedirs(files, mode=0o700, exist_ok=True)
    for depth in range(len(folders)):
        above = open_beneath(files, "/".join(folders[:depth]), os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folders[depth], 0o700, dir_fd=above)
        finally:
            os.close(above)
    folder = open_beneath(files, "/".join(folders), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.rename(part, name, dst_dir_fd=folder)
    finally:
        os.close(folder)
