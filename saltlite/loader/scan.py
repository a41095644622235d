"""What one module file offers, read from its syntax tree: no code of the file runs.

The result is a promise about names only. Where the file computes what it is called (`__virtual__` returning
a variable, `__virtualname__` set inside a condition) the scan says so with `undetermined`, and the loader
then has to load the file to know.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from saltlite.errors import RemoteProtocolError
from saltlite.model.signature import (
    OMITTED,
    Kind,
    Parameter,
    Signature,
    format_signature,
    is_outputter,
    is_risk,
    parse_signature,
    short_default,
)

Keys = Mapping[str, Mapping[str, ast.expr | None]]
"""Class name -> key -> annotation of its value, for the TypedDicts of a file."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

HIDDEN = "__pub_"
"""Parameters that begin so tell a function about its job, and no caller sees them."""

UNNAMED_RISK = "risky"
"""Stands for a declared risk that is no word of lower-case letters, digits and hyphens."""

KEEPING = frozenset(
    {"allow_one_of", "depends", "ensure_unicode_args", "is_deprecated", "memoize", "require_one_of", "timing", "which",
     "which_bin"}
)  # fmt: skip
"""Decorators, by their name in `saltlite.decorators` and Salt's, that leave what a function takes as it is."""

_BY_PLACE = (Kind.POSITIONAL_ONLY, Kind.EITHER, Kind.REST)

_REDUCED = {
    "str": "str", "int": "int", "float": "float", "bool": "bool", "None": "None",
    "list": "list", "List": "list", "tuple": "list", "Tuple": "list", "Sequence": "list",
    "dict": "dict", "Dict": "dict", "Mapping": "dict",
}  # fmt: skip
"""Annotation -> the value of the command line that fits it: a job carries a tuple as a list."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a module file declares for its functions, by their name in the file or the one that callers type."""

    risks: Mapping[str, str]
    outputters: Mapping[str, str]

    def suffix(self, name: str, shown: str) -> tuple[str, str]:
        """Risk and outputter of one function, "" for none."""
        found = [said.get(name) or said.get(shown, "") for said in (self.risks, self.outputters)]
        return found[0], found[1]


def function_text(name: str, definitions: Iterable[Function], suffix: tuple[str, str], typed_dicts: Keys) -> str:
    """The text of one function; where what it takes is not certain the name, and risk and outputter (`suffix`) only."""
    signatures = {_signature(one, typed_dicts) for one in definitions}
    signature = signatures.pop() if len(signatures) == 1 else None
    return fitting_text(format_signature(name, signature, *suffix), format_signature(name, None, *suffix))


def fitting_text(text: str, otherwise: str) -> str:
    """`text`, or `otherwise` where it is beyond a limit of the grammar. Either may be put behind a module's name."""
    try:
        parse_signature(text if "." in text.partition("(")[0] else f"m.{text}")
    except RemoteProtocolError:
        return otherwise
    return text


def declared_risks(constants: Mapping[str, object]) -> dict[str, str]:
    """Function -> the name of its risk, from the `__risk__` of a module file."""
    declared = constants.get("__risk__")
    if not isinstance(declared, dict):
        return {}
    return {str(fun): risk if is_risk(risk) else UNNAMED_RISK for fun, risk in _text_items(declared)}


def declared_outputters(constants: Mapping[str, object]) -> dict[str, str]:
    """Function -> the outputter that it asks for, from the `__outputter__` of a module file."""
    declared = constants.get("__outputter__")
    if not isinstance(declared, dict):
        return {}
    return {fun: out for fun, out in _text_items(declared) if is_outputter(out)}


def _text_items(declared: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    return ((str(key), str(value)) for key, value in declared.items())


def typed_dicts(tree: ast.Module) -> Keys:
    """The TypedDicts that a file defines at its top level, each with the keys of those that it extends."""
    found: dict[str, dict[str, ast.expr | None]] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.ClassDef):
            continue
        bases = [_last_name(base) for base in statement.bases]
        if bases and all(base == "TypedDict" or base in found for base in bases):
            keys: dict[str, ast.expr | None] = {}
            for base in bases:
                keys |= found.get(base, {})
            for line in statement.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    keys[line.target.id] = line.annotation
            found[statement.name] = keys
    return found


