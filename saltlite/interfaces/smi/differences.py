"""What a call that is valid for an interface meets when the provider takes something else.

difference        level     a call that is valid for the interface
extra             ok        works; the provider takes more than it has to
renamed           warning   works by place, not by name
swallowed         warning   works, and the provider's `**kwargs` may not look at the parameter
default_differs   warning   means something else where the parameter is left out
type_differs      warning   may be refused by a provider that looks at types
fewer_keywords    warning   is refused with keywords that the interface does not name
moved             error     works by name, not by place
missing           error     is refused with that parameter
required          error     is refused without that parameter
no_varargs        error     is refused with more positional arguments
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

REDUCED = {
    "str": "str", "int": "int", "float": "float", "bool": "bool", "None": "None", "NoneType": "None",
    "list": "list", "List": "list", "tuple": "list", "Tuple": "list", "Sequence": "list",
    "dict": "dict", "Dict": "dict", "Mapping": "dict",
}  # fmt: skip


def reduced_types(annotation: Any) -> frozenset[str]:
    """The types that the annotation allows; empty for any, and where a part of it is not known.

    `annotation` is a type, or its text as `from __future__ import annotations` leaves it.
    """
    text = annotation.__name__ if type(annotation) is type else str(annotation)
    try:
        found = list(_words(ast.parse(text, mode="eval").body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset() if "" in found else frozenset(found)


def _words(part: ast.expr) -> Iterator[str]:
    match part:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _words(left)
            yield from _words(right)
        case ast.Constant(value=None):
            yield "None"
        case ast.Constant(value=str() as quoted):
            yield from _words(ast.parse(quoted, mode="eval").body)
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inside):
            yield from _words(inside)
            yield "None"
        case ast.Subscript(value=ast.Name(id="Union") | ast.Attribute(attr="Union"), slice=ast.Tuple(elts=parts)):
            for one in parts:
                yield from _words(one)
        case ast.Subscript(value=value):
            yield from _words(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield REDUCED.get(name, "")
        case _:
            yield ""


class DifferenceLevel(StrEnum):
    """How bad a difference is for somebody who keeps to the interface."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: `kind` as in the table, `parameter` of the interface (of the provider where it has more)."""

    kind: str
    parameter: str
    other: str = ""
    """The provider's name of a renamed parameter."""
    detail: str = ""

    @property
    def level(self) -> DifferenceLevel:
        """How bad it is."""
        return LEVELS[self.kind]

    def text(self) -> str:
        """For people: `renamed: name is pkg here`."""
        return f"{self.kind}: {self.detail}"


LEVELS = {
    "extra": DifferenceLevel.OK,
    "renamed": DifferenceLevel.WARNING,
    "swallowed": DifferenceLevel.WARNING,
    "default_differs": DifferenceLevel.WARNING,
    "type_differs": DifferenceLevel.WARNING,
    "fewer_keywords": DifferenceLevel.WARNING,
    "moved": DifferenceLevel.ERROR,
    "missing": DifferenceLevel.ERROR,
    "required": DifferenceLevel.ERROR,
    "no_varargs": DifferenceLevel.ERROR,
}

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_EMPTY = inspect.Parameter.empty

HIDDEN = "__pub_"
"""Parameters that begin so tell a function about its job, and no caller gives them."""


class Shape:
    """The parameters of a signature, sorted by how an argument reaches them."""

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = [one for one in signature.parameters.values() if not one.name.startswith(HIDDEN)]
        self.placed = [one for one in parameters if one.kind in _PLACED]
        self.named = {one.name: one for one in parameters if one.kind in _NAMED}
        self.by_keyword_only = [one for one in parameters if one.kind is one.KEYWORD_ONLY]
        self.takes_rest = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        self.takes_keywords = any(one.kind is one.VAR_KEYWORD for one in parameters)


