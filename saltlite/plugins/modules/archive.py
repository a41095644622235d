"""Pack, unpack and list archives: tar, gzip, zip, rar.

Nothing is written outside the target folder: members with paths or links that lead out are not followed. tar still
creates links as the archive has them; ``archive.unzip`` refuses links that lead out. ``sources`` is a list, or a text
with commas; globs work.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       tar, gzip; zip and unzip for cmd_zip and cmd_unzip; rar and unrar for those
:platform:      Linux
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shlex
import shutil
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules._commands import run_needed
from saltlite.plugins.modules._safe_files import PinnedPath, pinned, refuse_strange_links

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

    from saltlite.loader.hints import __salt__


__func_alias__ = {"list_": "list", "zip_": "zip"}


# --- Arguments ---

TRIMMED_TO = 100
"""Maximum number of names with `trim_output=True`."""


def _operand(name: Any) -> str:
    """Return a file name that is safe as an argument. Raises SaltInvocationError."""
    text = os.path.expanduser(str(name))
    if not text or text.startswith("-"):
        raise SaltInvocationError(f"{text!r} would be taken for an option: give an absolute path, or begin it with ./.")
    if "\0" in text or "\n" in text:
        raise SaltInvocationError(f"{text!r} has a line break or NUL in it, which no archive can be given by.")
    return text


def _listed(names: Any) -> list[str]:
    """Return the names of a list, or of a text with commas."""
    if names is None:
        return []
    return [str(each).strip() for each in (names if isinstance(names, list | tuple) else str(names).split(","))]


def _expanded(sources: Any, cwd: str | None) -> list[str]:
    """Return the paths of the sources, with globs expanded from `cwd`; unmatched globs are skipped."""
    from glob import glob

    found: list[str] = []
    for source in _listed(sources):
        has_wildcard = any(each in source for each in "*?[")
        found += sorted(glob(source, root_dir=cwd)) if has_wildcard else [source]
    return found


def _rendered(value: Any, template: str | None) -> Any:
    """Render the text or list with grains and pillar; unchanged without a template."""
    if not template or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_rendered(each, template) for each in value]
    made = __salt__["file.apply_template_on_contents"](str(value), template, {}, {}, "base")
    if isinstance(made, dict):
        raise SaltInvocationError(str(made["comment"]))
    return made


def _trimmed(files: list[str], trim_output: bool | int) -> list[str]:
    """Return the first names and a line that says so, if the caller wants a short list."""
    count = TRIMMED_TO if trim_output is True else int(trim_output)
    if not trim_output or len(files) <= count:
        return files
    return [*files[:count], f"List trimmed after {count} files."]


# --- Listing ---

_FORMATS = {
    "tar": (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.lzma", ".tlz", ".tar.zst"),
    "zip": (".zip",),
    "rar": (".rar",),
}

Members = tuple[list[str], list[str], list[str]]
"""Folders (ending with a slash), files and links."""


def list_(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str, archive_format: str | None = None, options: str | None = None, strip_components: int | None = None,
    clean: bool = False, verbose: bool = False, saltenv: str = "base", source_hash: str | None = None,
    use_etag: bool = False,
) -> list[str] | dict[str, list[str]]:  # fmt: skip
    """Return the names in an archive, sorted; folders end with a slash.

    ``verbose`` returns ``dirs``, ``files``, ``links`` and the top-level ones of each. ``strip_components`` removes that
    many leading folders. ``clean`` removes the cached copy of a ``salt://`` archive. ``options``, ``source_hash`` and
    ``use_etag`` are refused.

    CLI Example::

        saltlite '*' archive.list /path/to/myfile.tar.gz strip_components=1
        saltlite '*' archive.list salt://foo.tar.gz verbose=True
    """
    if options:
        raise SaltInvocationError("options is not supported, because archives are read without a program.")
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
    """Return whether a zip file has encrypted members.

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
    """List with the program tar, for compressions that Python lacks, such as zstd; links count as files."""
    argv = ["tar", "--quoting-style=literal", "-tf", _operand(path)]
    done = run_needed(__salt__["cmd.run_all"], argv, ignore_retcode=True)
    if done["retcode"]:
        raise CommandExecutionError(f"{name} is not a readable tar archive: {done['stderr'].strip()[:300]}")
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
    # Archives from Windows have no entries for folders.
    dirs |= {f"{folder}/" for each in files if (folder := os.path.dirname(each))}
    return list(dirs), [each for each in files if each not in set(links)], links


