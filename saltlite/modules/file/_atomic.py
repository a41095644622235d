"""Putting a file in its place whole or not at all: the mechanics behind everything here that writes.

What belongs here: checking a path, refusing what is no regular file, the new file beside the old one and its rename,
keeping mode, owner, ACLs and SELinux label. It knows nothing of texts and of what functions return.

The new content is complete and on the disk before it takes the old one's place, so that whoever reads the path, after a
crash or a full disk too, finds the one or the other. Where there is `O_TMPFILE` a killed process leaves nothing behind.
Three kinds of file cannot be exchanged and are written in place: one with further hard links that are to go on sharing
it, one on which something is mounted, as `/etc/hosts` is in a container, and one in a folder that takes no new file,
such as those of the kernel below `/proc` and `/sys`. Room on the disk is taken before the first byte changes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

BLOCK_BYTES = 1024 * 1024
"""Read and written at once where a file is copied."""

_NO_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
_NO_NEW_FILE = {errno.EACCES, errno.EPERM, errno.ENOENT}
_NOT_ON_DISK = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV, errno.ESPIPE}


@dataclass(frozen=True, slots=True)
class Access:
    """What a file is to have besides its content: permission bits, user and group; None keeps what is there.

    A new file gets what the process gives it.
    """

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


def checked_path(path: Any) -> str:
    """The path with `~` expanded. Raises SaltInvocationError for what can be no path."""
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise SaltInvocationError(f"{path!r} is not the path of a file.")
    text = os.path.expanduser(os.fspath(path))
    if "\0" in text:
        raise SaltInvocationError(f"{text!r} is not the path of a file: it holds a NUL.")
    return text


def shown(path: str) -> str:
    """The path as it may stand in a sentence: bytes that are no text and control characters are escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def sentence(path: str, verb: str, error: OSError) -> CommandExecutionError:
    """The error for `path` that cannot be `verb` (read, written, …) for the kernel's reason."""
    if error.errno == errno.ENOENT and verb == "read":
        return CommandExecutionError(f"There is no file {shown(path)}.")
    return CommandExecutionError(f"{shown(path)} cannot be {verb}: {error.strerror or error}.")


