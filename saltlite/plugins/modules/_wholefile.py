"""Putting a file in its place whole or not at all: the mechanics behind every module that writes files.

What belongs here: checking a path, refusing what is no regular file, the new file beside the old one and its rename,
keeping mode, owner, ACLs and SELinux label. It knows nothing of texts and of what functions return.

The folder is held open from the first look at the old file to the rename, so that nobody who may write along the path
leads the new one elsewhere meanwhile.

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
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._pinned import Place, hold, pinned

BLOCK_BYTES = 1024 * 1024
"""Read and written at once where a file is copied."""

_NO_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
_NO_NEW_FILE = {errno.EACCES, errno.EPERM, errno.ENOENT}
_NOT_ON_DISK = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV, errno.ESPIPE}


class Access(NamedTuple):
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
    _refuse_special(path, found)
    return found


def existing(path: str) -> os.stat_result:
    """As `regular`, for a file that has to be there. Raises CommandExecutionError."""
    found = regular(path)
    if found is None:
        raise CommandExecutionError(f"There is no file {shown(path)}.")
    return found


def blocks(path: str, *, to_edit: bool = False) -> Iterator[bytes]:
    """The content of a regular file, piece by piece. Raises CommandExecutionError.

    `to_edit` is for what is going to be written back: it goes over no link over which nothing is written either.
    """
    existing(path)
    try:
        # Not to wait for a writer if the file has become a pipe since.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        if to_edit:
            with pinned(path) as place:
                fd = os.open(place.name, flags | os.O_NOFOLLOW, dir_fd=place.folder)
        else:
            fd = os.open(path, flags)
        yield from _blocks_of(fd)
    except OSError as error:
        raise sentence(path, "read", error) from error


def read_whole(path: str, *, to_edit: bool = False) -> bytes:
    """The content of a regular file, `to_edit` as for `blocks`. Raises CommandExecutionError."""
    return b"".join(blocks(path, to_edit=to_edit))


def write_whole(
    path: str,
    content: bytes | Iterable[bytes],
    *,
    access: Access | None = None,
    new_mode: int | None = None,
    follow_symlinks: bool = True,
    keep_hard_links: bool = True,
) -> None:
    """Give the file this content, all of it or none.

    Mode, owner and extended attributes are those of the file that was there, but for what `access` says; a file that
    was not there gets `new_mode`, or what the umask leaves. A symbolic link is followed, or with `follow_symlinks`
    False becomes a file itself. Further hard links go on sharing the file, or with `keep_hard_links` False keep the old
    content. Raises CommandExecutionError; the file is then as it was.
    """
    try:
        with pinned(path, follow_symlinks=follow_symlinks) as place:
            wanted = access or Access(mode=new_mode if place.status() is None else None)
            _put(place, path, content, wanted, keep_hard_links=keep_hard_links)
    except OSError as error:
        raise sentence(path, "written", error) from error


def copy_whole(source: str, dest: str) -> None:
    """Make `dest` a copy of `source`, with its mode, owner and attributes. Raises CommandExecutionError."""
    existing(source)
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise sentence(source, "read", error) from error
    try:
        with pinned(dest, follow_symlinks=False) as place:
            put_copy(fd, place, dest)
    except OSError as error:
        raise sentence(dest, "written", error) from error
    finally:
        os.close(fd)


def put_copy(fd: int, place: Place, path: str, access: Access | None = None, *, keep_hard_links: bool = False) -> None:
    """Put a copy of the open file at a place, called `path` in sentences, over a link or file that is there.

    Without `access` it has the mode, owner and attributes of the open file. `keep_hard_links` as for `write_whole`.
    Raises OSError, CommandExecutionError.
    """
    model = f"/proc/self/fd/{fd}" if access is None else None
    _put(place, path, _blocks_of(os.dup(fd)), access or Access(), keep_hard_links=keep_hard_links, like=model)


def _blocks_of(fd: int) -> Iterator[bytes]:
    """The content of an open file, which is closed at the end. Raises OSError."""
    with open(fd, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _put(
    place: Place,
    path: str,
    content: bytes | Iterable[bytes],
    access: Access,
    *,
    keep_hard_links: bool,
    like: str | None = None,
) -> None:
    old = place.status()
    if old is not None and stat.S_ISLNK(old.st_mode):
        old = None
    elif old is not None:
        _refuse_special(path, old)
    pieces = (content,) if isinstance(content, bytes) else content
    with contextlib.ExitStack() as stack:
        model = like
        if old is not None:
            model = stack.enter_context(hold(place, follow_symlinks=True))
            # What is written and what it is written over are of one and the same moment.
            old = os.stat(model)
            _refuse_special(path, old)
            model = like or model
        fd, name = stack.enter_context(_fresh(place, old, open_to_all=model is None and access.mode is None))
        for piece in pieces:
            _write_all(fd, piece)
        if name:
            _dress(fd, model, access)
        os.fsync(fd)
        if old is not None and (not name or (old.st_nlink > 1 and keep_hard_links)):
            _pour(fd, place, old, access)
        else:
            _exchange(fd, name, place, old, access)


def _refuse_special(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise CommandExecutionError(f"{shown(path)} is {_kind(found.st_mode)}, no file with a content of its own.")


@contextlib.contextmanager
def _fresh(place: Place, old: os.stat_result | None, *, open_to_all: bool) -> Iterator[tuple[int, str]]:
    """A new empty file in the folder, and the name that it may have there; gone afterwards if not moved.

    Nobody but its owner reads it, or with `open_to_all` whom the umask lets. Where the folder takes no new file, it is
    in memory, and the name is empty.
    """
    mode = 0o666 if open_to_all else 0o600
    name = f".saltlite-{os.urandom(8).hex()}"
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        try:
            fd = os.open(".", flags | os.O_TMPFILE, mode, dir_fd=place.folder)
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
            fd = os.open(name, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=place.folder)
    except OSError as error:
        if old is None or error.errno not in _NO_NEW_FILE:
            raise
        fd, name = os.memfd_create("saltlite"), ""
    try:
        yield fd, name
    finally:
        os.close(fd)
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=place.folder)


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


def _exchange(fd: int, name: str, place: Place, old: os.stat_result | None, access: Access) -> None:
    """Put the new file where the old one is."""
    if Place(place.folder, name).status() is None:
        # The folder does not matter to an absolute path; naming one makes Python follow the link.
        os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd, dst_dir_fd=place.folder, follow_symlinks=True)
    try:
        os.replace(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except OSError as error:
        if old is None or error.errno != errno.EBUSY:
            raise
        _pour(fd, place, old, access)
        return
    _sync_folder(place.folder)


def _pour(fd: int, place: Place, old: os.stat_result, access: Access) -> None:
    """Write the content of the new file over that of the old one; room on the disk is taken first."""
    size = os.fstat(fd).st_size
    into = os.open(place.name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place.folder)
    try:
        if not os.path.samestat(os.fstat(into), old):
            raise OSError(errno.EBUSY, "It was exchanged for another file meanwhile")
        _take_room(into, old.st_size, size)
        done = 0
        while done < size:
            block = os.pread(fd, BLOCK_BYTES, done)
            _write_all(into, block)
            done += len(block)
        os.ftruncate(into, size)
        if access != Access():
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


def _sync_folder(folder: int) -> None:
    # Some file systems cannot sync a folder; the file itself is on the disk.
    with contextlib.suppress(OSError):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
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