def _rar(name: str, path: str) -> Members:
    done = run_needed(__salt__["cmd.run_all"], ["rar", "lt", "--", _operand(path)], ignore_retcode=True)
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
    # An archive may lack an entry for its top-level folder.
    if len(firsts) == 1 and all("/" in each for each in everything) and (first := f"{firsts.pop()}/") not in found:
        found.append(first)
    return found


# --- Programs of archives ---

_TAR_DIFFERS = 1
"""tar's exit status when a file changed while it was read, or differs from the archive."""


def tar(
    options: str, tarfile: str, sources: str | list[str] | None = None, dest: str | None = None, cwd: str | None = None,
    template: str | None = None, runas: str | None = None,
) -> list[str]:  # fmt: skip
    """Run tar with these options, and return the lines that it prints.

    ``sources`` are the files to pack or unpack, ``dest`` is the folder to unpack into. ``template=jinja`` renders the
    names. Options that unpack to absolute paths are refused. tar follows existing links in ``dest``: unpack into
    another user's folder with ``runas``.

    CLI Example::

        saltlite '*' archive.tar cjvf /tmp/tarfile.tar.bz2 /tmp/file_1,/tmp/file_2
        saltlite '*' archive.tar cjvf /tmp/tarfile.tar.bz2 '/tmp/file_*'
        saltlite '*' archive.tar xf /tmp/foo.tar dest=/target/directory
    """
    words = _words(options)
    if not words:
        raise SaltInvocationError("Tar options can not be empty")
    letters = _letters(words)
    long = [word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 4]
    absolute = "P" in letters or any("--absolute-names".startswith(word) for word in long)
    if absolute and ("x" in letters or any(each.startswith(word) for word in long for each in ("--extract", "--get"))):
        raise SaltInvocationError("Absolute names are not kept: what is unpacked stays in its folder.")
    argv = ["tar", *words, _archive(tarfile, template, cwd, runas)]
    if dest:
        argv += ["-C", _target(dest, template, cwd)]
    names = [_source(name) for name in _expanded(_rendered(sources, template), cwd)]
    return _lines([*argv, *(["--", *names] if names else [])], cwd, runas, fine=(0, _TAR_DIFFERS))


def gzip(
    sourcefile: str, template: str | None = None, runas: str | None = None, options: str | None = None
) -> list[str]:
    """Compress a file to ``.gz``, which replaces it; return the lines that gzip prints.

    CLI Example::

        saltlite '*' archive.gzip /tmp/sourcefile.txt
        saltlite '*' archive.gzip /tmp/sourcefile.txt options='-9 --verbose'
    """
    return _lines(["gzip", *_words(options), "--", _operand(_rendered(sourcefile, template))], None, runas)


def gunzip(
    gzipfile: str, template: str | None = None, runas: str | None = None, options: str | None = None
) -> list[str]:
    """Uncompress a ``.gz`` file, which is replaced; return the lines that gunzip prints.

    CLI Example::

        saltlite '*' archive.gunzip /tmp/sourcefile.txt.gz
        saltlite '*' archive.gunzip /tmp/sourcefile.txt.gz options='--verbose'
    """
    return _lines(["gunzip", *_words(options), "--", _operand(_rendered(gzipfile, template))], None, runas)


def cmd_zip(
    zip_file: str,
    sources: str | list[str],
    template: str | None = None,
    cwd: str | None = None,
    runas: str | None = None,
) -> list[str]:
    """Create a zip file with the program zip; return the lines that it prints.

    CLI Example::

        saltlite '*' archive.cmd_zip /tmp/zipfile.zip /tmp/sourcefile1,/tmp/sourcefile2
        saltlite '*' archive.cmd_zip /tmp/baz.zip baz.txt cwd=/foo/bar
    """
    names = [_operand(name) for name in _expanded(_rendered(sources, template), cwd)]
    return _lines(["zip", "-r", _archive(zip_file, template, cwd, runas), "--", *names], cwd, runas)


