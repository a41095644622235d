"""Running the Python text of a module: one file, or the files of a package, from a folder or a zip archive.

Each part of a package is a module below the package's own name, which no `import` finds by itself: the loader of
the package finds its parts, so that relative imports work while no folder and no archive is on `sys.path`. Every
part has the dunder names, and the builtins of a plug-in file.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, Protocol

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
