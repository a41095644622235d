"""Backups of files before a change, beside the file or in the minion's cache: create, list, restore, delete.

As Salt's `backup: minion`. The newest backup has number 0.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import (
    Access,
    PinnedPath,
    blocks,
    checked_path,
    copy_whole,
    pinned,
    sentence,
    shown,
    write_whole,
)

from .stats import absolute

if TYPE_CHECKING:
    from datetime import datetime

    from saltlite.loader.hints import __opts__


# --- Making backups ---

CACHED = "file_backup"
"""Folder of cached backups, below `cachedir`."""

STAMP = "%a_%b_%d_%H:%M:%S_%f_%Y"
"""Time stamp in the name of a cached backup, in the format of `datetime.strptime`; local time."""

_DEFAULT_SUFFIX = ".bak"


def suffix_of(backup: Any) -> str:
    """Return the suffix of the backup, "" for no backup. Raises SaltInvocationError.

    True means `.bak`; None, False and an empty text mean no backup.
    """
    if backup is True:
        return _DEFAULT_SUFFIX
    text = str(backup) if backup else ""
    if "/" in text or "\0" in text:
        raise SaltInvocationError(f"backup={text!r} cannot be the end of a file name: it names no folder.")
    return text


def write_keeping(path: str, content: bytes, *, suffix: str, keep_hard_links: bool = True) -> None:
    """Replace the content of a file atomically, keeping a backup with `suffix` unless that is empty.

    Hard links stay linked to the file, or with `keep_hard_links` False to the backup. Raises CommandExecutionError and
    leaves the file unchanged.
    """
    if suffix:
        keep_beside(path, suffix, as_hard_link=not keep_hard_links)
    write_whole(path, content, keep_hard_links=keep_hard_links)


def keep_beside(path: str, suffix: str, *, as_hard_link: bool = False) -> str:
    """Copy the file to its name plus the suffix, replacing an older copy; return the path of the copy.

    For a symbolic link, the copy lies beside the target, and a link to it beside the link. `as_hard_link` makes the
    copy a hard link, for a file that is about to be replaced. Raises CommandExecutionError.
    """
    real = os.path.realpath(path)
    if as_hard_link:
        _beside(real + suffix, lambda fresh: _link(os.path.basename(real), fresh))
    else:
        copy_whole(real, real + suffix)
    if os.path.islink(path):
        aim = os.readlink(path)
        if os.path.islink(os.path.join(os.path.dirname(path), aim)):  # the copy is at the end of the chain
            aim = real
        _beside(path + suffix, lambda fresh: os.symlink(aim + suffix, fresh.name, dir_fd=fresh.folder))
    return real + suffix


def keep_dated(path: str) -> str:
    """Copy the file to its name plus a time stamp, as `file.line` does; return the path of the copy."""
    return keep_beside(os.path.realpath(path), time.strftime(".%Y-%m-%d-%H-%M-%S"))


def keep_cached(path: str, cachedir: str) -> str:
    """Copy the file below `cachedir` under its own path and a time stamp; return the path of the copy.

    Only root can enter the folders, because the originals may be in private folders. Raises CommandExecutionError.
    """
    now = time.time_ns()
    stamp = time.strftime(STAMP.replace("%f", f"{now // 1000 % 1_000_000:06d}"), time.localtime(now // 10**9))
    folder = os.path.join(cachedir, CACHED, os.path.dirname(path).lstrip("/"))
    try:
        _make_private(folder)
    except OSError as error:
        raise sentence(folder, "made", error) from error
    copy = os.path.join(folder, f"{os.path.basename(path)}_{stamp}")
    copy_whole(path, copy)
    return copy


def _make_private(folder: str) -> None:
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _link(name: str, fresh: PinnedPath) -> None:
    os.link(name, fresh.name, src_dir_fd=fresh.folder, dst_dir_fd=fresh.folder, follow_symlinks=False)


def _beside(path: str, make: Callable[[PinnedPath], None]) -> None:
    """Call `make` to create a link under a temporary name, then rename it to the path."""
    try:
        with pinned(path, follow_symlinks=False) as place:
            fresh = PinnedPath(place.folder, f".saltlite-{os.urandom(8).hex()}")
            try:
                make(fresh)
                os.replace(fresh.name, place.name, src_dir_fd=fresh.folder, dst_dir_fd=fresh.folder)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(fresh.name, dir_fd=fresh.folder)
    except OSError as error:
        raise sentence(path, "written", error) from error


__risk__ = {"delete_backup": "remove", "remove_backup": "remove"}

_SHOWN = "%a %b %d %Y %H:%M:%S.%f"


def list_backups(path: str, limit: int | None = None) -> dict[int, dict[str, Any]]:
    """Return the backups of a file by number: ``Backup Time``, ``Size`` and ``Location``.

    CLI Example::

        saltlite '*' file.list_backups /foo/bar/baz.txt
        saltlite '*' file.list_backup /foo/bar/baz.txt
    """
    name = absolute(path)
    return _numbered([copy for last, *copy in _copies(os.path.dirname(name)) if last == os.path.basename(name)], limit)


list_backup = list_backups


def list_backups_dir(path: str, limit: int | None = None) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the backups of the files in a folder: file name -> the answer of ``file.list_backups``.

    CLI Example: ``saltlite '*' file.list_backups_dir /foo/bar/baz/``
    """
    by_name: dict[str, list[Any]] = {}
    for last, *copy in _copies(absolute(path).rstrip("/")):
        by_name.setdefault(last, []).append(copy)
    return {last: _numbered(copies, limit) for last, copies in sorted(by_name.items())}