def compare(interface: inspect.Signature, provider: inspect.Signature) -> tuple[Difference, ...]:
    """Every difference, in the order of the interface's parameters; empty when the provider takes just the same."""
    if interface == provider:
        return ()
    return tuple(_differences(Shape(interface), Shape(provider)))


def _differences(ours: Shape, theirs: Shape) -> Iterator[Difference]:
    met: set[str] = set()
    for place, one in enumerate(ours.placed):
        other = theirs.named.get(one.name)
        at_place = theirs.placed[place] if place < len(theirs.placed) else None
        if at_place is not None and at_place.name == one.name:
            other = at_place  # also when it is positional only there
        if other is not None and other.name in met:
            other = None  # it is what one of the arguments before is called here
        if at_place is not None and _is_renamed(other, at_place, ours):
            met.add(at_place.name)
            yield Difference("renamed", one.name, at_place.name, f"{one.name} is {at_place.name} here")
            yield from _at_one(one, at_place)
        elif other is not None:
            met.add(other.name)
            if other is not at_place:
                yield Difference("moved", one.name, detail=f"{one.name} is not argument {place + 1} here")
            yield from _at_one(one, other)
        else:
            yield _without(one, theirs)
    for one in ours.by_keyword_only:
        other = theirs.named.get(one.name)
        if other is None:
            yield _without(one, theirs)
        else:
            met.add(one.name)
            yield from _at_one(one, other)
    yield from _beyond(ours, theirs, met)


def _is_renamed(other: inspect.Parameter | None, at_place: inspect.Parameter, ours: Shape) -> bool:
    """Whether the argument at a place has another name in the provider. `other` is what has the same name there.

    Only a parameter without a default is taken for the argument: one with a default may just as well be something that
    the provider has beside it, and a value that went there would mean something else.
    """
    if other is at_place or at_place.default is not _EMPTY:
        return False
    return other is None or at_place.name not in ours.named


def _at_one(one: inspect.Parameter, other: inspect.Parameter) -> Iterator[Difference]:
    """Differences between two parameters that take the same argument."""
    if one.default is not _EMPTY and other.default is _EMPTY:
        yield Difference("required", one.name, other.name, f"{other.name} has no default here")
    elif one.default is not _EMPTY and not _same(one.default, other.default):
        yield Difference(
            "default_differs", one.name, other.name, f"{one.name}={other.default!r} here, {one.default!r} there"
        )
    wanted, taken = (
        reduced_types(each.annotation) if each.annotation is not _EMPTY else frozenset() for each in (one, other)
    )
    if wanted and taken and not wanted <= taken:
        detail = f"{one.name} is {' | '.join(sorted(taken))} here, {' | '.join(sorted(wanted))} there"
        yield Difference("type_differs", one.name, other.name, detail)


def _without(one: inspect.Parameter, theirs: Shape) -> Difference:
    if theirs.takes_keywords:
        return Difference("swallowed", one.name, detail=f"{one.name} goes to **kwargs here")
    return Difference("missing", one.name, detail=f"{one.name} is not taken here")


def _beyond(ours: Shape, theirs: Shape, met: set[str]) -> Iterator[Difference]:
    more = {one.name: one for one in (*theirs.placed, *theirs.by_keyword_only) if one.name not in met}
    for name, one in more.items():
        if one.default is _EMPTY:
            yield Difference("required", name, name, f"{name} has to be given here")
        else:
            yield Difference("extra", name, detail=f"{name} is taken here")
    if ours.takes_rest and not theirs.takes_rest:
        yield Difference("no_varargs", "*", detail="only so many positional arguments are taken here")
    if ours.takes_keywords and not theirs.takes_keywords:
        yield Difference("fewer_keywords", "**", detail="only certain keyword arguments are taken here")
    if (theirs.takes_rest and not ours.takes_rest) or (theirs.takes_keywords and not ours.takes_keywords):
        yield Difference("extra", "*", detail="any further arguments are taken here")


def _same(one: Any, other: Any) -> bool:
    return bool(one == other)
