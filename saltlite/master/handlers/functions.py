"""Which targets have a function, and with what signature, from what minions have reported.

Minions with the same modules share one function set, found by its digest, so asking about ten thousand minions costs as
much as asking about one. A minion that has not reported all of its functions may have any function, with any signature.

A resource gets a job only if its type has all of the job's functions. Functions that the minion itself carries out (all
of `saltutil`, `sys.reload_modules`) or that make one return of many (`state`) are for no resource. Resources that a
target matches only by pattern are skipped and counted; for a resource that the target names, for a bare id of which no
type has the functions, and when no target remains, it is an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import UsageError, nearest
from saltlite.master.processes.context import Answer, Master
from saltlite.master.store.ports import FunctionSet
from saltlite.model.ids import MinionId, TargetId, parse_srn
from saltlite.model.redaction import is_secret_argument
from saltlite.model.signature import Signature, bind, is_absent, parse_signature
from saltlite.targeting.fleet import Selection
from saltlite.wire.job_body import FunctionCall

# -- resources that have the functions


MINIONS_ONLY = frozenset({"saltutil", "state"})
"""Modules for minions, and for no resource."""
MINIONS_ONLY_FUNCTIONS = frozenset({"sys.reload_modules"})


@dataclass(frozen=True, slots=True)
class Skipped:
    """Resources that were left out, as their type lacks a function."""

    type: str
    fun: str
    """The first function of the job that the type does not have."""
    count: int


@dataclass(frozen=True, slots=True)
class Fitting:
    """What of a selection gets the job, and what of it was left out."""

    chosen: Selection
    skipped: Sequence[Skipped] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """The selected resources of one type that one minion manages, and what their functions take.

    `functions` is None as long as the minion has not said what the type has: it may have anything.
    """

    minion: MinionId
    type: str
    srns: Sequence[TargetId]
    functions: Mapping[str, str] | None

    def lacks(self, fun: str) -> bool:
        """Whether the function is not to be had on them."""
        return is_for_minions(fun) or (self.functions is not None and fun not in self.functions)


def is_for_minions(fun: str) -> bool:
    """Whether no resource can have that function."""
    return fun.partition(".")[0] in MINIONS_ONLY or fun in MINIONS_ONLY_FUNCTIONS


def kinds(master: Master, resources: Mapping[TargetId, MinionId]) -> Iterator[Kind]:
    """The resources (SRN -> its owner) by owner and type."""
    groups: dict[tuple[MinionId, str], list[TargetId]] = {}
    for srn, owner in resources.items():
        groups.setdefault((owner, parse_srn(srn).type or ""), []).append(srn)
    for (owner, kind), srns in groups.items():
        known = master.registrations.of(owner)
        yield Kind(owner, kind, srns, known.functions.get(kind) if known is not None else None)


def fitting(master: Master, chosen: Selection, funs: Sequence[str]) -> Fitting:
    """Leave out the resources whose type lacks one of the functions.

    Raises UsageError when nothing that a name in the target means has them, and when nothing is left of the selection.
    """
    if not chosen.resources:
        return Fitting(chosen)
    named = [*(frozenset({one}) for one in chosen.named), *chosen.namesakes]
    asked = frozenset[TargetId]().union(*named)
    unfit: dict[TargetId, tuple[str, str]] = {}
    counts: dict[tuple[str, str], int] = {}
    kept: dict[TargetId, MinionId] = {}
    for one in kinds(master, chosen.resources):
        lacking = next((fun for fun in funs if one.lacks(fun)), "")
        if not lacking:
            kept.update(dict.fromkeys(one.srns, one.minion))
        else:
            counts[one.type, lacking] = counts.get((one.type, lacking), 0) + len(one.srns)
            unfit |= dict.fromkeys(asked.intersection(one.srns), (one.type, lacking))
    for meant in named:
        if meant <= unfit.keys():
            raise _unsupported(*min(unfit[srn] for srn in meant))
    if not counts:
        return Fitting(chosen)
    if not kept and not chosen.minions:
        raise _unsupported(*min(counts))
    left = Selection(chosen.minions, kept, chosen.named, chosen.unknown)
    told = [Skipped(kind, fun, count) for (kind, fun), count in sorted(counts.items()) if not is_for_minions(fun)]
    return Fitting(left, told)


def _unsupported(kind: str, fun: str) -> UsageError:
    return UsageError(f"Function {fun!r} is not supported for resource type {kind!r}. Nothing was published.")


_FUNCTION = re.compile(r"[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*", re.ASCII)

_PARSED = 1024
"""Texts whose signature is remembered."""

Parsed = tuple[str, Signature | None, str]


def checked_function(fun: object) -> str:
    """`fun`, when it is written as a function; UsageError otherwise."""
    if not isinstance(fun, str) or not _FUNCTION.fullmatch(fun):
        raise UsageError(f"{str(fun)[:80]!r} is not a function: it is written module.function, as in test.ping")
    return fun


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


# -- minions without a function


NAMES_MAX = 1000
"""Minions that one answer names; more are counted only."""


def handle_lacking(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `count`, the accepted minions; `lacking`, `unknown`, how many; `names` and `unknown_names`, sorted.

    Unknown are those that never reported their functions, or not all of them. No minion is asked.
    """
    authorize(principal, Action("lacking"), master.terms)
    fun = checked_function(request["fun"])
    digests = {row.id: row.functions for row in master.store.minions()}
    sets: dict[str, FunctionSet | None] = {"": None}
    lacking: list[MinionId] = []
    unknown: list[MinionId] = []
    accepted = master.store.accepted_ids()
    for minion in accepted:
        digest = digests.get(minion, "")
        if digest not in sets:
            sets[digest] = master.store.functions(digest)
        functions = sets[digest]
        text = functions.functions.get(fun) if functions is not None else None
        if text is not None and not is_absent(text):
            continue
        (lacking if functions is not None and (functions.whole or text is not None) else unknown).append(minion)
    return Answer(
        {
            "count": len(accepted),
            "lacking": len(lacking),
            "names": lacking[:NAMES_MAX],
            "unknown": len(unknown),
            "unknown_names": unknown[:NAMES_MAX],
        }
    )
