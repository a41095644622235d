"""What changes for callers and providers between two versions of an interface.

change                                                       kind         wants
a function or an optional parameter more                     additive     a higher minor version
documentation, platforms more, a narrower return             compatible   -
a function or a parameter less, renamed, or needed now       breaking     a higher major version
another default, another type, platforms less, a wider return   breaking  a higher major version
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from saltlite.interfaces.smi.differences import compare
from saltlite.lint.source import Declaration, SourceInterface

_BREAKING = {
    "renamed": "{other} was called {parameter}",
    "moved": "{parameter} is another argument by its place",
    "missing": "{parameter} is gone",
    "swallowed": "{parameter} is gone, and goes to **kwargs",
    "required": "{other} has to be given",
    "default_differs": "the default of {parameter} is another one: {detail}",
    "type_differs": "{parameter} takes other types: {detail}",
    "no_varargs": "only so many positional arguments are taken",
    "fewer_keywords": "only certain keyword arguments are taken",
}


class Kind(StrEnum):
    """What a change means for those who keep to the older version."""

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
    """Every change, the breaking ones first, then by function."""
    found = list(_changes(before, after))
    order = list(Kind)
    return sorted(found, key=lambda one: (order.index(one.kind), one.function, one.text))


def version_problem(before: SourceInterface, after: SourceInterface, changes: list[Change]) -> str:
    """Why the version of the later one does not fit its changes, or ""."""
    old, new = _version(before.version), _version(after.version)
    if any(one.kind is Kind.BREAKING for one in changes) and new[:1] <= old[:1]:
        return f"breaking changes want version {old[0] + 1}.0, and it says {after.version}"
    if any(one.kind is Kind.ADDITIVE for one in changes) and new <= old:
        return f"additions want a version above {before.version}, and it says {after.version}"
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
        yield Kind.COMPATIBLE, "the documentation is another one"


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
        yield (Kind.COMPATIBLE if was else Kind.BREAKING), f"it is to be had {where}"
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
