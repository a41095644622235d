"""Copy, move, link, create and remove files, folders, devices and pipes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from typing import Any

from saltlite.decorators import same_parameters
from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import (
    Access,
    PinnedPath,
    checked_path,
    existing,
    hold,
    pinned,
    put_copy,
    shown,
)

from .permissions import check_perms, owner_numbers
from .stats import absolute, failed, octal, own_name

# --- Copies of files and trees ---

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def copy_file(src: str, dst: str) -> None:
    """Copy a file with its mode and, if permitted, its owner; links are followed.

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
    """Copy the content of a folder into `dst`, with times; other files in `dst` stay.

    Raises OSError and CommandExecutionError.
    """
    with pinned(src) as source, pinned(dst) as dest:
        _copy(source, dest, dst)


def replace_by_copy(src: str, dst: str) -> None:
    """Replace `dst` atomically with a copy of `src`; on failure `dst` is unchanged.

    Raises OSError and CommandExecutionError.
    """
    with pinned(src) as source, pinned(dst, follow_symlinks=False) as dest:
        _replace(source, dest, dst)


def move_entry(src: str, dst: str) -> None:
    """Rename; across file systems, copy and remove. Raises OSError and CommandExecutionError."""
    with pinned(src, follow_symlinks=False) as source, pinned(dst, follow_symlinks=False) as dest:
        try:
            os.rename(source.name, dest.name, src_dir_fd=source.folder, dst_dir_fd=dest.folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _replace(source, dest, dst)
            discard(source)


def discard(place: PinnedPath) -> None:
    """Remove a file, a link or a folder tree; links are not followed. Raises OSError."""
    if _is_folder(place):
        shutil.rmtree(place.name, dir_fd=place.folder)
    else:
        os.unlink(place.name, dir_fd=place.folder)


def _copy(source: PinnedPath, dest: PinnedPath, path: str) -> None:
    """Copy an entry of any type; `path` is its name in messages."""
    found = os.stat(source.name, dir_fd=source.folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        _copy_folder(source, dest, path)
        return
    if _is_folder(dest):
        raise CommandExecutionError(f"{shown(path)} is a folder, but the source is not.")
    if stat.S_ISREG(found.st_mode):
        fd = os.open(source.name, _READ, dir_fd=source.folder)
        try:
            # The status must be that of the opened file.
            found = os.fstat(fd)
            put_copy(fd, dest, path, _access(found))
        finally:
            os.close(fd)
    else:
        _copy_special(source, dest, found)
    # Some file systems do not support times of links.
    with contextlib.suppress(NotImplementedError):
        os.utime(dest.name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=dest.folder, follow_symlinks=False)


def _copy_folder(source: PinnedPath, dest: PinnedPath, path: str) -> None:
    there = dest.status()
    if there is None:
        os.mkdir(dest.name, 0o700, dir_fd=dest.folder)
    elif not stat.S_ISDIR(there.st_mode):
        raise CommandExecutionError(f"{shown(path)} is not a folder, but the source is one.")
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
    """Replace a folder that is not empty: it is moved aside first, and moved back on failure."""
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
    """Return mode and, if the minion may set it, owner for a copy."""
    root = os.geteuid() == 0
    return Access(stat.S_IMODE(found.st_mode), found.st_uid if root else None, found.st_gid if root else None)


def _is_folder(place: PinnedPath) -> bool:
    found = place.status()
    return found is not None and stat.S_ISDIR(found.st_mode)


def _free_name() -> str:
    return f".saltlite-{os.urandom(8).hex()}"


__risk__ = {"remove": "remove", "rmdir": "remove"}

_DAY_S = 86400


def copy(src: str, dst: str, recurse: bool = False, remove_existing: bool = False, *, test: bool = False) -> bool | str:
    """Copy a file, or a folder with ``recurse``, with mode and owner.

    Existing files in the folder ``dst`` stay unless ``src`` has the same names. ``remove_existing`` replaces the whole
    folder once the copy is complete. Links in a folder are copied as links.

    CLI Example::

        saltlite '*' file.copy /path/to/src /path/to/dst
        saltlite '*' file.copy /path/to/src_dir /path/to/dst_dir recurse=True
        saltlite '*' file.copy /path/to/src_dir /path/to/dst_dir recurse=True remove_existing=True
    """
    source, dest = absolute(src), absolute(dst)
    if not os.path.exists(source):
        raise CommandExecutionError(f"No such file or directory '{shown(source)}'")
    folders = os.path.isdir(source), os.path.isdir(dest)
    if any(folders) and not recurse:
        raise SaltInvocationError("Cannot copy overwriting a directory without recurse flag set to true!")
    if folders == (False, True):
        raise SaltInvocationError(
            f"{shown(dest)} is a folder, but {shown(source)} is not: give the full path of the copy."
        )
    if os.path.exists(dest) and os.path.samefile(source, dest):
        raise SaltInvocationError(f"{shown(source)} and {shown(dest)} are the same.")
    if folders[0] and _is_below(dest, source):
        raise SaltInvocationError(f"{shown(dest)} is in {shown(source)}: a folder cannot be copied into itself.")
    if test:
        return f"'{shown(source)}' would be copied to '{shown(dest)}'"
    try:
        if not folders[0]:
            copy_file(source, dest)
        elif remove_existing:
            replace_by_copy(source, dest)
        else:
            copy_tree(source, dest)
    except OSError as error:
        raise failed(f"Could not copy '{shown(source)}' to '{shown(dest)}'", error) from error
    return True


def move(src: str, dst: str, disallow_copy_and_unlink: bool = False, *, test: bool = False) -> dict[str, Any] | bool:
    """Move a file or folder, into ``dst`` if that is a folder, also to another file system.

    ``disallow_copy_and_unlink`` refuses to copy to another file system, like ``file.rename``.

    CLI Example: ``saltlite '*' file.move /path/to/src /path/to/dst``
    """
    if disallow_copy_and_unlink:
        done = rename(src, dst, test=test)
        return {"result": None, "comment": done} if isinstance(done, str) else done
    source, dest = own_name(absolute(src, "Source path")), absolute(dst, "Destination path")
    report = {"result": True, "comment": f"'{shown(source)}' moved to '{shown(dest)}'"}
    if not os.path.lexists(source):
        raise CommandExecutionError(f"Unable to move '{shown(source)}' to '{shown(dest)}': there is no such path.")
    if os.path.isdir(dest):
        dest = os.path.join(dest, os.path.basename(source))
        if os.path.lexists(dest):
            raise CommandExecutionError(f"Unable to move '{shown(source)}': there is already '{shown(dest)}'.")
    if os.path.isdir(source) and not os.path.islink(source) and _is_below(dest, source):
        raise SaltInvocationError(f"{shown(dest)} is in {shown(source)}: a folder cannot be moved into itself.")
    if test:
        return {"result": None, "comment": f"'{shown(source)}' would be moved to '{shown(dest)}'"}
    try:
        move_entry(source, dest)
    except OSError as error:
        raise failed(f"Unable to move '{shown(source)}' to '{shown(dest)}'", error) from error
    return report


def rename(src: str, dst: str, *, test: bool = False) -> bool | str:
    """Rename a file or folder within one file system.

    CLI Example: ``saltlite '*' file.rename /path/to/src /path/to/dst``
    """
    source, dest = absolute(src), absolute(dst)
    if test:
        return f"'{shown(source)}' would be renamed to '{shown(dest)}'"
    try:
        with pinned(source, follow_symlinks=False) as old, pinned(dest, follow_symlinks=False) as new:
            os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)
    except OSError as error:
        raise failed(f"Could not rename '{shown(source)}' to '{shown(dest)}'", error) from error
    return True


def link(src: str, path: str, *, test: bool = False) -> bool | str:
    """Create a hard link.

    CLI Example: ``saltlite '*' file.link /path/to/file /path/to/link``
    """
    source, name = absolute(src), absolute(path)
    if test:
        return f"'{shown(name)}' would become a hard link to '{shown(source)}'"
    try:
        with pinned(source, follow_symlinks=False) as old, pinned(name, follow_symlinks=False) as new:
            os.link(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder, follow_symlinks=False)
    except OSError as error:
        raise failed(f"Could not create '{shown(name)}'", error) from error
    return True


def symlink(
    src: str,
    path: str,
    force: bool = False,
    atomic: bool = False,
    follow_symlinks: bool = True,  # noqa: ARG001 - Salt's argument, see below
    *,
    test: bool = False,
) -> bool | str:
    """Create a symbolic link, unless it exists and points to ``src``.

    ``force`` or ``atomic`` replaces another link or file in one step. ``follow_symlinks`` has no effect: the link
    itself is examined.

    CLI Example: ``saltlite '*' file.symlink /path/to/file /path/to/link``
    """
    target, name = checked_path(src), own_name(absolute(path, "Link path"))
    if os.path.islink(name) and os.path.normpath(os.readlink(name)) == os.path.normpath(target):
        return True
    if os.path.lexists(name) and not force and not atomic:
        kind = "Found existing symlink" if os.path.islink(name) else "Existing path is not a symlink"
        raise CommandExecutionError(f"{kind}: {shown(name)}")
    if test:
        return f"'{shown(name)}' would become a link to '{shown(target)}'"
    fresh = f".saltlite-{os.urandom(8).hex()}"
    try:
        with pinned(name, follow_symlinks=False) as place:
            if place.status() is None:
                os.symlink(target, place.name, dir_fd=place.folder)
                return True
            os.symlink(target, fresh, dir_fd=place.folder)
            try:
                os.replace(fresh, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            except OSError:
                os.unlink(fresh, dir_fd=place.folder)
                raise
    except OSError as error:
        raise failed(f"Could not create '{shown(name)}'", error) from error
    return True


def mkdir(
    dir_path: str, user: str | int | None = None, group: str | int | None = None, mode: str | int | None = None, *,
    test: bool = False,
) -> bool | str:  # fmt: skip
    """Create a folder and its missing parents, each with this owner and mode.

    CLI Example: ``saltlite '*' file.mkdir /opt/jetty/context``
    """
    folder = os.path.normpath(absolute(dir_path))
    if os.path.isdir(folder):
        return True
    if test:
        return f"The folder '{shown(folder)}' would be made"
    _make_folders(folder, user, group, mode)
    return True


def makedirs(
    path: str, user: str | int | None = None, group: str | int | None = None, mode: str | int | None = None, *,
    test: bool = False,
) -> str | None:  # fmt: skip
    """Create the parent folders of a path. A path that ends with a slash is a folder itself.

    CLI Example: ``saltlite '*' file.makedirs /opt/code/``
    """
    folder = os.path.normpath(os.path.dirname(absolute(path)))
    if os.path.isdir(folder):
        return f"Directory '{shown(folder)}' already exists"
    if os.path.lexists(folder):
        return f"The path '{shown(folder)}' already exists and is not a directory"
    if test:
        return f"The folder '{shown(folder)}' would be made"
    _make_folders(folder, user, group, mode)
    return None


def makedirs_perms(
    name: str, user: str | int | None = None, group: str | int | None = None, mode: str | int | None = "0755", *,
    test: bool = False,
) -> str | None:  # fmt: skip
    """Create a folder that does not exist, and its missing parents, each with this owner and mode.

    CLI Example: ``saltlite '*' file.makedirs_perms /opt/code``
    """
    folder = os.path.normpath(absolute(name))
    if os.path.lexists(folder):
        raise CommandExecutionError(f"There is already {shown(folder)}.")
    if test:
        return f"The folder '{shown(folder)}' would be made"
    _make_folders(folder, user, group, mode)
    return None


def rmdir(
    path: str, recurse: bool = False, verbose: bool = False, older_than: float | None = None, *, test: bool = False
) -> bool | dict[str, Any]:
    """Remove an empty folder, and with ``recurse`` the empty folders in it. Return False if something is left.

    ``older_than`` limits this to folders unchanged for that many days; with ``recurse`` newer ones may stay.
    ``verbose`` returns ``deleted``, ``errors`` and ``result``.

    CLI Example::

        saltlite '*' file.rmdir /tmp/foo/
        saltlite '*' file.rmdir /tmp/foo/ recurse=True older_than=7 verbose=True
    """
    top = absolute(path)
    if not os.path.isdir(top):
        raise SaltInvocationError(f"A valid directory was not specified: {shown(top)}")
    try:
        limit = time.time() - float(older_than) * _DAY_S if older_than else None
    except (TypeError, ValueError) as error:
        raise SaltInvocationError(f"older_than is a number of days, not {older_than!r}.") from error
    deleted: list[str] = []
    errors: list[list[str]] = []
    # Removing an entry changes the time of its folder, so all times are read first.
    for folder in _old_folders(top, recurse=recurse, limit=limit):
        if test and {os.path.join(folder, name) for name in os.listdir(folder)} - set(deleted):
            errors.append([folder, "it is not empty"])
            continue
        try:
            if not test:
                os.rmdir(folder)
            deleted.append(folder)
        except OSError as error:
            errors.append([folder, error.strerror or str(error)])
    done = not errors and (recurse or bool(deleted))
    return {"deleted": deleted, "errors": errors, "result": done} if verbose or test else done


def remove(path: str, *, test: bool = False) -> bool | str:
    """Remove a file, a link, a device or a folder tree. Return False if there is nothing.

    Targets of links stay. The root folder, ``.`` and ``..`` are refused.

    CLI Example: ``saltlite '*' file.remove /tmp/foo``
    """
    name = own_name(absolute(path))
    if not os.path.lexists(name):
        return False
    if os.path.isdir(name) and not os.path.islink(name) and os.path.samefile(name, "/"):
        raise SaltInvocationError(f"{shown(name)} is the root folder, which is not removed.")
    if test:
        return f"'{shown(name)}' would be removed"
    try:
        with pinned(name, follow_symlinks=False) as place:
            discard(place)
    except OSError as error:
        raise failed(f"Could not remove '{shown(name)}'", error) from error
    return True


def _is_below(inner: str, outer: str) -> bool:
    real = os.path.realpath(outer)
    return os.path.commonpath([os.path.realpath(inner), real]) == real


def _make_folders(folder: str, user: str | int | None, group: str | int | None, mode: str | int | None) -> None:
    uid, gid, wrong = owner_numbers(user, group)
    if wrong:
        raise CommandExecutionError(f"{shown(folder)} is not made: {wrong.strip()}.")
    bits = None if mode in (None, "") else octal(mode)
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for each in reversed(missing):
        try:
            with pinned(each, follow_symlinks=False) as place:
                os.mkdir(place.name, 0o777 if bits is None else 0o700, dir_fd=place.folder)
                with hold(place, follow_symlinks=True) as same:
                    os.chown(same, uid, gid)
                    if bits is not None:
                        os.chmod(same, bits)
        except OSError as error:
            raise failed(f"The folder {shown(each)} cannot be made", error) from error


def _old_folders(top: str, *, recurse: bool, limit: float | None) -> list[str]:
    """Return the folders to remove, deepest first, without links."""
    found = [top]
    if recurse:
        found = [folder for folder, _, _ in os.walk(top, topdown=False)]
    if limit is None:
        return found
    return [folder for folder in found if os.stat(folder, follow_symlinks=False).st_mtime < limit]


# --- Devices and named pipes ---

_KINDS = {
    "c": (stat.S_IFCHR, "Character device"),
    "b": (stat.S_IFBLK, "Block device"),
    "p": (stat.S_IFIFO, "Fifo pipe"),
}


def mknod_chrdev(
    name: str, major: int, minor: int, user: str | int | None = None, group: str | int | None = None,
    mode: str | int = "0660", *, test: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Create a character device.

    CLI Example: ``saltlite '*' file.mknod_chrdev /dev/chr 180 31``
    """
    return _make("c", name, major, minor, user, group, mode, test=test)


@same_parameters(mknod_chrdev)
def mknod_blkdev(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Create a block device.

    CLI Example: ``saltlite '*' file.mknod_blkdev /dev/blk 8 999``
    """
    return _make("b", *args, **kwargs)


def mknod_fifo(
    name: str, user: str | int | None = None, group: str | int | None = None, mode: str | int = "0660", *,
    test: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Create a named pipe.

    CLI Example: ``saltlite '*' file.mknod_fifo /run/pipe``
    """
    return _make("p", name, 0, 0, user, group, mode, test=test)


def mknod(  # noqa: PLR0913 - Salt's arguments
    name: str, ntype: str, major: int = 0, minor: int = 0, user: str | int | None = None,
    group: str | int | None = None, mode: str | int = "0600", *, test: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Create a character device (``c``), block device (``b``) or named pipe (``p``), and its parent folders.

    CLI Example::

        saltlite '*' file.mknod /dev/chr c 180 31
        saltlite '*' file.mknod /dev/blk b 8 999
        saltlite '*' file.mknod /run/pipe p
    """
    if ntype not in _KINDS:
        raise SaltInvocationError(
            f"Node type unavailable: '{ntype}'. Available node types are character ('c'), block ('b'), and pipe ('p')."
        )
    makedirs(name, user, group, test=test)
    return _make(ntype, name, major, minor, user, group, mode, test=test)


def _make(  # noqa: PLR0913 - Salt's arguments
    kind: str, name: str, major: int = 0, minor: int = 0, user: Any = None, group: Any = None, mode: Any = "0660",
    *, test: bool = False,
) -> dict[str, Any]:  # fmt: skip
    path = checked_path(name)
    bits, word = _KINDS[kind]
    report: dict[str, Any] = {"name": name, "changes": {}, "comment": "", "result": False}
    permission = octal(mode)
    try:
        device = os.makedev(int(major), int(minor))
    except (TypeError, ValueError, OverflowError) as error:
        raise SaltInvocationError(f"{major} and {minor} are not device numbers.") from error
    if os.path.lexists(path):
        report["comment"] = f"File {shown(path)} exists and cannot be overwritten"
        return report
    report["changes"] = {"new": f"{word} {shown(path)} created."}
    if test:
        report["result"] = None
        return report
    try:
        with pinned(path, follow_symlinks=False) as place:
            os.mknod(place.name, bits | permission, device, dir_fd=place.folder)
    except OSError as error:
        raise failed(f"{shown(path)} cannot be made", error) from error
    done, _ = check_perms(path, None, user, group, mode=f"{permission:04o}")
    report["result"], report["comment"] = done["result"], done["comment"]
    return report
