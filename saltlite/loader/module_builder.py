"""Builds a module object for one loader: compiles its text, sets the dunder names and runs its body.

The names are set before the body runs, so that module-level code may read `__grains__`, and again after it, because
files written for Salt have placeholders such as `__grains__ = {}`. By Salt's contract, a module-level `__opts__` is
merged over the minion's options instead.

A module object belongs to one loader: two loaders in one process share no state, except for machine code (see
`saltlite.loader.formats`). `sys.modules` has it under a private name, where relative imports, dataclasses and pickle
look; a second loader replaces the entry. Submodules of a package are found through the package's loader, and no folder
or archive is added to `sys.path`.

Each plug-in file has its own builtins with an `__import__` that also serves
- `from saltlite.interfaces.pkg import …` (`salt.interfaces.pkg_module` in Salt's RFC), from plug-in files before the
  shipped ones;
- the submodules of a zip module by the archive's name, as in `from lumberjack import sleep`.
Libraries do not see these names. Imports inside functions do. `saltlite.loader.salt_names` serves Salt's own names.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from saltlite.loader.formats import compiled_path, load_extension, read_all
from saltlite.loader.index import Index, ModuleFile
from saltlite.loader.salt_names import is_salt_name, serve_salt_names, undo_replacements, why_absent
from saltlite.loader.search_path import SHIPPED, Form, salt_is_installed
from saltlite.model.dataclass import dataclass

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # The import system asks for methods, not for these classes, which load pathlib and urllib, 0.6 MiB.
    Loader = MetaPathFinder = object

Interfaces = Callable[[str], ModuleType | None]
"""File name -> plug-in module of the type `interfaces`."""

_INTERFACES = ("saltlite.interfaces.", "salt.interfaces.")


def _no_interfaces(_stem: str) -> None:
    """For loaders without plug-ins of that type."""


def plugin_builtins(
    own_name: str = "", module_name: str = "", interfaces: Interfaces = _no_interfaces
) -> dict[str, Any]:
    """Builtins for a plug-in file, which its own imports call `own_name` and `sys.modules` calls `module_name`."""

    def plugin_import(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the signature of __import__
        locals: Mapping[str, object] | None = None,  # noqa: A002 - as above
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and own_name and (name == own_name or name.startswith(f"{own_name}.")):
            inside = module_name + name[len(own_name) :]
            leaf = builtins.__import__(inside, globals, locals, fromlist or ("__name__",))
            return leaf if fromlist else builtins.__import__(module_name, globals, locals, ("__name__",))
        if level == 0 and fromlist and name.startswith(_INTERFACES):
            found = _interface(name.rpartition(".")[2], interfaces)
            if found is not None:
                return found
        if level == 0 and is_salt_name(name):
            return _salt(name, globals, locals, fromlist or ())
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return {**vars(builtins), "__import__": plugin_import}


def _enter_salt() -> None:
    if "salt" not in sys.modules:
        from saltlite.loader.salt_compat import enter_salt  # noqa: PLC0415 - most minions have no Salt

        enter_salt()


def _salt(
    name: str,
    globals: Mapping[str, object] | None,  # noqa: A002 - the signature of __import__
    locals: Mapping[str, object] | None,  # noqa: A002 - as above
    fromlist: Sequence[str],
) -> ModuleType:
    """What `import name` or `from name import …` binds. Raises ImportError with the reason for what is absent."""
    if salt_is_installed():
        _enter_salt()
        return builtins.__import__(name, globals, locals, fromlist)
    found = builtins.__import__(name, globals, locals, fromlist)
    for wanted in fromlist:
        if wanted != "*" and not hasattr(found, wanted):
            raise ImportError(why_absent(f"{name}.{wanted}"), name=f"{name}.{wanted}")
    return found


def _interface(last: str, interfaces: Interfaces) -> ModuleType | None:
    """The plug-in file of `saltlite.interfaces.<last>`; the RFC appends `_module` to the virtual name."""
    return interfaces(last) or (interfaces(last.removesuffix("_module")) if last.endswith("_module") else None)


_compiled_ahead: dict[str, tuple[bytes, CodeType]] = {}
"""Path -> text and code, for processes that are forked from this one. The text decides whether the code is used: a file
may change more often than its modification time."""
_builtins_ahead: dict[str, tuple[Interfaces, dict[str, Any]]] = {}
"""Name -> builtins of the one module of that name that is built next, and what they were made with."""

READ_BYTES = 64 * 1024

PREFIX = "saltlite.loaded."
"""Prefix of the names of all modules that a loader builds."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The text of one Python file. `path` appears in tracebacks; `package` marks an `__init__.py`."""

    path: str
    package: bool
    compiled: Callable[[], CodeType]
    text: Callable[[], bytes]


