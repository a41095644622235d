"""What one module file offers, read from its syntax tree: no code of the file runs.

The result is a promise about names only. Where the file computes what it is called (`__virtual__` returning
a variable, `__virtualname__` set inside a condition) the scan says so with `undetermined`, and the loader
then has to load the file to know.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from saltlite.loader.interface_claims import interface_claims
from saltlite.loader.offer import parted_names
from saltlite.loader.parameters import (
    Declared,
    Function,
    declared_outputters,
    declared_risks,
    function_text,
    typed_dicts,
)

MODULE_BYTES_MAX = 4 * 1024 * 1024
"""A larger file is not a module; it is recorded as a failure and never parsed."""

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_SAYS_YES = object()
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Scan:
    """Names that a file offers and claims.

    `functions` are names as callers type them (after `__func_alias__`), sorted, and `texts` what each of them takes,
    in the grammar of `saltlite.model.signature` without the module's name. `claims` are the virtual
    names that the file may answer to. `checked` means that only running the file tells whether all of this is
    offered: it has `__virtual__` or `__init__`, or functions with `@depends`. `replaces` is `__replace__ = True`.
    """

    functions: tuple[str, ...]
    texts: tuple[str, ...]
    claims: tuple[str, ...]
    checked: bool
    undetermined: bool
    replaces: bool


def parse_module(source: bytes, path: str) -> ast.Module:
    """The syntax tree of a module file.

    Raises SyntaxError for anything that Python cannot parse: bytes in another encoding, null bytes, nesting
    beyond the parser's stack, and files larger than MODULE_BYTES_MAX.
    """
    if len(source) > MODULE_BYTES_MAX:
        raise SyntaxError(f"the file is larger than a module may be ({MODULE_BYTES_MAX} bytes)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the author's escapes: they show when the module is loaded
            return ast.parse(source, path)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"{type(error).__name__}: {error}") from error


def scan_module(tree: ast.Module, stem: str) -> Scan:
    """What the module file `stem`.py offers, from its syntax tree."""
    constants, loose = _constants(tree)
    definitions: dict[str, list[Function]] = {}
    for name, function in top_functions(tree):
        definitions.setdefault(name, []).append(function)
    defined = {name: functions[-1] for name, functions in definitions.items()}
    virtual = defined.get("__virtual__")
    claims, undetermined = _claims(virtual, constants, loose, stem)
    by_interface = interface_claims(tree)
    texts = _texts(tree, constants, {**dict.fromkeys(_unread_functions(tree, constants, defined), ()), **definitions})
    return Scan(
        functions=tuple(texts),
        texts=tuple(texts.values()),
        claims=tuple(dict.fromkeys((*claims, *by_interface))),
        checked=(virtual is not None and not _always_says(virtual, constants, loose))
        or "__init__" in defined
        or "__virtual__" in loose
        or _has_depends(defined)
        or bool(by_interface),
        undetermined=undetermined or bool(by_interface),
        replaces=constants.get("__replace__") is True,
    )


def _texts(
    tree: ast.Module, constants: Mapping[str, object], definitions: Mapping[str, Sequence[Function]]
) -> dict[str, str]:
    """Shown name -> text, sorted."""
    declared = Declared(declared_risks(constants), declared_outputters(constants))
    rebound = set(_rebound_names(tree, definitions))
    keys = typed_dicts(tree)
    texts = {}
    for name, shown in shown_names(constants, definitions).items():
        certain = definitions[name] if name not in rebound else ()
        texts[shown] = function_text(shown, certain, declared.suffix(name, shown), keys)
    return dict(sorted(texts.items()))


def _rebound_names(tree: ast.Module, definitions: Mapping[str, Sequence[Function]]) -> Iterator[str]:
    """Names that also get a value whose text does not tell which function it is."""
    seen = {name: functions[0] for name, functions in definitions.items() if functions}
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Assign) and _bound(statement.value, seen) is None:
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def _unread_functions(
    tree: ast.Module, constants: Mapping[str, object], defined: Mapping[str, Function]
) -> Iterator[str]:
    """Names that may well be functions, though nothing says what they take: `f = wrapped(_f)`, and what is listed."""
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Assign) and _wraps_function(statement.value, defined):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    listed = constants.get("__load__", constants.get("__all__"))
    if isinstance(listed, list | tuple):
        classes = {statement.name for statement in _statements(tree.body) if isinstance(statement, ast.ClassDef)}
        yield from (str(name) for name in listed if name not in classes)


def _wraps_function(value: ast.expr, defined: Mapping[str, Function]) -> bool:
    """Whether a call is given a function of the file; a partial is no function to the loader."""
    if not isinstance(value, ast.Call) or _called_name(value) == "partial":
        return False
    return any(isinstance(argument, ast.Name) and argument.id in defined for argument in value.args)


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _has_depends(defined: Mapping[str, Function]) -> bool:
    """Whether a function may be taken away by what it needs; the decorator is known by its name."""
    return any(
        isinstance(decorator, ast.Call) and _called_name(decorator).endswith("depends")
        for function in defined.values()
        if not isinstance(function, ast.Lambda)
        for decorator in function.decorator_list
    )


def shown_names(constants: Mapping[str, object], defined: Iterable[str]) -> dict[str, str]:
    """Python name -> the name that callers type, for the public functions of a file."""
    listed = constants.get("__load__", constants.get("__all__"))
    alias = constants.get("__func_alias__")
    shown = alias if isinstance(alias, dict) else {}
    parted = {name for name, _part in parted_names(constants.get("__parts__"))}
    return {
        name: str(shown.get(name, name))
        for name in defined
        if not name.startswith("_") and (not isinstance(listed, list | tuple) or name in listed or name in parted)
    }


def module_constants(tree: ast.Module) -> dict[str, object]:
    """Dunder name -> value, for the dunders that the file assigns a literal at its top level."""
    return _constants(tree)[0]


def top_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Every function that the body may bind, also in conditions.

    That is `def`, `async def`, `name = lambda`, and a second name for one of these: `name = function`, or Salt's
    `name = alias_function(function, …)`.
    """
    seen: dict[str, Function] = {}
    for statement in _statements(tree.body):
        if isinstance(statement, _FUNCTION):
            seen[statement.name] = statement
            yield statement.name, statement
        elif isinstance(statement, ast.Assign) and (function := _bound(statement.value, seen)) is not None:
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    seen[target.id] = function
                    yield target.id, function


