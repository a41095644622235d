"""Files in the homes of users, read and written by root without doing what a hostile user wants.

What belongs here: small files at paths that their users can rename, link and replace at any moment. Below a home no
symbolic link is followed when the minion is not that user itself, only regular files are read, none that are hard links
to files of others, and what is written is a new file that takes the place of the old one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import secrets
import stat
from collections.abc import Iterator

from saltlite.errors import CommandExecutionError, SaltInvocationError

FILE_BYTES_MAX = 16 * 1024 * 1024
"""A larger file is none that people write keys into."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def account(user: str) -> pwd.struct_passwd:
    """The entry of a user. Raises CommandExecutionError for one that does not exist."""
    try:
        return pwd.getpwnam(str(user))
    except (KeyError, ValueError):  # a text with NUL in it is no name
        raise CommandExecutionError(f"User {str(user)!r:.80} does not exist") from None


def read(path: str, owner: pwd.struct_passwd | None) -> bytes | None:
    """What the file of that user (None for one that is no user's) has; None when there is none.

    Raises CommandExecutionError for what cannot be read or is no regular file.
    """
    _check(path)
    try:
        with _folder(path, owner, make=False) as (folder, name):
            fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
            with os.fdopen(fd, "rb") as stream:
                _refuse_traps(path, os.fstat(fd), owner)
                data = stream.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failure(path, "read", error) from error
    if len(data) > FILE_BYTES_MAX:
        raise CommandExecutionError(f"{path} has more than {FILE_BYTES_MAX} bytes: that is no file of keys.")
    return data


def write(path: str, owner: pwd.struct_passwd | None, data: bytes, *, mode: int) -> None:
    """Put a file with these bytes in the place of the old one, or of none; the old one stays when that fails.

    It has the owner and the mode of the old one, or is of that user (of the minion's for None) with `mode`. Folders
    that are missing below the home are made, for their user alone. Raises CommandExecutionError.
    """
    _check(path)
    try:
        with _folder(path, owner, make=True) as (folder, name):
            _replace(folder, name, data, owner, mode)
    except OSError as error:
        raise _failure(path, "written, and is as it was", error) from error


def _check(path: str) -> None:
    if not os.path.isabs(path) or any(character in path for character in "\0\n\r") or ".." in path.split("/"):
        raise SaltInvocationError(f"{path!r:.100} is not an absolute path.")


def _is_theirs(path: str, owner: pwd.struct_passwd | None) -> bool:
    """Whether somebody else than the minion can change what stands on the way."""
    return owner is not None and owner.pw_uid not in (0, os.geteuid()) and _below(path, owner.pw_dir)


def _below(path: str, home: str) -> bool:
    return home not in ("", "/") and os.path.normpath(path).startswith(os.path.normpath(home) + "/")


@contextlib.contextmanager
def _folder(path: str, owner: pwd.struct_passwd | None, *, make: bool) -> Iterator[tuple[int, str]]:
    """The folder of a file, open, and the name of the file in it."""
    parent, name = os.path.split(os.path.normpath(path))
    with contextlib.ExitStack() as stack:

        def opened(place: str, at: int | None = None, flags: int = 0) -> int:
            fd = os.open(place, _FOLDER | flags, dir_fd=at)
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


def _replace(folder: int, name: str, data: bytes, owner: pwd.struct_passwd | None, mode: int) -> None:
    part = f".{name[:100]}.{secrets.token_hex(8)}"
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
    """A hard link can be made to a file that its maker may not read: its content must not become his."""
    if not stat.S_ISREG(now.st_mode):
        raise CommandExecutionError(f"{path} is not a regular file.")
    if owner is not None and now.st_nlink > 1 and now.st_uid != owner.pw_uid:
        raise CommandExecutionError(f"{path} is a hard link to a file of somebody else: it is left alone.")


def _give(fd: int, owner: pwd.struct_passwd | None) -> None:
    if owner is not None and owner.pw_uid != os.geteuid():
        os.fchown(fd, owner.pw_uid, owner.pw_gid)


def _failure(path: str, verb: str, error: OSError) -> CommandExecutionError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return CommandExecutionError(f"{path} is not {verb}: a symbolic link on the way is not followed there.")
    return CommandExecutionError(f"{path} cannot be {verb}: {error.strerror or error}.")
