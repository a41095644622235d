"""Reads from one module's syntax tree which functions it offers and what they take; no code of the file runs.

Where a file computes its own name (`__virtual__` returns a variable, a condition sets `__virtualname__`) the scan
reports it as `undetermined`, and the loader has to load the file to know.

A text that promises too little would make the master refuse valid calls. Whatever could change what a function takes
therefore makes its signature unknown: a decorator outside SIGNATURE_KEEPING, a second definition, a later assignment.
`**options: Unpack[Options]` with a TypedDict of the same file (PEP 692) stands for its keys and no other keywords.

A package is read as one text. Functions that its `__init__.py` imports from a file beside it (`from .lines import
line`) and lists in `__all__` or `__load__` count as its own, with that file's TypedDicts and its entries in `__risk__`.
So do those that a shipped package imports from a shared file (`from saltlite.plugins.modules._rpm import verify`).
"""

from __future__ import annotations

import ast
import copy
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import saltlite
from saltlite.errors import RemoteProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.model.signature import (
    OMITTED,
    Parameter,
    ParameterKind,
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
"""Prefix of parameters that receive facts of the job; callers do not see them."""

UNNAMED_RISK = "risky"
"""Replaces a declared risk that is not a word of lower-case letters, digits and hyphens."""

SIGNATURE_KEEPING = frozenset(
    {"allow_one_of", "depends", "ensure_unicode_args", "is_deprecated", "memoize", "require_one_of", "timing", "which",
     "which_bin"}
)  # fmt: skip
"""Decorators, by their name in `saltlite.decorators` and in Salt, that do not change what a function takes."""

_BY_PLACE = (ParameterKind.POSITIONAL_ONLY, ParameterKind.EITHER, ParameterKind.REST)

_REDUCED = {
    "str": "str", "int": "int", "float": "float", "bool": "bool", "None": "None",
    "list": "list", "List": "list", "tuple": "list", "Tuple": "list", "Sequence": "list",
    "dict": "dict", "Dict": "dict", "Mapping": "dict",
}  # fmt: skip
"""Annotation -> the type that the command line makes of a word: a job carries a tuple as a list."""


def function_text(name: str, definitions: Iterable[Function], suffix: tuple[str, str], typed_dicts: Keys) -> str:
    """The signature text of one function. `suffix` is its risk and outputter, "" for none.

    The text has no parameters where they are uncertain or exceed a limit of the grammar.
    """
    signatures = {_signature(one, typed_dicts) for one in definitions}
    signature = signatures.pop() if len(signatures) == 1 else None
    text = format_signature(name, signature, *suffix)
    try:
        parse_signature(f"m.{text}")
    except RemoteProtocolError:
        return format_signature(name, None, *suffix)
    return text


def declared_risks(constants: Mapping[str, object]) -> dict[str, str]:
    """Function -> name of its risk, from the file's `__risk__`."""
    declared = constants.get("__risk__")
    if not isinstance(declared, dict):
        return {}
    return {str(fun): risk if is_risk(risk) else UNNAMED_RISK for fun, risk in _text_items(declared)}


def declared_outputters(constants: Mapping[str, object]) -> dict[str, str]:
    """Function -> its outputter, from the file's `__outputter__`."""
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
        return None  # a hidden parameter shifts the positions of those behind it
    return Signature(one for one in parameters if not one.name.startswith(HIDDEN))


def _keeps(decorator: ast.expr) -> bool:
    """Whether the decorator leaves the function's parameters unchanged."""
    if not isinstance(decorator, ast.Call):
        return _last_name(decorator) in SIGNATURE_KEEPING
    # `depends` may replace the function by its fallback.
    replaced = any(keyword.arg in ("fallback_function", None) for keyword in decorator.keywords)
    return _last_name(decorator.func) in SIGNATURE_KEEPING and not replaced


def _parameters(arguments: ast.arguments, typed_dicts: Keys) -> Iterator[Parameter]:
    by_place = [(one, ParameterKind.POSITIONAL_ONLY) for one in arguments.posonlyargs]
    by_place += [(one, ParameterKind.EITHER) for one in arguments.args]
    without = len(by_place) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [*[None] * without, *arguments.defaults]
    for (one, kind), default in zip(by_place, defaults, strict=True):
        yield _parameter(one, kind, default)
    if arguments.vararg is not None:
        yield _parameter(arguments.vararg, ParameterKind.REST, None)
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(one, ParameterKind.KEYWORD_ONLY, default)
    if arguments.kwarg is not None:
        yield from _keywords(arguments.kwarg, typed_dicts)


def _keywords(argument: ast.arg, typed_dicts: Keys) -> Iterator[Parameter]:
    match argument.annotation:
        case ast.Subscript(value=value, slice=ast.Name(id=name)) if (
            _last_name(value) == "Unpack" and name in typed_dicts
        ):
            for key, annotation in typed_dicts[name].items():
                wanted, required = _unwrapped(annotation)
                yield Parameter(key, ParameterKind.KEYWORD_ONLY, _types(wanted), None if required else OMITTED)
        case _:
            yield _parameter(argument, ParameterKind.KEYWORDS, None)


def _unwrapped(annotation: ast.expr | None) -> tuple[ast.expr | None, bool]:
    """The annotation of a key, and whether the key is required: only `Required` says so."""
    if isinstance(annotation, ast.Subscript) and _last_name(annotation.value) in ("Required", "NotRequired"):
        return annotation.slice, _last_name(annotation.value) == "Required"
    return annotation, False


def _parameter(argument: ast.arg, kind: ParameterKind, default: ast.expr | None) -> Parameter:
    return Parameter(argument.arg, kind, _types(argument.annotation), None if default is None else _default(default))


def _default(default: ast.expr) -> str:
    """Python's notation of a plain value, or OMITTED."""
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
    """The annotation as types of the grammar, in order; empty if any part of it is another type."""
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
    """The virtual names of the interfaces that the file imports or declares, which may name the module.

    An interface file has the name of its module, optionally followed by `_module`.
    """
    found: dict[str, None] = {}
    for part in tree.body:
        if isinstance(part, ast.ImportFrom) and (part.module or "").startswith(PACKAGES):
            found[str(part.module).rpartition(".")[2].removesuffix("_module")] = None
        elif isinstance(part, ast.ClassDef):
            found |= dict.fromkeys(filter(None, [text_of(part, "__modulename__")]))
    return tuple(found)


def text_of(part: ast.ClassDef, name: str) -> str:
    """The literal text that the class assigns to `name`; "" if there is none."""
    for statement in part.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Constant(value=str() as text)) if found == name:
                return text
    return ""


