"""Information about files, folders, links and devices, their digests, and arguments that all of `file` shares."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, sentence, shown

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


# --- Arguments of Salt's functions that are not supported ---

_SIGNED = "signatures are not checked here: give a source_hash"
_ALIKE = "files are managed to the last byte here: file.get_diff compares in this way"

_UNSERVED: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(
        ("signature", "source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome"), (None, _SIGNED)
    ),
    "sig_backend": ("gpg", _SIGNED),
    **dict.fromkeys(("ignore_ordering", "ignore_whitespace"), (False, _ALIKE)),
    "ignore_comment_characters": (None, _ALIKE),
}
"""Name -> its default, and the message for any other value."""


def refuse_unserved(given: Mapping[str, Any]) -> None:
    """Raise SaltInvocationError if one of these arguments in `given` differs from its default."""
    for name, (default, reason) in _UNSERVED.items():
        value = given.get(name, default)
        if value and value != default:
            raise SaltInvocationError(f"{name}={value!r} cannot be: {reason}.")


HASHES = {"sha512": 128, "sha384": 96, "sha256": 64, "sha224": 56, "sha1": 40, "md5": 32}
"""Name of a digest -> its number of hexadecimal digits."""

_BY_LENGTH = {length: name for name, length in HASHES.items()}

_SUPPORTED = ", ".join(f"{name} ({length} digits)" for name, length in HASHES.items())

_REMOTE = ("salt", "http", "https")


def get_hash(path: str, form: str = "sha256", chunk_size: int = 65536) -> str:
    """Return the digest of a file in hexadecimal; ``form`` is md5, sha1, sha224, sha256, sha384 or sha512.

    CLI Example::

        saltlite '*' file.get_hash /etc/shadow
        saltlite '*' file.get_hash /etc/shadow sha512
    """
    import hashlib

    name = checked_path(path)
    try:
        digest = hashlib.new(form, usedforsecurity=False)
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"Invalid hash type: {form}. There are {', '.join(HASHES)}.") from error
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise SaltInvocationError(f"chunk_size is a number of bytes, not {chunk_size!r}.")
    try:
        if stat.S_ISFIFO(os.stat(name).st_mode):
            raise CommandExecutionError(f"{shown(name)} is a named pipe: reading it would wait for who writes to it.")
        with open(name, "rb") as stream:
            while block := stream.read(chunk_size):
                digest.update(block)
    except OSError as error:
        raise sentence(name, "read", error) from error
    return digest.hexdigest()


def get_sum(path: str, form: str = "sha256") -> str:
    """Like ``file.get_hash``, but returns the text ``File not found`` for a path that is no file.

    CLI Example: ``saltlite '*' file.get_sum /etc/passwd sha512``
    """
    return get_hash(path, form) if os.path.isfile(checked_path(path)) else "File not found"


def check_hash(path: str, file_hash: str) -> bool:
    """Return whether a file has this digest, given as digits, ``md5=digits`` or ``md5:digits``.

    CLI Example::

        saltlite '*' file.check_hash /etc/fstab e138491e9d5b97023cea823fe17bac22
        saltlite '*' file.check_hash /etc/fstab md5=e138491e9d5b97023cea823fe17bac22
    """
    if not isinstance(file_hash, str):
        raise SaltInvocationError("hash must be a string")
    parts = re.split("[:=]", file_hash, maxsplit=1)
    kind = parts[0].strip() if len(parts) == 2 else _BY_LENGTH.get(len(file_hash))
    if kind is None:
        raise SaltInvocationError(
            f"Hash {file_hash} (length: {len(file_hash)}) could not be matched to a supported hash type: {_SUPPORTED}."
        )
    return get_hash(path, kind) == parts[-1].strip().lower()


def get_source_sum(  # noqa: PLR0913, PLR0917 - Salt's arguments
    file_name: str = "", source: str = "", source_hash: str | None = None, source_hash_name: str | None = None,
    saltenv: str = "base", verify_ssl: bool = True, source_hash_sig: str | None = None,
    signed_by_any: str | list[str] | None = None, signed_by_all: str | list[str] | None = None,
    keyring: str | None = None, gnupghome: str | None = None, sig_backend: str = "gpg",
) -> dict[str, str]:  # fmt: skip
    """Return the expected digest of a source as ``hash_type`` and ``hsum``.

    ``source_hash`` is the digest, ``md5=digits``, or the address of a sum file, which is searched for
    ``source_hash_name``, ``file_name`` or ``source``.

    CLI Example::

        saltlite '*' file.get_source_sum /tmp/a.gz source=salt://a.gz source_hash=499ae16dcae71eeb7c3a30c75ea7a1a6
        saltlite '*' file.get_source_sum /tmp/a.gz source=salt://a.gz source_hash=salt://hashes.md5
    """
    refuse_unserved(locals())
    value = str(source_hash or "").strip()
    listing = _listing(value, saltenv, verify_ssl=verify_ssl)
    if not listing:
        return _expression(value)
    found = extract_hash(listing, "", file_name, source, source_hash_name)
    if found is None:
        raise _unusable(value)
    return {**found, "hsum": found["hsum"].lower()}


def extract_hash(
    hash_fn: str, hash_type: str = "sha256", file_name: str = "", source: str = "", source_hash_name: str | None = None
) -> dict[str, str] | None:
    """Search for a digest in a sum file, as ``sha256sum`` writes it, or in a Debian ``.dsc``.

    ``source_hash_name`` has precedence over ``file_name``, and that over ``source``. If none is found, the first digest
    of the file is returned, or None. An empty ``hash_type`` matches any.

    CLI Example: ``saltlite '*' file.extract_hash /path/to/hash/file sha512 /etc/foo``
    """
    length = HASHES.get(hash_type)
    digits = str(length) if length else f"{min(_BY_LENGTH)},{max(_BY_LENGTH)}"
    digest = re.compile(rf"(?<![a-z0-9])([a-f0-9]{{{digits}}})(?![a-z0-9])", re.IGNORECASE)
    wanted = [_line_of(str(source_hash_name), r"\s")] if source_hash_name else []
    # What is behind the path of a URL is no part of the file's name.
    address = str(source).partition("?")[0] if "://" in str(source) else str(source)
    wanted += [_line_of(each, r"[\s\\/*]") for each in (str(file_name), address) if each]
    found: dict[int, dict[str, str]] = {}
    name = checked_path(hash_fn)
    try:
        with open(name, encoding="utf-8", errors="replace") as stream:
            for raw in stream:
                line = raw.strip()
                match = digest.search(line)
                kind = _BY_LENGTH.get(len(match[1])) if match else None
                if match and kind:
                    # The first digest of the file is the last choice.
                    places = [place for place, pattern in enumerate(wanted) if pattern.search(line)]
                    for place in (*places, len(wanted)):
                        found.setdefault(place, {"hsum": match[1], "hash_type": kind})
    except OSError as error:
        raise sentence(name, "read", error) from error
    return found[min(found)] if found else None


def _listing(value: str, saltenv: str, *, verify_ssl: bool) -> str:
    """Return the local path of the sum file in `source_hash`; empty when it names none."""
    if os.path.isabs(value):
        return value
    scheme, colon, path = value.partition("://")
    if not colon:
        return ""
    if scheme == "file":
        return path
    if scheme not in _REMOTE:
        raise _unusable(value)
    kept: str = __salt__["cp.cache_file"](value, saltenv, verify_ssl=verify_ssl)
    if not kept:
        raise CommandExecutionError(f"Source hash file {value} not found")
    return kept


def _line_of(name: str, separator: str) -> re.Pattern[str]:
    """Match a line that ends with the base name, or begins with the full name."""
    last = os.path.basename(name.rstrip("/")) if separator != r"\s" else name
    return re.compile(rf"{separator}{re.escape(last)}$|^{re.escape(name)}\s")


def _expression(value: str) -> dict[str, str]:
    kind, equals, digits = (part.strip() for part in value.partition("="))
    if not equals:
        kind, digits = _BY_LENGTH.get(len(value), ""), value
        if not kind:
            raise _unusable(value)
    if not re.fullmatch("[0-9a-fA-F]+", digits):
        raise _unusable(value)
    if kind not in HASHES:
        raise CommandExecutionError(f"Invalid hash type '{kind}': there are {_SUPPORTED}.")
    if len(digits) != HASHES[kind]:
        fitting = _BY_LENGTH.get(len(digits))
        hint = f"; that of {fitting} has" if fitting else ""
        raise CommandExecutionError(
            f"Invalid length ({len(digits)}) for hash type '{kind}', which has {HASHES[kind]} digits{hint}."
        )
    return {"hash_type": kind, "hsum": digits.lower()}


def _unusable(value: str) -> CommandExecutionError:
    return CommandExecutionError(
        f"Source hash {value} format is invalid: give the digest, type=digest, or the address of a file of digests. "
        f"There are {_SUPPORTED}."
    )


# --- Arguments and errors ---


def absolute(path: Any, what: str = "File path") -> str:
    """Return the absolute path, with `~` expanded. Raises SaltInvocationError for a relative path."""
    text = checked_path(path)
    if not os.path.isabs(text):
        raise SaltInvocationError(f"{what} must be absolute: {shown(text)}")
    return text


def own_name(name: str) -> str:
    """Return the path without trailing slashes, which would follow a link. Raises SaltInvocationError for no name."""
    plain = name.rstrip("/")
    if not plain:
        raise SaltInvocationError("This is the root folder, which is neither removed nor moved nor replaced.")
    if os.path.basename(plain) in {".", ".."}:
        raise SaltInvocationError(f"{shown(name)} names a folder by its place: give its own name.")
    return plain


def failed(what: str, error: OSError) -> CommandExecutionError:
    """Return the error for an OSError; `what` is a clause such as "/a cannot be read"."""
    where = shown(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else ""
    # In a tree the path may differ from the caller's.
    inside = f" ({where})" if where and where not in what else ""
    return CommandExecutionError(f"{what}: {error.strerror or error}{inside}.")


def octal(mode: Any) -> int:
    """Return a mode given as 644, "0644" or "0o644". Raises SaltInvocationError."""
    digits = str(mode).strip("\"'").lower().lstrip("0o") or "0"
    if len(digits) > 4 or not set(digits) <= set("01234567"):
        raise SaltInvocationError(f"Invalid Mode {mode}: give up to four octal digits, such as 0644.")
    return int(digits, 8)


def octal_text(mode: int) -> str:
    """Return a mode as four octal digits, as Salt does."""
    return f"{mode & 0o7777:04o}"


_KINDS = {
    stat.S_IFDIR: "dir", stat.S_IFCHR: "char", stat.S_IFBLK: "block", stat.S_IFLNK: "link", stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}  # fmt: skip

_LSTAT = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")

_STATVFS = (
    "f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag", "f_frsize", "f_namemax",
)  # fmt: skip

_ACCESS = {"f": os.F_OK, "r": os.R_OK, "w": os.W_OK, "x": os.X_OK}


def stats(path: str, hash_type: str | None = None, follow_symlinks: bool = True) -> dict[str, Any]:
    """Return the status of a file: inode, uid, gid, user, group, times, size, mode, type and target.

    The type is ``file``, ``dir``, ``link``, ``char``, ``block``, ``pipe`` or ``socket``. A broken link describes
    itself. ``hash_type`` adds the ``sum`` of the content.

    CLI Example::

        saltlite '*' file.stats /etc/passwd
        saltlite '*' file.stats /etc/passwd hash_type=sha256
    """
    name = checked_path(path)
    found = _status(name, follow_symlinks=follow_symlinks)
    report: dict[str, Any] = {
        "inode": found.st_ino,
        "uid": found.st_uid,
        "gid": found.st_gid,
        "group": gid_to_group(found.st_gid),
        "user": uid_to_user(found.st_uid),
        "atime": found.st_atime,
        "mtime": found.st_mtime,
        "ctime": found.st_ctime,
        "size": found.st_size,
        "mode": octal_text(found.st_mode),
    }
    if hash_type:
        report["sum"] = get_hash(name, hash_type)
    report["type"] = _KINDS.get(stat.S_IFMT(found.st_mode), "file")
    report["target"] = os.path.realpath(name) if follow_symlinks else os.path.abspath(name)
    return report


def lstat(path: str) -> dict[str, Any]:
    """Return the fields of ``lstat`` (links are not followed), such as ``st_mode``; empty if the path does not exist.

    CLI Example: ``saltlite '*' file.lstat /path/to/file``
    """
    try:
        found = os.lstat(absolute(path, "Path to file"))
    except OSError:
        return {}
    return {key: getattr(found, key) for key in _LSTAT}


def statvfs(path: str) -> dict[str, Any]:
    """Return the fields of ``statvfs`` for the file system of a path, such as ``f_bavail``.

    CLI Example: ``saltlite '*' file.statvfs /path/to/file``
    """
    name = absolute(path)
    try:
        found = os.statvfs(name)
    except OSError as error:
        raise failed(f"Could not statvfs '{name}'", error) from error
    return {key: getattr(found, key) for key in _STATVFS}


def get_uid(path: str, follow_symlinks: bool = True) -> int:
    """Return the number of the owner of a file.

    CLI Example: ``saltlite '*' file.get_uid /etc/passwd``
    """
    return _status(checked_path(path), follow_symlinks=follow_symlinks).st_uid


def get_gid(path: str, follow_symlinks: bool = True) -> int:
    """Return the number of the group of a file.

    CLI Example: ``saltlite '*' file.get_gid /etc/passwd``
    """
    return _status(checked_path(path), follow_symlinks=follow_symlinks).st_gid


def get_user(path: str, follow_symlinks: bool = True) -> str | int:
    """Return the name of the owner of a file, or the number if the user does not exist.

    CLI Example: ``saltlite '*' file.get_user /etc/passwd``
    """
    return uid_to_user(get_uid(path, follow_symlinks))


def get_group(path: str, follow_symlinks: bool = True) -> str | int:
    """Return the name of the group of a file, or the number if the group does not exist.

    CLI Example: ``saltlite '*' file.get_group /etc/passwd``
    """
    return gid_to_group(get_gid(path, follow_symlinks))


def get_mode(path: str, follow_symlinks: bool = True) -> str:
    """Return the mode of a file, as four octal digits.

    CLI Example: ``saltlite '*' file.get_mode /etc/passwd``
    """
    return octal_text(_status(checked_path(path), follow_symlinks=follow_symlinks).st_mode)


def uid_to_user(uid: int) -> str | int:
    """Return the name of a user, or the number if the user does not exist.

    CLI Example: ``saltlite '*' file.uid_to_user 0``
    """
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (KeyError, ValueError, OverflowError):
        return uid


def user_to_uid(user: str | int | None) -> int | str:
    """Return the number of a user; an empty text if there is no such user, and the minion's user for None.

    CLI Example: ``saltlite '*' file.user_to_uid root``
    """
    if user is None:
        return os.geteuid()
    if isinstance(user, int):
        return user
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return ""


def gid_to_group(gid: int | str) -> str | int:
    """Return the name of a group, or the number if the group does not exist.

    CLI Example: ``saltlite '*' file.gid_to_group 0``
    """
    number = group_to_gid(gid) if isinstance(gid, str) and not gid.lstrip("-").isdecimal() else gid
    if number == "":
        return ""
    try:
        return grp.getgrgid(int(number)).gr_name
    except (KeyError, OverflowError):
        return int(number)


def group_to_gid(group: str | int | None) -> int | str:
    """Return the number of a group; an empty text if there is no such group.

    CLI Example: ``saltlite '*' file.group_to_gid root``
    """
    if group is None:
        return ""
    if isinstance(group, int):
        return group
    try:
        return grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        return ""


def access(path: str, mode: str | int) -> bool:
    """Return whether the minion has access to a path: ``r`` read, ``w`` write, ``x`` execute, ``f`` exists.

    CLI Example::

        saltlite '*' file.access /path/to/file f
        saltlite '*' file.access /path/to/file x
    """
    name = absolute(path, "Path to link")
    if isinstance(mode, int) and mode in _ACCESS.values():
        return os.access(name, mode)
    if mode not in _ACCESS:
        raise SaltInvocationError(f"Invalid mode specified: {mode!r} is not one of f, r, w and x.")
    return os.access(name, _ACCESS[str(mode)])


def file_exists(path: str) -> bool:
    """Return whether a file, or a link to one, exists.

    CLI Example: ``saltlite '*' file.file_exists /etc/passwd``
    """
    return os.path.isfile(checked_path(path))


def directory_exists(path: str) -> bool:
    """Return whether a folder, or a link to one, exists.

    CLI Example: ``saltlite '*' file.directory_exists /etc``
    """
    return os.path.isdir(checked_path(path))


def path_exists_glob(path: str) -> bool:
    """Return whether a glob such as ``/etc/pam*/pass*`` matches anything.

    CLI Example: ``saltlite '*' file.path_exists_glob '/etc/pam*/pass*'``
    """
    from glob import glob

    return bool(glob(checked_path(path)))


def is_link(path: str, nostat: bool = False) -> bool:
    """Return whether a path is a symbolic link.

    ``nostat`` only reads the folder, for links into a file system that does not respond.

    CLI Example: ``saltlite '*' file.is_link /path/to/link``
    """
    name = checked_path(path)
    if not nostat:
        return os.path.islink(name)
    folder, _, last = name.rpartition("/")
    try:
        with os.scandir(folder or "/") as entries:
            return any(entry.name == last and entry.is_symlink() for entry in entries)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise sentence(folder or "/", "read", error) from error


def is_hardlink(path: str) -> bool:
    """Return whether a file has more than one hard link.

    CLI Example: ``saltlite '*' file.is_hardlink /path/to/link``
    """
    found = lstat(path)
    return bool(found) and found["st_nlink"] > 1


def is_chrdev(name: str) -> bool:
    """Return whether a path is a character device.

    CLI Example: ``saltlite '*' file.is_chrdev /dev/null``
    """
    return _is_kind(name, stat.S_IFCHR)


def is_blkdev(name: str) -> bool:
    """Return whether a path is a block device.

    CLI Example: ``saltlite '*' file.is_blkdev /dev/sda``
    """
    return _is_kind(name, stat.S_IFBLK)


def is_fifo(name: str) -> bool:
    """Return whether a path is a named pipe.

    CLI Example: ``saltlite '*' file.is_fifo /run/initctl``
    """
    return _is_kind(name, stat.S_IFIFO)


def get_devmm(name: str) -> tuple[int, int]:
    """Return the major and minor number of a device; zeros for other files.

    CLI Example: ``saltlite '*' file.get_devmm /dev/null``
    """
    if not (is_chrdev(name) or is_blkdev(name)):
        return (0, 0)
    device = _status(checked_path(name), follow_symlinks=True).st_rdev
    return (os.major(device), os.minor(device))


def readlink(path: str, canonicalize: bool = False) -> str:
    """Return the target of a symbolic link; with ``canonicalize`` all links are resolved.

    CLI Example: ``saltlite '*' file.readlink /path/to/link``
    """
    name = absolute(os.path.expandvars(checked_path(path)), "Path to link")
    if not os.path.islink(name):
        raise SaltInvocationError(f"A valid link was not specified: {name}")
    try:
        return os.path.realpath(name) if canonicalize else os.readlink(name)
    except OSError as error:
        raise failed(f"The link {name} cannot be read", error) from error


def readdir(path: str) -> list[str]:
    """Return the names in a folder, sorted, after ``.`` and ``..``.

    CLI Example: ``saltlite '*' file.readdir /path/to/dir/``
    """
    name = absolute(path, "Dir path")
    if not os.path.isdir(name):
        raise SaltInvocationError(f"A valid directory was not specified: {name}")
    try:
        return [".", "..", *sorted(os.listdir(name))]
    except OSError as error:
        raise sentence(name, "read", error) from error


def _status(name: str, *, follow_symlinks: bool) -> os.stat_result:
    try:
        return os.stat(name) if follow_symlinks and os.path.exists(name) else os.lstat(name)
    except (FileNotFoundError, NotADirectoryError) as error:
        # States compare this text.
        raise CommandExecutionError(f"Path not found: {name}") from error
    except OSError as error:
        raise sentence(name, "read", error) from error


def _is_kind(name: str, kind: int) -> bool:
    try:
        return stat.S_IFMT(os.stat(checked_path(name)).st_mode) == kind
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise sentence(name, "read", error) from error


# --- Paths as text: the disk is not read ---


def pardir() -> str:
    """Return the name of the parent folder: ``..``.

    CLI Example: ``saltlite '*' file.pardir``
    """
    return os.path.pardir


def normpath(path: str) -> str:
    """Return a path without double slashes, ``.`` and ``..``.

    CLI Example: ``saltlite '*' file.normpath 'a/b/c/..'``
    """
    return os.path.normpath(path)


def basename(path: str) -> str:
    """Return the last part of a path.

    CLI Example: ``saltlite '*' file.basename 'test/test.config'``
    """
    return os.path.basename(path)


def dirname(path: str) -> str:
    """Return a path without its last part.

    CLI Example: ``saltlite '*' file.dirname 'test/path/filename.config'``
    """
    return os.path.dirname(path)


def join(*args: str) -> str:
    """Join parts of a path; a part that begins with a slash starts again.

    CLI Example: ``saltlite '*' file.join '/' 'usr' 'local' 'bin'``
    """
    return os.path.join(*args) if args else ""


# --- Open files and disk usage ---


def open_files(by_pid: bool = False) -> dict[str, list[int]] | dict[int, list[str]]:
    """Return the files that processes have open or execute: path -> process ids, or the reverse with ``by_pid``.

    Sockets, pipes and deleted files are skipped; without root also the processes of other users.

    CLI Example::

        saltlite '*' file.open_files
        saltlite '*' file.open_files by_pid=True
    """
    of_process = {int(name): sorted(set(_paths(name))) for name in os.listdir("/proc") if name.isdecimal()}
    if by_pid:
        return of_process
    of_path: dict[str, list[int]] = {}
    for pid in sorted(of_process):
        for path in of_process[pid]:
            of_path.setdefault(path, []).append(pid)
    return of_path


def diskusage(path: str) -> int:
    """Return the total size of the files in a folder in bytes; hard links count once.

    CLI Example: ``saltlite '*' file.diskusage /path/to/check``
    """
    name = checked_path(path)
    try:
        if not os.path.isdir(name):
            return os.stat(name).st_size
    except OSError as error:
        raise sentence(name, "read", error) from error
    sizes: dict[tuple[int, int], int] = {}
    for folder, _folders, files in os.walk(name):
        for each in files:
            # Files may be removed meanwhile, and links may be broken.
            with contextlib.suppress(OSError):
                found = os.stat(os.path.join(folder, each))
                sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())


def _paths(pid: str) -> Iterator[str]:
    links = [f"/proc/{pid}/exe"]
    # Processes may end meanwhile, and those of other users are unreadable without root.
    with contextlib.suppress(OSError):
        links += [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    for link in links:
        with contextlib.suppress(OSError):
            path = os.readlink(link)
            # Other links are `socket:[…]`, `pipe:[…]` or `anon_inode:…`.
            if path.startswith("/") and os.path.lexists(path):
                yield path
