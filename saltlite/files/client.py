"""The minion's client of the file server: files are fetched, compared by SHA-256, and only then moved into place.

`<cachedir>/files/<environment>/<path>` holds copies of served files. `<cachedir>/arriving` holds unfinished transfers,
named by their digest, so that an interrupted one resumes where it stopped, even in a later job. Modules see the client
as `__file_client__`.

Plug-ins are synced into `<extmods>/<type>`, a symbolic link to the set in use, which is a folder in `<extmods>/.sets`.
The new set is built beside the old one and the link is exchanged by one rename, so readers and crashes see either the
whole old set or the whole new one. Unchanged files are shared by both.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from io import BufferedRandom
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from saltlite.errors import CommandExecutionError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.files import FileAddress, FileStat, SyncRules, names_text, parse_env, parse_path
from saltlite.platform.files import digest_of
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message

if TYPE_CHECKING:
    from saltlite.files.upgrade import VersionInstaller

ENDINGS = (".py", ".pyx", ".so", ".zip")
"""Files that are synced; contract: Salt's `saltutil.sync_modules`."""
PLUGIN_MAX = 64 * 1024 * 1024
"""Bytes of one synced file."""
SETS = ".sets"
BY_HAND = ".by-hand"
"""Suffix of a folder that no sync made, while it is moved out of the way."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Names such as `modules.lumberjack`, sorted. `failed`: a name, or the type itself -> why; then nothing changed."""

    synced: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class PluginSync:
    """Syncs plug-ins from a file server into the folder `extmods`."""

    def __init__(self, source: FileClient, extmods: str) -> None:
        self._source = source
        self._extmods = extmods

    def sync(self, kind: str, envs: Sequence[str], rules: SyncRules) -> SyncReport:
        """Sync `salt://_<kind>` of these environments; the last environment that has a path wins.

        Raises OSError when the folder cannot be written, CommandExecutionError when the file server does not answer,
        UsageError for an unknown environment.
        """
        sets = os.path.join(self._extmods, SETS)
        os.makedirs(sets, mode=0o700, exist_ok=True)
        with _locked(os.path.join(sets, "lock")):
            self._remove_unused(sets)
            served = self._served(kind, envs)
            wanted = {below: address for below, address in served.items() if rules.chosen(_relname(below))}
            problem = "" if wanted or not served or rules.may_empty else self._emptied(kind, rules, len(served))
            if problem:
                return SyncReport(failed={kind: problem})
            staging = tempfile.mkdtemp(prefix=f"{kind}.", dir=sets)
            try:
                return self._build(kind, wanted, staging, rules)
            finally:
                self._remove_unused(sets)

    def _served(self, kind: str, envs: Sequence[str]) -> dict[str, FileAddress]:
        """Path below the type's folder -> the address of the file."""
        there = self._source.envs()
        # The file server treats an unknown environment as an empty one, so the sync would remove everything.
        unknown = next((env for env in envs if parse_env(env) not in there), None)
        if unknown is not None:
            raise UsageError(f"the file server has no environment {unknown!r}: it has {', '.join(there) or 'none'}")
        folder = f"_{kind}/"
        found = {}
        for env in envs:
            for path in self._source.files(env, f"_{kind}"):
                below = path.removeprefix(folder)
                if below.endswith(ENDINGS):
                    found[below] = FileAddress(path, env)
        return found

    def _emptied(self, kind: str, rules: SyncRules, served: int) -> str:
        """The error when the rules would remove all plug-ins of a type; "" when nothing would be removed."""
        there = sorted(f"{kind}.{_relname(below)}" for below in _plugins(os.path.join(self._extmods, kind)))
        if not there or not rules.clean:
            return ""
        return (
            f"Nothing of {kind} was changed: extmod_whitelist and extmod_blacklist exclude all {served} that the "
            f"master has, so this sync would remove all that are here ({names_text(there)}). Correct the lists, or "
            "pass extmod_empty=True."
        )

    def _build(self, kind: str, wanted: Mapping[str, FileAddress], staging: str, rules: SyncRules) -> SyncReport:
        folder = os.path.join(self._extmods, kind)
        there = _plugins(folder)
        synced, failed = set(), {}
        for below, address in wanted.items():
            dest = os.path.join(staging, below)
            os.makedirs(os.path.dirname(dest), mode=0o700, exist_ok=True)
            name = f"{kind}.{_relname(below)}"
            why, changed = self._take(address, os.path.join(folder, below) if below in there else "", dest)
            if why:
                failed[name] = why
            elif changed:
                synced.add(name)
        gone = there - set(wanted)
        if failed:
            return SyncReport(failed=failed)
        if not rules.clean:
            for below in gone:
                dest = os.path.join(staging, below)
                os.makedirs(os.path.dirname(dest), mode=0o700, exist_ok=True)
                _share(os.path.join(folder, below), dest)
            gone = set()
        removed = sorted({f"{kind}.{_relname(below)}" for below in gone})
        if removed:
            rules.removing(removed)
        if synced or gone:
            _sync_folders(staging)
            self._exchange(folder, staging)
        return SyncReport(sorted(synced), removed)

    def _take(self, address: FileAddress, known: str, dest: str) -> tuple[str, bool]:
        """Put one file into the new set: (the error or "", whether the file changed)."""
        try:
            stat = self._source.stat(address)
            if stat is None:
                return "it was removed on the master while it was synced", False
            if stat.size > PLUGIN_MAX:
                return f"it has {stat.size} bytes, and a plug-in may have {PLUGIN_MAX}", False
            if known and digest_of(known) == stat.sha256:
                _share(known, dest)
                return "", False
            self._source.fetch_found(address, stat, dest)
        except CommandExecutionError as error:
            return str(error), False
        return "", True

    def _exchange(self, folder: str, staging: str) -> None:
        link = os.path.join(self._extmods, SETS, f"{os.path.basename(folder)}.link")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(link)
        os.symlink(os.path.join(SETS, os.path.basename(staging)), link)
        if os.path.isdir(folder) and not os.path.islink(folder):
            # A folder that somebody made by hand. What is still needed of it is in the new set.
            os.rename(folder, os.path.join(self._extmods, SETS, os.path.basename(folder) + BY_HAND))
        os.replace(link, folder)
        _sync_folder(self._extmods)

    def _remove_unused(self, sets: str) -> None:
        """Remove sets that no type uses: old ones, and those of killed syncs."""
        used = {"lock"}
        with os.scandir(self._extmods) as entries:
            used |= {os.path.basename(os.readlink(entry.path)) for entry in entries if entry.is_symlink()}
        for name in set(os.listdir(sets)) - used:
            path = os.path.join(sets, name)
            folder = os.path.join(self._extmods, name.removesuffix(BY_HAND))
            if name.endswith(BY_HAND) and not os.path.lexists(folder):
                # The process that moved it was killed before it made the link.
                os.rename(path, folder)
            elif os.path.islink(path):
                os.unlink(path)
            else:
                shutil.rmtree(path)