def cmd_unzip(  # noqa: PLR0913, PLR0917 - Salt's arguments
    zip_file: str, dest: str, excludes: str | list[str] | None = None, options: str | None = None,
    template: str | None = None, runas: str | None = None, trim_output: bool | int = False, password: str | None = None,
) -> list[str]:  # fmt: skip
    """Unpack a zip file with the program unzip; return the lines that it prints. ``options=-o`` overwrites files.

    Passwords are refused, because the process list would show them; use ``archive.unzip``.

    CLI Example: ``saltlite '*' archive.cmd_unzip /tmp/zipfile.zip /srv/target/ excludes=file_1,file_2``
    """
    if password:
        raise SaltInvocationError("unzip would show the password to all users of this machine: use archive.unzip.")
    words = _words(options)
    if any(re.match(r"-\w*:", word) for word in words):
        raise SaltInvocationError("Paths with .. are not kept: what is unpacked stays in its folder.")
    argv = ["unzip", *words, _operand(_rendered(zip_file, template)), "-d", _target(dest, template)]
    excluded = [_operand(name) for name in _listed(excludes)]
    return _trimmed(_lines([*argv, *(["-x", *excluded] if excluded else [])], None, runas), trim_output)


def rar(
    rarfile: str,
    sources: str | list[str],
    template: str | None = None,
    cwd: str | None = None,
    runas: str | None = None,
) -> list[str]:
    """Create a rar file; return the lines that rar prints.

    CLI Example: ``saltlite '*' archive.rar /tmp/rarfile.rar /tmp/sourcefile1,/tmp/sourcefile2``
    """
    names = [_operand(name) for name in _expanded(_rendered(sources, template), cwd)]
    return _lines(["rar", "a", "-idp", "--", _archive(rarfile, template, cwd, runas), *names], cwd, runas)


def unrar(
    rarfile: str, dest: str, excludes: str | list[str] | None = None, template: str | None = None,
    runas: str | None = None, trim_output: bool | int = False,
) -> list[str]:  # fmt: skip
    """Unpack a rar file; return the lines that unrar prints.

    CLI Example: ``saltlite '*' archive.unrar /tmp/rarfile.rar /srv/target/ excludes=file_1,file_2``
    """
    program = next((name for name in ("unrar", "rar") if shutil.which(name)), None)
    if program is None:
        raise CommandNotFoundError("unrar (neither unrar nor rar is installed on this minion)")
    excluded = [f"-x{_operand(name)}" for name in _listed(excludes)]
    # The trailing slash marks a folder rather than a member's name.
    into = _target(dest, template).rstrip("/") + "/"
    argv = [program, "x", "-idp", *excluded, "--", _operand(_rendered(rarfile, template)), into]
    return _trimmed(_lines(argv, None, runas), trim_output)


def _archive(name: Any, template: str | None, cwd: str | None, runas: str | None) -> str:
    """Return the archive that a program writes; links of other users are refused."""
    path = _operand(_rendered(name, template))
    if not runas:
        refuse_strange_links(os.path.join(cwd or "", path))
    return path


def _target(dest: Any, template: str | None, cwd: str | None = None) -> str:
    """Return the folder that a program unpacks into; links of other users are refused."""
    into = _operand(_rendered(dest, template))
    refuse_strange_links(os.path.join(cwd or "", into))
    return into


