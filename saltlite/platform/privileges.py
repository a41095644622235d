"""Users and privileges, private folders, and secret files.

Errors are StartupErrors with instructions, because a daemon does these things first.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterable
from typing import Final

from saltlite.errors import MisconfiguredError, RefusedError, StartupError
from saltlite.model.dataclass import dataclass
from saltlite.platform import logs
from saltlite.platform.process import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, prctl

SECRET_MAX: Final = 64 * 1024
"""Bytes of a secret file; a longer one cannot be a key."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ANY = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class UserAccount:
    """A user of this machine."""

    name: str
    uid: int
    gid: int


def account_of(user: str, instead: str = "set `user: root` to keep root's rights") -> UserAccount:
    """The user of the daemon: `user` if it is started as root, otherwise its current user.

    Raises MisconfiguredError for a user that does not exist; `instead` is the alternative to creating it.
    """
    if os.geteuid() != 0:
        uid = os.geteuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        return UserAccount(name, uid, os.getegid())
    try:
        entry = pwd.getpwnam(user)
    except KeyError as error:
        raise MisconfiguredError(
            f"there is no user {user!r}: create it with `useradd --system --no-create-home {user}`, or {instead}"
        ) from error
    return UserAccount(user, entry.pw_uid, entry.pw_gid)


def drop_to(user: str) -> UserAccount:
    """Become `user` permanently if started as root; the resulting user.

    Programs that the process starts cannot gain rights, either, and other processes of the user cannot read its memory.
    Nothing changes if the process is not root, or `user` is root. The job server does not use this: it stays root and
    starts programs like sudo. Raises StartupError if the change fails or could be undone.
    """
    account = account_of(user)
    if os.geteuid() != 0 or account.uid == 0:
        return account
    try:
        # Before the change: the process is never the user with a way back.
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        os.setgroups(os.getgrouplist(account.name, account.gid))
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
        prctl(PR_SET_DUMPABLE, 0)
    except OSError as error:
        raise StartupError(f"the process cannot become user {user}: {error.strerror}") from error
    if _can_be_root_again():
        raise StartupError(f"the process became user {user}, but could become root again: it does not go on")
    return account


def _can_be_root_again() -> bool:
    if 0 in os.getresuid() or 0 in os.getresgid():
        return True
    try:
        os.setuid(0)
    except PermissionError:
        return False
    return True


def private_dir(path: str, uid: int, gid: int, mode: int = 0o700) -> None:
    """Create the absolute `path` if needed, as a folder of that user with at most the permissions `mode`.

    Missing parents are created with mode 0755. No symbolic link of another user is followed, and no folder of another
    user that others may write to. Raises StartupError if this is not possible.
    """
    names = [name for name in path.split("/") if name]
    trusted = {0, os.geteuid(), uid}
    try:
        here = os.open("/", _DIRECTORY)
        try:
            for depth, name in enumerate(names, start=1):
                last = depth == len(names)
                here = _step(here, name, trusted, mode if last else 0o755, "follow" if not last else "refuse")
                _check_step(here, "/" + "/".join(names[:depth]), trusted)
            _own(here, path, UserAccount("", uid, gid), mode)
        finally:
            os.close(here)
    except OSError as error:
        raise StartupError(_why_no_folder(error, path)) from error


