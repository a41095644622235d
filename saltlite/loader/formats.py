"""Module files that are not plain Python: zip archives, `.so` files, and `.pyx` files that Cython compiles.

`m.zip` holds one folder `m/` with an `__init__.py` and its submodules. The archive is checked before it is read, and
read completely before any code of it runs; nothing is unpacked to disk.

Compiled modules are kept in `<cachedir>/cython`, a private folder, under a name made of the text and of everything that
affects the code: a module is compiled once, and never runs from an older text. A process can create such a module only
once; a second loader gets the same object with its own names set.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

from saltlite.model.sha256 import sha256

if TYPE_CHECKING:
    import zipfile

ARCHIVE_BYTES_MAX = 64 * 1024 * 1024
"""A larger file is refused."""

MEMBERS_MAX = 10_000
"""Files and folders in one archive."""

TEXT_BYTES_MAX = 32 * 1024 * 1024
"""Unpacked size of all Python files of one archive."""

_ENCRYPTED = 0x1
_CHUNK = 64 * 1024


class ArchiveError(ImportError):
    """The archive cannot be used as a module; the text is a sentence."""


def read_main(path: str, stem: str) -> bytes:
    """The text of `stem/__init__.py`. Raises ArchiveError and OSError."""
    with _opened(path) as archive:
        wanted = f"{stem}/__init__.py"
        for member in _python_files(archive, stem):
            if member.filename == wanted:
                return _text(archive, member, TEXT_BYTES_MAX)
    raise ArchiveError(f"the archive holds no {wanted}: a zip module is one folder with its own name")


def read_all(path: str, stem: str) -> dict[str, bytes]:
    """Every Python file of the module: path below `stem/` -> text. Raises ArchiveError and OSError."""
    texts: dict[str, bytes] = {}
    left = TEXT_BYTES_MAX
    with _opened(path) as archive:
        for member in _python_files(archive, stem):
            text = _text(archive, member, left)
            left -= len(text)
            texts[member.filename[len(stem) + 1 :]] = text
    return texts


@contextlib.contextmanager
def _opened(path: str) -> Iterator[zipfile.ZipFile]:
    import zipfile  # noqa: PLC0415 - most minions have no archives, and it costs each of them a MiB
    import zlib  # noqa: PLC0415 - as above

    try:
        with open(path, "rb") as stream:
            if stream.seek(0, 2) > ARCHIVE_BYTES_MAX:
                raise ArchiveError(f"the archive is larger than {ARCHIVE_BYTES_MAX} bytes")
            with zipfile.ZipFile(stream) as archive:
                yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ArchiveError(f"the archive cannot be read: {error}") from error


def _python_files(archive: zipfile.ZipFile, stem: str) -> list[zipfile.ZipInfo]:
    """The Python files, after all members were checked."""
    members = archive.infolist()
    if len(members) > MEMBERS_MAX:
        raise ArchiveError(f"the archive has {len(members)} members, a module may have {MEMBERS_MAX}")
    seen: set[str] = set()
    for member in members:
        # orig_filename: zipfile cuts a name at its first null byte.
        if _leaves(member.orig_filename):
            raise ArchiveError(f"the archive is unsafe: member {member.orig_filename!r} would leave its folder")
        if member.filename in seen:
            raise ArchiveError(f"the archive is unsafe: it holds {member.filename!r} twice")
        seen.add(member.filename)
    found = [one for one in members if one.filename.startswith(f"{stem}/") and one.filename.endswith(".py")]
    for member in found:
        if member.flag_bits & _ENCRYPTED:
            raise ArchiveError(f"the archive is encrypted: member {member.filename!r}")
    if sum(member.file_size for member in found) > TEXT_BYTES_MAX:
        raise ArchiveError(_too_large())
    return found


def _leaves(name: str) -> bool:
    return name.startswith("/") or "\\" in name or "\0" in name or ":" in name or ".." in name.split("/")


def _text(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> bytes:
    """The unpacked bytes, which are counted because the announced size may be wrong."""
    text = bytearray()
    with archive.open(member) as stream:
        while chunk := stream.read(_CHUNK):
            text += chunk
            if len(text) > limit:
                raise ArchiveError(_too_large())
    return bytes(text)


def _too_large() -> str:
    return f"the Python files of the archive are larger than {TEXT_BYTES_MAX} bytes"


COMPILE_SECONDS = 120.0
"""Time limit for Cython, and for the compiler, for one module."""

_OUTPUT_MAX = 400
"""Characters of compiler output in an error."""

# Runs in a separate Python. Names unknown to Cython are the dunder names, which are looked up when they are used.
_CYTHON = """
import sys
from Cython.Compiler import Options
Options.error_on_unknown_names = False
from Cython.Compiler.Main import CompilationOptions, compile_single, default_options
options = CompilationOptions(default_options, output_file=sys.argv[2], language_level="3str")
result = compile_single(sys.argv[1], options=options, full_module_name=sys.argv[3])
sys.exit(1 if result.num_errors else 0)
"""

_made: dict[str, ModuleType] = {}


class CompileError(ImportError):
    """A `.pyx` file could not be compiled; the text is a sentence."""


class FaultyTextError(CompileError):
    """Cython or the compiler refused the text of the file, and will again until it changes."""


@functools.cache
def cython_is_installed() -> bool:
    """Whether `.pyx` files can be compiled here."""
    return importlib.util.find_spec("Cython") is not None


def load_extension(name: str, path: str, fill: Callable[[dict[str, Any]], None]) -> ModuleType:
    """The module `name` from the shared library at `path`. Raises ImportError and whatever its body raises."""
    known = _made.get(path)
    if known is not None:
        fill(known.__dict__)
        sys.modules[name] = known
        return known
    loader = ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is no Python extension")
    module = importlib.util.module_from_spec(spec)
    fill(module.__dict__)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    _made[path] = module
    return module


def compiled_path(path: str, stem: str, cachedir: str) -> str:
    """The shared library of the `.pyx` file at `path`, compiled if it is not there. Raises CompileError, OSError."""
    with open(path, "rb") as stream:
        text = stream.read()
    folder = _private_folder(cachedir)
    suffix = EXTENSION_SUFFIXES[0]
    library = os.path.join(folder, f"{stem}-{_digest(text)}{suffix}")
    if not os.path.exists(library):
        _compile_once(text, stem, folder, library)
    return library


def _compile_once(text: bytes, stem: str, folder: str, library: str) -> None:
    """Compile it, unless this text failed before: then raise the same error at once."""
    note = f"{library}.failed"
    with contextlib.suppress(FileNotFoundError), open(note, encoding="utf-8") as stream:
        raise CompileError(stream.read())
    try:
        _compile(text, stem, folder, library)
    except FaultyTextError as error:
        with open(note, "w", encoding="utf-8") as stream:
            stream.write(str(error))
        raise


def _digest(text: bytes) -> str:
    import sysconfig  # noqa: PLC0415 - few minions compile modules

    decides = f"{sys.version}\0{sysconfig.get_platform()}\0".encode()
    return sha256(decides + text).hex()[:32]


def _private_folder(cachedir: str) -> str:
    if not cachedir:
        raise CompileError("Cython modules need the option cachedir, for what is compiled")
    folder = os.path.join(cachedir, "cython")
    os.makedirs(cachedir, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise CompileError(f"{folder} must be a folder of this user that no one else may enter (mode 0700)")
    return folder


def _compile(text: bytes, stem: str, folder: str, library: str) -> None:
    import shutil  # noqa: PLC0415 - as above
    import sysconfig  # noqa: PLC0415 - as above
    import tempfile  # noqa: PLC0415 - as above

    if not cython_is_installed():
        raise CompileError("Cython is not installed here")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise CompileError("there is no C compiler here (cc, gcc or clang)")
    with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as build:
        source, c_file, result = (os.path.join(build, name) for name in (f"{stem}.pyx", f"{stem}.c", f"{stem}.so"))
        with open(source, "wb") as stream:
            stream.write(text)
        _run([sys.executable, "-c", _CYTHON, source, c_file, stem], "Cython", build)
        include = sysconfig.get_paths()["include"]
        _run([compiler, "-O1", "-fPIC", "-shared", "-w", f"-I{include}", c_file, "-o", result], compiler, build)
        os.chmod(result, 0o700)
        os.rename(result, library)


def _run(command: list[str], name: str, folder: str) -> None:
    import subprocess  # noqa: PLC0415 - as above

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
            env=environment,
            timeout=COMPILE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"{name} did not end within {COMPILE_SECONDS:g} s") from error
    if done.returncode:
        output = " ".join(done.stderr.decode(errors="replace").replace(folder + os.sep, "").split())
        raise FaultyTextError(f"{name} failed: {output[-_OUTPUT_MAX:]}")
