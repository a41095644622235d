"""Generate an interface from modules, and compare two versions of one.

change                                                          kind         required version a new function or optional
parameter                            additive     a higher minor version documentation, more platforms, a narrower
return                compatible   - a function or parameter removed, renamed, or newly required     breaking     a
higher major version another default or type, fewer platforms, a wider return        breaking     a higher major version

A generated interface has the functions of all modules. Of a shared function it takes the parameters that all of them
have, with the most common default. A function that only some have gets `supported` for the platforms of its providers:
the grains that their `__virtual__` compares, or those given by the caller.
"""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from saltlite.errors import UsageError
from saltlite.interfaces.smi.contract import compare
from saltlite.lint.source import Declaration, SourceFunction, SourceInterface, SourceModule, Unread

_BREAKING = {
    "renamed": "{other} was called {parameter}",
    "moved": "{parameter} moved to another position",
    "missing": "{parameter} is gone",
    "swallowed": "{parameter} is gone, and goes to **kwargs",
    "required": "{other} is required now",
    "default_differs": "the default of {parameter} changed: {detail}",
    "type_differs": "the type of {parameter} changed: {detail}",
    "no_varargs": "only so many positional arguments are taken",
    "fewer_keywords": "only certain keyword arguments are taken",
}


class Kind(StrEnum):
    """What a change means for users of the older version."""

    BREAKING = "breaking"
    ADDITIVE = "additive"
    COMPATIBLE = "compatible"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one function."""

    kind: Kind
    function: str
    text: str

    def sentence(self) -> str:
        """`breaking    install: pkgs is gone`."""
        return f"{self.kind:<11} {self.function}: {self.text}"


def changes_between(before: SourceInterface, after: SourceInterface) -> list[Change]:
    """Every change, breaking ones first, then by function."""
    found = list(_changes(before, after))
    order = list(Kind)
    return sorted(found, key=lambda one: (order.index(one.kind), one.function, one.text))


def version_problem(before: SourceInterface, after: SourceInterface, changes: list[Change]) -> str:
    """Why the later version number does not fit the changes, or ""."""
    old, new = _version(before.version), _version(after.version)
    if any(one.kind is Kind.BREAKING for one in changes) and new[:1] <= old[:1]:
        return f"breaking changes require version {old[0] + 1}.0, and it has {after.version}"
    if any(one.kind is Kind.ADDITIVE for one in changes) and new <= old:
        return f"additions require a version above {before.version}, and it has {after.version}"
    return ""


def _changes(before: SourceInterface, after: SourceInterface) -> Iterator[Change]:
    for fun in sorted({*before.functions, *after.functions}):
        old, new = before.functions.get(fun), after.functions.get(fun)
        if new is None:
            reserved = "" if fun in after.reserved else f"; add it to __reserved__, so that {fun} never comes back"
            yield Change(Kind.BREAKING, fun, f"the function is gone{reserved}")
        elif old is None:
            again = " though it is reserved" if fun in before.reserved else ""
            yield Change(Kind.BREAKING if again else Kind.ADDITIVE, fun, f"the function is new{again}")
        else:
            yield from (Change(kind, fun, text) for kind, text in _in_function(old, new))


def _in_function(old: Declaration, new: Declaration) -> Iterator[tuple[Kind, str]]:
    for one in compare(old.function.signature, new.function.signature):
        if one.kind == "extra":
            yield Kind.ADDITIVE, one.detail.replace(" here", "")
        else:
            detail = one.detail.replace(" here", " now").replace(" there", " before")
            text = _BREAKING[one.kind].format(parameter=one.parameter, other=one.other or one.parameter, detail=detail)
            yield Kind.BREAKING, text
    if old.function.returns != new.function.returns:
        yield _of_returns(old.function.returns, new.function.returns)
    yield from _of_platforms("supported", old.supported, new.supported, fewer=Kind.BREAKING)
    yield from _of_platforms("not applicable", old.not_applicable, new.not_applicable, fewer=Kind.COMPATIBLE)
    if old.function.doc != new.function.doc:
        yield Kind.COMPATIBLE, "the documentation changed"


def _of_returns(old: str, new: str) -> tuple[Kind, str]:
    text = f"it returns {new or 'anything'}, and returned {old or 'anything'}"
    was, now = _alternatives(old), _alternatives(new)
    narrower = not old or old == "Any" or (bool(now) and now <= was)
    return (Kind.COMPATIBLE if narrower else Kind.BREAKING), text


def _of_platforms(
    what: str, old: Mapping[str, list[str]], new: Mapping[str, list[str]], *, fewer: Kind
) -> Iterator[tuple[Kind, str]]:
    was = {f"{grain}={value}" for grain, values in old.items() for value in values}
    now = {f"{grain}={value}" for grain, values in new.items() for value in values}
    if what == "supported" and bool(was) != bool(now):
        where = "everywhere" if was else f"where {', '.join(sorted(now))} only"
        yield (Kind.COMPATIBLE if was else Kind.BREAKING), f"it is available {where}"
        return
    if gone := sorted(was - now):
        yield fewer, f"it is no longer {what} where {', '.join(gone)}"
    if more := sorted(now - was):
        kind = Kind.COMPATIBLE if fewer is Kind.BREAKING else Kind.BREAKING
        yield kind, f"it is {what} where {', '.join(more)}"


def _alternatives(returns: str) -> set[str]:
    if not returns:
        return set()
    found: set[str] = set()
    pending = [ast.parse(returns, mode="eval").body]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
            pending += [part.left, part.right]
        else:
            found.add(ast.unparse(part))
    return found


def _version(text: str) -> tuple[int, ...]:
    parts = [int(part) for part in text.split(".") if part.isdigit()]
    return tuple(parts) or (0,)


_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_PLATFORM_GRAINS = ("os_family", "os", "kernel", "init", "osfamily")

_PLAIN = frozenset({"Any", "None", "bool", "bytes", "dict", "float", "int", "list", "str", "tuple"})

Platforms = Mapping[str, Sequence[str]]
"""Grain -> values."""


def generate(name: str, modules: Sequence[SourceModule], platforms: Mapping[str, Platforms]) -> str:
    """The text of a file with the interface of the virtual module `name`.

    `platforms`: file name of a module -> where it is used; other modules are read. Raises UsageError for a module with
    an unknown platform and a function that another module lacks.
    """
    shown = f"{name.title().replace('_', '')}Interface"
    lines = [f'"""The interface of `{name}`."""', "", "from __future__ import annotations", ""]
    lines += ["from typing import Any", "", "from saltlite.interfaces import Interface", "", ""]
    lines += [f"class {shown}(Interface):", f'    __modulename__ = "{name}"', '    __version__ = "1.0"']
    places = {module.stem: platforms.get(module.stem) or platform_of(module) for module in modules}
    for fun, having in _by_function(modules).items():
        lines.append("")
        if len(having) < len(modules):
            lines.append(f"    {_decorator(fun, having, places)}")
        lines += _method(fun, [module.functions[fun] for module in having])
    return "\n".join(lines) + "\n"


def platform_of(module: SourceModule) -> Platforms:
    """The grains that a module's `__virtual__` compares with text; empty without a comparison."""
    found: dict[str, list[str]] = {}
    for part in ast.walk(module.tree):
        if isinstance(part, ast.FunctionDef) and part.name == "__virtual__":
            for compared in ast.walk(part):
                if isinstance(compared, ast.Compare):
                    for grain, value in _compared(compared):
                        found.setdefault(grain, []).append(value)
    return {grain: sorted(set(values)) for grain, values in found.items()}