def regular(path: str) -> os.stat_result | None:
    """What is known of the file behind the path, links followed; None when there is none.

    Raises CommandExecutionError for a folder, a pipe, a device or a socket, and when the path cannot be looked at.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise sentence(path, "read", error) from error
    if not stat.S_ISREG(found.st_mode):
        raise CommandExecutionError(f"{shown(path)} is {_kind(found.st_mode)}, no file with a content of its own.")
    return found


def existing(path: str) -> os.stat_result:
    """As `regular`, for a file that has to be there. Raises CommandExecutionError."""
    found = regular(path)
    if found is None:
        raise CommandExecutionError(f"There is no file {shown(path)}.")
    return found


def blocks(path: str) -> Iterator[bytes]:
    """The content of a regular file, piece by piece. Raises CommandExecutionError."""
    existing(path)
    try:
        # Not to wait for a writer if the file has become a pipe since.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb", buffering=0) as file:
            while block := file.read(BLOCK_BYTES):
                yield block
    except OSError as error:
        raise sentence(path, "read", error) from error


def read_whole(path: str) -> bytes:
    """The content of a regular file. Raises CommandExecutionError."""
    return b"".join(blocks(path))


def write_whole(
    path: str,
    content: bytes | Iterable[bytes],
    *,
    access: Access | None = None,
    like: str | None = None,
    follow_symlinks: bool = True,
    keep_hard_links: bool = True,
) -> None:
    """Give the file this content, all of it or none.

    Mode, owner and extended attributes are those of the file that was there, or of the file `like`, but for what
    `access` says. A symbolic link is followed, or with `follow_symlinks` False becomes a file itself. Further hard
    links go on sharing the file, or with `keep_hard_links` False keep the old content. Raises CommandExecutionError;
    the file is then as it was.
    """
    target = os.path.realpath(path) if follow_symlinks else path
    old = None if not follow_symlinks and os.path.islink(target) else regular(target)
    model = like or (target if old is not None else None)
    pieces = (content,) if isinstance(content, bytes) else content
    try:
        with _fresh(target, old, open_to_all=model is None and (access is None or access.mode is None)) as (fd, place):
            for piece in pieces:
                _write_all(fd, piece)
            if place:
                _dress(fd, model, access or Access())
            os.fsync(fd)
            if old is not None and (not place or (old.st_nlink > 1 and keep_hard_links)):
                _pour(fd, target, old, access)
            else:
                _exchange(fd, place, target, old, access)
    except OSError as error:
        raise sentence(path, "written", error) from error


def copy_whole(source: str, dest: str) -> None:
    """Make `dest` a copy of `source`, with its mode, owner and attributes. Raises CommandExecutionError."""
    write_whole(dest, blocks(source), like=source, follow_symlinks=False, keep_hard_links=False)


@contextlib.contextmanager
def _fresh(target: str, old: os.stat_result | None, *, open_to_all: bool) -> Iterator[tuple[int, str]]:
    """A new empty file in the folder of `target`, and the name that it may have there; gone afterwards if not moved.

    Nobody but its owner reads it, or with `open_to_all` whom the umask lets. Where the folder takes no new file, it is
    in memory, and the name is empty.
    """
    mode = 0o666 if open_to_all else 0o600
    folder = os.path.dirname(target) or "."
    place = os.path.join(folder, f".saltlite-{os.urandom(8).hex()}")
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        try:
            fd = os.open(folder, flags | os.O_TMPFILE, mode)
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
            fd = os.open(place, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except OSError as error:
        if old is None or error.errno not in _NO_NEW_FILE:
            raise
        fd, place = os.memfd_create("saltlite"), ""
    try:
        yield fd, place
    finally:
        os.close(fd)
        if place:
            with contextlib.suppress(OSError):
                os.unlink(place)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _dress(fd: int, model: str | None, access: Access) -> None:
    """Give the file the attributes of the file `model`, but for what `access` says."""
    mode, uid, gid = access.mode, access.uid, access.gid
    if model is not None:
        for name in _attributes(model):
            # Labels and ACLs that this user may not set, or that this file system gives by itself.
            with contextlib.suppress(OSError):
                os.setxattr(fd, name, os.getxattr(model, name))
        found = os.stat(model)
        mode = stat.S_IMODE(found.st_mode) if mode is None else mode
        uid, gid = found.st_uid if uid is None else uid, found.st_gid if gid is None else gid
    mine = os.fstat(fd)
    if uid not in (None, mine.st_uid) or gid not in (None, mine.st_gid):
        os.fchown(fd, -1 if uid is None else uid, -1 if gid is None else gid)
    if mode is not None and stat.S_IMODE(os.fstat(fd).st_mode) != mode:  # a change of owner drops set-user-id
        os.fchmod(fd, mode)


def _attributes(path: str) -> list[str]:
    try:
        return os.listxattr(path)
    except OSError:
        return []


def _exchange(fd: int, place: str, target: str, old: os.stat_result | None, access: Access | None) -> None:
    """Put the new file where the old one is."""
    if not os.path.lexists(place):
        # The folder does not matter to an absolute path; naming one makes Python follow the link.
        os.link(f"/proc/self/fd/{fd}", place, src_dir_fd=fd, follow_symlinks=True)
    try:
        os.replace(place, target)
    except OSError as error:
        if old is None or error.errno != errno.EBUSY:
            raise
        _pour(fd, target, old, access)
        return
    _sync_folder(os.path.dirname(target) or ".")


def _pour(fd: int, target: str, old: os.stat_result, access: Access | None) -> None:
    """Write the content of the new file over that of the old one; room on the disk is taken first."""
    size = os.fstat(fd).st_size
    into = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
    try:
        _take_room(into, old.st_size, size)
        place = 0
        while place < size:
            block = os.pread(fd, BLOCK_BYTES, place)
            _write_all(into, block)
            place += len(block)
        os.ftruncate(into, size)
        if access is not None:
            _dress(into, None, access)
        _sync(into)
    finally:
        os.close(into)


def _take_room(fd: int, old_size: int, size: int) -> None:
    """Have the disk keep room for a file that grows, or fail with the file as it was."""
    if size <= old_size:
        return
    try:
        os.posix_fallocate(fd, old_size, size - old_size)
    except OSError as error:
        if error.errno not in _NOT_ON_DISK:
            os.ftruncate(fd, old_size)
            raise


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NOT_ON_DISK:
            raise


def _sync_folder(folder: str) -> None:
    # Some file systems cannot sync a folder; the file itself is on the disk.
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")
