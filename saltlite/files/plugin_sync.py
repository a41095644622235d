"""Plug-ins from a file server into `<extmods>/<type>`: the whole new set takes the place of the old one, or none of it.

`<extmods>/<type>` is a symbolic link to the set in use, which is a folder in `<extmods>/.sets`. A new set is built
beside it, every file compared by its digest, and the link is then exchanged by one rename: whoever dies before that
leaves the old set, and whoever looks sees one set or the other. Files that did not change are shared by both.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from saltlite.errors import CommandExecutionError, UsageError
from saltlite.model.extmods import SyncRules, names_text
from saltlite.model.files import FileAddress, FileStat, parse_env
from saltlite.platform.files import digest_of

ENDINGS = (".py", ".pyx", ".so", ".zip")
"""Files that are synced; contract: Salt's `saltutil.sync_modules`."""
PLUGIN_MAX = 64 * 1024 * 1024
"""Bytes of one file that is synced; a larger one is no plug-in."""
SETS = ".sets"
BY_HAND = ".by-hand"
"""Ending of the name of a folder that was not made by a sync, while it is moved out of the way."""


class PluginSource(Protocol):
    """Where the files come from: `saltlite.files.client.FileClient`."""

    def envs(self) -> list[str]: ...

    def files(self, env: str, prefix: str = "") -> list[str]: ...

    def stat(self, address: FileAddress) -> FileStat | None: ...

    def fetch_found(self, address: FileAddress, stat: FileStat, dest: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Names as `modules.lumberjack`, sorted. `failed`: name, or the type itself -> why; then nothing was changed."""

    synced: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class PluginSync:
    """`extmods` has one entry a type."""

    def __init__(self, source: PluginSource, extmods: str) -> None:
        self._source = source
        self._extmods = extmods

    def sync(self, kind: str, envs: Sequence[str], rules: SyncRules) -> SyncReport:
        """Bring the files of `salt://_<kind>` of these environments; of several with one path the last one counts.

        Raises OSError when the folder cannot be written, CommandExecutionError when the file server does not answer,
        UsageError for an environment that it does not have.
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
        """Path below the type's folder -> where the file is."""
        there = self._source.envs()
        # To a file server an environment that it does not have is an empty one: a sync would remove everything.
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
        """Why nothing may be left of a type, "" when nothing would be removed."""
        there = sorted(f"{kind}.{_relname(below)}" for below in _plugins(os.path.join(self._extmods, kind)))
        if not there or not rules.clean:
            return ""
        return (
            f"Nothing of {kind} was changed: extmod_whitelist and extmod_blacklist leave out all {served} that the "
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
        """Put one file into the new set: (why that failed or "", whether it is another than before)."""
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
            # A folder made by hand is no link yet. What is kept of it is in the new set.
            os.rename(folder, os.path.join(self._extmods, SETS, os.path.basename(folder) + BY_HAND))
        os.replace(link, folder)
        _sync_folder(self._extmods)

    def _remove_unused(self, sets: str) -> None:
        """Remove sets that no type uses: old ones, and what a killed sync left."""
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
    """One sync at a time; another one waits."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
