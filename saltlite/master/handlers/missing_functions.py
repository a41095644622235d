"""Which minions do not have a function, as far as they have said which they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.master.handlers.publish import checked_function
from saltlite.master.processes.context import Answer, Master
from saltlite.master.store.ports import FunctionSet
from saltlite.model.ids import MinionId
from saltlite.model.signature import is_absent

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
