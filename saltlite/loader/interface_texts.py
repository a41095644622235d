"""What a minion tells of functions that an interface has: the master then lets calls through, and the minion answers
them by the interface, where nobody provides the function.

Files of interfaces are read here and not run, but for those that ship: this is the job server.
"""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saltlite.interfaces.smi.binding import Mode
from saltlite.interfaces.smi.contract import contract_of
from saltlite.loader.contracts import INTERFACES, SHIPPED_INTERFACES
from saltlite.loader.interface_claims import text_of
from saltlite.loader.places import SHIPPED, module_files, search_layers
from saltlite.loader.scan import MODULE_BYTES_MAX, parse_module
from saltlite.model.signature import absent_text, by_name, format_signature, outputter_of, parse_signature


def with_interfaces(texts: Sequence[str], opts: Mapping[str, Any]) -> list[str]:
    """The texts of `saltlite.model.signature` for functions of modules, and of what their interfaces have beside them.

    With `smi_mode: enforce` an interface's functions take what it says, so of the provider's only the name is told.
    """
    mode = Mode(opts.get("smi_mode", Mode.OBSERVE))
    known = by_name(texts)
    if mode is Mode.OFF:
        return list(texts)
    modules = {name.partition(".")[0] for name in known}
    for module, functions in _declared(opts, modules):
        for fun in functions:
            name = f"{module}.{fun}"
            if name not in known:
                known[name] = absent_text(name)
            elif mode is Mode.ENFORCE:
                text = known[name]
                known[name] = format_signature(name, None, parse_signature(text)[2], outputter_of(text))
    return [known[name] for name in sorted(known)]


def _declared(opts: Mapping[str, Any], modules: set[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """(virtual name, functions) of every interface that speaks of one of the modules."""
    for layer in search_layers(opts, INTERFACES):
        for found in module_files(layer) if layer.name != SHIPPED else ():
            yield from (pair for pair in _in_file(found.path, found.mtime_ns, found.size) if pair[0] in modules)
    for name in sorted(SHIPPED_INTERFACES & modules):
        yield name, _shipped(name)


@functools.cache
def _shipped(name: str) -> tuple[str, ...]:
    module = importlib.import_module(f"saltlite.interfaces.{name}")
    return tuple(contract_of(getattr(module, f"{name.title()}Interface")).functions)


@functools.lru_cache(1024)
def _in_file(path: str, _mtime_ns: int, _size: int) -> list[tuple[str, tuple[str, ...]]]:
    try:
        with open(path, "rb") as stream:
            tree = parse_module(stream.read(MODULE_BYTES_MAX + 1), path)
    except (OSError, SyntaxError):
        return []  # the job that needs it says what is wrong
    found = []
    for part in tree.body:
        if isinstance(part, ast.ClassDef) and (name := text_of(part, "__modulename__") or text_of(part, "__extends__")):
            functions = [one.name for one in part.body if isinstance(one, ast.FunctionDef) and one.name[0] != "_"]
            found.append((name, tuple(functions)))
    return found
