"""`salt.utils.files`: reading, writing, copying and removing files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from typing import IO, Any, NoReturn

from saltlite.errors import CommandExecutionError
from saltlite.salt.exceptions import FileLockError, MinionError
from saltlite.salt.utils import path as paths
from saltlite.salt.utils import stringutils
from saltlite.salt.utils.decorators.jinja import jinja_filter
from saltlite.salt.utils.platform import is_sunos

LOCAL_PROTOS = ("", "file")
REMOTE_PROTOS = ("http", "https", "ftp", "swift", "s3")
VALID_PROTOS = ("salt", "file", *REMOTE_PROTOS)
TEMPFILE_PREFIX = "__salt.tmp."
HASHES = {"sha512": 128, "sha384": 96, "sha256": 64, "sha224": 56, "sha1": 40, "md5": 32}
HASHES_REVMAP = {length: name for name, length in HASHES.items()}
HAS_FCNTL = True

_TAR_ENDINGS = (
    ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.lzma", ".tlz",
)  # fmt: skip
_UNSAFE_IN_NAMES = r'[\\:/*?"<>|]'
_STANDARD_STREAMS = (0, 1, 2)
_BOMS = (
    (b"\0\0\xfe\xff", "UTF-32-BE"),
    (b"\xff\xfe\0\0", "UTF-32-LE"),
    (b"\xfe\xff", "UTF-16-BE"),
    (b"\xff\xfe", "UTF-16-LE"),
    (b"\xef\xbb\xbf", "UTF-8"),
    (b"+/v8", "UTF-7"),
    (b"+/v9", "UTF-7"),
    (b"+/v+", "UTF-7"),
    (b"+/v/", "UTF-7"),
)
_umask_lock = threading.RLock()
"""The umask belongs to the process: two threads that set it at once could leave it changed."""


def guess_archive_type(name: str) -> str | None:
    """`tar`, `zip` or `rar` by the ending of a name, or None."""
    lower = name.lower()
    if lower.endswith(_TAR_ENDINGS):
        return "tar"
    return next((kind for kind in ("zip", "rar") if lower.endswith(f".{kind}")), None)


def mkstemp(*args: Any, **kwargs: Any) -> Any:
    """The path of a new temporary file, closed; with `close_fd=False` (descriptor, path) of an open one."""
    close_fd = kwargs.pop("close_fd", True)
    kwargs.setdefault("prefix", TEMPFILE_PREFIX)
    fd, path = tempfile.mkstemp(*args, **kwargs)
    if close_fd is False:
        return fd, path
    os.close(fd)
    return path


def recursive_copy(source: str, dest: str) -> None:
    """Copy a folder with all below it; other files of `dest` stay."""
    for root, _, names in paths.os_walk(source):
        folder = os.path.normpath(os.path.join(dest, os.path.relpath(root, source)))
        os.makedirs(folder, exist_ok=True)
        for name in names:
            shutil.copyfile(os.path.join(root, name), os.path.join(folder, name))


def copyfile(source: str, dest: str, backup_mode: str = "", cachedir: str = "") -> None:
    """Put a copy of a file in the place of `dest` at once, with the owner and mode that `dest` had.

    With the backup mode `minion`, or `both` and a `cachedir`, the old file is kept in `<cachedir>/file_backup`. Raises
    OSError if the source or the folder is missing.
    """
    for missing in (None if os.path.isfile(source) else source, None if os.path.isdir(os.path.dirname(dest)) else dest):
        if missing is not None:
            raise OSError(f"[Errno 2] No such file or directory: {missing}")
    temporary = mkstemp(prefix=os.path.basename(dest), dir=os.path.dirname(os.path.abspath(dest)))
    try:
        shutil.copyfile(source, temporary)
        folder = os.path.join(cachedir, "file_backup") if cachedir else ""
        if (backup_mode == "minion" or (backup_mode == "both" and folder)) and os.path.exists(dest):
            backup_minion(dest, folder)
        before = os.stat(dest) if os.path.exists(dest) else None
        shutil.move(temporary, dest)
    except BaseException:
        safe_rm(temporary)
        raise
    if before is not None:
        os.chown(dest, before.st_uid, before.st_gid)
        os.chmod(dest, stat.S_IMODE(before.st_mode))
    _restore_selinux_label(dest)


def _restore_selinux_label(path: str) -> None:
    program = paths.which("restorecon")
    if program and os.path.exists("/sys/fs/selinux/enforce"):
        import subprocess

        subprocess.run([program, path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def rename(src: str, dst: str) -> None:
    """Rename a file, over another one. Raises MinionError if that cannot be removed, and OSError."""
    try:
        os.rename(src, dst)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
        try:
            remove(dst)
        except OSError as stays:
            raise MinionError(f"Error: Unable to remove {dst}: {stays.strerror}") from stays
        os.rename(src, dst)


def process_read_exception(exc: OSError, path: str, ignore: Any = None) -> None:
    """Raise CommandExecutionError for an error of reading, unless its number is to be ignored."""
    ignored = (ignore,) if isinstance(ignore, int) else ignore or ()
    if exc.errno in ignored:
        return
    if exc.errno == errno.ENOENT:
        raise CommandExecutionError(f"{path} does not exist")
    if exc.errno == errno.EACCES:
        raise CommandExecutionError(f"Permission denied reading from {path}")
    raise CommandExecutionError(f"Error {exc.errno} encountered reading from {path}: {exc.strerror}")


@contextlib.contextmanager
def wait_lock(
    path: str, lock_fn: str | None = None, timeout: float = 5, sleep: float = 0.1, time_start: float | None = None
) -> Iterator[None]:
    """Hold the lock file of a path, by default `<path>.w`, for the block; wait up to `timeout` seconds for it.

    Raises FileLockError.
    """
    lock = _LockFile(path, lock_fn, timeout, time_start)
    while not lock.take():
        time.sleep(sleep)
    with lock.held():
        yield


@contextlib.asynccontextmanager
async def await_lock(
    path: str, lock_fn: str | None = None, timeout: float = 5, sleep: float = 0.1, time_start: float | None = None
) -> AsyncIterator[None]:
    """As `wait_lock`, in a coroutine."""
    import asyncio

    lock = _LockFile(path, lock_fn, timeout, time_start)
    while not lock.take():
        await asyncio.sleep(sleep)
    with lock.held():
        yield


class _LockFile:
    """A file that exists while a lock is held."""

    def __init__(self, path: object, lock_fn: str | None, timeout: float, began: float | None) -> None:
        self._began = time.time() if began is None else began
        if not isinstance(path, str):
            self._fail("path must be a string")
        self._path = lock_fn or f"{path}.w"
        self._timeout = timeout
        if os.path.exists(self._path) and not os.path.isfile(self._path):
            self._fail(f"lock_fn {self._path} exists and is not a file")

    def take(self) -> bool:
        """Whether the lock is now held. Raises FileLockError when the time is up."""
        if time.time() - self._began >= self._timeout:
            self._fail(f"Timeout of {self._timeout} seconds exceeded waiting for lock_fn {self._path} to be released")
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        except OSError as error:
            self._fail(f"Error {error.errno} encountered obtaining file lock {self._path}: {error.strerror}")
        return True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        try:
            yield
        except FileLockError:
            raise
        except Exception as error:
            raise FileLockError(
                f"Error encountered obtaining file lock {self._path}: {error}", time_start=self._began
            ) from error
        finally:
            os.remove(self._path)

    def _fail(self, message: str) -> NoReturn:
        raise FileLockError(message, time_start=self._began)


def get_umask() -> int:
    """The umask of this process."""
    with _umask_lock:
        mask = os.umask(0)
        os.umask(mask)
    return mask


@contextlib.contextmanager
def set_umask(mask: int | None) -> Iterator[None]:
    """Have this umask for the block; None changes nothing."""
    if mask is None:
        yield
        return
    with _umask_lock:
        before = os.umask(mask)
        try:
            yield
        finally:
            os.umask(before)


def fopen(*args: Any, **kwargs: Any) -> IO[Any]:
    """`open` for text in UTF-8 without any change of line ends; `binary=True` is mode `b`.

    The file is closed in programs that this process starts. Raises TypeError for the numbers 0, 1 and 2.
    """
    if args and args[0] in _STANDARD_STREAMS:
        raise TypeError(f"{args[0]} is not a permitted file descriptor")
    file, *rest = args
    mode = rest.pop(0) if rest else kwargs.pop("mode", None) or "r"
    if kwargs.pop("binary", None) and "b" not in mode:
        mode = mode.replace("t", "") + "b"
    if "b" not in mode:
        if len(rest) < 2:
            kwargs.setdefault("encoding", sys.getdefaultencoding())
        kwargs["newline"] = kwargs.get("newline") or ""
    elif kwargs.get("buffering") == 1:
        del kwargs["buffering"]  # lines mean nothing in bytes
    opened: IO[Any] = open(file, mode, *rest, **kwargs)  # noqa: SIM115 - the caller closes it
    return opened


@contextlib.contextmanager
def flopen(*args: Any, **kwargs: Any) -> Iterator[IO[Any]]:
    """As `fopen`, locked for the block: for all others when writing, and for writers when reading."""
    with fopen(*args, **kwargs) as file:
        if not is_fcntl_available(check_sunos=True):
            yield file
            return
        writes = any(letter in (args[1] if len(args) > 1 else "r") for letter in "wa")
        fcntl.flock(file.fileno(), fcntl.LOCK_EX if writes else fcntl.LOCK_SH)
        try:
            yield file
        finally:
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)


@contextlib.contextmanager
def fpopen(*args: Any, **kwargs: Any) -> Iterator[IO[Any]]:
    """As `fopen`, and the file gets `uid`, `gid` and `mode`; -1 or None changes nothing."""
    uid, gid, mode = kwargs.pop("uid", None), kwargs.pop("gid", None), kwargs.pop("mode", None)
    owner = (-1 if uid is None else uid), (-1 if gid is None else gid)
    with fopen(*args, **kwargs) as file:
        if owner != (-1, -1):
            os.chown(args[0], *owner)
        if mode is not None:
            os.chmod(args[0], mode)
        yield file


def safe_walk(
    top: str,
    topdown: bool = True,
    onerror: Callable[[OSError], object] | None = None,
    followlinks: bool = True,
    _seen: set[tuple[int, int]] | None = None,
) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` that follows links, and enters no folder twice."""
    seen = set() if _seen is None else _seen
    try:
        names = os.listdir(top)
    except OSError as error:
        if onerror is not None:
            onerror(error)
        return
    if followlinks:
        status = os.stat(top)
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
    folders = [name for name in names if os.path.isdir(os.path.join(top, name))]
    files = [name for name in names if name not in set(folders)]
    if topdown:
        yield top, folders, files
    for name in folders:
        inside = os.path.join(top, name)
        if followlinks or not os.path.islink(inside):
            yield from safe_walk(inside, topdown, onerror, followlinks, seen)
    if not topdown:
        yield top, folders, files


