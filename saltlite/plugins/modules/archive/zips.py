"""Zip files, made and unpacked by Python itself."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import PinnedPath, pinned

from ._words import expanded, listed, rendered, trimmed

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

_LINK_BYTES_MAX = 4096

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def zip_(
    zip_file: str,
    sources: str | list[str],
    template: str | None = None,
    cwd: str | None = None,
    runas: str | None = None,
    zip64: bool = False,
) -> list[str]:
    """
    Make a zip file; the names of what is in it. It takes its place when it is complete.

    Names in it are relative to ``cwd``, or to the root folder without one. ``zip64`` is needed beyond 4 GiB.

    CLI Example::

        saltlite '*' archive.zip /tmp/zipfile.zip /tmp/sourcefile1,/tmp/sourcefile2
        saltlite '*' archive.zip /tmp/baz.zip baz.txt cwd=/foo/bar
    """
    import zipfile

    if cwd is not None and not os.path.isabs(str(cwd)):
        raise SaltInvocationError("cwd must be absolute")
    target = _absolute(rendered(zip_file, template))
    names = expanded(rendered(sources, template), cwd)
    if cwd is None and not all(os.path.isabs(name) for name in names):
        raise SaltInvocationError("Relative paths require the 'cwd' parameter")
    with _as_user(runas):
        try:
            with pinned(target, follow_symlinks=False) as place:
                return _pack(place, target, names, cwd or "/", zip64=zip64)
        except zipfile.LargeZipFile as error:
            raise CommandExecutionError(f"{target} would be too large for a zip file without zip64=True.") from error
        except OSError as error:
            raise _failed("packed", error) from error


def unzip(  # noqa: PLR0913, PLR0917 - Salt's arguments
    zip_file: str,
    dest: str,
    excludes: str | list[str] | None = None,
    options: str | None = None,
    template: str | None = None,
    runas: str | None = None,
    trim_output: bool | int = False,
    password: str | None = None,
    extract_perms: bool = True,
) -> list[str]:
    """
    Unpack a zip file into a folder; the names of what was in it.

    Nothing is unpacked when a member or a link would leave the folder. Files keep their permissions, but for
    set-user-id, unless ``extract_perms=False``. ``options`` are for ``archive.cmd_unzip``, and refused here.

    CLI Example::

        saltlite '*' archive.unzip /tmp/zipfile.zip /srv/target/ excludes=file_1,file_2
        saltlite '*' archive.unzip /tmp/zipfile.zip /srv/target/ password=BadPassword
    """
    import zipfile

    if options:
        raise SaltInvocationError("options are those of the program unzip: use archive.cmd_unzip.")
    source, into = _absolute(rendered(zip_file, template)), _absolute(rendered(dest, template))
    left_out = set(listed(excludes))
    secret = None if password is None else str(password).encode()
    with _as_user(runas):
        try:
            with zipfile.ZipFile(source) as archive:
                members = [member for member in archive.infolist() if member.filename not in left_out]
                for member in members:
                    _refuse_leaving(archive, member, secret)
                _unpack_all(archive, members, into, secret, keep_mode=extract_perms)
        except (zipfile.BadZipFile, EOFError) as error:
            raise CommandExecutionError(f"{source} is not a ZIP file, or is damaged: {error}") from error
        except (RuntimeError, NotImplementedError) as error:  # a wrong password, or a compression that Python lacks
            raise CommandExecutionError(f"{source} cannot be unpacked: {error}") from error
        except OSError as error:
            raise _failed("unpacked", error) from error
    return trimmed([member.filename for member in members], trim_output)


def _absolute(name: Any) -> str:
    path = os.path.expanduser(str(name))
    if not os.path.isabs(path) or "\0" in path:
        raise SaltInvocationError(f"{path!r} is no absolute path.")
    return path


def _failed(verb: str, error: OSError) -> CommandExecutionError:
    where = f": {error.filename}" if error.filename else ""
    return CommandExecutionError(f"The archive cannot be {verb}: {error.strerror or error}{where}")


def _pack(place: PinnedPath, target: str, names: list[str], root: str, *, zip64: bool) -> list[str]:
    """Make the zip file beside its place, and put it there; the names in it, which are relative to `root`."""
    import zipfile

    fresh, packed = f"{place.name}.{os.urandom(6).hex()}", list[str]()
    leave_out = os.path.join(os.path.dirname(target), fresh)
    try:
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=place.folder)
        with (
            open(fd, "w+b") as stream,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, allowZip64=zip64, strict_timestamps=False) as archive,
        ):
            for path in (os.path.join(root, name) for name in names):
                for each in _tree(path, leave_out=leave_out):
                    name = _packed_name(each, root)
                    if name != "./":  # the folder that everything is relative to has no entry
                        packed.append(name)
                        archive.write(each, name)
        os.replace(fresh, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=place.folder)
    return packed


def _tree(path: str, *, leave_out: str) -> Iterator[str]:
    """A file, or a folder with all that is in it; folders that links point to are not entered."""
    if not os.path.lexists(path):
        raise CommandExecutionError(f"There is no {path} to be packed.")
    if not os.path.isdir(path):
        yield path
        return
    for folder, _folders, files in os.walk(path):
        yield folder
        for name in files:
            each = os.path.join(folder, name)
            if each == leave_out:
                continue
            if not stat.S_ISREG(os.stat(each).st_mode):
                raise CommandExecutionError(f"{each} is no file, and cannot be packed.")
            yield each


def _packed_name(path: str, root: str) -> str:
    inside = os.path.commonpath([os.path.normpath(path), os.path.normpath(root)]) == os.path.normpath(root)
    name = os.path.relpath(path, root if inside else "/")
    return f"{name}/" if os.path.isdir(path) else name


def _is_link(member: ZipInfo) -> bool:
    return stat.S_ISLNK(member.external_attr >> 16)


def _refuse_leaving(archive: ZipFile, member: ZipInfo, secret: bytes | None) -> None:
    parts = member.filename.rstrip("/").split("/")
    if not member.filename or member.filename.startswith("/") or ".." in parts:
        raise CommandExecutionError(f"{member.filename!r} would leave the folder: nothing was unpacked.")
    if not _is_link(member):
        return
    aim = _aim(archive, member, secret).split("/")
    ups = next((place for place, part in enumerate(aim) if part not in {"..", "."}), len(aim))
    # Up first and then down: a `..` behind a name would go up from wherever another link leads.
    if aim[0] == "" or ".." in aim[ups:] or aim[:ups].count("..") > len(parts) - 1:
        raise CommandExecutionError(f"The link {member.filename!r} would leave the folder: nothing was unpacked.")


def _aim(archive: ZipFile, member: ZipInfo, secret: bytes | None) -> str:
    if member.file_size > _LINK_BYTES_MAX:
        raise CommandExecutionError(f"The link {member.filename!r} is too long: nothing was unpacked.")
    return os.fsdecode(archive.read(member, secret))


def _unpack_all(archive: ZipFile, members: list[ZipInfo], into: str, secret: bytes | None, *, keep_mode: bool) -> None:
    os.makedirs(into, exist_ok=True)
    with pinned(into) as place:
        fd = os.open(place.name, _FOLDER, dir_fd=place.folder)
    try:
        for member in members:
            _unpack(archive, member, fd, secret, keep_mode=keep_mode)
        if keep_mode:
            _close_folders(members, fd)
    finally:
        os.close(fd)


def _unpack(archive: ZipFile, member: ZipInfo, into: int, secret: bytes | None, *, keep_mode: bool) -> None:
    """Unpack a member into an open folder."""
    parts = member.filename.rstrip("/").split("/")
    if member.is_dir():
        with _folder(into, parts, member.filename):
            return
    with _folder(into, parts[:-1], member.filename) as folder:
        place, fresh = PinnedPath(folder, parts[-1]), f".saltlite-{os.urandom(8).hex()}"
        there = place.status()
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise CommandExecutionError(f"There is a folder in the place of {member.filename!r}, which is none.")
        try:
            if _is_link(member):
                os.symlink(_aim(archive, member, secret), fresh, dir_fd=folder)
            else:
                fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
                with open(fd, "wb") as target, archive.open(member, pwd=secret) as stream:
                    shutil.copyfileobj(stream, target)
                    if keep_mode and (mode := _mode(member)):
                        os.fchmod(fd, mode)
            os.replace(fresh, place.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)


@contextlib.contextmanager
def _folder(into: int, parts: list[str], name: str) -> Iterator[int]:
    """A folder below an open one, made where it is not there; it is never one behind a link."""
    fd = os.dup(into)
    try:
        for part in filter(None, parts):
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=fd)
            try:
                deeper = os.open(part, _FOLDER, dir_fd=fd)
            except NotADirectoryError as error:
                raise CommandExecutionError(
                    f"{name!r} would be written through a link or a file, which may leave the folder."
                ) from error
            os.close(fd)
            fd = deeper
        yield fd
    finally:
        os.close(fd)


def _close_folders(members: list[ZipInfo], into: int) -> None:
    """Give folders their permissions, when nothing has to be written into them any more."""
    for member in reversed(members):
        if member.is_dir() and (mode := _mode(member)):
            with _folder(into, member.filename.split("/"), member.filename) as fd:
                os.fchmod(fd, mode)


def _mode(member: ZipInfo) -> int:
    return (member.external_attr >> 16) & 0o777


@contextlib.contextmanager
def _as_user(name: str | None) -> Iterator[None]:
    """Act with the rights of a user, and with those of the minion afterwards."""
    if not name:
        yield
        return
    try:
        entry = pwd.getpwnam(str(name))
    except KeyError as error:
        raise SaltInvocationError(f"User '{name}' does not exist") from error
    if entry.pw_uid == os.geteuid():
        yield
        return
    if os.geteuid() != 0:
        raise CommandExecutionError(f"runas={name} needs a minion that runs as root; this one does not.")
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    try:
        os.initgroups(entry.pw_name, entry.pw_gid)
        os.setegid(entry.pw_gid)
        os.seteuid(entry.pw_uid)
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)
        os.setgroups(groups)
