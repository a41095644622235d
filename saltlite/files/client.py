"""Files of the file server on this machine: fetched, compared by SHA-256, and only then moved into place.

`<cachedir>/files/<environment>/<path>` has copies of served files; `<cachedir>/arriving` has what is on its way, named
by its digest, so that a transfer which was cut off goes on where it stopped, also in a later job. What modules see as
`__file_client__` is this.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from io import BufferedRandom
from stat import S_ISREG
from typing import Any, BinaryIO

from saltlite.errors import CommandExecutionError
from saltlite.files.plugin_sync import PluginSync, SyncReport
from saltlite.files.roots import FileAsker
from saltlite.model.extmods import SyncRules
from saltlite.model.files import FileAddress, FileStat, parse_env, parse_path
from saltlite.platform.files import digest_of
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message

ATTEMPTS = 3
"""Attempts for a file that changes while it is fetched."""
_NO_FILE = {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}
ARRIVING_S = 7 * 86_400.0
"""Seconds after which an abandoned transfer is removed."""


class FileClient:
    """`asker` has the files; `refresh` makes the minion look at its "modules" or "grains" anew; `extmods` is the folder
    of synced plug-ins, "" for none."""

    def __init__(
        self, asker: FileAsker, cachedir: str, *, extmods: str = "", refresh: Callable[[str], Any] = lambda _what: {}
    ) -> None:
        self._asker = asker
        self._cachedir = cachedir
        self._extmods = extmods
        self.refresh = refresh

    def envs(self) -> list[str]:
        """The environments of the file server, sorted."""
        return list(self._names("envs", "", ""))

    def files(self, env: str, prefix: str = "") -> list[str]:
        """The files below a folder ("" for all) of an environment, sorted, relative to its root."""
        return list(self._names("files", env, prefix))

    def folders(self, env: str, prefix: str = "") -> list[str]:
        """The folders below a folder, as `files`."""
        return list(self._names("folders", env, prefix))

    def stat(self, address: FileAddress) -> FileStat | None:
        """The metadata of a served file, None if there is none."""
        said = self._one(_question("find", address.env, address.path))
        if said["state"] != "ok":
            return None
        return FileStat(said["size"], said["sha256"], said["mode"], said["mtime"])

    def cached_path(self, address: FileAddress) -> str:
        """The path of the cached copy of a file, whether or not it exists."""
        return os.path.join(self._cachedir, "files", parse_env(address.env), parse_path(address.path))

    def cache(self, address: FileAddress) -> str:
        """The path of a copy that is the same as the served file now, "" when there is no such file."""
        path = self.cached_path(address)
        stat = self.stat(address)
        if stat is None:
            return ""
        if digest_of(path) != stat.sha256:
            _clear_way(path, os.path.join(self._cachedir, "files"))
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            self._fetch(address, stat, path)
        return path

    def fetch(self, address: FileAddress, dest: str, at: int | None = None) -> bool:
        """Make the file `dest` the same as a served one, in one step; False when there is no such file.

        A file that is replaced keeps its mode and owner; a link is followed. With `at` the file is a name in that open
        folder, and a link is replaced: for folders in which others may put one at any moment. Raises OSError.
        """
        stat = self.stat(address)
        if stat is None:
            return False
        if at is None:
            dest = os.path.realpath(dest)
        if (digest_of(dest) if at is None else _digest_at(dest, at)) != stat.sha256:
            self._fetch(address, stat, dest, at)
        return True

    def fetch_found(self, address: FileAddress, stat: FileStat, dest: str) -> None:
        """Make the new file `dest` the same as a served one, of which `stat` has just said this. Raises OSError."""
        self._fetch(address, stat, dest)

    def content(self, address: FileAddress) -> bytes | None:
        """The content of a small file, None when there is no such file."""
        path = self.cache(address)
        if not path:
            return None
        with open(path, "rb") as file:
            return file.read()

    def push(self, path: str, name: str) -> bool:
        """Send the file `path` to the master, which keeps it under `name`; False when it does not take it.

        Raises OSError when the file cannot be read.
        """
        for _ in range(ATTEMPTS):
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                sha256 = hashlib.file_digest(file, "sha256").digest()
                fields = {"t": "file_put", "n": 0, "path": name, "size": size, "sha256": sha256}
                offset = 0
                # A few more than it has pieces: the first answer may say that some are there already.
                for _piece in range(size // CHUNK + 3):
                    data = os.pread(file.fileno(), min(CHUNK, size - offset), offset)
                    said = self._one({**fields, "offset": offset, "data": data})
                    if said["state"] != "ok" or said["sha256"] == sha256:
                        return bool(said["state"] == "ok")
                    offset = min(said["size"], size)
        raise CommandExecutionError(f"{path} changes while it is sent: send it again when it rests.")

    def sync(self, kind: str, envs: list[str], rules: SyncRules) -> SyncReport:
        """Bring the plug-ins of a type (`modules`, `grains` …) from `salt://_<type>` of these environments."""
        if not self._extmods:
            raise CommandExecutionError("There is no place for plug-ins: set extension_modules in the configuration.")
        return PluginSync(self, self._extmods).sync(kind, envs, rules)

    def _names(self, act: str, env: str, prefix: str) -> Iterator[str]:
        after = ""
        while True:
            said = self._one(_question(act, env, prefix, after=after))
            yield from said["names"]
            if not said["more"] or not said["names"]:
                return
            after = said["names"][-1]

    def _one(self, question: Message) -> Message:
        (said,) = self._asker.ask([question])
        return said

    def _fetch(self, address: FileAddress, stat: FileStat, dest: str, at: int | None = None) -> None:
        """Fetch into `arriving`, and move it to `dest`."""
        arriving = os.path.join(self._cachedir, "arriving")
        os.makedirs(arriving, mode=0o700, exist_ok=True)
        _remove_stale(arriving)
        now: FileStat | None = stat
        for _ in range(ATTEMPTS):
            if now is None:
                raise CommandExecutionError(f"{address.path} was removed on the master while it was fetched.")
            with _own_part(arriving, now.sha256.hex()) as (part, file):
                if self._receive(address, now, file):
                    os.fsync(file.fileno())
                    _into_place(part, dest, at)
                    return
                os.unlink(part)
            now = self.stat(address)
        raise CommandExecutionError(f"{address.path} changes on the master while it is fetched: try again.")

    def _receive(self, address: FileAddress, stat: FileStat, file: BufferedRandom) -> bool:
        """Append what is missing to `file`; whether it is then the same as the served one."""
        digest = hashlib.file_digest(file, "sha256")
        start = min(file.seek(0, os.SEEK_END), stat.size)
        asked = (_question("read", address.env, address.path, offset=at) for at in range(start, stat.size, CHUNK))
        for said in self._asker.ask(asked):
            if said["state"] != "ok" or not said["data"]:
                return False
            digest.update(said["data"])
            file.write(said["data"])
        file.flush()
        return digest.digest() == stat.sha256


def _question(act: str, env: str, path: str, *, after: str = "", offset: int = 0) -> dict[str, Any]:
    where = {"env": env, "path": path, "after": after, "offset": offset}
    return {"t": "file_request", "n": 0, "operation": act, **where, "nonce": b""}


@contextlib.contextmanager
def _own_part(arriving: str, name: str) -> Iterator[tuple[str, BufferedRandom]]:
    """The file of a transfer, which no other process writes meanwhile; a private one when another fetches the same."""
    path = os.path.join(arriving, name)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "a+b"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its previous owner may have moved it since it was opened.
            ours = os.path.exists(path) and os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except BlockingIOError:
            ours = False
        if not ours:
            path = f"{path}.{os.getpid()}"
            file = stack.enter_context(open(path, "w+b"))
        file.seek(0)
        yield path, file


def _digest_at(name: str, at: int) -> bytes:
    """The SHA-256 of a file in an open folder, b"" for what is none. Raises OSError when it cannot be read."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError as error:
        if error.errno in _NO_FILE:
            return b""
        raise
    with open(fd, "rb") as file:
        regular = S_ISREG(os.fstat(fd).st_mode)
        return hashlib.file_digest(file, "sha256").digest() if regular else b""


