"""What a backup of a master has in it, and how it is put back.

    about             JSON: format of the store, fleet, version, time
    options/NAME      the configuration files of master, API and clouds, and of their .d folders
    named/OPTION      the files that an option names and that have secrets: auth_file, sharedsecret_file
    pki/NAME          the keys of fleet and master
    data/NAME         how far hooks and returners have read the events
    store.sqlite      keys of minions, join tokens, jobs, returns, events

Not in it is what minions send again when they connect (grains, resources, the cache of pillars), and what the operator
has elsewhere: file_roots, pillar_roots and modules.

A restore writes everything beside its place and checks it there. Then it renames, which needs no room; what was there
before keeps its content under another name. A rename that fails takes those before it back.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import io
import json
import os
import pwd
import shutil
import stat
import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from saltlite import __version__
from saltlite.config.load import load_master
from saltlite.config.master import MasterConfig
from saltlite.errors import RefusedError, SaltliteError, UsageError
from saltlite.master.backup.archive import ArchiveReader, ArchiveWriter, newer
from saltlite.master.processes.identity import fleet_files
from saltlite.master.store.sqlite.snapshot import SCHEMA_VERSION, copy_store
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import Fingerprint, fingerprint
from saltlite.platform.privileges import UserAccount, account_of, private_dir

OPTION_FILES = ("master", "api", "cloud", "cloud.providers", "cloud.profiles")
OPTION_FOLDERS = ("master.d", "api.d", "cloud.conf.d", "cloud.providers.d", "cloud.profiles.d")
NAMED = ("auth_file", "sharedsecret_file")
STORE = "store.sqlite"
ABOUT = "about"
ABOUT_MAX = 64 * 1024
COPY = 1024 * 1024
"""Bytes that are read and written at once."""


@dataclass(frozen=True, slots=True)
class About:
    """What a backup says of itself."""

    saltlite: str
    schema: int
    fleet: Fingerprint
    made_at: float


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did. `aside` are the new names of what was there before."""

    about: About
    config: MasterConfig
    aside: tuple[str, ...]


def make_backup(config: MasterConfig, config_dir: str, path: str, passphrase: bytes | None, now: float) -> About:
    """Write a backup of this machine's master, which may run, to `path`; an existing file is replaced at the end.

    Raises SaltliteError if something cannot be read or written; the file at `path` is then as it was.
    """
    if config.database:
        raise SaltliteError(
            "no backup was made: the store is in the database that `database` names; back up that with pg_dump, and "
            f"{config.pki_dir} with it"
        )
    fleet = fleet_files(config.pki_dir)
    if fleet.problem() or fleet.public is None:
        raise SaltliteError(f"no backup was made: {fleet.problem() or f'there is no fleet key in {config.pki_dir}'}")
    folder, name = os.path.split(os.path.realpath(path))
    temporary, copy = (os.path.join(folder, f".{name}.{os.getpid()}.{what}") for what in ("new", "store"))
    try:
        with _created(copy), _created(temporary) as file:
            schema = copy_store(os.path.join(config.data_dir, STORE), copy)
            about = About(__version__, schema, fingerprint(fleet.public), now)
            archive = ArchiveWriter(file, passphrase)
            with tarfile.open(fileobj=cast("BinaryIO", archive), mode="w|", format=tarfile.PAX_FORMAT) as tar:
                _add_bytes(tar, ABOUT, json.dumps({name: getattr(about, name) for name in About.__slots__}).encode())
                for member, source in _sources(config, config_dir):
                    _add_file(tar, member, source)
                _add_file(tar, STORE, copy)
            archive.close()
            file.flush()
            os.fsync(file.fileno())
            os.rename(temporary, os.path.join(folder, name))
            _sync_folder(folder)
    except OSError as error:
        where = f": {error.filename}" if error.filename not in (None, temporary, copy) else ""
        raise SaltliteError(f"no backup was made at {path} ({error.strerror}{where})") from error
    finally:
        for left in (temporary, copy):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)
    return about


