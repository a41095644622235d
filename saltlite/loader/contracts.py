"""Which interface a virtual module has here, and the functions of its providers behind it.

The interfaces of a virtual name come from the plug-in files of the type `interfaces`, higher layers first, and from
what ships as `saltlite.interfaces`. The name is looked for in the text of a file, so that a file is run only when its
module is asked for: `__modulename__` or `__extends__` must be a literal. A module may also bring its interface itself;
that one then goes before all but what extends it.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from saltlite.interfaces.smi.binding import Binding, Mode, Returns
from saltlite.interfaces.smi.contract import Contract, contract_of
from saltlite.interfaces.smi.declare import Interface, virtual_name
from saltlite.loader.deadline import load_deadline
from saltlite.loader.failure import FailureKind, failure_of
from saltlite.loader.finder import ModuleFile
from saltlite.loader.inject import build_module
from saltlite.loader.places import SHIPPED, module_files, search_layers
from saltlite.loader.undeclared_calls import UndeclaredCalls

log = logging.getLogger(__name__)

INTERFACES = "interfaces"
"""The type of plug-in files that declare interfaces."""

SHIPPED_INTERFACES = frozenset({"group", "pkg", "service", "shadow", "user"})
"""Virtual names whose interface is the file of that name in `saltlite.interfaces`."""

_DECLARES = re.compile(rb"""^[ \t]+__(?:modulename|extends)__[^=\n]*=\s*["'](\w+)["']""", re.MULTILINE)

STRAY_FOLDER = "smi"
"""Folder below `cachedir` in which calls of functions without an interface are counted."""

Function = Callable[..., Any]


class Contracts:
    """The interfaces that one loader sees. `names` are the dunder names that a file of an interface gets."""

    def __init__(self, opts: Mapping[str, Any], grains: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        self._opts = opts
        self._grains = grains
        self._names = names
        self._mode = Mode(opts.get("smi_mode", Mode.OBSERVE))
        self._returns = Returns(opts.get("smi_returns", Returns.LOG))
        cachedir = str(opts.get("cachedir") or "")
        self.strays = UndeclaredCalls(os.path.join(cachedir, STRAY_FOLDER) if cachedir else "")
        self._files: dict[str, list[ModuleFile]] | None = None
        self._modules: dict[str, ModuleType | None] = {}
        self._contracts: dict[tuple[str, type[Interface] | None], Contract | None] = {}

    def contract(self, name: str, own: type[Interface] | None = None) -> Contract | None:
        """The interface of the virtual module; `own` is what its provider brings. None where there is none."""
        if self._mode is Mode.OFF:
            return None
        if own is not None and virtual_name(own) != name:
            own = None  # the provider answers to several names, and brings the interface of another one
        key = (name, own)
        if key not in self._contracts:
            self._contracts[key] = self._make(name, own)
        return self._contracts[key]

    def binding(self, name: str, provider: str, own: type[Interface] | None) -> Binding | None:
        """The virtual module as the file `provider` gives it; None where it has no interface."""
        contract = self.contract(name, own)
        if contract is None:
            return None
        return Binding(
            contract,
            provider,
            self._grains,
            mode=self._mode,
            returns=self._returns,
            counted=lambda fun: self.strays.count(f"{name}.{fun}"),
        )

    def names(self) -> list[str]:
        """Every virtual name that has an interface, sorted."""
        return [] if self._mode is Mode.OFF else sorted({*self._declared(), *SHIPPED_INTERFACES})

    def module(self, stem: str) -> ModuleType | None:
        """The module of the plug-in file with an interface that has this file name; None where there is none."""
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
        """Virtual name -> the plug-in files that speak of it, the one that is asked first at the front."""
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
            self._modules[file.path] = None  # an interface that imports itself must see an end
            try:
                with load_deadline():
                    self._modules[file.path] = build_module(file, INTERFACES, self._names, self.module)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - supervision point: a broken file is only omitted
                log.warning("%s", failure_of(FailureKind.NOT_IMPORTED, error, file.path).sentence(file.stem))
        return self._modules[file.path]


def _declared_in(module: ModuleType, name: str) -> list[type[Interface]]:
    """The interfaces of that virtual name that the module itself defines."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Interface)
        and value.__module__ == module.__name__
        and virtual_name(value) == name
    ]


def _names_in(path: str) -> list[str]:
    """The virtual names that the text of a file speaks of."""
    try:
        with open(path, "rb") as stream:
            return sorted({found.decode() for found in _DECLARES.findall(stream.read())})
    except OSError:
        return []  # removed since it was listed