def _signature(function: Function, typed_dicts: Keys) -> Signature | None:
    if not isinstance(function, ast.Lambda) and not all(map(_keeps, function.decorator_list)):
        return None
    parameters = list(_parameters(function.args, typed_dicts))
    hidden = [one.name.startswith(HIDDEN) for one in parameters if one.kind in _BY_PLACE]
    if hidden != sorted(hidden):
        return None  # without the hidden one, the places of those behind it would be wrong
    return Signature(one for one in parameters if not one.name.startswith(HIDDEN))


def _keeps(decorator: ast.expr) -> bool:
    """Whether the decorated function takes what its own text says."""
    if not isinstance(decorator, ast.Call):
        return _last_name(decorator) in KEEPING
    # `depends` may put another function in its place.
    replaced = any(keyword.arg in ("fallback_function", None) for keyword in decorator.keywords)
    return _last_name(decorator.func) in KEEPING and not replaced


def _parameters(arguments: ast.arguments, typed_dicts: Keys) -> Iterator[Parameter]:
    by_place = [(one, Kind.POSITIONAL_ONLY) for one in arguments.posonlyargs]
    by_place += [(one, Kind.EITHER) for one in arguments.args]
    without = len(by_place) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [*[None] * without, *arguments.defaults]
    for (one, kind), default in zip(by_place, defaults, strict=True):
        yield _parameter(one, kind, default)
    if arguments.vararg is not None:
        yield _parameter(arguments.vararg, Kind.REST, None)
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(one, Kind.KEYWORD_ONLY, default)
    if arguments.kwarg is not None:
        yield from _keywords(arguments.kwarg, typed_dicts)


def _keywords(argument: ast.arg, typed_dicts: Keys) -> Iterator[Parameter]:
    match argument.annotation:
        case ast.Subscript(value=value, slice=ast.Name(id=name)) if (
            _last_name(value) == "Unpack" and name in typed_dicts
        ):
            for key, annotation in typed_dicts[name].items():
                wanted, required = _unwrapped(annotation)
                yield Parameter(key, Kind.KEYWORD_ONLY, _types(wanted), None if required else OMITTED)
        case _:
            yield _parameter(argument, Kind.KEYWORDS, None)


def _unwrapped(annotation: ast.expr | None) -> tuple[ast.expr | None, bool]:
    """The annotation of a key, and whether the key has to be there: in an options class only `Required` says so."""
    if isinstance(annotation, ast.Subscript) and _last_name(annotation.value) in ("Required", "NotRequired"):
        return annotation.slice, _last_name(annotation.value) == "Required"
    return annotation, False


def _parameter(argument: ast.arg, kind: Kind, default: ast.expr | None) -> Parameter:
    return Parameter(argument.arg, kind, _types(argument.annotation), None if default is None else _default(default))


def _default(default: ast.expr) -> str:
    """Python's notation of a plain value; anything longer is only said to be there."""
    match default:
        case ast.Constant(value):
            return short_default(repr(value))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value)):
            return short_default(f"-{value!r}")
        case ast.List(elts=[]):
            return "[]"
        case ast.Dict(keys=[]):
            return "{}"
    return OMITTED


def _types(annotation: ast.expr | None) -> tuple[str, ...]:
    """The annotation as types of the grammar, in its order; empty where a part of it is none of them."""
    found: dict[str, None] = {}
    if annotation is None:
        return ()
    for part in _alternatives(annotation):
        reduced = _reduced(part)
        if not reduced:
            return ()
        found[reduced] = None
    return () if list(found) == ["None"] else tuple(found)