def restore_backup(path: str, backup_id: int | str, *, test: bool = False) -> dict[str, Any]:
    """Restore a backup of a file; the current content is backed up first.

    CLI Example: ``saltlite '*' file.restore_backup /foo/bar/baz.txt 0``
    """
    name = absolute(path)
    found, wrong = _place(name, backup_id)
    if wrong:
        return {"result": False, "comment": wrong}
    if test:
        return {"result": None, "comment": f"{shown(name)} would be restored from {shown(found)}"}
    access = None
    try:
        if os.path.lexists(name):
            keep_cached(name, __opts__["cachedir"])
        else:
            kept = os.stat(found)
            access = Access(stat.S_IMODE(kept.st_mode), kept.st_uid, kept.st_gid)
        write_whole(name, blocks(found), access=access)
    except CommandExecutionError as error:
        return {"result": False, "comment": f"Unable to restore {shown(found)} to {shown(name)}: {error}"}
    return {"result": True, "comment": f"Successfully restored {shown(found)} to {shown(name)}"}


def delete_backup(path: str, backup_id: int | str, *, test: bool = False) -> dict[str, Any]:
    """Delete a backup of a file.

    CLI Example::

        saltlite '*' file.delete_backup /foo/bar/baz.txt 0
        saltlite '*' file.remove_backup /foo/bar/baz.txt 0
    """
    found, wrong = _place(absolute(path), backup_id)
    if wrong:
        return {"result": False, "comment": wrong}
    if test:
        return {"result": None, "comment": f"{shown(found)} would be removed"}
    try:
        os.unlink(found)
    except OSError as error:
        return {"result": False, "comment": f"Unable to remove {shown(found)}: {error.strerror}."}
    return {"result": True, "comment": f"Successfully removed {shown(found)}"}


remove_backup = delete_backup


def _copies(folder: str) -> Iterator[tuple[str, datetime, str]]:
    """Return file name, time stamp and path of every backup of the files in a folder."""
    from datetime import datetime

    kept = os.path.join(checked_path(__opts__["cachedir"]), CACHED, folder.lstrip("/"))
    # The time stamp has a fixed number of underscores; earlier ones belong to the name.
    parts = STAMP.count("_") + 1
    for entry in os.listdir(kept) if os.path.isdir(kept) else []:
        words = entry.rsplit("_", parts)
        try:
            moment = datetime.strptime("_".join(words[1:]), STAMP)  # noqa: DTZ007 - names have local time
        except ValueError:
            continue
        yield words[0], moment, os.path.join(kept, entry)


def _numbered(copies: list[Any], limit: int | None) -> dict[int, dict[str, Any]]:
    youngest = sorted(copies, reverse=True)[: None if limit is None else int(limit)]
    return {
        number: {"Backup Time": moment.strftime(_SHOWN), "Size": os.stat(place).st_size, "Location": place}
        for number, (moment, place) in enumerate(youngest)
    }


def _place(name: str, backup_id: Any) -> tuple[str, str]:
    """Return the path of a backup and the error in its number; one of the two is empty."""
    text = str(backup_id)
    if not (text.isascii() and text.isdecimal()):
        return "", f"Invalid backup_id '{backup_id}'"
    found = list_backups(name).get(int(text))
    return (found["Location"], "") if found else ("", f"backup_id '{backup_id}' does not exist for {shown(name)}")
