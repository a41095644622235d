"""Whether what a caller gives fits what a function says it takes, as far as lists and maps go.

Whoever calls by the API, or by a function, can give a list where a text is meant; most code finds out in the middle of
what it does. Only shipped functions are held to their annotations: files of others may take more than they say. Texts
and numbers stand for each other, as they always did.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from saltlite.loader.parts import PREFIX
from saltlite.loader.places import SHIPPED

_PLAIN = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "None": ""}
_OURS = f"{PREFIX}{SHIPPED}."
_BETWEEN = re.compile(r"\s*\|\s*")


def misfit(function: Callable[..., Any], given: inspect.BoundArguments) -> str:
    """What is wrong with the arguments, to be read behind the function's name; "" when nothing is."""
    if not getattr(function, "__module__", "").startswith(_OURS):
        return ""
    for name, value in given.arguments.items():
        parameter = given.signature.parameters[name]
        wanted = _wanted(parameter.annotation)
        if not wanted or parameter.kind is parameter.VAR_KEYWORD:
            continue
        for one in _values(parameter, value):
            if isinstance(one, list | tuple | set | dict):
                what = "a map" if isinstance(one, dict) else "a list"
                return f"{name!r} takes {wanted}, and was given {what}"
    return ""


def _values(parameter: inspect.Parameter, value: Any) -> Iterator[Any]:
    if parameter.kind is parameter.VAR_POSITIONAL:
        yield from value
    else:
        yield value


def _wanted(annotation: object) -> str:
    """What values an annotation of plain types is for; "" for any other annotation."""
    types = _BETWEEN.split(annotation) if isinstance(annotation, str) else [""]
    if not all(one in _PLAIN for one in types):
        return ""
    return " or ".join(dict.fromkeys(_PLAIN[one] for one in types if _PLAIN[one]))