def _created(path: str) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _sources(config: MasterConfig, config_dir: str) -> Iterator[tuple[str, str]]:
    """Each member and the file that it is made of, but for the store."""
    for name in OPTION_FILES:
        if os.path.isfile(os.path.join(config_dir, name)):
            yield f"options/{name}", os.path.join(config_dir, name)
    for name in OPTION_FOLDERS:
        for file in _plain_files(os.path.join(config_dir, name)):
            yield f"options/{name}/{file}", os.path.join(config_dir, name, file)
    for name in NAMED:
        path = getattr(config, name)
        if path and os.path.isfile(path):
            yield f"named/{name}", path
    for file in _plain_files(config.pki_dir):
        yield f"pki/{file}", os.path.join(config.pki_dir, file)
    for file in _plain_files(config.data_dir):
        if file != "lock" and not file.startswith(STORE):
            yield f"data/{file}", os.path.join(config.data_dir, file)
    returners = os.path.join(config.data_dir, "returners")
    for file in _plain_files(returners):
        yield f"data/returners/{file}", os.path.join(returners, file)


def _plain_files(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(one.name for one in entries if one.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _add_file(tar: tarfile.TarFile, name: str, path: str) -> None:
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = found.st_size, stat.S_IMODE(found.st_mode), int(found.st_mtime)
        with contextlib.suppress(KeyError):
            info.uname, info.gname = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
        tar.addfile(info, file)


def restore_backup(
    path: str, config_dir: str, passphrase: bytes | None, *, keep_options: bool, replace: bool, stamp: str
) -> Restored:
    """Put back what a backup has, on a machine where the master does not run.

    With `keep_options` the configuration of this machine stays, and says where everything goes. With `replace` a master
    that is here already is put aside, under names that end in `stamp`. Raises SaltliteError; everything is then as it
    was.
    """
    try:
        with open(path, "rb") as file:
            reader = ArchiveReader(file, path, passphrase)
            with _Restoring(path, config_dir, keep_options=keep_options, replace=replace) as restoring:
                try:
                    with tarfile.open(fileobj=cast("BinaryIO", reader), mode="r|") as tar:
                        for member in tar:
                            restoring.take(tar, member)
                except tarfile.TarError as error:
                    raise SaltliteError(f"{path} was altered or cut off ({error}); nothing was restored") from error
                reader.finish()
                return restoring.commit(stamp)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        raise SaltliteError(f"nothing was restored ({error.strerror}{where})") from error


class _Restoring:
    """A restore. Everything is below names that end in `self._new` until `commit`; those are removed at the end."""

    def __init__(self, path: str, config_dir: str, *, keep_options: bool, replace: bool) -> None:
        self._path = path
        self._config_dir = config_dir
        self._keep_options = keep_options
        self._replace = replace
        self._new = f".restore-{os.getpid()}"
        self._options = os.path.join(config_dir, self._new)
        self._about: About | None = None
        self._config: MasterConfig | None = None
        self._account: UserAccount | None = None
        self._placed: dict[str, str] = {}
        """The final path of what is new -> where it is until then."""

    def __enter__(self) -> _Restoring:
        return self

    def __exit__(self, *unused: object) -> None:
        for path in (self._options, *self._placed.values()):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Write one member beside its place. Raises SaltliteError for one that no backup has."""
        stream = tar.extractfile(member) if member.isreg() else None
        parts = member.name.split("/")
        if stream is None or not all(part and part not in (".", "..") for part in parts) or "\0" in member.name:
            raise self._strange(member.name)
        if member.name == ABOUT:
            self._about = self._read_about(stream.read(ABOUT_MAX))
            return
        if self._about is None:
            raise self._strange(member.name)
        if parts[0] == "options" and self._config is None:
            if not self._keep_options:
                self._write(os.path.join(self._options, *parts[1:]), stream, member, _owner_of(member))
            return
        config, account = self._begun()
        if parts[0] == "named" and parts[1:] and parts[1] in NAMED and len(parts) == 2:
            final = getattr(config, parts[1])
            if final and not self._keep_options:
                self._write(self._place(final), stream, member, _owner_of(member))
        elif parts[0] == "pki" and len(parts) == 2:
            self._write(os.path.join(self._placed[config.pki_dir], parts[1]), stream, member, None)
        elif parts[0] == "data" and len(parts) in (2, 3):
            self._write(os.path.join(self._placed[config.data_dir], *parts[1:]), stream, member, account)
        elif parts == [STORE]:
            self._write(os.path.join(self._placed[config.data_dir], STORE), stream, member, account)
        else:
            raise self._strange(member.name)

    def _read_about(self, data: bytes) -> About:
        try:
            fields: dict[str, Any] = json.loads(data)
            about = About(str(fields["saltlite"]), int(fields["schema"]), fields["fleet"], float(fields["made_at"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._strange(ABOUT) from None
        if about.schema > SCHEMA_VERSION:
            raise newer(self._path, about.saltlite)
        return about

    def _begun(self) -> tuple[MasterConfig, UserAccount]:
        """The configuration that says where everything goes, after it was found that nothing is in the way."""
        if self._config is None or self._account is None:
            self._config = load_master(self._config_dir if self._keep_options else self._options).config
            self._account = account_of(self._config.user)
            self._refuse_what_is_there(self._config)
            private_dir(self._place(self._config.pki_dir), os.geteuid(), os.getegid())
            private_dir(self._place(self._config.data_dir), self._account.uid, self._account.gid)
        return self._config, self._account

    def _refuse_what_is_there(self, config: MasterConfig) -> None:
        if _is_locked(os.path.join(config.data_dir, "lock")):
            raise RefusedError("the master runs here: stop it first (systemctl stop saltlite-master)")
        here = [os.path.join(config.data_dir, STORE), os.path.join(config.pki_dir, "fleet.key")]
        if not self._keep_options:
            here.append(os.path.join(self._config_dir, "master"))
        found = [path for path in here if os.path.lexists(path)]
        if found and not self._replace:
            raise UsageError(
                f"there is a master here already ({found[0]}), and nothing was restored: --replace puts it aside, and "
                "deletes nothing"
            )

    def _place(self, final: str) -> str:
        return self._placed.setdefault(final, f"{final}{self._new}")

    def _write(self, path: str, stream: Any, member: tarfile.TarInfo, owner: UserAccount | None) -> None:
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            os.makedirs(folder, 0o755 if folder.startswith(self._options) else 0o700)
            if owner is not None:
                os.chown(folder, owner.uid, owner.gid)
        mode = member.mode & 0o644
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            shutil.copyfileobj(stream, file, COPY)
            if owner is not None:
                os.fchown(file.fileno(), owner.uid, owner.gid)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())

    def commit(self, stamp: str) -> Restored:
        """Check what was written, and put it in its place."""
        if self._about is None or self._config is None:
            raise self._strange("its end")
        config, about = self._config, self._about
        keys = fleet_files(self._placed[config.pki_dir])
        has_store = os.path.isfile(os.path.join(self._placed[config.data_dir], STORE))
        if not has_store or keys.problem() or keys.public is None or fingerprint(keys.public) != about.fleet:
            raise self._strange("its keys")
        renames = list(self._placed.items())
        if not self._keep_options:
            for name in (*OPTION_FILES, *OPTION_FOLDERS):
                renames.append((os.path.join(self._config_dir, name), os.path.join(self._options, name)))
        aside: list[str] = []
        done: list[tuple[str, str]] = []
        try:
            for final, new in renames:
                if os.path.lexists(final):
                    kept = f"{final}.before-{stamp}"
                    os.rename(final, kept)
                    done.append((kept, final))
                    aside.append(kept)
                if os.path.lexists(new):
                    os.rename(new, final)
                    done.append((final, new))
            for folder in dict.fromkeys(os.path.dirname(final) for final, _new in renames):
                _sync_folder(folder)
        except OSError:
            for now, before in reversed(done):
                os.rename(now, before)
            raise
        return Restored(about, config, tuple(aside))

    def _strange(self, what: str) -> SaltliteError:
        return SaltliteError(
            f"{self._path} is not what saltlite backs up ({what[:80]!r}); nothing was restored; use another backup"
        )


def _owner_of(member: tarfile.TarInfo) -> UserAccount | None:
    """The user that had the file, if this machine has that user and group too; None leaves it to this process."""
    try:
        uid, gid = pwd.getpwnam(member.uname).pw_uid, grp.getgrnam(member.gname).gr_gid
    except (KeyError, ValueError):
        return None
    return UserAccount(member.uname, uid, gid) if os.geteuid() == 0 else None


def _is_locked(path: str) -> bool:
    """Whether a process holds that lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