class ModuleSource(Protocol):
    """The files of one module."""

    def find(self, name: str) -> SourceFile | None:
        """The file of a dotted submodule name, "" for the module itself."""
        ...


class SubmoduleLoader(Loader):
    """Loads the submodules of one module; `fill` adds the dunder names and builtins to each namespace."""

    def __init__(self, root: str, source: ModuleSource, fill: Callable[[dict[str, Any]], None]) -> None:
        self.root = root
        self.modules: dict[str, ModuleType] = {}
        """The module and its loaded submodules, by their names in `sys.modules`."""
        self._source = source
        self._fill = fill
        self._provided: dict[str, Any] = {}

    def provide(self, dunder: str, value: Any) -> None:
        """Set a dunder name in all submodules, including those loaded later."""
        self._provided[dunder] = value
        for module in self.modules.values():
            module.__dict__[dunder] = value

    def spec(self, fullname: str) -> ModuleSpec | None:
        """The specification of the module or a submodule, or None."""
        part = self._part(fullname)
        if part is None:
            return None
        spec = ModuleSpec(fullname, self, origin=part.path, is_package=part.package)
        spec.has_location = True
        if part.package:
            folder = os.path.dirname(part.path)
            spec.submodule_search_locations = [folder] if os.path.isdir(folder) else []
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module = ModuleType(spec.name)
        self._fill(module.__dict__)
        module.__dict__.update(self._provided)
        self.modules[spec.name] = module
        return module

    def exec_module(self, module: ModuleType) -> None:
        part = self._part(module.__name__)
        if part is None:
            raise ModuleNotFoundError(f"No module named {module.__name__!r}", name=module.__name__)
        try:
            _run(part, module)
        except BaseException:
            del self.modules[module.__name__]
            raise
        self._fill(module.__dict__)  # over the placeholders of files that were written for Salt
        module.__dict__.update(self._provided)

    def get_source(self, fullname: str) -> str | None:
        """The text for tracebacks, which cannot read a line inside an archive by its path."""
        part = self._part(fullname)
        return None if part is None else part.text().decode(errors="replace")

    def _part(self, fullname: str) -> SourceFile | None:
        return self._source.find(fullname[len(self.root) + 1 :])


