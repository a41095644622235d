"""Building one module object for one loader, with the dunder names set.

The names are set before the body runs, so that code at module level may read `__grains__`, and once more
after it, because files written for Salt carry placeholders such as `__grains__ = {}` that must not hide the
real thing. A module-level `__opts__` dict is different: by Salt's contract it is laid over the minion's
options.

A module object belongs to exactly one loader: two loaders in one process share no state (but for machine code, see
`saltlite.loader.formats`). It is entered into `sys.modules`, under a name that no `import` finds by itself, because
relative imports, dataclasses and pickle look there; a second loader replaces the entry.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Protocol

from saltlite.loader.dunders import Injected
from saltlite.loader.formats import compiled_path, load_extension, read_all
from saltlite.loader.index import Index, ModuleFile
from saltlite.loader.salt_names import is_ours_alone, is_salt_name, salt_part
from saltlite.loader.search_path import SHIPPED, Form, salt_is_installed

Interfaces = Callable[[str], ModuleType | None]
"""The plug-in file of the type `interfaces` with that file name."""

_INTERFACES = ("saltlite.interfaces.", "salt.interfaces.")


def _no_interfaces(_stem: str) -> None:
    """For files that are loaded where there are no plug-ins of that type."""


def plugin_builtins(
    own_name: str = "", module_name: str = "", interfaces: Interfaces = _no_interfaces
) -> dict[str, Any]:
    """Builtins for a plug-in file. `own_name` is what the file calls itself in imports, `module_name` what it is."""

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
            if is_ours_alone(name) or not salt_is_installed():
                return _salt(name, fromlist or ())
            _enter_salt()
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return {**vars(builtins), "__import__": plugin_import}


def _enter_salt() -> None:
    if "salt" not in sys.modules:
        from saltlite.loader.salt_compat import enter_salt  # noqa: PLC0415 - most minions have no Salt

        enter_salt()


def _salt(name: str, fromlist: Sequence[str]) -> ModuleType:
    """What `import name` or `from name import …` binds. Raises ModuleNotFoundError for a name that we lack."""
    part = salt_part(name)
    if not fromlist:
        return salt_part("salt")
    for wanted in fromlist:
        if wanted != "*" and not hasattr(part, wanted):
            salt_part(f"{name}.{wanted}")
    return part


def _interface(last: str, interfaces: Interfaces) -> ModuleType | None:
    """The plug-in file that `saltlite.interfaces.<last>` means; the RFC puts `_module` behind the virtual name."""
    return interfaces(last) or (interfaces(last.removesuffix("_module")) if last.endswith("_module") else None)


PREFIX = "saltlite.loaded."
"""Names of all modules that a loader makes begin so."""

_SWAPPING = threading.RLock()
"""Held while names of `sys.modules` are those of another loader than the latest."""


@dataclass(frozen=True, slots=True)
class Part:
    """The text of one Python file. `path` is where a traceback says it is; `package`: it is an `__init__.py`."""

    path: str
    package: bool
    compiled: Callable[[], CodeType]
    text: Callable[[], bytes]


class Parts(Protocol):
    """Where the files of one module are."""

    def find(self, name: str) -> Part | None:
        """The part by its dotted name below the module's, "" for the module itself."""
        ...


class PartLoader(InspectLoader):
    """Loads the parts of one module; `fill` gives the namespace of each what plug-in files have."""

    def __init__(self, root: str, parts: Parts, fill: Callable[[dict[str, Any]], None]) -> None:
        self.root = root
        self.modules: dict[str, ModuleType] = {}
        """The module and those of its parts that were loaded, by their names in `sys.modules`."""
        self._parts = parts
        self._fill = fill
        self._provided: dict[str, Any] = {}

    def provide(self, dunder: str, value: Any) -> None:
        """Put `value` under that dunder name into all parts, those that are loaded later too."""
        self._provided[dunder] = value
        for module in self.modules.values():
            module.__dict__[dunder] = value

    def part(self, name: str) -> ModuleType:
        """The part of that name, loaded now if it was not. Raises whatever its body raises."""
        fullname = f"{self.root}.{name}"
        with _SWAPPING:
            other = getattr(sys.modules.get(self.root), "__loader__", None)
            # Another loader of this process has taken the names: its parts have its dunder names, and not ours.
            theirs = other.modules if isinstance(other, PartLoader) and other is not self else {}
            for taken in theirs:
                sys.modules.pop(taken, None)
            sys.modules.update(self.modules)
            try:
                return importlib.import_module(fullname)
            finally:
                if theirs:
                    for ours in self.modules:
                        sys.modules.pop(ours, None)
                    sys.modules.update(theirs)

    def spec(self, fullname: str) -> ModuleSpec | None:
        """The specification of the module or one of its parts; None when there is no such part."""
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
        """The text of a part, for tracebacks: they cannot read a line of an archive by its path."""
        part = self._part(fullname)
        return None if part is None else part.text().decode(errors="replace")

    def _part(self, fullname: str) -> Part | None:
        return self._parts.find(fullname[len(self.root) + 1 :])


