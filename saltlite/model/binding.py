"""Whether the arguments of a call fit a signature, as Python would bind them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.model.signature import Kind, Signature, show_signature

_BY_PLACE = (Kind.POSITIONAL_ONLY, Kind.EITHER)
_BY_NAME = (Kind.EITHER, Kind.KEYWORD_ONLY)


def bind(function: str, signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What is wrong with a call of `function`, as a sentence with its signature; "" when the arguments fit.

    Types are not looked at: a function may take more than its annotations say.
    """
    problem = _too_many(signature, args) or _keyword(signature, args, kwargs) or _missing(signature, args, kwargs)
    return f"{function} {problem}: {show_signature(function, signature)}" if problem else ""


def _too_many(signature: Signature, args: Sequence[Any]) -> str:
    takes = sum(one.kind in _BY_PLACE for one in signature.parameters)
    if len(args) <= takes or signature.of_kind(Kind.REST) is not None:
        return ""
    if takes == 0:
        return "takes no positional argument"
    return f"takes at most {takes} positional argument{'' if takes == 1 else 's'}, not {len(args)}"


def _keyword(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    by_place = [one.name for one in signature.parameters if one.kind in _BY_PLACE][: len(args)]
    for name in kwargs:
        known = signature.named(name)
        if known is not None and name in by_place:
            return f"is given {name!r} twice, by its place and by its name"
        if known is None and signature.of_kind(Kind.KEYWORDS) is None:
            names = [one.name for one in signature.parameters if one.kind in _BY_NAME]
            near = difflib.get_close_matches(name, names, n=1)
            return f"has no argument {name[:80]!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
    return ""


def _missing(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    by_place = [one for one in signature.parameters if one.kind in _BY_PLACE]
    rest = [*by_place[len(args) :], *(one for one in signature.parameters if one.kind is Kind.KEYWORD_ONLY)]
    missing = [one.name for one in rest if one.default is None and not (one.kind in _BY_NAME and one.name in kwargs)]
    return f"needs {', '.join(map(repr, missing))}" if missing else ""
