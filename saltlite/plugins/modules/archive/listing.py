"""What is in an archive."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from saltlite.errors import CommandExecutionError, SaltInvocationError

from ._words import operand

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_FORMATS = {
    "tar": (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.lzma", ".tlz", ".tar.zst"),
    "zip": (".zip",),
    "rar": (".rar",),
}

Members = tuple[list[str], list[str], list[str]]
"""Folders, which end with a slash, files and links."""


def list_(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str,
    archive_format: str | None = None,
    options: str | None = None,
    strip_components: int | None = None,
    clean: bool = False,
    verbose: bool = False,
    saltenv: str = "base",
    source_hash: str | None = None,
    use_etag: bool = False,
) -> list[str] | dict[str, list[str]]:
    """
    The names of what is in an archive: sorted, folders with a slash at the end.

    ``verbose`` gives ``dirs``, ``files``, ``links`` and those of them that are at the top. ``strip_components`` leaves
    out so many folders at the start of each name. ``clean`` removes the copy that was fetched of a ``salt://`` archive.
    ``options`` for a program, and ``source_hash`` and ``use_etag`` for archives from the web, are refused.

    CLI Example::

        saltlite '*' archive.list /path/to/myfile.tar.gz strip_components=1
        saltlite '*' archive.list salt://foo.tar.gz verbose=True
    """
    if options:
        raise SaltInvocationError("There are no options: archives are read without a program here.")
    _refuse_web(source_hash, use_etag=use_etag)
    kind = archive_format or _guessed(name)
    readers = {"tar": _tar, "zip": _zip, "rar": _rar}
    if kind not in readers:
        raise CommandExecutionError(f"Unsupported archive format '{kind}': there are {', '.join(readers)}.")
    if strip_components is not None and (not isinstance(strip_components, int) or strip_components < 1):
        raise CommandExecutionError("'strip_components' must be a positive integer")
    with _fetched(name, saltenv, clean=clean) as path:
        found = readers[kind](name, path)
    dirs, files, links = (sorted(_stripped(names, strip_components or 0)) for names in found)
    if not verbose:
        return sorted(dirs + files + links)
    return {
        "dirs": dirs,
        "files": files,
        "links": links,
        "top_level_dirs": _top_folders(dirs, dirs + files + links),
        "top_level_files": [each for each in files if "/" not in each],
        "top_level_links": [each for each in links if "/" not in each],
    }


def is_encrypted(
    name: str, clean: bool = False, saltenv: str = "base", source_hash: str | None = None, use_etag: bool = False
) -> bool:
    """
    Whether a zip file has members that need a password.

    CLI Example::

        saltlite '*' archive.is_encrypted /path/to/myfile.zip
        saltlite '*' archive.is_encrypted salt://foo.zip
    """
    import zipfile

    _refuse_web(source_hash, use_etag=use_etag)
    with _fetched(name, saltenv, clean=clean) as path:
        try:
            with zipfile.ZipFile(path) as archive:
                return any(member.flag_bits & 1 for member in archive.infolist())
        except zipfile.BadZipFile as error:
            raise CommandExecutionError(f"{name} is not a ZIP file") from error


def _refuse_web(source_hash: str | None, *, use_etag: bool) -> None:
    if source_hash or use_etag:
        raise SaltInvocationError("source_hash and use_etag are for archives from the web, which are not fetched here.")


@contextlib.contextmanager
def _fetched(name: str, saltenv: str, *, clean: bool) -> Iterator[str]:
    place = os.path.expanduser(str(name))
    path = __salt__["cp.cache_file"](place.removeprefix("file://"), saltenv)
    if not path:
        raise CommandExecutionError(f"Failed to cache {name}: there is no such file.")
    try:
        yield path
    except OSError as error:
        raise CommandExecutionError(f"{name} cannot be read: {error.strerror or error}.") from error
    if clean and place.startswith("salt://"):
        os.unlink(path)


def _guessed(name: str) -> str:
    found = [kind for kind, endings in _FORMATS.items() if str(name).partition("?")[0].lower().endswith(endings)]
    if not found:
        raise CommandExecutionError("Unable to guess archive format, please pass an 'archive_format' argument.")
    return found[0]


def _tar(name: str, path: str) -> Members:
    import tarfile

    try:
        with tarfile.open(path) as archive:
            members = archive.getmembers()
    except tarfile.ReadError:
        return _tar_by_program(name, path)
    except (tarfile.TarError, EOFError) as error:
        raise CommandExecutionError(f"{name} is damaged: {error}") from error
    links = [member.name for member in members if member.issym()]
    dirs = [f"{member.name}/" for member in members if member.isdir()]
    return dirs, [member.name for member in members if not member.issym() and not member.isdir()], links


def _tar_by_program(name: str, path: str) -> Members:
    """For compressions that Python does not know, such as zstd; links are among the files."""
    argv = ["tar", "--quoting-style=literal", "-tf", operand(path)]
    done = __salt__["cmd.run_all"](argv, python_shell=False, ignore_retcode=True)
    if done["retcode"]:
        raise CommandExecutionError(f"{name} is no tar archive that can be read here: {done['stderr'].strip()[:300]}")
    names = done["stdout"].splitlines()
    return [each for each in names if each.endswith("/")], [each for each in names if not each.endswith("/")], []


def _zip(name: str, path: str) -> Members:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except zipfile.BadZipFile as error:
        raise CommandExecutionError(f"{name} is not a ZIP file") from error
    links = [member.filename for member in members if stat.S_ISLNK(member.external_attr >> 16)]
    dirs = {member.filename for member in members if member.is_dir()}
    files = [member.filename for member in members if not member.is_dir()]
    # Those that were made on Windows have no entries of folders.
    dirs |= {f"{folder}/" for each in files if (folder := os.path.dirname(each))}
    return list(dirs), [each for each in files if each not in set(links)], links


def _rar(name: str, path: str) -> Members:
    done = __salt__["cmd.run_all"](["rar", "lt", "--", operand(path)], python_shell=False, ignore_retcode=True)
    found: tuple[list[str], list[str]] = [], []
    last = ""
    for line in done["stdout"].splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "Name":
            last = value
        elif key == "Type":
            found[value != "Directory"].append(f"{last}/" if value == "Directory" else last)
    if done["retcode"] or not any(found):
        raise CommandExecutionError(f"Failed to list {name}, is it a rar file?")
    return *found, []


def _stripped(names: list[str], count: int) -> list[str]:
    if not count:
        return names
    parts = (name.split("/", count) for name in names)
    return [each[count] for each in parts if len(each) > count and each[count]]


def _top_folders(dirs: list[str], everything: list[str]) -> list[str]:
    found = [each for each in dirs if each.count("/") == 1]
    firsts = {each.partition("/")[0] for each in everything}
    # An archive may have no entry of the folder that everything in it is in.
    if len(firsts) == 1 and all("/" in each for each in everything) and (first := f"{firsts.pop()}/") not in found:
        found.append(first)
    return found
