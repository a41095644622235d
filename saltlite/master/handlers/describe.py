"""What functions take on the targets of a job, so that a client can read arguments, warn and refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.auth.rules import Call
from saltlite.errors import UsageError
from saltlite.master.handlers.function_support import fitting
from saltlite.master.handlers.functions import Known, parsed
from saltlite.master.handlers.publish import checked_function, target_of
from saltlite.master.handlers.reach import selected_within_reach
from saltlite.master.handlers.targets import refuse_pillar_guesses
from saltlite.master.processes.context import Answer, Master
from saltlite.model.ids import TargetId
from saltlite.wire.jobbody import CALLS_MAX

SIGNATURES_MAX = 16
"""Different signatures of one function that an answer holds; minions with further ones count as unknown."""


def handle_describe(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Fields as in `operator_verbs`; answers `count`, the targets, with `resources`, how many of them are such, and
    `away`, how many cannot be reached now; and `functions`: name -> what is known.

    That is `signatures`, the different texts of `saltlite.model.signature`, and `takers`, who declares each of them;
    `risks`, who declares which; `lacking`, how many targets do not have it; and `unknown`, how many may have
    it and have not said what it takes. No minion is asked. What a few minions say is told as theirs (`minions`, how
    many; `of`, how many have it; `one`, the first of them by id), for one that was broken into can say anything.
    """
    authorize(principal, Action("describe"), master.terms)
    funs = [checked_function(fun) for fun in request["funs"]]
    if not 1 <= len(funs) <= CALLS_MAX:
        raise UsageError(f"describe takes 1 to {CALLS_MAX} functions, not {len(funs)}")
    target = target_of(request)
    refuse_pillar_guesses(master, principal, target)
    for fun in funs:
        authorize(principal, Action("describe", Call(fun, kwargs=None)), master.terms)
    chosen = selected_within_reach(master, principal, target, Call(funs[0], kwargs=None))
    chosen = fitting(master, chosen, funs).chosen
    for fun in funs:
        wanted = Action("describe", Call(fun, kwargs=None), chosen.minions, chosen.resources)
        authorize(principal, wanted, master.terms, master.selects)
    known = Known(chosen, master)
    owners = [*chosen.minions, *chosen.resources.values()]
    fields = {
        "count": len(owners),
        "resources": len(chosen.resources),
        "away": sum(minion not in master.present for minion in owners),
        "functions": {fun: _described(fun, known) for fun in funs},
    }
    return Answer(fields)


@dataclass(slots=True)
class _Sayers:
    """Who says the same of a function."""

    minions: int = 0
    one: str = ""

    def add(self, count: int, first: TargetId) -> None:
        self.minions += count
        self.one = min(self.one or first, first)


def _described(fun: str, known: Known) -> dict[str, Any]:
    signatures: dict[str, _Sayers] = {}
    risks: dict[str, _Sayers] = {}
    having = lacking = unknown = 0
    for functions, count, first in known.sets():
        text = functions.functions.get(fun) if functions is not None else None
        if text is None:
            if functions is not None and functions.whole:
                lacking += count
            else:
                unknown += count
            continue
        having += count
        _fun, signature, risk = parsed(text)
        if risk:
            risks.setdefault(risk, _Sayers()).add(count, first)
        if signature is None or (text not in signatures and len(signatures) == SIGNATURES_MAX):
            unknown += count
        else:
            signatures.setdefault(text, _Sayers()).add(count, first)
    return {
        "signatures": list(signatures),
        "takers": [{"minions": who.minions, "of": having, "one": who.one} for who in signatures.values()],
        "risks": [{"risk": risk, "minions": who.minions, "of": having, "one": who.one} for risk, who in risks.items()],
        "lacking": lacking,
        "unknown": unknown,
    }
