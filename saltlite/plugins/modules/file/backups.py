"""Copies that were kept of files before they changed, in the minion's cache: listing, restoring, deleting.

Contract: Salt's `backup: minion`. The youngest copy has number 0.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules._safe_files import Access, blocks, checked_path, shown, write_whole

from ._backups import CACHED, STAMP, keep_cached
from ._paths import absolute

if TYPE_CHECKING:
    from datetime import datetime

    from saltlite.loader.hints import __opts__

__risk__ = {"delete_backup": "remove", "remove_backup": "remove"}

_SHOWN = "%a %b %d %Y %H:%M:%S.%f"


def list_backups(path: str, limit: int | None = None) -> dict[int, dict[str, Any]]:
    """
    The copies that were kept of a file, by number: ``Backup Time``, ``Size`` and ``Location``.

    CLI Example::

        saltlite '*' file.list_backups /foo/bar/baz.txt
    """
    name = absolute(path)
    return _numbered([copy for last, *copy in _copies(os.path.dirname(name)) if last == os.path.basename(name)], limit)


def list_backup(path: str, limit: int | None = None) -> dict[int, dict[str, Any]]:
    """
    The same as ``file.list_backups``.

    CLI Example::

        saltlite '*' file.list_backup /foo/bar/baz.txt
    """
    return list_backups(path, limit)


def list_backups_dir(path: str, limit: int | None = None) -> dict[str, dict[int, dict[str, Any]]]:
    """
    The copies that were kept of the files in a folder: file name -> what ``file.list_backups`` gives.

    CLI Example::

        saltlite '*' file.list_backups_dir /foo/bar/baz/
    """
    by_name: dict[str, list[Any]] = {}
    for last, *copy in _copies(absolute(path).rstrip("/")):
        by_name.setdefault(last, []).append(copy)
    return {last: _numbered(copies, limit) for last, copies in sorted(by_name.items())}


def restore_backup(path: str, backup_id: int | str, *, test: bool = False) -> dict[str, Any]:
    """
    Give a file the content that it had; what it has now is kept as a copy before.

    CLI Example::

        saltlite '*' file.restore_backup /foo/bar/baz.txt 0
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
    """
    Delete one of the copies that were kept of a file.

    CLI Example::

        saltlite '*' file.delete_backup /foo/bar/baz.txt 0
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


def remove_backup(path: str, backup_id: int | str, *, test: bool = False) -> dict[str, Any]:
    """
    The same as ``file.delete_backup``.

    CLI Example::

        saltlite '*' file.remove_backup /foo/bar/baz.txt 0
    """
    return delete_backup(path, backup_id, test=test)


def _copies(folder: str) -> Iterator[tuple[str, datetime, str]]:
    """The name of the file, the moment and the place of every copy of the files in a folder."""
    from datetime import datetime

    kept = os.path.join(checked_path(__opts__["cachedir"]), CACHED, folder.lstrip("/"))
    # The moment has as many underscores as its form; those before belong to the name.
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
    """Where a copy is, and what is wrong with its number: one of the two is empty."""
    text = str(backup_id)
    if not (text.isascii() and text.isdecimal()):
        return "", f"Invalid backup_id '{backup_id}'"
    found = list_backups(name).get(int(text))
    return (found["Location"], "") if found else ("", f"backup_id '{backup_id}' does not exist for {shown(name)}")