def _bound(value: ast.expr, seen: Mapping[str, Function]) -> Function | None:
    """The function that a name gets by this value, as far as its text tells."""
    match value:
        case ast.Lambda():
            return value
        case ast.Call(func=ast.Name(id="alias_function") | ast.Attribute(attr="alias_function"), args=[first, *_]):
            return _bound(first, seen)
        case ast.Name(id=name):
            return seen.get(name)
    return None


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and _is_type_checking(statement.test):
            yield from _statements(statement.orelse)
            continue
        if isinstance(statement, (*_FUNCTION, ast.ClassDef)):
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, part, ()))
        for handler in getattr(statement, "handlers", ()):
            yield from _statements(handler.body)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _constants(tree: ast.Module) -> tuple[dict[str, object], set[str]]:
    """Dunders with a literal value, and those whose value only running the body tells."""
    literal: dict[str, object] = {}
    loose: set[str] = set()
    plain = {id(statement) for statement in tree.body}
    for statement in _statements(tree.body):
        if isinstance(statement, ast.ImportFrom):
            loose.update(alias.asname or alias.name for alias in statement.names)
        for name, value in _assigned(statement):
            try:
                literal[name] = ast.literal_eval(value)
            except (ValueError, TypeError, RecursionError, MemoryError):
                loose.add(name)
            if id(statement) not in plain:
                loose.add(name)
    return literal, loose


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets, value = [statement.target], statement.value
    else:
        return
    for target in targets:
        if isinstance(target, ast.Name) and target.id.startswith("__"):
            yield target.id, value


def _claims(
    virtual: ast.AST | None, constants: dict[str, object], loose: set[str], stem: str
) -> tuple[tuple[str, ...], bool]:
    aliases = constants.get("__virtual_aliases__", ())
    names = [str(alias) for alias in aliases] if isinstance(aliases, list | tuple) else []
    undetermined = bool(loose & {"__virtual__", "__virtual_aliases__"})
    declared = constants.get("__virtualname__")
    if virtual is None:
        names.append(stem)
    elif "__virtualname__" not in loose and isinstance(declared, str):
        names.append(declared)
    else:
        answers = set(_answers(virtual))
        undetermined = undetermined or _UNKNOWN in answers or "__virtualname__" in loose
        names += sorted(answer for answer in answers if isinstance(answer, str))
        if isinstance(declared, str):
            names.append(declared)
        if answers & {_SAYS_YES, _UNKNOWN} or not names:
            names.append(stem)
    return tuple(dict.fromkeys(names)), undetermined


def _always_says(virtual: Function, constants: Mapping[str, object], loose: set[str]) -> bool:
    """Whether `__virtual__` does nothing but to return `__virtualname__`, a plain name: then the text says it all."""
    body = [] if isinstance(virtual, ast.Lambda) else virtual.body[1 if ast.get_docstring(virtual) else 0 :]
    plain = "__virtualname__" not in loose and isinstance(constants.get("__virtualname__"), str)
    match body:
        case [ast.Return(value=ast.Name(id="__virtualname__"))]:
            return plain and not getattr(virtual, "decorator_list", None)
    return False


def _answers(virtual: ast.AST) -> Iterator[object]:
    """What `__virtual__` may return, as far as its text tells."""
    if isinstance(virtual, ast.Lambda):
        yield from _answer(virtual.body)
        return
    pending: list[ast.AST] = list(ast.iter_child_nodes(virtual))
    while pending:
        part = pending.pop()
        if isinstance(part, (*_FUNCTION, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(part, ast.Return) and part.value is not None:
            yield from _answer(part.value)
        pending.extend(ast.iter_child_nodes(part))


def _answer(part: ast.expr) -> Iterator[object]:
    if isinstance(part, ast.Tuple) and part.elts:
        yield from _answer(part.elts[0])
    elif isinstance(part, ast.IfExp):
        yield from _answer(part.body)
        yield from _answer(part.orelse)
    elif isinstance(part, ast.Constant):
        if part.value:
            yield part.value if isinstance(part.value, str) else _SAYS_YES
    elif isinstance(part, ast.Compare) or (isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not)):
        yield _SAYS_YES
    else:
        yield _UNKNOWN
