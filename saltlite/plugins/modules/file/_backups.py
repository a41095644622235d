"""Copies of a file that is about to change: beside it, or in the minion's cache.

What belongs here: where a copy goes and what it is called. Contract: Salt's `backup` argument, and its
`backup_mode: minion`, whose copies `file.list_backups` and `file.restore_backup` find.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules._safe_files import PinnedPath, copy_whole, pinned, sentence, write_whole

CACHED = "file_backup"
"""The folder of copies, below `cachedir`."""

STAMP = "%a_%b_%d_%H:%M:%S_%f_%Y"
"""How the moment is written behind the name of a cached copy, as for `datetime.strptime`; local time."""

_DEFAULT_SUFFIX = ".bak"


def suffix_of(backup: Any) -> str:
    """What `backup` adds to the name of the file, "" for no copy. Raises SaltInvocationError.

    True is `.bak`; None, False and an empty text are no copy.
    """
    if backup is True:
        return _DEFAULT_SUFFIX
    text = str(backup) if backup else ""
    if "/" in text or "\0" in text:
        raise SaltInvocationError(f"backup={text!r} cannot be the end of a file name: it names no folder.")
    return text


def write_keeping(path: str, content: bytes, *, suffix: str, keep_hard_links: bool = True) -> None:
    """Give the file this content, whole or not at all, and keep a copy with `suffix`, unless that is empty.

    Other hard links go on sharing the file, or (`keep_hard_links` False) become names of the copy. Raises
    CommandExecutionError; the file is then as it was.
    """
    if suffix:
        keep_beside(path, suffix, as_hard_link=not keep_hard_links)
    write_whole(path, content, keep_hard_links=keep_hard_links)


def keep_beside(path: str, suffix: str, *, as_hard_link: bool = False) -> str:
    """Copy the file to its own name and the suffix, over an older copy; where the copy is.

    Beside a symbolic link goes a link to the copy, which lies beside the file itself. `as_hard_link` makes the copy
    one more name of the file: for a file that is going to be exchanged for another. Raises CommandExecutionError.
    """
    real = os.path.realpath(path)
    if as_hard_link:
        _beside(real + suffix, lambda fresh: _link(os.path.basename(real), fresh))
    else:
        copy_whole(real, real + suffix)
    if os.path.islink(path):
        aim = os.readlink(path)
        if os.path.islink(os.path.join(os.path.dirname(path), aim)):  # the copy lies at the end of the chain
            aim = real
        _beside(path + suffix, lambda fresh: os.symlink(aim + suffix, fresh.name, dir_fd=fresh.folder))
    return real + suffix


def keep_dated(path: str) -> str:
    """Copy the file to its own name and this second, as `file.line` does; where the copy is."""
    return keep_beside(os.path.realpath(path), time.strftime(".%Y-%m-%d-%H-%M-%S"))


def keep_cached(path: str, cachedir: str) -> str:
    """Copy the file below `cachedir`, under its own path and the moment; where the copy is.

    The folders are for root alone: they may hold copies of what was in folders that others cannot enter. Raises
    CommandExecutionError.
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
    """Have `make` make a link under a fresh name, and put it where the path is."""
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