def _alternatives(annotation: ast.expr) -> Iterator[ast.expr]:
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _alternatives(left)
            yield from _alternatives(right)
        case ast.Subscript(value=value, slice=inside) if _last_name(value) == "Optional":
            yield from _alternatives(inside)
            yield ast.Constant(None)
        case ast.Subscript(value=value, slice=ast.Tuple(elts=parts)) if _last_name(value) == "Union":
            for part in parts:
                yield from _alternatives(part)
        case ast.Constant(value=str() as text):
            try:
                yield from _alternatives(ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                yield annotation
        case _:
            yield annotation


def _reduced(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return "None" if part.value is None else ""
    return _REDUCED.get(_last_name(part.value if isinstance(part, ast.Subscript) else part), "")


def _last_name(part: ast.expr) -> str:
    return part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""


PACKAGES = ("saltlite.interfaces.", "salt.interfaces.")


def interface_claims(tree: ast.Module) -> tuple[str, ...]:
    """The virtual names of the interfaces that the file imports or declares: what it may be called after one of them.

    The file of an interface is called after its module, or so with `_module` behind it.
    """
    found: dict[str, None] = {}
    for part in tree.body:
        if isinstance(part, ast.ImportFrom) and (part.module or "").startswith(PACKAGES):
            found[str(part.module).rpartition(".")[2].removesuffix("_module")] = None
        elif isinstance(part, ast.ClassDef):
            found |= dict.fromkeys(filter(None, [text_of(part, "__modulename__")]))
    return tuple(found)


def text_of(part: ast.ClassDef, name: str) -> str:
    """The text that the class gives to one of its names; "" when it does not, or not literally."""
    for statement in part.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Constant(value=str() as text)) if found == name:
                return text
    return ""


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


def parted_names(declared: object) -> Iterator[tuple[str, str]]:
    """(function, part) for all that the `__parts__` of a package names."""
    if isinstance(declared, Mapping):
        for part, names in declared.items():
            if isinstance(names, list | tuple):
                yield from ((name, str(part)) for name in map(str, names) if not name.startswith("_"))


MAIN = "__init__.py"

ReadPart = Callable[[str], tuple[bytes, str] | None]
"""The name of a part, such as `lines` -> its text and its path; None when there is no such file."""


def joined_tree(tree: ast.Module, read: ReadPart) -> ast.Module:
    """`tree` of an `__init__.py` with the definitions that it takes from its parts. Raises SyntaxError and OSError."""
    constants = module_constants(tree)
    body = list(tree.body)
    risks: dict[str, str] = {}
    for name, names in named_parts(tree):
        found = read(name)
        if found is not None:
            part = parse_module(*found)
            body += _taken(part, names)
            said = declared_risks(module_constants(part))
            risks |= {names[function]: risk for function, risk in said.items() if function in names}
    if risks:
        body.append(_risk_statement(risks | declared_risks(constants)))
    return ast.Module(body, tree.type_ignores)


def named_parts(tree: ast.Module) -> Iterator[tuple[str, dict[str, str]]]:
    """Part -> the functions that the module has of it, each with the name that the module gives it."""
    constants = module_constants(tree)
    parts: dict[str, dict[str, str]] = {}
    for name, part in parted_names(constants.get("__parts__")):
        parts.setdefault(part, {})[name] = name
    yield from parts.items()
    listed = constants.get("__load__", constants.get("__all__"))
    if not isinstance(listed, list | tuple):
        return  # then functions of a part that is imported are no functions of the module
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.level == 1 and statement.module:
            names = {alias.name: alias.asname or alias.name for alias in statement.names}
            yield statement.module, {name: shown for name, shown in names.items() if shown in listed}


def part_text(folder: str, name: str) -> tuple[bytes, str] | None:
    """The text and the path of a part of the package in that folder; None when there is no such file."""
    path = part_path(folder, name)
    try:
        with open(path, "rb") as stream:
            return stream.read(MODULE_BYTES_MAX + 1), path
    except (FileNotFoundError, NotADirectoryError):
        return None


def part_path(folder: str, name: str) -> str:
    """Where the part of that name is."""
    return os.path.join(folder, *name.split(".")) + ".py"


def _taken(part: ast.Module, names: dict[str, str]) -> Iterator[ast.stmt]:
    """The functions of a part by the names that the module gives them, behind the TypedDicts that they may speak of."""
    keys = typed_dicts(part)
    yield from (one for one in part.body if isinstance(one, ast.ClassDef) and one.name in keys)
    for name, function in top_functions(part):
        if name not in names:
            continue
        value: ast.expr = function if isinstance(function, ast.Lambda) else ast.Name(function.name, ast.Load())
        if not isinstance(function, ast.Lambda):
            yield function
        if isinstance(function, ast.Lambda) or function.name != names[name]:
            yield ast.Assign([ast.Name(names[name], ast.Store())], value)


def _risk_statement(risks: dict[str, str]) -> ast.stmt:
    return ast.parse(f"__risk__ = {risks!r}").body[0]
