"""Read modules and interfaces from their text: names, signatures, positions."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from saltlite.errors import UsageError
from saltlite.loader.scan import (
    MAIN,
    MODULE_BYTES_MAX,
    joined_tree,
    module_constants,
    named_parts,
    parse_module,
    part_path,
    part_text,
    scan_module,
    shown_names,
    text_of,
    top_functions,
)

_KINDS = inspect.Parameter

FunctionDefinition = ast.FunctionDef | ast.AsyncFunctionDef


class Unread:
    """A default that is not a literal: its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unread) and repr(other) == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """One function: parameters (with annotations as text), return annotation, docstring."""

    name: str
    signature: inspect.Signature
    returns: str
    doc: str
    line: int
    path: str = ""
    """Its file, if that is not the module's: a part of a package."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """One function of an interface. `supported` and `not_applicable`: grain -> values, empty without the decorator."""

    function: SourceFunction
    supported: Mapping[str, list[str]] = field(default_factory=dict)
    not_applicable: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceInterface:
    """One class of an interface, with what it inherits from classes read before."""

    name: str
    path: str
    line: int
    module: str
    version: str
    extends: str
    reserved: tuple[str, ...]
    functions: Mapping[str, Declaration]


@dataclass(frozen=True, slots=True)
class SourceModule:
    """One module file. `claims` are the virtual names that it may answer to."""

    path: str
    stem: str
    tree: ast.Module
    claims: tuple[str, ...]
    constants: Mapping[str, object]
    functions: Mapping[str, SourceFunction]


def read_tree(path: str) -> ast.Module:
    """The syntax tree of a file. Raises SyntaxError, or UsageError when it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return parse_module(stream.read(MODULE_BYTES_MAX + 1), path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def read_module(path: str, stem: str, tree: ast.Module) -> SourceModule:
    """The module in a file named `stem`."""
    constants, places = module_constants(tree), {}
    folder, name = os.path.split(path)
    if name == MAIN:
        places = {shown: part_path(folder, part) for part, names in named_parts(tree) for shown in names.values()}
        with contextlib.suppress(SyntaxError, OSError):  # found when that file is read
            tree = joined_tree(tree, functools.partial(part_text, folder))
    defined: dict[str, FunctionDefinition] = {
        name: function for name, function in top_functions(tree) if not isinstance(function, ast.Lambda)
    }
    shown = shown_names(constants, defined)
    functions = {
        shown[name]: replace(_function(shown[name], defined[name]), path=places.get(name, "")) for name in shown
    }
    return SourceModule(path, stem, tree, scan_module(tree, stem).claims, constants, functions)


def read_interfaces(path: str, tree: ast.Module, known: Mapping[str, SourceInterface]) -> list[SourceInterface]:
    """The interfaces that a file declares. `known` are those of earlier files, by class name."""
    found: dict[str, SourceInterface] = {}
    for part in tree.body:
        if isinstance(part, ast.ClassDef):
            bases = [name.rpartition(".")[2] for name in map(ast.unparse, part.bases)]
            parents = [{**known, **found}[base] for base in bases if base in known or base in found]
            if parents or "Interface" in bases:
                found[part.name] = _interface(path, part, parents)
    return list(found.values())


def _interface(path: str, part: ast.ClassDef, parents: list[SourceInterface]) -> SourceInterface:
    functions: dict[str, Declaration] = {}
    for parent in reversed(parents):
        functions |= parent.functions
    own: dict[str, object] = {}
    for statement in part.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name):
                own[target.id] = _literal(statement.value)
    alias = own.get("__func_alias__")
    for statement in part.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and not statement.name.startswith("_"):
            shown = str(alias.get(statement.name, statement.name)) if isinstance(alias, dict) else statement.name
            functions[shown] = _declaration(shown, statement)
    reserved = own.get("__reserved__")
    inherited = parents[0] if parents else None
    return SourceInterface(
        name=part.name,
        path=path,
        line=part.lineno,
        module=text_of(part, "__modulename__") or (inherited.module if inherited else ""),
        version=text_of(part, "__version__") or (inherited.version if inherited else "1.0"),
        extends=text_of(part, "__extends__"),
        reserved=tuple(map(str, reserved)) if isinstance(reserved, list | tuple) else (),
        functions=functions,
    )


def _declaration(shown: str, method: FunctionDefinition) -> Declaration:
    function = _function(shown, method)
    without_self = list(function.signature.parameters.values())[1:]
    plain = SourceFunction(
        shown, function.signature.replace(parameters=without_self), function.returns, function.doc, function.line
    )  # fmt: skip
    marks: dict[str, dict[str, list[str]]] = {"supported": {}, "not_applicable": {}}
    for decorator in method.decorator_list:
        if isinstance(decorator, ast.Call) and (name := ast.unparse(decorator.func).rpartition(".")[2]) in marks:
            for grain, values in _grains(decorator):
                marks[name].setdefault(grain, []).extend(values)
    return Declaration(plain, marks["supported"], marks["not_applicable"])


def _grains(decorator: ast.Call) -> Iterator[tuple[str, list[str]]]:
    for keyword in decorator.keywords:
        value = _literal(keyword.value)
        pairs = value.items() if keyword.arg is None and isinstance(value, dict) else [(keyword.arg, value)]
        for grain, values in pairs:
            yield str(grain), [str(one) for one in (values if isinstance(values, list | tuple) else [values])]


def _function(name: str, function: FunctionDefinition) -> SourceFunction:
    returns = ast.unparse(function.returns) if function.returns else ""
    return SourceFunction(
        name, signature_of(function.args), returns, ast.get_docstring(function) or "", function.lineno
    )  # fmt: skip


def signature_of(arguments: ast.arguments) -> inspect.Signature:
    """The signature of a function from its text."""
    placed: list[tuple[ast.arg, inspect._ParameterKind]] = []
    placed += [(one, _KINDS.POSITIONAL_ONLY) for one in arguments.posonlyargs]
    placed += [(one, _KINDS.POSITIONAL_OR_KEYWORD) for one in arguments.args]
    without = len(placed) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [*[None] * without, *arguments.defaults]
    found = [_parameter(one, kind, default) for (one, kind), default in zip(placed, defaults, strict=True)]
    if arguments.vararg:
        found.append(_parameter(arguments.vararg, _KINDS.VAR_POSITIONAL, None))
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_parameter(one, _KINDS.KEYWORD_ONLY, default))
    if arguments.kwarg:
        found.append(_parameter(arguments.kwarg, _KINDS.VAR_KEYWORD, None))
    return inspect.Signature(found)


def _parameter(argument: ast.arg, kind: inspect._ParameterKind, default: ast.expr | None) -> inspect.Parameter:
    return _KINDS(
        argument.arg,
        kind,
        default=_KINDS.empty if default is None else _literal(default),
        annotation=_KINDS.empty if argument.annotation is None else ast.unparse(argument.annotation),
    )


def _literal(value: ast.expr) -> object:
    try:
        found: object = ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return Unread(ast.unparse(value))
    return found