def _lines(argv: list[str], cwd: str | None, runas: str | None, fine: tuple[int, ...] = (0,)) -> list[str]:
    """Return the program's output. Raises CommandExecutionError with its message if it failed."""
    done = run_needed(
        __salt__["cmd.run_all"],
        argv,
        cwd=cwd,
        runas=runas,
        redirect_stderr=True,
        ignore_retcode=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    lines: list[str] = done["stdout"].splitlines()
    if done["retcode"] not in fine:
        answer = "; ".join(line.strip() for line in lines if line.strip())[:500]
        raise CommandExecutionError(
            f"{argv[0]} failed (return code {done['retcode']}): {answer or 'it gave no reason'}"
        )
    return lines


def _words(options: Any) -> list[str]:
    try:
        return shlex.split(str(options or ""))
    except ValueError as error:
        raise SaltInvocationError(f"The options cannot be split into words: {error}.") from error


def _source(name: str) -> str:
    if "\0" in name or "\n" in name:
        raise SaltInvocationError(f"{name!r} has a line break or NUL in it, which no source can be given by.")
    return name


def _letters(words: list[str]) -> str:
    """Short options of tar. The first word needs no hyphen; text after the letters in a word is an argument."""
    bundles = [word for place, word in enumerate(words) if place == 0 or word.startswith("-")]
    return "".join(letters for word in bundles for letters in re.findall(r"^-?([A-Za-z]+)", word))


# --- zip files by Python ---

_LINK_BYTES_MAX = 4096

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def zip_(
    zip_file: str, sources: str | list[str], template: str | None = None, cwd: str | None = None,
    runas: str | None = None, zip64: bool = False,
) -> list[str]:  # fmt: skip
    """Create a zip file; return the names in it. It replaces an old one when it is complete.

    Names are relative to ``cwd`` or else to ``/``. ``zip64`` is needed beyond 4 GiB.

    CLI Example::

        saltlite '*' archive.zip /tmp/zipfile.zip /tmp/sourcefile1,/tmp/sourcefile2
        saltlite '*' archive.zip /tmp/baz.zip baz.txt cwd=/foo/bar
    """
    import zipfile

    if cwd is not None and not os.path.isabs(str(cwd)):
        raise SaltInvocationError("cwd must be absolute")
    target = _absolute(_rendered(zip_file, template))
    names = _expanded(_rendered(sources, template), cwd)
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
    zip_file: str, dest: str, excludes: str | list[str] | None = None, options: str | None = None,
    template: str | None = None, runas: str | None = None, trim_output: bool | int = False, password: str | None = None,
    extract_perms: bool = True,
) -> list[str]:  # fmt: skip
    """Unpack a zip file into a folder; return the names in it.

    Nothing is unpacked if a member or a link would leave the folder. Files keep their permissions except set-user-id,
    unless ``extract_perms=False``. ``options`` is refused; ``archive.cmd_unzip`` takes them.

    CLI Example::

        saltlite '*' archive.unzip /tmp/zipfile.zip /srv/target/ excludes=file_1,file_2
        saltlite '*' archive.unzip /tmp/zipfile.zip /srv/target/ password=BadPassword
    """
    import zipfile

    if options:
        raise SaltInvocationError("options are those of the program unzip: use archive.cmd_unzip.")
    source, into = _absolute(_rendered(zip_file, template)), _absolute(_rendered(dest, template))
    excluded = set(_listed(excludes))
    secret = None if password is None else str(password).encode()
    with _as_user(runas):
        try:
            with zipfile.ZipFile(source) as archive:
                members = [member for member in archive.infolist() if member.filename not in excluded]
                for member in members:
                    _refuse_leaving(archive, member, secret)
                _unpack_all(archive, members, into, secret, keep_mode=extract_perms)
        except (zipfile.BadZipFile, EOFError) as error:
            raise CommandExecutionError(f"{source} is not a ZIP file, or is damaged: {error}") from error
        except (RuntimeError, NotImplementedError) as error:  # wrong password, or unknown compression
            raise CommandExecutionError(f"{source} cannot be unpacked: {error}") from error
        except OSError as error:
            raise _failed("unpacked", error) from error
    return _trimmed([member.filename for member in members], trim_output)


def _absolute(name: Any) -> str:
    path = os.path.expanduser(str(name))
    if not os.path.isabs(path) or "\0" in path:
        raise SaltInvocationError(f"{path!r} is not an absolute path.")
    return path


def _failed(verb: str, error: OSError) -> CommandExecutionError:
    where = f": {error.filename}" if error.filename else ""
    return CommandExecutionError(f"The archive cannot be {verb}: {error.strerror or error}{where}")


def _pack(place: PinnedPath, target: str, names: list[str], root: str, *, zip64: bool) -> list[str]:
    """Write a temporary zip file and rename it; return its names, relative to `root`."""
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
                    if name != "./":  # the base folder has no entry
                        packed.append(name)
                        archive.write(each, name)
        os.replace(fresh, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=place.folder)
    return packed


def _tree(path: str, *, leave_out: str) -> Iterator[str]:
    """Walk a file or a folder tree; links to folders are not entered."""
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
                raise CommandExecutionError(f"{each} is not a file, and cannot be packed.")
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
    # `..` is allowed only at the start: after a name it could go up from the target of another link.
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
    """Extract a member into an open folder."""
    parts = member.filename.rstrip("/").split("/")
    if member.is_dir():
        with _folder(into, parts, member.filename):
            return
    with _folder(into, parts[:-1], member.filename) as folder:
        place, fresh = PinnedPath(folder, parts[-1]), f".saltlite-{os.urandom(8).hex()}"
        there = place.status()
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise CommandExecutionError(f"There is a folder in the place of the file {member.filename!r}.")
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
    """Open a folder below an open one, creating it if needed; links are not followed."""
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
    """Set the permissions of folders after everything is written."""
    for member in reversed(members):
        if member.is_dir() and (mode := _mode(member)):
            with _folder(into, member.filename.split("/"), member.filename) as fd:
                os.fchmod(fd, mode)


def _mode(member: ZipInfo) -> int:
    return (member.external_attr >> 16) & 0o777


@contextlib.contextmanager
def _as_user(name: str | None) -> Iterator[None]:
    """Act with a user's rights, then restore the minion's."""
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