MODULE_BYTES_MAX = 4 * 1024 * 1024
"""A larger file is recorded as a failure and never parsed."""

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_TRUE = object()
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Scan:
    """The functions that a file offers and the virtual names that it claims.

    `functions` are sorted names as callers type them (after `__func_alias__`), and `texts` their signatures in the
    grammar of `saltlite.model.signature`, without the module's name. `checked` means that only running the file tells
    whether it offers all of this: it has a `__virtual__` that may refuse, `__init__`, or functions with `@depends`.
    `replaces` is `__replace__ = True`.
    """

    functions: tuple[str, ...]
    texts: tuple[str, ...]
    claims: tuple[str, ...]
    checked: bool
    undetermined: bool
    replaces: bool


def parse_module(source: bytes, path: str) -> ast.Module:
    """The syntax tree of a module file.

    Raises SyntaxError for everything that cannot be parsed, such as wrong encodings, null bytes, too deep nesting, and
    files larger than MODULE_BYTES_MAX.
    """
    if len(source) > MODULE_BYTES_MAX:
        raise SyntaxError(f"the file is larger than a module may be ({MODULE_BYTES_MAX} bytes)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # loading the module shows them
            return ast.parse(source, path)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"{type(error).__name__}: {error}") from error


def scan_module(tree: ast.Module, stem: str) -> Scan:
    """The scan of the module file `stem`.py."""
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
        checked=(virtual is not None and not _always_offers(virtual, constants, loose))
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
    """Shown name -> signature text, sorted."""
    risks, outputters = declared_risks(constants), declared_outputters(constants)
    rebound = set(_rebound_names(tree, definitions))
    keys = typed_dicts(tree)
    texts = {}
    for name, shown in shown_names(constants, definitions).items():
        certain = definitions[name] if name not in rebound else ()
        suffix = risks.get(name) or risks.get(shown, ""), outputters.get(name) or outputters.get(shown, "")
        texts[shown] = function_text(shown, certain, suffix, keys)
    return dict(sorted(texts.items()))


def _rebound_names(tree: ast.Module, definitions: Mapping[str, Sequence[Function]]) -> Iterator[str]:
    """Names that are also assigned a value which is not a known function."""
    seen = {name: functions[0] for name, functions in definitions.items() if functions}
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Assign) and _bound(statement.value, seen) is None:
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def _unread_functions(
    tree: ast.Module, constants: Mapping[str, object], defined: Mapping[str, Function]
) -> Iterator[str]:
    """Names that may be functions with unknown parameters: `f = wrapped(_f)`, and the listed names."""
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Assign) and _wraps_function(statement.value, defined):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    listed = constants.get("__load__", constants.get("__all__"))
    if isinstance(listed, list | tuple):
        classes = {statement.name for statement in _statements(tree.body) if isinstance(statement, ast.ClassDef)}
        yield from (str(name) for name in listed if name not in classes)


def _wraps_function(value: ast.expr, defined: Mapping[str, Function]) -> bool:
    """Whether a call receives a function of the file. A partial is not a function to the loader."""
    if not isinstance(value, ast.Call) or _called_name(value) == "partial":
        return False
    return any(isinstance(argument, ast.Name) and argument.id in defined for argument in value.args)


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _has_depends(defined: Mapping[str, Function]) -> bool:
    """Whether `depends`, known by its name, may remove a function."""
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
    return {
        name: str(shown.get(name, name))
        for name in defined
        if not name.startswith("_") and (not isinstance(listed, list | tuple) or name in listed)
    }


def module_constants(tree: ast.Module) -> dict[str, object]:
    """Dunder name -> value, for the dunders that the file assigns a literal at its top level."""
    return _constants(tree)[0]