def safe_rm(tgt: str) -> None:
    """Remove a file, if that can be done."""
    with contextlib.suppress(OSError):
        os.remove(tgt)


def rm_rf(path: str) -> None:
    """Remove a file, a link, or a folder with all below it."""
    if os.path.islink(path) or not os.path.isdir(path):
        os.remove(path)
    else:
        shutil.rmtree(path)


@jinja_filter("is_empty")
def is_empty(filename: str) -> bool:
    """Whether the file exists and is empty."""
    try:
        return os.stat(filename).st_size == 0
    except OSError:
        return False


def is_fcntl_available(check_sunos: bool = False) -> bool:
    """Whether files can be locked; with `check_sunos`, not on SunOS."""
    return not (check_sunos and is_sunos())


def safe_filename_leaf(file_basename: str) -> str:
    """The name with characters that some system forbids in names as `%XX`."""
    return re.sub(_UNSAFE_IN_NAMES, lambda found: urllib.parse.quote(found[0], safe=""), file_basename)


def safe_filepath(file_path_name: str, dir_sep: str | None = None) -> str:
    """The path with each of its names made safe by `safe_filename_leaf`."""
    separator = dir_sep or os.sep
    return separator.join(map(safe_filename_leaf, file_path_name.split(separator)))


@jinja_filter("is_text_file")
def is_text(fp_: Any, blocksize: int = 512) -> bool:
    """Whether the next block of an open file, or the first one of a path, is text. False for what cannot be opened."""
    try:
        if hasattr(fp_, "read"):
            return not stringutils.is_binary(fp_.read(blocksize))
        with fopen(fp_, "rb") as file:
            return not stringutils.is_binary(file.read(blocksize))
    except OSError:
        return False