def _compared(part: ast.Compare) -> Iterator[tuple[str, str]]:
    texts = [one.value for one in ast.walk(part) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if "__grains__" not in ast.unparse(part):
        return
    grain = next((text for text in texts if text in _PLATFORM_GRAINS), "")
    for text in texts:
        if grain and text and text != grain:
            yield grain, text


def _by_function(modules: Sequence[SourceModule]) -> dict[str, list[SourceModule]]:
    """Function -> the modules that have it, the most common first, then by name."""
    names = {fun for module in modules for fun in module.functions}
    having = {fun: [module for module in modules if fun in module.functions] for fun in names}
    return dict(sorted(having.items(), key=lambda item: (-len(item[1]), item[0])))


def _decorator(fun: str, having: Sequence[SourceModule], places: Mapping[str, Platforms]) -> str:
    wanted: dict[str, set[str]] = {}
    for module in having:
        if not places[module.stem]:
            raise UsageError(
                f"{fun} is not in every module, and the platform of {module.path} is unknown: "
                f"name it with --platform {module.stem}:os_family=Debian"
            )
        for grain, values in places[module.stem].items():
            wanted.setdefault(grain, set()).update(values)
    grains = ", ".join(f"{grain}={_quoted(sorted(values))}" for grain, values in sorted(wanted.items()))
    return f"@Interface.supported({grains})"


def _method(fun: str, functions: Sequence[SourceFunction]) -> list[str]:
    returned = {function.returns for function in functions}
    returns = returned.pop() if len(returned) == 1 else ""
    returns = returns if returns and _is_plain(returns) else ""
    signature = shared_signature([function.signature for function in functions])
    shown = _written(signature)
    doc = next((function.doc.split("\n\n")[0] for function in functions if function.doc), "")
    text = f"{' '.join(doc.split()).partition('. ')[0].rstrip('.:')}." if doc else ""
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    return [
        f"    def {fun}(self{', ' if shown else ''}{shown}) -> {returns or 'Any'}:",
        f'        """{text}"""',
        f"        return {_default(returns)}",
    ]


def shared_signature(signatures: Sequence[inspect.Signature]) -> inspect.Signature:
    """The parameters that all signatures have, in the order of the first."""
    first = signatures[0]
    shared: list[inspect.Parameter] = []
    for parameter in first.parameters.values():
        if parameter.kind in _STARRED:
            if all(_has_kind(one, parameter.kind) for one in signatures):
                shared.append(parameter.replace(annotation=inspect.Parameter.empty))
            continue
        found = [one.parameters.get(parameter.name) for one in signatures]
        same = [one for one in found if one is not None and one.kind not in _STARRED]
        if len(same) == len(signatures):
            shared.append(_joined(same))
    shared.sort(key=lambda one: (one.kind, one.default is not one.empty if one.kind <= 1 else False))
    return inspect.Signature(shared)


def _joined(parameters: Sequence[inspect.Parameter]) -> inspect.Parameter:
    empty = inspect.Parameter.empty
    kind = max(parameter.kind for parameter in parameters)
    annotations = {parameter.annotation for parameter in parameters}
    defaults = [parameter.default for parameter in parameters]
    needed = any(default is empty for default in defaults)
    usual = Counter(map(repr, defaults)).most_common(1)[0][0]
    default = empty if needed else next(one for one in defaults if repr(one) == usual)
    annotation = annotations.pop() if len(annotations) == 1 else empty
    annotation = annotation if annotation is not empty and _is_plain(str(annotation)) else empty
    return parameters[0].replace(kind=kind, default=default, annotation=annotation)


def _is_plain(annotation: str) -> bool:
    """Whether an annotation means the same in another file: it names only built-in types."""
    try:
        parts = list(ast.walk(ast.parse(annotation, mode="eval")))
    except (SyntaxError, ValueError):
        return False
    return all(part.id in _PLAIN for part in parts if isinstance(part, ast.Name)) and not any(
        isinstance(part, ast.Attribute) for part in parts
    )


def _has_kind(signature: inspect.Signature, kind: inspect._ParameterKind) -> bool:
    return any(parameter.kind is kind for parameter in signature.parameters.values())


def _written(signature: inspect.Signature) -> str:
    """The parameters as source text."""
    parts: list[str] = []
    star = False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        stars = "*" * (one.kind is one.VAR_POSITIONAL) + "**" * (one.kind is one.VAR_KEYWORD)
        annotation = "" if one.annotation is one.empty else f": {one.annotation}"
        default = "" if one.default is one.empty else f"{' = ' if annotation else '='}{_value(one.default)}"
        parts.append(f"{stars}{one.name}{annotation}{default}")
    return ", ".join(parts)


def _value(default: object) -> str:
    """A default as source text; a name from the provider's file becomes None."""
    return "None" if isinstance(default, Unread) else repr(default).replace("'", '"')


def _default(returns: str) -> str:
    first = returns.partition("|")[0].partition("[")[0].strip()
    return {"str": '""', "int": "0", "float": "0.0", "bool": "False", "list": "[]", "dict": "{}"}.get(first, "None")


def _quoted(values: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
