"""Files of `saltlite cloud` on this host: the journal of unfinished work, and the cache of machines.

Each step of a create or destroy is a line of the journal, synced before the next step. `--unfinished` lists what dead
commands left, `--clean` rolls it back (`saltlite.cloud.rules.flow` interprets the lines). No line has a secret.

The cache has one file for each machine, with the last answer of its provider, for `-Q --cached`, and with the minion
that belongs to it. It never decides whether a name is free, because machines are also made elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from saltlite.cloud.rules.flow import Unfinished, replay
from saltlite.errors import SaltliteError

FILE_NAME = "journal"
COMPACT_AT = 1024 * 1024
"""A journal of more bytes without unfinished work is truncated."""


class CloudJournal:
    """The journal of a folder. Several processes may write to it concurrently."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, FILE_NAME)
        self._folder = folder

    def write(self, run: str, what: str, **fields: Any) -> None:
        """Append a line and sync it. Raises SaltliteError if that fails."""
        line = json.dumps({"run": run, "what": what, "at": time.time(), **fields}, sort_keys=True)
        try:
            with self._open() as fd:
                if what in ("create", "destroy") and os.fstat(fd).st_size > COMPACT_AT and not _records(fd):
                    os.ftruncate(fd, 0)
                _append(fd, f"{line}\n".encode())
        except OSError as error:
            raise SaltliteError(
                f"{self.path} cannot be written ({error.strerror}). Without the journal, half-made machines could be "
                "forgotten, so nothing more is done: free disk space, or change cachedir"
            ) from error

    def begin(self, what: str, run: str, **fields: Any) -> None:
        """The first line of a create or destroy of this process."""
        self.write(run, what, pid=os.getpid(), started=_started(os.getpid()), **fields)

    def unfinished(self) -> list[Unfinished]:
        """Unfinished work whose process is dead."""
        return [one for one, alive in self.everything() if not alive]

    def everything(self) -> list[tuple[Unfinished, bool]]:
        """All unfinished work, and whether its process is alive."""
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
    """Append a whole line and sync it, or change nothing. Raises OSError."""
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
    """A nearly full disk takes part of a line, and reports it only by the count."""
    if os.write(fd, line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _records(fd: int) -> list[Unfinished]:
    return replay(_lines(fd))


def _lines(fd: int) -> list[dict[str, Any]]:
    """The complete lines; a crash may have cut the last one."""
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
    """The start time of the process in clock ticks, because a pid can be reused."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


# -- the cache


FOLDER = "active"
MINION_ID = "minion_id"


class MachineCache:
    """The cache in a folder. Unreadable entries count as missing, and failed writes are ignored."""

    def __init__(self, cachedir: str) -> None:
        self._root = os.path.join(cachedir, FOLDER)

    def put(self, provider: str, machine: str, details: Mapping[str, Any], **own: Any) -> None:
        """Cache a machine of `alias:driver`, without secrets; `own` are fields that only this program knows."""
        before = self._read(self._path(provider, machine))
        record = {"at": time.time(), "own": {**before.get("own", {}), **own}, "details": dict(details)}
        with contextlib.suppress(OSError):
            self._write(self._path(provider, machine), record)

    def put_all(self, provider: str, machines: Mapping[str, Mapping[str, Any]]) -> None:
        """Cache all machines of `alias:driver`; the others become unlisted."""
        for name, details in machines.items():
            self.put(provider, name, details)
        for name in self.names(provider):
            if name not in machines:
                self.unlist(provider, name)

    def unlist(self, provider: str, machine: str) -> None:
        """Its provider did not list this machine. The own fields stay: one listing may miss a machine."""
        own = self.own(provider, machine)
        if not own:
            self.drop(provider, machine)
            return
        with contextlib.suppress(OSError):
            self._write(self._path(provider, machine), {"at": time.time(), "own": own, "unlisted": True})

    def drop(self, provider: str, machine: str) -> None:
        """Forget a machine."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(provider, machine))

    def own(self, provider: str, machine: str) -> dict[str, Any]:
        """The own fields of a machine, such as `minion_id`, and `id` at that time."""
        found: dict[str, Any] = self._read(self._path(provider, machine)).get("own", {})
        return found

    def machines(self, provider: str) -> dict[str, dict[str, Any]]:
        """The cached machines of `alias:driver`: `{name: details}`."""
        return {name: self._read(self._path(provider, name)).get("details", {}) for name in self.names(provider)}

    def names(self, provider: str) -> list[str]:
        """The names in the last listing, sorted."""
        try:
            found = os.listdir(self._folder(provider))
        except OSError:
            return []
        names = (urllib.parse.unquote(one.removesuffix(".json")) for one in found if one.endswith(".json"))
        return sorted(name for name in names if not self._read(self._path(provider, name)).get("unlisted"))

    def clear(self) -> None:
        """Forget all machines."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _folder(self, provider: str) -> str:
        return os.path.join(self._root, *(_file_name(part) for part in provider.split(":")))

    def _path(self, provider: str, machine: str) -> str:
        return os.path.join(self._folder(provider), f"{_file_name(machine)}.json")

    @staticmethod
    def _read(path: str) -> dict[str, Any]:
        try:
            with open(path, encoding="utf-8") as file:
                record = json.load(file)
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    @staticmethod
    def _write(path: str, record: Mapping[str, Any]) -> None:
        _make_private(os.path.dirname(path))
        half = f"{path}.{os.getpid()}"
        fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(record, file, default=str)
        os.replace(half, path)


def _make_private(folder: str) -> None:
    """Make a folder and its parents; `os.makedirs` sets the mode of the last one only."""
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _file_name(text: str) -> str:
    """Any text as a file name: no slash, no leading dot, no more than a file system takes."""
    quoted = urllib.parse.quote(text, safe="").replace(".", "%2E")
    return quoted[:200]