@jinja_filter("is_bin_file")
def is_binary(path: str) -> bool:
    """Whether the path is a file that begins with binary data."""
    return os.path.isfile(path) and os.access(path, os.R_OK) and not is_text(path, 2048)


def remove(path: str) -> None:
    """Remove a file that may not exist."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


@jinja_filter("list_files")
def list_files(directory: str) -> list[str]:
    """The folder and all paths below it, in no order."""
    found = {directory}
    for root, folders, names in safe_walk(directory):
        found.update(os.path.join(root, name) for name in (*folders, *names))
    return list(found)


def st_mode_to_octal(mode: Any) -> str:
    """The last four octal digits of a mode of `os.stat`; "" for what is no number."""
    try:
        return oct(mode)[-4:]
    except TypeError:
        return ""


def normalize_mode(mode: Any) -> str | None:
    """The mode as octal digits, four at least: 644 -> "0644". "keep" and None stay."""
    if mode is None:
        return None
    return str(mode).replace("0o", "0").strip('"').strip("'").lstrip("0").zfill(4)


def human_size_to_bytes(human_size: Any) -> int:
    """The number of bytes of a text such as `10K`. Raises ValueError."""
    found = re.fullmatch(r"(\d+)([KMGTP])?\n?", str(human_size))
    if not found:
        raise ValueError("Size must be all digits, with an optional unit type (K, M, G, T, or P)")
    power: int = " KMGTP".index(found[2] or " ")
    return int(int(found[1]) * 1024**power)


def backup_minion(path: str, bkroot: str) -> None:
    """Keep a copy of a file below `bkroot`, with the time in its name and the owner and mode of the file."""
    now = time.time()
    parts = time.strftime("%a_%b_%d_%H:%M:%S_%Y", time.localtime(now)).rpartition("_")
    stamp = f"{parts[0]}_{str(int(now * 1000000))[-6:]}_{parts[2]}"
    kept = os.path.join(bkroot, f"{path.lstrip(os.sep)}_{stamp}")
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    status = os.stat(path)
    shutil.copyfile(path, kept)
    os.chown(kept, status.st_uid, status.st_gid)
    os.chmod(kept, stat.S_IMODE(status.st_mode))


def case_insensitive_filesystem(path: str | None = None) -> bool:
    """Whether names in the folder, by default that of temporary files, that differ in case only are one file."""
    with tempfile.NamedTemporaryFile(prefix="TmP", dir=path) as file:
        return os.path.exists(os.path.join(os.path.dirname(file.name), os.path.basename(file.name).lower()))


def get_encoding(path: str) -> str:
    """The encoding of a file, by its byte order mark or by trial. Raises CommandExecutionError."""
    if not os.path.isfile(path):
        raise CommandExecutionError("Not a file")
    try:
        with fopen(path, "rb") as file:
            data = file.read(2048)
    except OSError as error:
        raise CommandExecutionError("Failed to open file") from error
    for mark, name in _BOMS:
        if data.startswith(mark):
            return name
    for name in ("UTF-8", sys.getdefaultencoding(), "ASCII"):
        with contextlib.suppress(UnicodeDecodeError):
            data.decode(name)
            return name
    raise CommandExecutionError("Could not detect file encoding")
