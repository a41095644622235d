"""Annotations of parameters, reduced to the words of `saltlite.model.signature.TYPES`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