def _relname(below: str) -> str:
    return os.path.splitext(below)[0].replace("/", ".")


def _plugins(folder: str) -> set[str]:
    """The plug-in files of a set, relative to it."""
    found = set()
    for above, _folders, files in os.walk(folder):
        for name in files:
            if name.endswith(ENDINGS):
                found.add(os.path.relpath(os.path.join(above, name), folder))
    return found


def _share(known: str, dest: str) -> None:
    try:
        os.link(known, dest, follow_symlinks=False)
    except OSError:
        shutil.copy2(known, dest)


def _sync_folders(folder: str) -> None:
    for above, _folders, _files in os.walk(folder):
        _sync_folder(above)


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold the lock of the folder; another sync waits."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


ATTEMPTS = 3
"""Attempts for a file that changes while it is fetched."""
_NO_FILE = {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}
ARRIVING_S = 7 * 86_400.0
"""Seconds after which an abandoned transfer is removed."""


class FileAsker(Protocol):
    """Answers `file_request` and `file_put`: the master, or the local files."""

    def ask(self, questions: Iterable[Message]) -> Iterator[Message]:
        """A `response` for each question, in order; `n` is meaningless. Raises CommandExecutionError."""
        ...


class FileClient:
    """Fetches, caches and pushes files, and syncs plug-ins."""

    def __init__(
        self, asker: FileAsker, cachedir: str, *, extmods: str = "", refresh: Callable[[str], Any] = lambda _what: {}
    ) -> None:
        """`asker` serves the files; `refresh` makes the minion reload its "modules" or "grains"; `extmods` is the
        folder of synced plug-ins, "" for none.
        """
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
        response = self._one(_question("find", address.env, address.path))
        if response["state"] != "ok":
            return None
        return FileStat(response["size"], response["sha256"], response["mode"], response["mtime"])

    def cached_path(self, address: FileAddress) -> str:
        """The path of the cached copy of a file, whether or not it exists."""
        return os.path.join(self._cachedir, "files", parse_env(address.env), parse_path(address.path))

    def cache(self, address: FileAddress) -> str:
        """The path of an up-to-date copy of a served file, "" when there is no such file."""
        path = self.cached_path(address)
        stat = self.stat(address)
        if stat is None:
            return ""
        if digest_of(path) != stat.sha256:
            _clear_way(path, os.path.join(self._cachedir, "files"))
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            self._fetch(address, stat, path)
        return path

    def mirror(self, env: str) -> str:
        """Make `<cachedir>/files/<env>` the same as that environment: its files with their modes, its folders, and
        nothing else; return its path. Raises OSError.
        """
        root = os.path.join(self._cachedir, "files", parse_env(env))
        os.makedirs(root, mode=0o700, exist_ok=True)
        listed = self.files(env)
        there = {}
        asked = (_question("find", env, path) for path in listed)
        for path, response in zip(listed, list(self._asker.ask(asked)), strict=True):
            if response["state"] == "ok":  # else it was removed meanwhile
                stat = FileStat(response["size"], response["sha256"], response["mode"], response["mtime"])
                there[os.path.join(root, parse_path(path))] = FileAddress(path, env), stat
        folders = {os.path.join(root, parse_path(path)) for path in self.folders(env) if path}
        for place in folders:
            _clear_way(os.path.join(place, "x"), root)
            os.makedirs(place, mode=0o700, exist_ok=True)
        for place, (address, stat) in there.items():
            if digest_of(place) != stat.sha256:
                _clear_way(place, root)
                os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
                self._fetch(address, stat, place)
            os.chmod(place, stat.mode & 0o777 | 0o400)
        _remove_others(root, set(there), folders)
        return root

    def fetch(self, address: FileAddress, dest: str, at: int | None = None) -> bool:
        """Replace `dest` by a served file, atomically; False when there is no such file.

        A replaced file keeps its mode and owner; a link is followed. With `at`, `dest` is a name in that open folder,
        and a link is replaced: for folders in which other users may create links at any moment. Raises OSError.
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
        """Fetch a served file, whose metadata `stat` has just been read, into the new file `dest`. Raises OSError."""
        self._fetch(address, stat, dest)

    def content(self, address: FileAddress) -> bytes | None:
        """The content of a small file, None when there is no such file."""
        path = self.cache(address)
        if not path:
            return None
        with open(path, "rb") as file:
            return file.read()

    def push(self, path: str, name: str) -> bool:
        """Send the file `path` to the master, which stores it as `name`; False when the master refuses it.

        Raises OSError when the file cannot be read.
        """
        import hashlib  # noqa: PLC0415 - it loads OpenSSL, 4 MiB that few processes need

        for _ in range(ATTEMPTS):
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                sha256 = hashlib.file_digest(file, "sha256").digest()
                fields = {"t": "file_put", "n": 0, "path": name, "size": size, "sha256": sha256}
                offset = 0
                # A few more than the file has pieces: the first answer may say that some have arrived already.
                for _piece in range(size // CHUNK + 3):
                    data = os.pread(file.fileno(), min(CHUNK, size - offset), offset)
                    response = self._one({**fields, "offset": offset, "data": data})
                    if response["state"] != "ok" or response["sha256"] == sha256:
                        return bool(response["state"] == "ok")
                    offset = min(response["size"], size)
        raise CommandExecutionError(f"{path} changed while it was sent: send it again when nothing writes to it.")

    def sync(self, kind: str, envs: list[str], rules: SyncRules) -> SyncReport:
        """Sync the plug-ins of a type (`modules`, `grains` …) from `salt://_<type>` of these environments."""
        if not self._extmods:
            raise CommandExecutionError("There is no folder for plug-ins: set extension_modules in the configuration.")
        return PluginSync(self, self._extmods).sync(kind, envs, rules)

    def versions(self, data_dir: str, pki_dir: str) -> VersionInstaller:
        """What installs other versions of saltlite for the minion with these folders."""
        from saltlite.files.upgrade import VersionInstaller  # noqa: PLC0415 - few processes need it

        return VersionInstaller(self, data_dir, pki_dir)

    def _names(self, act: str, env: str, prefix: str) -> Iterator[str]:
        after = ""
        while True:
            response = self._one(_question(act, env, prefix, after=after))
            yield from response["names"]
            if not response["more"] or not response["names"]:
                return
            after = response["names"][-1]

    def _one(self, question: Message) -> Message:
        (response,) = self._asker.ask([question])
        return response

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
        """Append the missing part to `file`; whether the file then matches its digest."""
        import hashlib  # noqa: PLC0415 - as above

        digest = hashlib.file_digest(file, "sha256")
        start = min(file.seek(0, os.SEEK_END), stat.size)
        asked = (_question("read", address.env, address.path, offset=at) for at in range(start, stat.size, CHUNK))
        for response in self._asker.ask(asked):
            if response["state"] != "ok" or not response["data"]:
                return False
            digest.update(response["data"])
            file.write(response["data"])
        file.flush()
        return digest.digest() == stat.sha256


def _question(act: str, env: str, path: str, *, after: str = "", offset: int = 0) -> dict[str, Any]:
    where = {"env": env, "path": path, "after": after, "offset": offset}
    return {"t": "file_request", "n": 0, "operation": act, **where, "nonce": b""}


@contextlib.contextmanager
def _own_part(arriving: str, name: str) -> Iterator[tuple[str, BufferedRandom]]:
    """A locked file for a transfer; a private one when another process fetches the same content."""
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
    """The SHA-256 of a file in an open folder, b"" without a regular file. Raises OSError when it cannot be read."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError as error:
        if error.errno in _NO_FILE:
            return b""
        raise
    import hashlib  # noqa: PLC0415 - as above

    with open(fd, "rb") as file:
        regular = S_ISREG(os.fstat(fd).st_mode)
        return hashlib.file_digest(file, "sha256").digest() if regular else b""