class SubmoduleFinder(MetaPathFinder):
    """Finds submodules through the loader of their package, for names below PREFIX only."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PREFIX):
            return None
        above = sys.modules.get(fullname.rpartition(".")[0])
        loader = getattr(above, "__loader__", None)
        return loader.spec(fullname) if isinstance(loader, SubmoduleLoader) else None


_FINDER = SubmoduleFinder()


class FileSource:
    """A module that is one file."""

    def __init__(self, path: str, compiled: Callable[[], CodeType] | None = None) -> None:
        self._file = SourceFile(path, False, compiled or partial(_compile_file, path), partial(_read, path))

    def find(self, name: str) -> SourceFile | None:
        return None if name else self._file


class FolderSource:
    """A package in a folder; `compiled` returns the code of one file."""

    def __init__(self, folder: str, compiled: Callable[[str], CodeType] | None = None) -> None:
        self._folder = folder
        self._compiled = compiled or _compile_file

    def find(self, name: str) -> SourceFile | None:
        inside = os.path.join(self._folder, *name.split(".")) if name else self._folder
        for path, package in ((os.path.join(inside, "__init__.py"), True), (f"{inside}.py", False)):
            if os.path.isfile(path) and (name or package):
                return SourceFile(path, package, partial(self._compiled, path), partial(_read, path))
        return None


class ArchiveSource:
    """A package read from an archive: path below the package -> text. `folder` is for tracebacks."""

    def __init__(self, folder: str, texts: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._texts = texts

    def find(self, name: str) -> SourceFile | None:
        inside = name.replace(".", "/")
        for relative, package in ((f"{inside}/__init__.py".lstrip("/"), True), (f"{inside}.py", False)):
            text = self._texts.get(relative)
            if text is not None:
                path = os.path.join(self._folder, relative)
                return SourceFile(path, package, partial(_compile, text, path), partial(bytes, text))
        return None


def load_source(name: str, source: ModuleSource, fill: Callable[[dict[str, Any]], None]) -> ModuleType:
    """A fresh module `name` whose body has run; in `sys.modules` it replaces an older one and its submodules.

    Raises whatever the body raises, SyntaxError, and OSError when the file is gone; `sys.modules` is restored then.
    """
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    loader = SubmoduleLoader(name, source, fill)
    main, spec = source.find(""), loader.spec(name)
    if main is None or spec is None:
        raise FileNotFoundError(f"the files of {name} are gone")
    # Submodules exist only beside their module. Checking every name would also touch the reference counts of all of
    # them, in memory that a job's process shares with the minion.
    before = [other for other in sys.modules if _belongs(other, name)] if name in sys.modules else []
    known = {other: sys.modules.pop(other) for other in before}
    module = ModuleType(name)
    fill(module.__dict__)
    space = module.__dict__
    space.update(__spec__=spec, __loader__=loader, __package__=spec.parent, __file__=spec.origin)
    if spec.submodule_search_locations is not None:
        space["__path__"] = spec.submodule_search_locations
    sys.modules[name] = loader.modules[name] = module
    try:
        _run(main, module)
    except BaseException:
        for other in [other for other in sys.modules if _belongs(other, name)]:
            del sys.modules[other]
        sys.modules.update(known)
        raise
    return module


def _run(part: SourceFile, module: ModuleType) -> None:
    exec(part.compiled(), module.__dict__)  # noqa: S102 - running module files is what the loader is for


def _compile_file(path: str) -> CodeType:
    text = _read(path)
    known = _compiled_ahead.get(path)
    return known[1] if known is not None and known[0] == text else _compile(text, path)


def _compile(text: bytes, path: str) -> CodeType:
    code: CodeType = compile(text, path, "exec", dont_inherit=True)
    return code


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # `open` asks the kernel six times more
    try:
        return b"".join(iter(partial(os.read, fd, READ_BYTES), b""))
    finally:
        os.close(fd)


def _belongs(other: str, name: str) -> bool:
    return other == name or other.startswith(f"{name}.")


_SALT_LEVELS = {"garbage": 1, "trace": 5, "profile": 15}
"""Logger methods that modules expect, with their levels; `logging` has these in capitals. Contract: Salt's logging."""


def _name_of(file: ModuleFile, kind: str) -> str:
    """The name of a module in `sys.modules`."""
    return f"{PREFIX}{file.layer}.{kind.replace('/', '.')}.{file.stem}"


def build_module(file: ModuleFile, kind: str, names: Mapping[str, Any], interfaces: Interfaces) -> ModuleType:
    """A fresh module object with the dunder `names` set, in which the body of `file` has run.

    `interfaces` finds the plug-in files that it may import from `saltlite.interfaces`. Raises whatever the body raises
    (SystemExit included), SyntaxError, ImportError, and OSError when the file is gone.
    """
    name = _name_of(file, kind)
    given = dict(names)
    if file.layer != SHIPPED:
        # Shipped files need no such names, and copying the builtins would unshare the memory of each object.
        own_name = file.stem if file.form is Form.ZIP else ""
        ahead = _builtins_ahead.pop(name, None)
        is_current = ahead is not None and ahead[0] == interfaces
        given["__builtins__"] = ahead[1] if ahead and is_current else plugin_builtins(own_name, name, interfaces)

    def fill(space: dict[str, Any]) -> None:
        space.update(given)

    _teach_levels()
    if file.layer == SHIPPED:
        return _built(name, file, names, fill)
    serve_salt_names()
    try:
        return _built(name, file, names, fill)
    finally:
        undo_replacements(file.path)


