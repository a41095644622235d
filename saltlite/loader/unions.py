"""One signature for several files that may provide a function, of which only running them would tell which does.

It takes whatever one of them takes, so nothing is refused that its provider would have taken; what none of them takes
is refused where it is typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from saltlite.model.signature import OMITTED, PARAMETERS_MAX, TYPES, Kind, Parameter, Signature

_DRY_RUN = "test"
_PLACED = (Kind.POSITIONAL_ONLY, Kind.EITHER)


def united(signatures: Sequence[Signature | None]) -> Signature | None:
    """What takes all that one of them takes; None where one is not known, and where not all have a dry run.

    A function that takes a dry run for any other word would do what was to be told only.
    """
    known = [one for one in signatures if one is not None]
    if len(known) < len(signatures) or len({one.named(_DRY_RUN) is None for one in known}) > 1:
        return None
    placed = [[one for one in signature.parameters if one.kind in _PLACED] for signature in known]
    front: list[Parameter] = []
    for column in zip_longest(*placed):
        if None in column or len({(one.name, one.kind) for one in column}) > 1:
            break
        default = None if all(one.default is None for one in column) else _default(column)
        front.append(Parameter(column[0].name, column[0].kind, _types(column), default))
    rest = [found for one in known if (found := one.of_kind(Kind.REST))]
    further = any(len(one) > len(front) for one in placed)
    names = {one.name for one in front}
    made = list(front)
    if rest or further:
        # Arguments behind the common ones go to parameters of different names: nothing is known of their types.
        made.append(Parameter(rest[0].name if rest else "args", Kind.REST, () if further else _types(rest)))
    made += _keywords(known, names)
    made += [Parameter("kwargs", Kind.KEYWORDS)] if any(one.of_kind(Kind.KEYWORDS) for one in known) else []
    return Signature(made) if len(made) <= PARAMETERS_MAX else None


def _keywords(known: Sequence[Signature], taken: set[str]) -> list[Parameter]:
    found: dict[str, list[Parameter]] = {}
    for signature in known:
        for one in signature.parameters:
            if one.kind in (Kind.EITHER, Kind.KEYWORD_ONLY) and one.name not in taken:
                found.setdefault(one.name, []).append(one)
    made = []
    for name, column in found.items():
        needed = len(column) == len(known) and all(
            one.kind is Kind.KEYWORD_ONLY and one.default is None for one in column
        )
        made.append(Parameter(name, Kind.KEYWORD_ONLY, _types(column), None if needed else _default(column)))
    return made


def _types(column: Sequence[Parameter]) -> tuple[str, ...]:
    if not all(one.types for one in column):
        return ()
    return tuple(name for name in TYPES if any(name in one.types for one in column))


def _default(column: Sequence[Parameter]) -> str:
    found = {one.default for one in column}
    return (found.pop() or OMITTED) if len(found) == 1 else OMITTED
