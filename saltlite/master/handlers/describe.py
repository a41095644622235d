"""What functions take on the minions of a target, so that a client can read arguments, warn and refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.core.acl import Action, Principal, authorize
from saltlite.core.matching import resolve
from saltlite.errors import UsageError
from saltlite.master.context import Answer, Master
from saltlite.master.handlers.functions import Known, parsed
from saltlite.master.handlers.publish import checked_function, target_of
from saltlite.wire.jobbody import CALLS_MAX

SIGNATURES_MAX = 16
"""Different signatures of one function that an answer holds; minions with further ones count as unknown."""


def handle_describe(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Fields as in `operator_verbs`; answers count and away of the target, and `functions`: name -> what is known.

    That is `signatures`, the different texts of `saltlite.model.signature`; `risk`, the names of its risks parted by
    commas; `lacking`, how many targeted minions do not have it; and `unknown`, how many may have it and have not said
    what it takes. No minion is asked.
    """
    authorize(principal, Action("describe"), master.terms.operators)
    ids = resolve(target_of(request), master.store.accepted_ids())
    funs = request["funs"]
    if not 1 <= len(funs) <= CALLS_MAX:
        raise UsageError(f"describe takes 1 to {CALLS_MAX} functions, not {len(funs)}")
    known = Known(ids, master.store)
    fields = {
        "count": len(ids),
        "away": sum(minion not in master.present for minion in ids),
        "functions": {fun: _described(checked_function(fun), known) for fun in funs},
    }
    return Answer(fields)


def _described(fun: str, known: Known) -> dict[str, Any]:
    signatures: dict[str, None] = {}
    risks: dict[str, None] = {}
    lacking = unknown = 0
    for functions, count in known.sets():
        text = functions.functions.get(fun) if functions is not None else None
        if text is None:
            if functions is not None and functions.whole:
                lacking += count
            else:
                unknown += count
            continue
        _fun, signature, risk = parsed(text)
        if risk:
            risks[risk] = None
        if signature is None or (text not in signatures and len(signatures) == SIGNATURES_MAX):
            unknown += count
        else:
            signatures[text] = None
    return {"signatures": list(signatures), "risk": ",".join(risks), "lacking": lacking, "unknown": unknown}