def _step(parent: int, name: str, trusted: set[int], mode: int, links: str) -> int:
    """Open the folder `name` in `parent`, after creating it if missing; closes `parent` on success."""
    made = False
    with contextlib.suppress(FileExistsError):
        try:
            os.lstat(name, dir_fd=parent)
        except FileNotFoundError:
            os.mkdir(name, mode, dir_fd=parent)
            made = True
    found = os.lstat(name, dir_fd=parent)
    trusted_link = stat.S_ISLNK(found.st_mode) and found.st_uid in trusted and links == "follow"
    opened = os.open(name, _DIRECTORY if trusted_link else _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    if made:
        # Regardless of the umask, because another user needs access.
        os.fchmod(opened, mode)
    os.close(parent)
    return opened


def _check_step(fd: int, path: str, trusted: set[int]) -> None:
    found = os.fstat(fd)
    open_to_others = found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX
    if open_to_others and found.st_uid not in trusted:
        raise StartupError(
            f"{path} belongs to user {found.st_uid} and others may write to it: "
            "nothing below it would be private; choose another folder"
        )


def _own(fd: int, path: str, owner: UserAccount, mode: int) -> None:
    found = os.fstat(fd)
    if os.geteuid() == 0 and found.st_uid == 0 and owner.uid != 0:
        os.fchown(fd, owner.uid, owner.gid)
    elif found.st_uid != owner.uid:
        raise StartupError(
            f"{path} belongs to user {found.st_uid}, and the daemon runs as user {owner.uid}: "
            f"`chown -R {owner.uid}:{owner.gid} {path}`, or set another folder"
        )
    if stat.S_IMODE(found.st_mode) & ~mode:
        os.fchmod(fd, stat.S_IMODE(found.st_mode) & mode)


def _why_no_folder(error: OSError, path: str) -> str:
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return f"cannot write in {path}: run as root or set `root_dir` to a folder of yours"
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return f"{path} is not a folder, or is a symbolic link that cannot be trusted: move it away"
    return f"the folder {path} cannot be created: {error.strerror}"


def read_secret(path: str) -> bytes | None:
    """The content of a secret file; None if it does not exist.

    Raises StartupError if others may read it, it belongs to another user, it is a symbolic link or not a plain file, or
    it is longer than SECRET_MAX.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartupError(_why_unreadable(error, path)) from error
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise StartupError(f"{path} is not a plain file: move it away")
        if found.st_uid not in (0, os.geteuid()):
            raise StartupError(f"{path} belongs to user {found.st_uid}: `chown {os.geteuid()} {path}`")
        if found.st_mode & _OTHERS_ANY:
            raise StartupError(
                f"{path} is a secret that others may read (mode {stat.S_IMODE(found.st_mode):04o}): "
                f"`chmod 600 {path}`, and create a new one if they may have read it"
            )
        try:
            data = file.read(SECRET_MAX + 1)
        except OSError as error:
            raise StartupError(_why_unreadable(error, path)) from error
    if len(data) > SECRET_MAX:
        raise StartupError(f"{path} is longer than {SECRET_MAX} bytes, so it is not a key of saltlite")
    return data


def _why_unreadable(error: OSError, path: str) -> str:
    if error.errno == errno.ELOOP:
        return f"{path} is a symbolic link, and secrets are not read through links: replace it by the file"
    return f"{path} cannot be read ({error.strerror}): run as its owner, or set `root_dir`"


def write_secret(path: str, data: bytes) -> None:
    """Write `data` to `path` with mode 0600, atomically, and sync it to disk.

    Raises StartupError if it cannot be written; an existing file is then unchanged.
    """
    _place_secret(path, data, os.rename)


def secret_made_once(path: str, make: Callable[[], bytes]) -> bytes:
    """The content of a secret file, which is made with `make()` if there is none; of two processes that make it at the
    same time, both get what the first one wrote.

    Raises StartupError as `read_secret` and `write_secret` do.
    """
    kept = read_secret(path)
    if kept is None:
        with contextlib.suppress(FileExistsError):
            _place_secret(path, make(), _link)
        kept = read_secret(path)
    if kept is None:
        raise StartupError(f"{path} was removed while it was made")
    return kept


def _link(temporary: str, path: str) -> None:
    """As `os.rename`, but raises FileExistsError instead of replacing a file."""
    os.link(temporary, path)
    os.unlink(temporary)


def _place_secret(path: str, data: bytes, place: Callable[[str, str], None]) -> None:
    folder = os.path.dirname(path) or "."
    temporary = f"{path}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(temporary, flags, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, 0o600)
                file.write(data)
                file.flush()
                os.fsync(fd)
            place(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        directory = os.open(folder, _DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except FileExistsError:
        raise
    except OSError as error:
        raise StartupError(f"{path} cannot be written ({error.strerror}): run as root or set `root_dir`") from error


def start_log(level: str, log_file: str, account: UserAccount, form: str) -> None:
    """Set up logging so that the process can log as `account` later; a missing folder is created.

    `form` is one of `logs.FORMATS`. Raises StartupError if the file cannot be written.
    """
    folder = os.path.dirname(log_file)
    if folder and not os.path.isdir(folder):
        private_dir(folder, account.uid, account.gid, 0o755)
    logs.configure(level, log_file=log_file, form=form)
    if log_file and os.geteuid() == 0:
        os.chown(log_file, account.uid, account.gid)


def name_of(uid: int) -> str:
    """The name of a user; `uid-1234` if there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


def groups_of(user: str) -> frozenset[str]:
    """The names of all groups of a user; empty for an unknown user."""
    try:
        gids = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except (KeyError, ValueError):  # ValueError: a name with a NUL
        return frozenset()
    return frozenset(_names(gids))


def _names(gids: Iterable[int]) -> Iterable[str]:
    for gid in gids:
        try:
            yield grp.getgrgid(gid).gr_name
        except KeyError:
            continue


def uid_of(user: str) -> int:
    """The uid of a user; -1, which no user has, for an unknown one."""
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return -1


def require_trusted(folders: Iterable[str]) -> None:
    """Check that only root and this user can change each existing folder and its subfolders.

    Operators are usually root, and the master's processes are not: root must not run code that they could write (S10).
    Raises RefusedError, which names the folder and the fix.
    """
    for folder in folders:
        for path in [folder, *_inside(folder)]:
            try:
                found = os.stat(path)
            except OSError:
                continue  # nothing is loaded from it
            _check(path, found)


def _inside(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _check(path: str, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise RefusedError(
            f"{path} belongs to user {found.st_uid}, who could make you run any code: "
            f"`chown -R {os.geteuid()} {path}` if you trust its content, or remove it from the configuration"
        )
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())):
        raise RefusedError(
            f"others may write to {path}, and could make you run any code: `chmod go-w {path}` if you trust its content"
        )
