"""Copies of files and trees as one step: made beside their place under another name, and then put there.

Links are copied as links, so that nothing outside of the tree comes into the copy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator

from saltlite.errors import CommandExecutionError
from saltlite.modules._wholefile import Access, blocks, shown, write_whole

from ._paths import failed


def copy_file(src: str, dst: str, *, follow_symlinks: bool) -> None:
    """Make `dst` a copy of a file, with its mode and, where the minion may, its owner. Raises CommandExecutionError."""
    found = os.stat(src)
    root = os.geteuid() == 0
    access = Access(stat.S_IMODE(found.st_mode), found.st_uid if root else None, found.st_gid if root else None)
    write_whole(dst, blocks(src), access=access, follow_symlinks=follow_symlinks)


def copy_entry(src: str, dst: str) -> None:
    """Copy a file, link, pipe, device or folder with all that is in it, times included, over what is in `dst`.

    Files of `dst` that `src` does not have stay. Raises OSError and CommandExecutionError.
    """
    found = os.lstat(src)
    if stat.S_ISDIR(found.st_mode):
        if os.path.islink(dst) or (os.path.lexists(dst) and not os.path.isdir(dst)):
            raise CommandExecutionError(f"{shown(dst)} is no folder, and {shown(src)} is one.")
        if not os.path.isdir(dst):
            os.mkdir(dst, 0o700)
        for name in sorted(os.listdir(src)):
            copy_entry(os.path.join(src, name), os.path.join(dst, name))
    elif os.path.isdir(dst) and not os.path.islink(dst):
        raise CommandExecutionError(f"{shown(dst)} is a folder, and {shown(src)} is none.")
    elif stat.S_ISREG(found.st_mode):
        copy_file(src, dst, follow_symlinks=False)
    else:
        if os.path.lexists(dst):
            os.unlink(dst)
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(src), dst)
        else:
            os.mknod(dst, found.st_mode, found.st_rdev)
    _dress(dst, found)


def replace_by_copy(src: str, dst: str) -> None:
    """Put a copy of `src` where `dst` is or is to be; while it is made, and when that fails, `dst` is as it was.

    Raises OSError and CommandExecutionError.
    """
    with _beside(dst) as place:
        copy_entry(src, place)
        if os.path.isdir(place) and os.path.lexists(dst):
            _exchange_folders(place, dst)
        else:
            os.replace(place, dst)


def move_entry(src: str, dst: str) -> None:
    """Rename, or where that would cross file systems, copy and then remove. Raises OSError, CommandExecutionError."""
    try:
        os.rename(src, dst)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        replace_by_copy(src, dst)
        discard(src)


def discard(path: str) -> None:
    """Remove a file, link or whole folder; what links in it point to stays. Raises OSError."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _exchange_folders(place: str, dst: str) -> None:
    """A folder cannot take the place of one that is not empty: that one goes aside first, and back if need be."""
    aside = _free_name(dst)
    os.rename(dst, aside)
    try:
        os.rename(place, dst)
    except OSError:
        os.rename(aside, dst)
        raise
    discard(aside)


def _dress(dst: str, found: os.stat_result) -> None:
    itself = stat.S_ISLNK(found.st_mode)
    if os.geteuid() == 0:
        os.chown(dst, found.st_uid, found.st_gid, follow_symlinks=False)
    if not itself:
        os.chmod(dst, stat.S_IMODE(found.st_mode))
    # Some file systems keep no times of links.
    with contextlib.suppress(NotImplementedError):
        os.utime(dst, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


@contextlib.contextmanager
def _beside(dst: str) -> Iterator[str]:
    """A free name in the folder of `dst`; what still has it at the end is removed."""
    place = _free_name(dst)
    try:
        yield place
    finally:
        if os.path.lexists(place):
            try:
                discard(place)
            except OSError as error:
                raise failed(f"{shown(place)}, a copy that was not completed, cannot be removed", error) from error


def _free_name(dst: str) -> str:
    return os.path.join(os.path.dirname(dst.rstrip("/")) or "/", f".saltlite-{os.urandom(8).hex()}")