def _into_place(part: str, dest: str, at: int | None) -> None:
    """Move a whole file to its place in one step, with the mode and owner of the file that was there."""
    mode, owner = 0o666 & ~_umask(), None
    with contextlib.suppress(FileNotFoundError):
        before = os.stat(dest, dir_fd=at, follow_symlinks=False)
        if S_ISREG(before.st_mode):
            mode, owner = before.st_mode & 0o7777, (before.st_uid, before.st_gid)
    with open(part, "rb") as source:
        try:
            _dress(source.fileno(), mode, owner)
            os.replace(part, dest, dst_dir_fd=at)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_into_place(source, dest, at, mode, owner)
            os.unlink(part)


def _copy_into_place(source: BinaryIO, dest: str, at: int | None, mode: int, owner: tuple[int, int] | None) -> None:
    """The same across file systems, by a copy beside it with an unpredictable name."""
    beside = f"{dest}.saltlite-{os.urandom(8).hex()}"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
    try:
        with open(fd, "wb") as file:
            shutil.copyfileobj(source, file)
            file.flush()
            _dress(fd, mode, owner)
            os.fsync(fd)
        os.replace(beside, dest, src_dir_fd=at, dst_dir_fd=at)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=at)


def _dress(fd: int, mode: int, owner: tuple[int, int] | None) -> None:
    if owner is not None and owner != (os.geteuid(), os.getegid()):
        os.fchown(fd, *owner)
    os.fchmod(fd, mode)  # after the owner: a change of that drops set-user-id


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _clear_way(path: str, cache: str) -> None:
    """Remove a copy that has become a folder on the master, and folders that have become a file."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    above = os.path.dirname(path)
    while len(above) > len(cache):
        if os.path.lexists(above) and not os.path.isdir(above):
            os.unlink(above)
        above = os.path.dirname(above)


def _remove_stale(arriving: str) -> None:
    oldest = time.time() - ARRIVING_S
    with os.scandir(arriving) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.stat().st_mtime < oldest:
                    os.unlink(entry.path)
