"""The process of the command `saltlite`: it begins without the module site, and ends without taking itself apart.

A module is imported in two ways that an ordinary process does not have: `OwnBytecode` before, and `FullPath` after the
finders of Python.

`saltlite.sh` starts the interpreter with -S and knows one folder of packages. Site adds the others, runs what is in
their `.pth` files, and takes as long as a whole job. `FullPath` runs it as soon as anything is imported that is neither
in the standard library nor in that folder, so that no import fails which would succeed in an ordinary process. Commands
that load plug-ins call `complete_path` first, because plug-ins are looked for in every folder.
"""

from __future__ import annotations

import gc
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec  # what importlib.machinery names, without the time to import that
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import NoReturn

_OWN = "saltlite."
_HEADER_BYTES = 16
"""Of bytecode: the version, flags, and the time and size of the source (PEP 552)."""
_BYTECODE_MAX = 64 * 1024
"""Bytes of a file that is read at once; Python reads larger ones."""

COLLECT_AFTER = 50_000
"""New containers until Python looks for cycles. With its default of 700 that takes a tenth of a short command."""

_NEED_AN_ORDINARY_END = ("atexit", "logging", "multiprocessing", "threading")
"""Modules that may have something left to do when the interpreter ends."""


class OwnBytecode:
    """The first finder of modules: it reads the bytecode of saltlite's own, by Python's rule and with less work.

    Bytecode counts if it is for this interpreter, and its source has the time and the size that it names. Everything
    else is left to the finders of Python: no bytecode, another kind of it, anything that is not the source of saltlite.
    """

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module with its code, or None."""
        if path is None or not name.startswith(_OWN):
            return None
        base = f"{path[0]}/{name.rpartition('.')[2]}"
        try:
            return _spec(name, f"{base}.py") or _spec(name, f"{base}/__init__.py")
        except (OSError, EOFError, TypeError, ValueError):  # of the files, and of damaged bytecode
            return None


def _spec(name: str, source: str) -> ModuleSpec | None:
    """The module with that source file, None if the file does not exist. Raises ValueError for stale bytecode."""
    try:
        status = os.stat(source)
    except FileNotFoundError:
        return None
    folder, _, file = source.rpartition("/")
    cached = f"{folder}/__pycache__/{file[:-3]}.{sys.implementation.cache_tag}.pyc"
    content = _read(cached)
    numbers = (0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    if content[:_HEADER_BYTES] != MAGIC_NUMBER + b"".join(number.to_bytes(4, "little") for number in numbers):
        raise ValueError(cached)
    loader = _LoadedSource(name, source)
    loader.code = marshal.loads(memoryview(content)[_HEADER_BYTES:])  # noqa: S302 - Python itself would load it
    is_package = file == "__init__.py"
    spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
    spec.has_location, spec.cached = True, cached
    if is_package:
        spec.submodule_search_locations = [folder]
    return spec


class _LoadedSource(SourceFileLoader):
    """The loader of a source file whose code is there already."""

    code: CodeType | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        """The code, for the first import; read again after that."""
        code, self.code = self.code, None
        return code or super().get_code(fullname)


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, _BYTECODE_MAX)
    finally:
        os.close(descriptor)
    if len(content) == _BYTECODE_MAX:
        raise ValueError(path)
    return content


class FullPath:
    """The last finder of modules: what no other has found is looked for again when site has run."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module among the folders that site adds, or None."""
        complete_path()
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, path, target) if path is None else None


def complete_path() -> None:
    """Run site, once, in a process that was started by `saltlite.sh`; elsewhere it has run.

    The folder of packages of somebody else who could write there is left alone, even if HOME points to it.
    """
    if FullPath not in sys.meta_path:
        return
    sys.meta_path.remove(FullPath)
    import site

    if not _is_ours(site.getusersitepackages()):
        site.ENABLE_USER_SITE = False
    site.main()


def _is_ours(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid in (0, os.geteuid())
    except OSError:
        return False


def main() -> NoReturn:
    """Run the command line of this process, and end it with the exit code."""
    gc.set_threshold(COLLECT_AFTER)
    if not sys.flags.optimize and sys.pycache_prefix is None:
        sys.meta_path.insert(0, OwnBytecode)
    if sys.flags.no_site and "site" not in sys.modules:
        sys.meta_path.append(FullPath)
    from saltlite.cli.main import main as run

    code = run()
    if not any(name in sys.modules for name in _NEED_AN_ORDINARY_END):
        _end(code)
    sys.exit(code)


def _end(code: int) -> None:
    """End the process at once, which spares it the freeing of every object. Return when the output has a problem."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
