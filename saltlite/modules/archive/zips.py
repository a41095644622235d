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

from ._words import expanded, listed, rendered, trimmed

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

_LINK_BYTES_MAX = 4096


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
    fresh = f"{target}.{os.urandom(6).hex()}"
    packed: list[str] = []
    with _as_user(runas):
        try:
            with zipfile.ZipFile(
                fresh, "x", zipfile.ZIP_DEFLATED, allowZip64=zip64, strict_timestamps=False
            ) as archive:
                for path in (os.path.join(cwd or "/", name) for name in names):
                    for each in _tree(path, leave_out=fresh):
                        name = _packed_name(each, cwd or "/")
                        if name != "./":  # the folder that everything is relative to has no entry
                            packed.append(name)
                            archive.write(each, name)
            os.replace(fresh, target)
        except zipfile.LargeZipFile as error:
            raise CommandExecutionError(f"{target} would be too large for a zip file without zip64=True.") from error
        except OSError as error:
            raise _failed("packed", error) from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
    return packed


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
                os.makedirs(into, exist_ok=True)
                for member in members:
                    _unpack(archive, member, os.path.realpath(into), secret, keep_mode=extract_perms)
                if extract_perms:
                    _close_folders(members, os.path.realpath(into))
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


def _unpack(archive: ZipFile, member: ZipInfo, into: str, secret: bytes | None, *, keep_mode: bool) -> None:
    path = os.path.join(into, member.filename.rstrip("/"))
    folder = path if member.is_dir() else os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    if os.path.realpath(folder) != os.path.normpath(folder):
        raise CommandExecutionError(f"{member.filename!r} would be written through a link, which may leave the folder.")
    if member.is_dir():
        return
    mode = _mode(member)
    if os.path.isdir(path) and not os.path.islink(path):
        raise CommandExecutionError(f"{path} is a folder, and {member.filename!r} is none.")
    fresh = os.path.join(folder, f".saltlite-{os.urandom(8).hex()}")
    try:
        if _is_link(member):
            os.symlink(_aim(archive, member, secret), fresh)
        else:
            with archive.open(member, pwd=secret) as stream, open(fresh, "xb") as target:
                shutil.copyfileobj(stream, target)
            if keep_mode and mode:
                os.chmod(fresh, mode)
        os.replace(fresh, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)


def _close_folders(members: list[ZipInfo], into: str) -> None:
    """Give folders their permissions, when nothing has to be written into them any more."""
    for member in reversed(members):
        if member.is_dir() and (mode := _mode(member)):
            os.chmod(os.path.join(into, member.filename.rstrip("/")), mode)


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
