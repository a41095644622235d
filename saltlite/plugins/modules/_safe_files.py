"""Paths and files that other users may change while the minion, as root, reads and writes them.

Three layers, each used by the next and by modules that handle files:

- `pinned`, `held` and `hold` walk a path folder by folder and keep the end of it open, so that no one can exchange it
  between a check and an action. A symbolic link is followed if it belongs to root or to the minion's user, if no one
  else can write to its folder, or if it leads into a folder or to a file of its owner. Any other link makes the minion
  do what the owner of the link may not do, and is refused. This is stricter than Linux' `fs.protected_symlinks`.
- `write_whole` and `put_copy` replace a file atomically, and keep mode, owner, ACLs and SELinux label. The new content
  is synced before it is renamed over the old one, so a crash or a full disk leaves either the old or the new content.
  With `O_TMPFILE` a killed process leaves nothing behind. Three kinds of file are written in place, after disk space is
  allocated: those whose hard links must keep sharing them, mount points such as `/etc/hosts` in a container, and those
  in a folder that takes no new file, such as `/proc` and `/sys`.
- `read_user_file` and `write_user_file` handle small files in home folders. Unless the minion runs as that user, they
  follow no symbolic link below the home, and refuse special files and hard links to files of others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

LINKS_MAX = 40
"""Maximum number of links followed along one path; the kernel's own limit."""

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PinnedPath:
    """The end of a path: an open folder, for `dir_fd`, and a name in it, a link only if that was allowed."""

    def __init__(self, folder: int, name: str) -> None:
        self.folder = folder
        self.name = name

    def status(self) -> os.stat_result | None:
        """Its status, without following a link; None if nothing is there. Raises OSError."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


@contextlib.contextmanager
def pinned(path: str, *, follow_symlinks: bool = True) -> Iterator[PinnedPath]:
    """The end of the path, whether or not something is there; `follow_symlinks` applies to its last part.

    Raises OSError, and CommandExecutionError for a link that is refused (see the module's docstring).
    """
    walk = _Walk(path)
    try:
        place = walk.end(follow_symlinks=follow_symlinks)
        walk.refuse_strange_links(place)
        yield place
    finally:
        os.close(walk.folder)


@contextlib.contextmanager
def held(path: str, *, follow_symlinks: bool = True) -> Iterator[str]:
    """A path that keeps referring to the file, folder or link that is at `path` now: see `hold`.

    Raises OSError and CommandExecutionError as `pinned` does, and FileNotFoundError.
    """
    with pinned(path, follow_symlinks=follow_symlinks) as place, hold(place, follow_symlinks=follow_symlinks) as same:
        yield same


@contextlib.contextmanager
def hold(place: PinnedPath, *, follow_symlinks: bool = False) -> Iterator[str]:
    """A path that keeps referring to what is at `place` now, even if it is replaced meanwhile.

    With `follow_symlinks` the end must not be a link, because `pinned` has followed them all. Raises OSError.
    """
    fd = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        if follow_symlinks and stat.S_ISLNK(os.fstat(fd).st_mode):
            raise OSError(errno.ELOOP, "It became a link meanwhile", place.name)

        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def refuse_strange_links(path: str) -> None:
    """Raise CommandExecutionError if the path contains a link that is refused. For paths that are passed to programs.

    A path that cannot be walked raises nothing: opening it will.
    """
    with contextlib.suppress(OSError), pinned(path):
        pass


class _Walk:
    """The walk along one path; `folder` is the open folder it has reached."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._parts: list[str] = []
        self._strange: list[tuple[str, int]] = []
        self._links = 0
        self.folder = os.open("/" if path.startswith("/") else ".", _FOLDER)
        self._go_on(path)

    def end(self, *, follow_symlinks: bool) -> PinnedPath:
        """Walk all folders and return the last part."""
        while self._parts:
            name = self._parts.pop()
            last = not self._parts
            found = PinnedPath(self.folder, name).status() if last or name != ".." else None
            if found is not None and stat.S_ISLNK(found.st_mode) and (follow_symlinks or not last):
                self._follow(name, found)
            elif last and name != "..":
                return PinnedPath(self.folder, name)
            else:
                self._enter(name)
        return PinnedPath(self.folder, ".")

    def refuse_strange_links(self, place: PinnedPath) -> None:
        """Raise CommandExecutionError if a link of another user leads to something that user does not own."""
        if not self._strange:
            return
        found = place.status()
        theirs = {os.fstat(place.folder).st_uid, found.st_uid if found else -1}
        for name, owner in self._strange:
            if owner not in theirs:
                raise CommandExecutionError(
                    f"{_escaped(self._path)} leads through the link {_escaped(name)!r} of user {owner} to what is not "
                    "theirs: give the path that it leads to, if that is intended."
                )

    def _go_on(self, path: str) -> None:
        self._parts += [part for part in reversed(path.split("/")) if part not in ("", ".")]

    def _enter(self, name: str) -> None:
        deeper = os.open(name, _FOLDER, dir_fd=self.folder)
        os.close(self.folder)
        self.folder = deeper

    def _follow(self, name: str, found: os.stat_result) -> None:
        self._links += 1
        if self._links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        if found.st_uid not in (0, os.geteuid()) and _others_write(self.folder):
            self._strange.append((name, found.st_uid))
        aim = os.readlink(name, dir_fd=self.folder)
        if aim.startswith("/"):
            self._enter("/")
        self._go_on(aim)


def _others_write(folder: int) -> bool:
    found = os.fstat(folder)
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _escaped(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace").encode("unicode_escape").decode("ascii")


BLOCK_BYTES = 1024 * 1024
"""Size of one read and write while a file is copied."""

_NO_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
_NO_NEW_FILE = {errno.EACCES, errno.EPERM, errno.ENOENT}
_NOT_ON_DISK = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV, errno.ESPIPE}


class Access:
    """Permission bits, user and group that a file gets; None keeps those of the old file, or of the process."""

    def __init__(self, mode: int | None = None, uid: int | None = None, gid: int | None = None) -> None:
        self.mode = mode
        self.uid = uid
        self.gid = gid


def checked_path(path: Any) -> str:
    """The path with `~` expanded. Raises SaltInvocationError for an invalid path."""
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise SaltInvocationError(f"{path!r} is not the path of a file.")
    text = os.path.expanduser(os.fspath(path))
    if "\0" in text:
        raise SaltInvocationError(f"{text!r} is not the path of a file: it holds a NUL.")
    return text


def shown(path: str) -> str:
    """The path for messages: invalid UTF-8 and control characters are escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def sentence(path: str, verb: str, error: OSError) -> CommandExecutionError:
    """The error for a `path` that cannot be `verb` (read, written, …), with the kernel's reason."""
    if error.errno == errno.ENOENT and verb == "read":
        return CommandExecutionError(f"There is no file {shown(path)}.")
    return CommandExecutionError(f"{shown(path)} cannot be {verb}: {error.strerror or error}.")


def regular(path: str) -> os.stat_result | None:
    """The status of a regular file, links followed; None if there is none.

    Raises CommandExecutionError for a folder, a pipe, a device or a socket, and if the path cannot be read.
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
    """The same as `regular`, for a file that must exist. Raises CommandExecutionError."""
    found = regular(path)
    if found is None:
        raise CommandExecutionError(f"There is no file {shown(path)}.")
    return found


def blocks(path: str, *, to_edit: bool = False) -> Iterator[bytes]:
    """The content of a regular file in blocks. Raises CommandExecutionError.

    Use `to_edit` if the content will be written back: it refuses the links that writing refuses.
    """
    existing(path)
    try:
        # O_NONBLOCK: do not wait for a writer if the file has become a pipe meanwhile.
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
    """The content of a regular file; `to_edit` as for `blocks`. Raises CommandExecutionError."""
    return b"".join(blocks(path, to_edit=to_edit))


def write_whole(
    path: str, content: bytes | Iterable[bytes], *, access: Access | None = None, new_mode: int | None = None,
    follow_symlinks: bool = True, keep_hard_links: bool = True,
) -> None:  # fmt: skip
    """Replace the content of a file atomically, or create it.

    Mode, owner and extended attributes are kept, except for what `access` sets; a new file gets `new_mode`, or what the
    umask leaves. A symbolic link is followed; with `follow_symlinks=False` it is replaced by a file. Other hard links
    keep sharing the file; with `keep_hard_links=False` they keep the old content. Raises CommandExecutionError; the
    file is then unchanged.
    """
    try:
        with pinned(path, follow_symlinks=follow_symlinks) as place:
            wanted = access or Access(mode=new_mode if place.status() is None else None)
            _put(place, path, content, wanted, keep_hard_links=keep_hard_links)
    except OSError as error:
        raise sentence(path, "written", error) from error


def copy_whole(source: str, dest: str) -> None:
    """Copy `source` to `dest` with its mode, owner and attributes. Raises CommandExecutionError."""
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


def put_copy(
    fd: int, place: PinnedPath, path: str, access: Access | None = None, *, keep_hard_links: bool = False
) -> None:
    """Copy the open file to a place (`path` in messages), and replace a link or file that is there.

    Without `access` the copy gets the mode, owner and attributes of the open file. `keep_hard_links` as for
    `write_whole`. Raises OSError, CommandExecutionError.
    """
    model = f"/proc/self/fd/{fd}" if access is None else None
    _put(place, path, _blocks_of(os.dup(fd)), access or Access(), keep_hard_links=keep_hard_links, like=model)


def _blocks_of(fd: int) -> Iterator[bytes]:
    """The content of an open file, which is closed at the end. Raises OSError."""
    with open(fd, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _put(
    place: PinnedPath, path: str, content: bytes | Iterable[bytes], access: Access, *, keep_hard_links: bool,
    like: str | None = None,
) -> None:  # fmt: skip
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
            # Take the status of the file that is now held open, not of an earlier one at this path.
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
        raise CommandExecutionError(f"{shown(path)} is {_kind(found.st_mode)}, not a regular file.")


@contextlib.contextmanager
def _fresh(place: PinnedPath, old: os.stat_result | None, *, open_to_all: bool) -> Iterator[tuple[int, str]]:
    """A new empty file in the folder, and a free name for it there; it is removed afterwards unless it was renamed.

    Only its owner may read it, or with `open_to_all` whoever the umask allows. If the folder takes no new file, it is
    in memory and the name is empty.
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
    """Give the file the attributes of the file `model`, except for what `access` sets."""
    mode, uid, gid = access.mode, access.uid, access.gid
    if model is not None:
        for name in _attributes(model):
            # Some labels and ACLs cannot be set by this user, or are set by the file system.
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


def _exchange(fd: int, name: str, place: PinnedPath, old: os.stat_result | None, access: Access) -> None:
    """Rename the new file over the old one."""
    if PinnedPath(place.folder, name).status() is None:
        # src_dir_fd has no effect on an absolute path, but makes Python follow the link.
        os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd, dst_dir_fd=place.folder, follow_symlinks=True)
    try:
        os.replace(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except OSError as error:
        if old is None or error.errno != errno.EBUSY:
            raise
        _pour(fd, place, old, access)
        return
    _sync_folder(place.folder)


def _pour(fd: int, place: PinnedPath, old: os.stat_result, access: Access) -> None:
    """Overwrite the content of the old file with that of the new one, after disk space was allocated."""
    size = os.fstat(fd).st_size
    into = os.open(place.name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place.folder)
    try:
        if not os.path.samestat(os.fstat(into), old):
            raise OSError(errno.EBUSY, "It was replaced by another file meanwhile")
        _allocate(into, old.st_size, size)
        done = 0
        while done < size:
            block = os.pread(fd, BLOCK_BYTES, done)
            _write_all(into, block)
            done += len(block)
        os.ftruncate(into, size)
        if (access.mode, access.uid, access.gid) != (None, None, None):
            _dress(into, None, access)
        _sync(into)
    finally:
        os.close(into)


def _allocate(fd: int, old_size: int, size: int) -> None:
    """Allocate disk space for a file that grows, or fail and leave the file unchanged."""
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
    # Some file systems cannot sync a folder; the file itself is synced.
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


FILE_BYTES_MAX = 16 * 1024 * 1024
"""Files of keys are smaller than this; larger ones are refused."""

_USER_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def account(user: str) -> pwd.struct_passwd:
    """The passwd entry of a user. Raises CommandExecutionError if there is none."""
    try:
        return pwd.getpwnam(str(user))
    except (KeyError, ValueError):  # ValueError: the name contains NUL
        raise CommandExecutionError(f"User {str(user)!r:.80} does not exist") from None


def read_user_file(path: str, owner: pwd.struct_passwd | None) -> bytes | None:
    """The content of a file of that user, or of a system file for None; None if there is no file.

    Raises CommandExecutionError if it cannot be read or is not a regular file.
    """
    _check_user_path(path)
    try:
        with _user_folder(path, owner, make=False) as (folder, name):
            fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
            with os.fdopen(fd, "rb") as stream:
                _refuse_traps(path, os.fstat(fd), owner)
                data = stream.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _user_failure(path, "read", error) from error
    if len(data) > FILE_BYTES_MAX:
        raise CommandExecutionError(f"{path} has more than {FILE_BYTES_MAX} bytes: that is not a file of keys.")
    return data


def write_user_file(path: str, owner: pwd.struct_passwd | None, data: bytes, *, mode: int) -> None:
    """Create or replace a file atomically; if that fails, the old one stays. Raises CommandExecutionError.

    The owner and mode of an old file are kept. A new file belongs to that user, or to the minion's for None, and has
    `mode`. Missing folders below the home are created for their user only.
    """
    _check_user_path(path)
    try:
        with _user_folder(path, owner, make=True) as (folder, name):
            _replace_user_file(folder, name, data, owner, mode)
    except OSError as error:
        raise _user_failure(path, "written, and is as it was", error) from error


def _check_user_path(path: str) -> None:
    if not os.path.isabs(path) or any(character in path for character in "\0\n\r") or ".." in path.split("/"):
        raise SaltInvocationError(f"{path!r:.100} is not an absolute path.")


def _is_theirs(path: str, owner: pwd.struct_passwd | None) -> bool:
    """Whether another user than the minion's can change a part of the path."""
    return owner is not None and owner.pw_uid not in (0, os.geteuid()) and _below(path, owner.pw_dir)


def _below(path: str, home: str) -> bool:
    return home not in ("", "/") and os.path.normpath(path).startswith(os.path.normpath(home) + "/")


@contextlib.contextmanager
def _user_folder(path: str, owner: pwd.struct_passwd | None, *, make: bool) -> Iterator[tuple[int, str]]:
    """The open folder of a file, and the name of the file in it."""
    parent, name = os.path.split(os.path.normpath(path))
    with contextlib.ExitStack() as stack:

        def opened(place: str, at: int | None = None, flags: int = 0) -> int:
            fd = os.open(place, _USER_FOLDER | flags, dir_fd=at)
            stack.callback(os.close, fd)
            return fd

        if owner is None or not _is_theirs(path, owner):
            if make and not os.path.isdir(parent):
                mine = owner is not None and _below(path, owner.pw_dir)
                os.makedirs(parent, 0o700 if mine else 0o755)
            parent, name = os.path.split(os.path.realpath(path))
            yield opened(parent), name
            return
        fd = opened(owner.pw_dir)
        for part in os.path.relpath(parent, os.path.normpath(owner.pw_dir)).split("/"):
            if part == ".":
                continue
            try:
                fd = opened(part, fd, os.O_NOFOLLOW)
            except FileNotFoundError:
                if not make:
                    raise
                os.mkdir(part, 0o700, dir_fd=fd)
                fd = opened(part, fd, os.O_NOFOLLOW)
                _give(fd, owner)
        yield fd, name


def _replace_user_file(folder: int, name: str, data: bytes, owner: pwd.struct_passwd | None, mode: int) -> None:
    part = f".{name[:100]}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(part, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data)
            try:
                now = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                _give(fd, owner)
                os.fchmod(fd, mode)
            else:
                _refuse_traps(name, now, owner)
                if (now.st_uid, now.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(fd, now.st_uid, now.st_gid)
                os.fchmod(fd, now.st_mode & 0o777)
            stream.flush()
            os.fsync(fd)
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise
    os.fsync(folder)


def _refuse_traps(path: str, now: os.stat_result, owner: pwd.struct_passwd | None) -> None:
    """A user can hard-link a file that he may not read; its content must not be given to him."""
    if not stat.S_ISREG(now.st_mode):
        raise CommandExecutionError(f"{path} is not a regular file.")
    if owner is not None and now.st_nlink > 1 and now.st_uid != owner.pw_uid:
        raise CommandExecutionError(f"{path} is a hard link to a file of another user: it is skipped.")


def _give(fd: int, owner: pwd.struct_passwd | None) -> None:
    if owner is not None and owner.pw_uid != os.geteuid():
        os.fchown(fd, owner.pw_uid, owner.pw_gid)


def _user_failure(path: str, verb: str, error: OSError) -> CommandExecutionError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return CommandExecutionError(f"{path} is not {verb}: symbolic links are not followed there.")
    return CommandExecutionError(f"{path} cannot be {verb}: {error.strerror or error}.")