class PartFinder(MetaPathFinder):
    """Asks the loader of a package for its parts; knows no other name than those below PREFIX."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PREFIX):
            return None
        above = sys.modules.get(fullname.rpartition(".")[0])
        loader = getattr(above, "__loader__", None)
        return loader.spec(fullname) if isinstance(loader, PartLoader) else None


_FINDER = PartFinder()


class FileParts:
    """A module that is one file."""

    def __init__(self, path: str, compiled: Callable[[], CodeType] | None = None) -> None:
        self._part = Part(path, False, compiled or partial(compile_file, path), partial(_read, path))

    def find(self, name: str) -> Part | None:
        return None if name else self._part


class FolderParts:
    """A package that is a folder; `compiled` gives the code of one of its files."""

    def __init__(self, folder: str, compiled: Callable[[str], CodeType] | None = None) -> None:
        self._folder = folder
        self._compiled = compiled or compile_file

    def find(self, name: str) -> Part | None:
        inside = os.path.join(self._folder, *name.split(".")) if name else self._folder
        for path, package in ((os.path.join(inside, "__init__.py"), True), (f"{inside}.py", False)):
            if os.path.isfile(path) and (name or package):
                return Part(path, package, partial(self._compiled, path), partial(_read, path))
        return None


class TextParts:
    """A package whose files are in memory: path below the package's folder -> text. `folder` is for tracebacks."""

    def __init__(self, folder: str, texts: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._texts = texts

    def find(self, name: str) -> Part | None:
        inside = name.replace(".", "/")
        for relative, package in ((f"{inside}/__init__.py".lstrip("/"), True), (f"{inside}.py", False)):
            text = self._texts.get(relative)
            if text is not None:
                path = os.path.join(self._folder, relative)
                return Part(path, package, partial(_compile, text, path), partial(bytes, text))
        return None


def load_parts(name: str, parts: Parts, fill: Callable[[dict[str, Any]], None]) -> ModuleType:
    """A fresh module `name`, its body run, entered into `sys.modules` in place of an older one and its parts.

    Raises whatever the body raises, SyntaxError, and OSError when the file is gone; then `sys.modules` is as before.
    """
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    loader = PartLoader(name, parts, fill)
    main, spec = parts.find(""), loader.spec(name)
    if main is None or spec is None:
        raise FileNotFoundError(f"the files of {name} are gone")
    # A part is there only beside its main module. Looking at every name would also write to the memory of all of them
    # (their reference counts), which a job's process shares with the minion until then.
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


def _run(part: Part, module: ModuleType) -> None:
    exec(part.compiled(), module.__dict__)  # noqa: S102 - running module files is what the loader is for


def compile_file(path: str) -> CodeType:
    """The code of the file as it is now."""
    return _compile(_read(path), path)


def _compile(text: bytes, path: str) -> CodeType:
    code: CodeType = compile(text, path, "exec", dont_inherit=True)
    return code


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _belongs(other: str, name: str) -> bool:
    return other == name or other.startswith(f"{name}.")


_SALT_LEVELS = {"garbage": 1, "trace": 5, "profile": 15}
"""Methods that modules expect of their loggers, and the level of each. Contract: Salt's logging."""


def build_module(file: ModuleFile, kind: str, names: Mapping[str, Any], interfaces: Interfaces) -> ModuleType:
    """A fresh module object with the body of `file` run in it and the dunder `names` set.

    `interfaces` are the plug-in files that it may import from `saltlite.interfaces`.

    Raises whatever the body raises (SystemExit included), SyntaxError, ImportError, and OSError when the file is gone.
    """
    name = f"{PREFIX}{file.layer}.{kind.replace('/', '.')}.{file.stem}"
    given = dict(names)
    if file.layer != SHIPPED:
        # What ships imports by no other name, and to copy the builtins is to write to the memory of each of them.
        own_name = file.stem if file.form is Form.ZIP else ""
        given["__builtins__"] = plugin_builtins(own_name, name, interfaces)

    def fill(space: dict[str, Any]) -> None:
        space.update(given)

    _teach_levels()
    if file.form is Form.EXTENSION:
        module = load_extension(name, file.path, fill)
    elif file.form is Form.CYTHON:
        library = compiled_path(file.path, file.stem, str(names["__opts__"].get("cachedir") or ""))
        module = load_extension(name, library, fill)
    else:
        module = load_parts(name, _parts(file), fill)
    own_opts = module.__dict__.get("__opts__")
    fill(module.__dict__)
    if isinstance(own_opts, dict) and own_opts is not names["__opts__"]:
        module.__dict__["__opts__"] = Injected({**names["__opts__"], **own_opts})
    return module


def _parts(file: ModuleFile) -> Parts:
    if file.form is Form.PACKAGE:
        return FolderParts(os.path.dirname(file.path), _cached_code if _is_installed(file) else None)
    if file.form is Form.ZIP:
        return TextParts(os.path.join(file.path, file.stem), read_all(file.path, file.stem))
    return FileParts(file.path, partial(_cached_code, file.path) if _is_installed(file) else None)


def _is_installed(file: ModuleFile) -> bool:
    return file.layer == SHIPPED or file.salts


def read_shipped(index: Index) -> None:
    """Read the compiled bodies of the shipped files, without running any: processes forked from here on share them."""
    for file in index.files:
        if file.layer == SHIPPED and file.failure is None:
            for path in _texts_of(file):
                _cached_code(path)


def _texts_of(file: ModuleFile) -> list[str]:
    if file.form is not Form.PACKAGE:
        return [file.path]
    folder = os.path.dirname(file.path)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".py")]


@functools.cache
def _cached_code(path: str) -> CodeType:
    """The compiled body of a shipped file, by Python's cache of compiled files; read once.

    Only for shipped files and those of Salt: these change with the installation, which restarts the daemons, and
    Python's cache notices a change by whole seconds and size, while a module that was just synchronised may have
    changed within one second.
    """
    code = SourceFileLoader(path, path).get_code(path)
    if code is None:
        raise ImportError(f"{path} has no code")
    return code


def _teach_levels() -> None:
    """Give loggers Salt's methods, which a module calls as it is loaded: `log.trace(…)`."""
    for name, level in _SALT_LEVELS.items():
        if not hasattr(logging.Logger, name):
            setattr(logging.Logger, name, _method(level))


def _method(level: int) -> Any:
    def write(self: logging.Logger, message: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            self.log(level, message, *args, **{"stacklevel": 2, **kwargs})

    return write
