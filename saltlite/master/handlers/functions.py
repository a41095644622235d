"""What targets have said of their functions, and calls that none of them could take.

Minions with the same modules share one set, found by its digest: a fleet of ten thousand is asked about as fast as one
minion. A minion that never reported its functions, or not all of them, may have any and take anything.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from saltlite.config.nearest import nearest
from saltlite.errors import UsageError
from saltlite.master.handlers.function_support import kinds
from saltlite.master.processes.context import Master
from saltlite.master.store.ports import FunctionSet
from saltlite.model.binding import bind
from saltlite.model.ids import TargetId
from saltlite.model.secretargs import is_secret_argument
from saltlite.model.signature import Signature, is_absent, parse_signature
from saltlite.targeting.fleet import Selection
from saltlite.wire.jobbody import FunctionCall

_PARSED = 1024
"""Texts whose signature is remembered."""

Parsed = tuple[str, Signature | None, str]


class Known:
    """The function sets of a selection, each with those that have it; read from the store when asked for."""

    def __init__(self, chosen: Selection, master: Master) -> None:
        self._holders = master.store.function_digests(sorted(chosen.minions)) if chosen.minions else {}
        self._master = master
        self._kinds = list(kinds(master, chosen.resources))

    def sets(self) -> Iterator[tuple[FunctionSet | None, int, TargetId]]:
        """Each set, None where nothing is known, with the number of targets and the first of them by id."""
        for digest, (count, first) in self._holders.items():
            known = self._master.functions.of(digest, self._master.store) if digest else None
            yield known, count, first
        for kind in self._kinds:
            of_kind = FunctionSet("", kind.functions, whole=True) if kind.functions is not None else None
            yield of_kind, len(kind.srns), min(kind.srns)


@functools.lru_cache(_PARSED)
def parsed(text: str) -> Parsed:
    """(function, signature, risk) of a text that was checked when it arrived."""
    return parse_signature(text)


def fitting_calls(
    calls: Sequence[FunctionCall], chosen: Selection, master: Master, *, may_be_missing: bool
) -> tuple[FunctionCall, ...]:
    """The calls, when each could be taken by at least one of the targets; with `may_be_missing` also by one that does
    not have the function, because an executor was asked for that may know what to do then.

    Arguments that go to parameters which are named as secrets are marked. What at least half of those say that have
    the function counts: one minion that was broken into cannot keep from the history what else was called where.

    Raises UsageError for a function that none of them has, or that none can be called with these arguments; the
    sentence has the near name or the signature.
    """
    known = Known(chosen, master)
    for call in calls:
        problem = _problem(call, known, may_be_missing=may_be_missing)
        if problem:
            raise UsageError(f"{problem} Nothing was published.")
    return tuple(replace(call, hidden=_secret_places(call, known)) if call.args else call for call in calls)


def _secret_places(call: FunctionCall, known: Known) -> list[int]:
    having, saying = 0, [0] * len(call.args)
    for functions, count, _first in known.sets():
        text = functions.functions.get(call.fun) if functions is not None else None
        signature = parsed(text)[1] if text is not None else None
        if signature is not None:
            having += count
            for place in range(len(call.args)):
                taken = signature.positional(place)
                saying[place] += count if taken is not None and is_secret_argument(taken.name) else 0
    return [place for place, count in enumerate(saying) if count and 2 * count >= having]


def _problem(call: FunctionCall, known: Known, *, may_be_missing: bool) -> str:
    """Why no target could take the call, as a whole sentence, or ""; the first one that could ends the search."""
    problem = ""
    for functions, _count, _first in known.sets():
        text = functions.functions.get(call.fun) if functions is not None else None
        if functions is None or (text is None and (may_be_missing or not functions.whole)):
            return ""
        if text is not None:
            signature = parsed(text)[1]
            misfit = bind(call.fun, signature, call.args, call.kwargs) if signature is not None else ""
            if not misfit:
                return ""
            problem = problem or misfit
    return f"{problem}." if problem else _unknown(call.fun, known)


def _unknown(fun: str, known: Known) -> str:
    sets = [functions for functions, _count, _first in known.sets() if functions is not None]
    names = {name for functions in sets for name, text in functions.functions.items() if not is_absent(text)}
    near = nearest(fun, names)
    return f"none of the targeted minions has {fun[:80]!r}" + (f"; did you mean {near}?" if near else ".")