def _built(name: str, file: ModuleFile, names: Mapping[str, Any], fill: Callable[[dict[str, Any]], None]) -> ModuleType:
    if file.form is Form.EXTENSION:
        module = load_extension(name, file.path, fill)
    elif file.form is Form.CYTHON:
        library = compiled_path(file.path, file.stem, str(names["__opts__"].get("cachedir") or ""))
        module = load_extension(name, library, fill)
    else:
        module = load_source(name, _source_of(file), fill)
    own_opts = module.__dict__.get("__opts__")
    fill(module.__dict__)
    if isinstance(own_opts, dict) and own_opts is not names["__opts__"]:
        module.__dict__["__opts__"] = names["__opts__"].with_values(own_opts)
    return module


def _source_of(file: ModuleFile) -> ModuleSource:
    if file.form is Form.PACKAGE:
        return FolderSource(os.path.dirname(file.path), _cached_code if _is_installed(file) else None)
    if file.form is Form.ZIP:
        return ArchiveSource(os.path.join(file.path, file.stem), read_all(file.path, file.stem))
    return FileSource(file.path, partial(_cached_code, file.path) if _is_installed(file) else None)


def compile_ahead(file: ModuleFile, kind: str, interfaces: Interfaces) -> None:
    """Compile a module of one file that is not installed, copy its builtins, and prepare what such files import, so
    that processes forked from this one need not. Whatever is wrong with it is reported when it is loaded."""
    if file.form is Form.SOURCE and not _is_installed(file):
        _teach_levels()
        serve_salt_names()
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            text = _read(file.path)
            _compiled_ahead[file.path] = text, _compile(text, file.path)
        name = _name_of(file, kind)
        _builtins_ahead[name] = interfaces, plugin_builtins("", name, interfaces)


def _is_installed(file: ModuleFile) -> bool:
    return file.layer == SHIPPED or file.is_salt_file


def read_shipped(index: Index, module: str) -> None:
    """Read the compiled bodies of the shipped files for a virtual name without running them, for later forks to share.

    What was read once is not looked for again. A file that cannot be read, as during an installation, is the error of
    the job that needs it.
    """
    for file in index.all_claimants(module):
        if file.layer == SHIPPED and file.failure is None:
            with contextlib.suppress(OSError, ImportError, SyntaxError):
                for path in _texts_of(file):
                    _cached_code(path)


def _texts_of(file: ModuleFile) -> list[str]:
    if file.form is not Form.PACKAGE:
        return [file.path]
    folder = os.path.dirname(file.path)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".py")]


@functools.cache
def _cached_code(path: str) -> CodeType:
    """The compiled body of an installed file, from Python's bytecode cache; read once.

    Installed files change only with an installation, which restarts the daemons. Others could change within a second,
    which Python's cache does not notice.
    """
    code = SourceFileLoader(path, path).get_code(path)
    if code is None:
        raise ImportError(f"{path} has no code")
    return code


def _teach_levels() -> None:
    """Add Salt's levels to `logging`, and to loggers its methods, such as `log.trace(…)`, and its argument
    `exc_info_on_loglevel`: the traceback is logged if messages of that level are."""
    if hasattr(logging.Logger, "trace"):
        return
    for name, level in _SALT_LEVELS.items():
        vars(logging).setdefault(name.upper(), level)
        setattr(logging.Logger, name, _method(level))
    write: Any = logging.Logger._log

    def write_with_traceback(
        self: logging.Logger,
        *args: Any,
        exc_info_on_loglevel: int | None = None,
        stacklevel: int = 1,
        **kwargs: Any,
    ) -> None:
        if exc_info_on_loglevel is not None:
            kwargs.setdefault("exc_info", self.isEnabledFor(exc_info_on_loglevel))
        write(self, *args, stacklevel=stacklevel + 1, **kwargs)

    logging.Logger._log = write_with_traceback  # type: ignore[method-assign] # files of Salt expect it everywhere


def _method(level: int) -> Any:
    def write(self: logging.Logger, message: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            self.log(level, message, *args, **{"stacklevel": 2, **kwargs})

    return write
