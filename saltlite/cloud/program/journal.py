"""What is being made and destroyed, as lines of a file that are synced before the next step is taken.

A command that dies leaves its lines; `saltlite cloud --unfinished` shows what they mean, `--clean` does what is left.
What they mean is decided in `saltlite.cloud.rules.flow`. No line has a secret.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from saltlite.cloud.rules.flow import Unfinished, replay
from saltlite.errors import SaltliteError

FILE_NAME = "journal"
COMPACT_AT = 1024 * 1024
"""Bytes from which on a journal without anything unfinished is begun anew."""


class CloudJournal:
    """The journal in a folder. Several processes may write to it at once."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, FILE_NAME)
        self._folder = folder

    def write(self, run: str, what: str, **fields: Any) -> None:
        """Add a line, and return when it is on the disk. Raises SaltliteError when it is not."""
        line = json.dumps({"run": run, "what": what, "at": time.time(), **fields}, sort_keys=True)
        try:
            with self._open() as fd:
                if what in ("create", "destroy") and os.fstat(fd).st_size > COMPACT_AT and not _records(fd):
                    os.ftruncate(fd, 0)
                _append(fd, f"{line}\n".encode())
        except OSError as error:
            raise SaltliteError(
                f"{self.path} cannot be written ({error.strerror}), and what is not written there could be forgotten "
                "half made: nothing more is done; make room, or change cachedir"
            ) from error

    def begin(self, what: str, run: str, **fields: Any) -> None:
        """The first line of a create or destroy of this process."""
        self.write(run, what, pid=os.getpid(), started=_started(os.getpid()), **fields)

    def unfinished(self) -> list[Unfinished]:
        """What was begun and not ended, and which no living process goes on with."""
        return [one for one, alive in self.everything() if not alive]

    def everything(self) -> list[tuple[Unfinished, bool]]:
        """What was begun and not ended, and whether the process that does it is alive."""
        if not os.path.exists(self.path):
            return []
        with self._open() as fd:
            lines = _lines(fd)
        started = {record.get("run"): record.get("started") for record in lines if "started" in record}
        return [(one, bool(one.pid) and _started(one.pid) == started.get(one.run)) for one in replay(lines)]

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)


def _append(fd: int, line: bytes) -> None:
    """Add a line of its own, on the disk, or nothing. Raises OSError."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line  # the last one was cut: only that is lost, and not this one too
    try:
        _write_whole(fd, line)
        os.fsync(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
        raise


def _write_whole(fd: int, line: bytes) -> None:
    """A disk that is nearly full takes the beginning of a line, and says so only by the count."""
    if os.write(fd, line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _records(fd: int) -> list[Unfinished]:
    return replay(_lines(fd))


def _lines(fd: int) -> list[dict[str, Any]]:
    """The lines that are whole; the last one may have been cut by a crash."""
    found = []
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        for line in file:
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict):
                    found.append(record)
    return found


def _started(pid: int) -> str | None:
    """When the process was started, as the kernel counts: a pid that was given again is another process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
