"""Copies of files and trees as one step: made beside their place under another name, and then put there.

Links are copied as links, so that nothing outside of the tree comes into the copy. Both trees are walked through open
folders, so that nobody who may write into one of them leads the copy elsewhere meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules._safe_files import Access, PinnedPath, existing, hold, pinned, put_copy, shown

from ._paths import failed

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def copy_file(src: str, dst: str) -> None:
    """Make `dst` a copy of a file, with its mode and, where the minion may, its owner; links are followed.

    Raises OSError and CommandExecutionError.
    """
    existing(src)
    fd = os.open(src, _READ & ~os.O_NOFOLLOW)
    try:
        with pinned(dst) as place:
            put_copy(fd, place, dst, _access(os.fstat(fd)), keep_hard_links=True)
    finally:
        os.close(fd)


def copy_tree(src: str, dst: str) -> None:
    """Copy a folder with all that is in it over what is in `dst`, where files that `src` does not have stay.

    Times are copied too. Raises OSError and CommandExecutionError.
    """
    with pinned(src) as source, pinned(dst) as dest:
        _copy(source, dest, dst)


def replace_by_copy(src: str, dst: str) -> None:
    """Put a copy of `src` where `dst` is or is to be; while it is made, and when that fails, `dst` is as it was.

    Raises OSError and CommandExecutionError.
    """
    with pinned(src) as source, pinned(dst, follow_symlinks=False) as dest:
        _replace(source, dest, dst)


def move_entry(src: str, dst: str) -> None:
    """Rename, or where that would cross file systems, copy and then remove. Raises OSError, CommandExecutionError."""
    with pinned(src, follow_symlinks=False) as source, pinned(dst, follow_symlinks=False) as dest:
        try:
            os.rename(source.name, dest.name, src_dir_fd=source.folder, dst_dir_fd=dest.folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _replace(source, dest, dst)
            discard(source)


def discard(place: PinnedPath) -> None:
    """Remove a file, link or whole folder; what links in it point to stays. Raises OSError."""
    if _is_folder(place):
        shutil.rmtree(place.name, dir_fd=place.folder)
    else:
        os.unlink(place.name, dir_fd=place.folder)


def _copy(source: PinnedPath, dest: PinnedPath, path: str) -> None:
    """Copy a file, link, pipe, device or folder to a place, called `path` in sentences."""
    found = os.stat(source.name, dir_fd=source.folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        _copy_folder(source, dest, path)
        return
    if _is_folder(dest):
        raise CommandExecutionError(f"{shown(path)} is a folder, and what is to be copied there is none.")
    if stat.S_ISREG(found.st_mode):
        fd = os.open(source.name, _READ, dir_fd=source.folder)
        try:
            # What is known of the file has to be of the one that is read.
            found = os.fstat(fd)
            put_copy(fd, dest, path, _access(found))
        finally:
            os.close(fd)
    else:
        _copy_special(source, dest, found)
    # Some file systems keep no times of links.
    with contextlib.suppress(NotImplementedError):
        os.utime(dest.name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=dest.folder, follow_symlinks=False)


def _copy_folder(source: PinnedPath, dest: PinnedPath, path: str) -> None:
    there = dest.status()
    if there is None:
        os.mkdir(dest.name, 0o700, dir_fd=dest.folder)
    elif not stat.S_ISDIR(there.st_mode):
        raise CommandExecutionError(f"{shown(path)} is no folder, and what is to be copied there is one.")
    with _folder(source) as from_fd, _folder(dest) as to_fd:
        for name in sorted(os.listdir(from_fd)):
            _copy(PinnedPath(from_fd, name), PinnedPath(to_fd, name), os.path.join(path, name))
        found = os.fstat(from_fd)
        if os.geteuid() == 0:
            os.fchown(to_fd, found.st_uid, found.st_gid)
        os.fchmod(to_fd, stat.S_IMODE(found.st_mode))
        os.utime(to_fd, ns=(found.st_atime_ns, found.st_mtime_ns))


def _copy_special(source: PinnedPath, dest: PinnedPath, found: os.stat_result) -> None:
    """Copy a link, a pipe or a device."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(dest.name, dir_fd=dest.folder)
    link = stat.S_ISLNK(found.st_mode)
    if link:
        os.symlink(os.readlink(source.name, dir_fd=source.folder), dest.name, dir_fd=dest.folder)
    else:
        os.mknod(dest.name, found.st_mode, found.st_rdev, dir_fd=dest.folder)
    with hold(dest, follow_symlinks=not link) as same:
        if os.geteuid() == 0:
            os.chown(same, found.st_uid, found.st_gid)
        if not link:
            os.chmod(same, stat.S_IMODE(found.st_mode))


@contextlib.contextmanager
def _folder(place: PinnedPath) -> Iterator[int]:
    fd = os.open(place.name, _READ | os.O_DIRECTORY, dir_fd=place.folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _replace(source: PinnedPath, dest: PinnedPath, path: str) -> None:
    fresh = PinnedPath(dest.folder, _free_name())
    try:
        _copy(source, fresh, path)
        if _is_folder(fresh) and dest.status() is not None:
            _exchange_folders(fresh, dest)
        else:
            os.replace(fresh.name, dest.name, src_dir_fd=dest.folder, dst_dir_fd=dest.folder)
    finally:
        if fresh.status() is not None:
            try:
                discard(fresh)
            except OSError as error:
                left = os.path.join(os.path.dirname(path), fresh.name)
                raise failed(f"{shown(left)}, a copy that was not completed, cannot be removed", error) from error


def _exchange_folders(fresh: PinnedPath, dest: PinnedPath) -> None:
    """A folder cannot take the place of one that is not empty: that one goes aside first, and back if need be."""
    aside = PinnedPath(dest.folder, _free_name())
    both = {"src_dir_fd": dest.folder, "dst_dir_fd": dest.folder}
    os.rename(dest.name, aside.name, **both)
    try:
        os.rename(fresh.name, dest.name, **both)
    except OSError:
        os.rename(aside.name, dest.name, **both)
        raise
    discard(aside)


def _access(found: os.stat_result) -> Access:
    """Mode, and where the minion may give files away, owner of a file, for its copy."""
    root = os.geteuid() == 0
    return Access(stat.S_IMODE(found.st_mode), found.st_uid if root else None, found.st_gid if root else None)


def _is_folder(place: PinnedPath) -> bool:
    found = place.status()
    return found is not None and stat.S_ISDIR(found.st_mode)


def _free_name() -> str:
    return f".saltlite-{os.urandom(8).hex()}"