def top_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Every function that the body may bind, also inside conditions.

    These are `def`, `async def`, `name = lambda`, and second names: `name = function`, or Salt's
    `name = alias_function(function, …)`. A function with `@same_parameters(model)` has the parameters of its model.
    """
    seen: dict[str, Function] = {}
    for statement in _statements(tree.body):
        if isinstance(statement, _FUNCTION):
            seen[statement.name] = _with_parameters_of_model(statement, seen)
            yield statement.name, seen[statement.name]
        elif isinstance(statement, ast.Assign) and (function := _bound(statement.value, seen)) is not None:
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    seen[target.id] = function
                    yield target.id, function


def _with_parameters_of_model(
    function: ast.FunctionDef | ast.AsyncFunctionDef, seen: Mapping[str, Function]
) -> ast.FunctionDef | ast.AsyncFunctionDef:
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(func=called, args=[ast.Name(id=model)]) if (
                _last_name(called) == "same_parameters" and model in seen
            ):
                found = copy.copy(function)
                found.args = seen[model].args
                found.decorator_list = [other for other in function.decorator_list if other is not decorator]
                return found
    return function


def _bound(value: ast.expr, seen: Mapping[str, Function]) -> Function | None:
    """The function that this value refers to, if its text tells."""
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
    """Dunders with a literal value, and those whose value only running the body would tell."""
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
        if answers & {_TRUE, _UNKNOWN} or not names:
            names.append(stem)
    return tuple(dict.fromkeys(names)), undetermined


def _always_offers(virtual: Function, constants: Mapping[str, object], loose: set[str]) -> bool:
    """Whether `__virtual__` only returns True or a name that is written down, so that it refuses on no machine."""
    if isinstance(virtual, ast.Lambda) or virtual.decorator_list:
        return False
    match virtual.body[1 if ast.get_docstring(virtual) else 0 :]:
        case [ast.Return(value=ast.Name(id="__virtualname__"))]:
            return "__virtualname__" not in loose and isinstance(constants.get("__virtualname__"), str)
        case [ast.Return(value=ast.Constant(value=True))]:
            return True
        case [ast.Return(value=ast.Constant(value=str(name)))]:
            return bool(name)
    return False


def _answers(virtual: ast.AST) -> Iterator[object]:
    """What `__virtual__` may return according to its text."""
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
            yield part.value if isinstance(part.value, str) else _TRUE
    elif isinstance(part, ast.Compare) or (isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not)):
        yield _TRUE
    else:
        yield _UNKNOWN


MAIN = "__init__.py"

SHARED = "saltlite.plugins.modules._"
"""Names of shared files begin so: a shipped package may offer their functions as its own."""

ReadPart = Callable[[str], tuple[bytes, str] | None]
"""Name of a submodule, such as `lines` -> its text and path; None if there is no such file."""


def joined_tree(tree: ast.Module, read: ReadPart) -> ast.Module:
    """`tree` of an `__init__.py` with the definitions of its submodules. Raises SyntaxError and OSError."""
    constants = module_constants(tree)
    body = list(tree.body)
    risks: dict[str, str] = {}
    for name, names in named_parts(tree):
        found = read(name)
        if found is not None:
            part = parse_module(*found)
            body += _taken(part, names)
            declared = declared_risks(module_constants(part))
            risks |= {names[function]: risk for function, risk in declared.items() if function in names}
    if risks:
        body.append(_risk_statement(risks | declared_risks(constants)))
    return ast.Module(body, tree.type_ignores)


def named_parts(tree: ast.Module) -> Iterator[tuple[str, dict[str, str]]]:
    """Submodule or shared file -> the functions that the module takes from it, each with its name in the module."""
    constants = module_constants(tree)
    listed = constants.get("__load__", constants.get("__all__"))
    if not isinstance(listed, list | tuple):
        return  # without a list, imported functions are not the module's own
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module and _is_part(statement):
            names = {alias.name: alias.asname or alias.name for alias in statement.names}
            yield statement.module, {name: shown for name, shown in names.items() if shown in listed}


def part_text(folder: str, name: str) -> tuple[bytes, str] | None:
    """Text and path of a submodule of the package in that folder; None if there is no such file."""
    path = part_path(folder, name)
    try:
        with open(path, "rb") as stream:
            return stream.read(MODULE_BYTES_MAX + 1), path
    except (FileNotFoundError, NotADirectoryError):
        return None


def part_path(folder: str, name: str) -> str:
    """The path of a submodule, or of a shared file of the shipped modules."""
    if name.startswith(SHARED):
        folder, name = os.path.dirname(saltlite.__file__), name.removeprefix("saltlite.")
    return os.path.join(folder, *name.split(".")) + ".py"


def _is_part(statement: ast.ImportFrom) -> bool:
    return statement.level == 1 or (statement.level == 0 and str(statement.module).startswith(SHARED))


def _taken(part: ast.Module, names: dict[str, str]) -> Iterator[ast.stmt]:
    """The TypedDicts of a submodule, then its functions under the names that the module gives them."""
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
