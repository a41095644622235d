"""The folders of the option `file_roots`: opening one served file, and listing them.

Subfolders, links that stay below the root and files with any UTF-8 name are served. Devices, pipes, ignored files and
files that are too large are not.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from saltlite.errors import UsageError
from saltlite.model.files import is_area, parse_path
from saltlite.platform.files import open_beneath

log = logging.getLogger(__name__)

NAMES_MAX = 100_000
"""Names in one listing; further names are skipped, with a log message."""
DEPTH_MAX = 64
"""Folders inside each other that a listing enters."""


class ServedFile:
    """An open regular file. Close it."""

    def __init__(self, fd: int, found: os.stat_result) -> None:
        self._fd = fd
        self.size = found.st_size
        self.mode = stat.S_IMODE(found.st_mode)
        """Permission bits."""
        self.mtime = max(0, int(found.st_mtime))
        """Seconds since 1970."""
        times = (found.st_mtime_ns, found.st_ctime_ns)
        self.identity: tuple[int, ...] = (found.st_dev, found.st_ino, found.st_size, *times)
        """Changes whenever the content may have changed."""

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; b"" at the end. Raises OSError."""
        return os.pread(self._fd, size, offset)

    def close(self) -> None:
        os.close(self._fd)


class FileRoots:
    """The served files, by environment and path. Paths are those of `saltlite.model.files.parse_path`.

    A file that is missing, ignored, too large, not a regular file, outside the folders or not readable does not exist
    for the caller, who does not learn which of these it is.
    """

    def __init__(
        self, roots: Mapping[str, Sequence[str]], *, ignore: Sequence[str] = (), largest: int = 2**53, areas: str = ""
    ) -> None:
        """`roots`: environment -> its folders, the first one wins. `ignore`: globs on the path, as in fnmatch(3), with
        `*` matching slashes. `largest`: bytes of one file. `areas`: a folder of unlisted environments with random
        names (`saltlite.files.server.CopyAreas`); whoever knows a name has its files.
        """
        self._roots = {env: tuple(folders) for env, folders in roots.items()}
        self._ignored = re.compile("|".join(map(fnmatch.translate, ignore))) if ignore else None
        self._largest = largest
        self._areas = areas
        self.bring: Callable[[str], None] = lambda _area: None
        """Called with the name of an area before it is read: it may be another master's."""

    def envs(self) -> list[str]:
        """The environments that may be listed, sorted."""
        return sorted(self._roots)

    def names(self, env: str, prefix: str, *, folders: bool) -> list[str]:
        """Files, or folders, below `prefix` ("" for all), sorted; relative to the root of the environment.

        A folder is listed with all folders above it; the root itself is "" and is not listed.
        """
        found: set[str] = set()
        for root in self._folders_of(env):
            for each in self._below(root, prefix, 0, frozenset()):
                if each.is_folder is folders:
                    found.add(each.path)
                if len(found) >= NAMES_MAX:
                    log.warning("%s has more than %d names: the rest is not listed; split it", root, NAMES_MAX)
                    return sorted(found)
        return sorted(found)

    def links(self, env: str) -> dict[str, str]:
        """Files and folders of `names` that are symbolic links, sorted -> the targets as written in them."""
        found: dict[str, str | None] = {}
        for root in self._folders_of(env):
            for each in self._below(root, "", 0, frozenset()):
                # The first folder wins, also when what it has is no link.
                if each.path not in found and len(found) < NAMES_MAX:
                    found[each.path] = _target(root, each.path) if each.is_link else None
        return {path: target for path, target in sorted(found.items()) if target is not None}

    def open(self, env: str, path: str) -> ServedFile | None:
        """The file of the first folder of the environment that has it."""
        if not path or self._is_ignored(path):
            return None
        for root in self._folders_of(env):
            found = _open_regular(root, path)
            if found is not None and found.size > self._largest:
                log.warning("%s in %s is not served: it is larger than fileserver_max", path, root)
                found.close()
                return None
            if found is not None:
                return found
        return None

    def _folders_of(self, env: str) -> Sequence[str]:
        if self._areas and is_area(env):
            self.bring(env)
            return (os.path.join(self._areas, env),)
        return self._roots.get(env, ())

    def _is_ignored(self, path: str) -> bool:
        return self._ignored is not None and self._ignored.match(path) is not None

    def _below(self, root: str, folder: str, depth: int, above: frozenset[tuple[int, int]]) -> Iterator[_Entry]:
        """All below `folder`; `above` are the folders that it is in."""
        try:
            fd = open_beneath(root, folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return
        try:
            status = os.fstat(fd)
            me = (status.st_dev, status.st_ino)
            entries = [] if me in above or depth >= DEPTH_MAX else _entries(fd)
        finally:
            os.close(fd)
        for name, kind in entries:
            path = f"{folder}/{name}" if folder else name
            if not _is_nameable(path) or self._is_ignored(path):
                continue
            reached = _kind(root, path) if kind == stat.S_IFLNK else kind
            if reached == stat.S_IFDIR:
                yield _Entry(path, is_folder=True, is_link=kind == stat.S_IFLNK)
                yield from self._below(root, path, depth + 1, above | {me})
            elif reached == stat.S_IFREG:
                yield _Entry(path, is_folder=False, is_link=kind == stat.S_IFLNK)


class _Entry(NamedTuple):
    path: str
    is_folder: bool
    is_link: bool


def _entries(folder: int) -> list[tuple[str, int]]:
    """(name, S_IFREG, S_IFDIR, S_IFLNK or 0) of what is in an open folder, sorted."""
    kinds = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                kinds.append((entry.name, stat.S_IFLNK))
            elif entry.is_dir(follow_symlinks=False):
                kinds.append((entry.name, stat.S_IFDIR))
            elif entry.is_file(follow_symlinks=False):
                kinds.append((entry.name, stat.S_IFREG))
    return sorted(kinds)


def _is_nameable(path: str) -> bool:
    try:
        return parse_path(path) == path
    except UsageError:
        return False


def _kind(root: str, path: str) -> int:
    """S_IFREG, S_IFDIR …; 0 for what cannot be reached."""
    try:
        fd = open_beneath(root, path, os.O_PATH)
    except OSError:
        return 0
    try:
        return stat.S_IFMT(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def _target(root: str, path: str) -> str | None:
    """What is written in a link, None when it is none any more or is no text."""
    above, _, name = path.rpartition("/")
    try:
        fd = open_beneath(root, above, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        target = os.readlink(name, dir_fd=fd)
        target.encode()
    except (OSError, UnicodeEncodeError):
        return None
    finally:
        os.close(fd)
    return target


def _open_regular(root: str, path: str) -> ServedFile | None:
    try:
        fd = open_beneath(root, path)
    except PermissionError:
        log.warning("%s in %s is not served: the master's user may not read it; chmod or chown it", path, root)
        return None
    except OSError:
        return None
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return ServedFile(fd, found)
    os.close(fd)
    return None