def _into_place(part: str, dest: str, at: int | None) -> None:
    """Move a complete file into place atomically, with the mode and owner of the file that it replaces."""
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
    """The same across file systems, by a copy beside `dest` with an unpredictable name."""
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
    """Remove a cached folder that is a file on the master now, and cached files that are folders there now."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    above = os.path.dirname(path)
    while len(above) > len(cache):
        if os.path.lexists(above) and not os.path.isdir(above):
            os.unlink(above)
        above = os.path.dirname(above)


def _remove_others(root: str, files: set[str], folders: set[str]) -> None:
    """Remove what is below `root` and neither one of the files, nor one of the folders or above a file."""
    kept = set(folders)
    for place in (*files, *folders):
        above = os.path.dirname(place)
        while len(above) > len(root) and above not in kept:
            kept.add(above)
            above = os.path.dirname(above)
    for above, inside, names in os.walk(root, topdown=False):
        for name in names:
            if os.path.join(above, name) not in files:
                os.unlink(os.path.join(above, name))
        for name in inside:
            path = os.path.join(above, name)
            if os.path.islink(path):
                os.unlink(path)
            elif path not in kept:
                os.rmdir(path)


def _remove_stale(arriving: str) -> None:
    oldest = time.time() - ARRIVING_S
    with os.scandir(arriving) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.stat().st_mtime < oldest:
                    os.unlink(entry.path)
