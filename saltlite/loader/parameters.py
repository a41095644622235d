"""What a function takes, from its syntax tree to the text of `saltlite.model.signature`; no code of the file runs.

A text that promises too little would have valid calls refused, so whatever could change what is taken makes it unknown:
a decorator that is none of KEEPING, a second definition, a later assignment to the name.

`**options: Unpack[Options]`, where Options is a TypedDict of the same file (PEP 692), is read as its keys: the function
takes these keywords and no others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
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
