"""The interfaces that a loader sees, and the calls of functions outside of them.

Interfaces of a virtual module come from plug-in files of the type `interfaces`, higher layers first, and from
`saltlite.interfaces`. A file is run only when its module is needed: its text must assign a literal to `__modulename__`
or `__extends__`. A module may also have its own interface, which precedes all except those that extend it.

`UndeclaredCalls` counts calls per minion, and `with_interfaces` adds the functions of interfaces to those that a minion
reports to its master. The job server calls the latter, so it reads custom interface files without running them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from types import ModuleType
from typing import Any

from saltlite.interfaces import Interface, virtual_name
from saltlite.interfaces.smi.contract import Binding, Contract, Mode, ReturnCheck, contract_of
from saltlite.loader.failure import FailureKind, failure_of, load_deadline
from saltlite.loader.index import ModuleFile
from saltlite.loader.module_builder import build_module
from saltlite.loader.scan import MODULE_BYTES_MAX, parse_module, text_of
from saltlite.loader.search_path import SHIPPED, module_files, search_layers
from saltlite.model.signature import (
    absent_text,
    by_name,
    format_signature,
    is_function_name,
    outputter_of,
    parse_signature,
)

LOG_SECONDS = 60.0
"""A function is logged at most once in this time."""


class UndeclaredCalls:
    """Counts calls of functions outside of their interface, over all jobs of this minion; "" counts nothing.

    `folder` has one file a function and one byte a call: concurrent processes can append a byte without a lock. A
    folder that cannot be written only loses the counts.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def count(self, name: str) -> bool:
        """Count a call of `module.function`; True if it is the first in LOG_SECONDS."""
        if not self._folder or not is_function_name(name):
            return True
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            descriptor = os.open(os.path.join(self._folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return True
        try:
            before = os.fstat(descriptor)
            os.write(descriptor, b".")
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return before.st_size == 0 or time.time() - before.st_mtime >= LOG_SECONDS

    def counts(self) -> Mapping[str, int]:
        """`module.function` -> calls so far."""
        try:
            with os.scandir(self._folder) as entries:
                return {entry.name: entry.stat().st_size for entry in sorted(entries, key=lambda entry: entry.name)}
        except OSError:
            return {}


log = logging.getLogger(__name__)

INTERFACES = "interfaces"
"""The plug-in type of interfaces."""

SHIPPED_INTERFACES = frozenset({"group", "pkg", "service", "shadow", "user"})
"""Virtual names whose interface is the file of that name in `saltlite.interfaces`."""

_DECLARES = re.compile(rb"""^[ \t]+__(?:modulename|extends)__[^=\n]*=\s*["'](\w+)["']""", re.MULTILINE)

_PARAMETER = re.compile(r"[(,*](\w+)")

UNDECLARED_FOLDER = "smi"
"""Folder below `cachedir` for the counts of undeclared calls."""

Function = Callable[..., Any]


class Contracts:
    """The interfaces that one loader sees. `names` are the dunder names for interface files."""

    def __init__(self, opts: Mapping[str, Any], grains: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        self._opts = opts
        self._grains = grains
        self._names = names
        self._mode = Mode(opts.get("smi_mode", Mode.UNIFORM))
        self._returns = ReturnCheck(opts.get("smi_returns", ReturnCheck.LOG))
        cachedir = str(opts.get("cachedir") or "")
        self.undeclared = UndeclaredCalls(os.path.join(cachedir, UNDECLARED_FOLDER) if cachedir else "")
        self._files: dict[str, list[ModuleFile]] | None = None
        self._modules: dict[str, ModuleType | None] = {}
        self._contracts: dict[tuple[str, type[Interface] | None], Contract | None] = {}

    def contract(self, name: str, own: type[Interface] | None = None) -> Contract | None:
        """The interface of the virtual module, if any; `own` is its provider's own interface."""
        if self._mode is Mode.OFF:
            return None
        if own is not None and virtual_name(own) != name:
            own = None  # it describes another name of the provider
        key = (name, own)
        if key not in self._contracts:
            self._contracts[key] = self._make(name, own)
        return self._contracts[key]

    def binding(self, name: str, provider: str, own: type[Interface] | None) -> Binding | None:
        """The virtual module of the file `provider`, bound to its interface; None without one."""
        contract = self.contract(name, own)
        if contract is None:
            return None
        return Binding(
            contract,
            provider,
            self._grains,
            mode=self._mode,
            returns=self._returns,
            counted=lambda fun: self.undeclared.count(f"{name}.{fun}"),
        )

    def names(self) -> list[str]:
        """Every virtual name that has an interface, sorted."""
        return [] if self._mode is Mode.OFF else sorted({*self._declared(), *SHIPPED_INTERFACES})

    def module(self, stem: str) -> ModuleType | None:
        """The module of the interface file of that name, or None."""
        for files in self._declared().values():
            for file in files:
                if file.stem == stem:
                    return self._load(file)
        return None

    def _make(self, name: str, own: type[Interface] | None) -> Contract | None:
        registered = list(self._classes(name))
        if own is not None:
            registered = [own, *(one for one in registered if one is not own and (own.__extends__ or one.__extends__))]
        try:
            return contract_of(*registered) if registered else None
        except TypeError as error:
            log.warning("The interface of %r is not used: %s.", name, error)
            return None

    def _classes(self, name: str) -> Iterator[type[Interface]]:
        for file in self._declared().get(name, ()):
            module = self._load(file)
            if module is not None:
                yield from _declared_in(module, name)
        if name in SHIPPED_INTERFACES:
            yield from _declared_in(importlib.import_module(f"saltlite.interfaces.{name}"), name)

    def _declared(self) -> dict[str, list[ModuleFile]]:
        """Virtual name -> the plug-in files that mention it, in order of precedence."""
        if self._files is None:
            self._files = {}
            visible: set[str] = set()
            for rank, layer in enumerate(search_layers(self._opts, INTERFACES)):
                if layer.name == SHIPPED:
                    continue
                for found in module_files(layer):
                    if found.stem in visible:
                        continue
                    visible.add(found.stem)
                    file = ModuleFile(
                        found.path, found.stem, layer.name, rank, found.form, found.mtime_ns, found.size
                    )  # fmt: skip
                    for name in _names_in(found.path):
                        self._files.setdefault(name, []).append(file)
        return self._files

    def _load(self, file: ModuleFile) -> ModuleType | None:
        if file.path not in self._modules:
            self._modules[file.path] = None  # an interface that imports itself must not recurse
            try:
                with load_deadline():
                    self._modules[file.path] = build_module(file, INTERFACES, self._names, self.module)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - supervision point: a broken file is only omitted
                log.warning("%s", failure_of(FailureKind.NOT_IMPORTED, error, file.path).sentence(file.stem))
        return self._modules[file.path]


def _declared_in(module: ModuleType, name: str) -> list[type[Interface]]:
    """The interfaces of that virtual name that the module defines."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Interface)
        and value.__module__ == module.__name__
        and virtual_name(value) == name
    ]


def _names_in(path: str) -> list[str]:
    """The virtual names in the text of a file."""
    try:
        with open(path, "rb") as stream:
            return sorted({found.decode() for found in _DECLARES.findall(stream.read())})
    except OSError:
        return []  # removed since it was listed


def with_interfaces(texts: Sequence[str], opts: Mapping[str, Any]) -> list[str]:
    """The texts of `saltlite.model.signature` for module functions, plus the further functions of their interfaces.

    The master then publishes calls of functions without a provider, and the minion answers them by the interface. The
    provider's parameters are omitted where the interface decides what a function takes, or where a call may fit either.
    """
    mode = Mode(opts.get("smi_mode", Mode.UNIFORM))
    known = by_name(texts)
    if mode is Mode.OFF:
        return list(texts)
    modules = {name.partition(".")[0] for name in known}
    for module, functions in _declared(opts, modules):
        for fun, parameters in functions.items():
            name = f"{module}.{fun}"
            if name not in known:
                known[name] = absent_text(name)
            elif mode is Mode.ENFORCE or (mode is Mode.UNIFORM and not _has_all(known[name], parameters)):
                text = known[name]
                known[name] = format_signature(name, None, parse_signature(text)[2], outputter_of(text))
    return [known[name] for name in sorted(known)]


def _has_all(text: str, parameters: Set[str]) -> bool:
    """Whether a function's text has these names of parameters. Parsing the text would take ten times as long."""
    return parameters <= set(_PARAMETER.findall(text))


def _declared(opts: Mapping[str, Any], modules: set[str]) -> Iterator[tuple[str, Mapping[str, Set[str]]]]:
    """(virtual name, function -> names of its parameters) of every interface of these modules."""
    for layer in search_layers(opts, INTERFACES):
        for found in module_files(layer) if layer.name != SHIPPED else ():
            yield from (pair for pair in _in_file(found.path, found.mtime_ns, found.size) if pair[0] in modules)
    for name in sorted(SHIPPED_INTERFACES & modules):
        yield name, _shipped(name)


@functools.cache
def _shipped(name: str) -> Mapping[str, Set[str]]:
    module = importlib.import_module(f"saltlite.interfaces.{name}")
    declared = contract_of(getattr(module, f"{name.title()}Interface")).functions
    return {fun: one.parameter_names for fun, one in declared.items()}


@functools.lru_cache(1024)
def _in_file(path: str, _mtime_ns: int, _size: int) -> Sequence[tuple[str, Mapping[str, Set[str]]]]:
    try:
        with open(path, "rb") as stream:
            tree = parse_module(stream.read(MODULE_BYTES_MAX + 1), path)
    except (OSError, SyntaxError):
        return []  # the job that needs it reports the error
    found = []
    for part in tree.body:
        if isinstance(part, ast.ClassDef) and (name := text_of(part, "__modulename__") or text_of(part, "__extends__")):
            methods = [one for one in part.body if isinstance(one, ast.FunctionDef) and one.name[0] != "_"]
            found.append((name, {one.name: _parameter_names(one.args) for one in methods}))
    return found


def _parameter_names(arguments: ast.arguments) -> Set[str]:
    placed = [*arguments.posonlyargs, *arguments.args]
    return frozenset(one.arg for one in (*placed[1:], *arguments.kwonlyargs))
