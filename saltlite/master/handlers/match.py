"""What a target selects, and why, without anything being published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.master.handlers.publish import target_of
from saltlite.master.handlers.targets import by_owner, refuse_pillar_guesses
from saltlite.master.processes.context import Answer, Master
from saltlite.targeting import explain
from saltlite.targeting.explanation import Explanation


def handle_match(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `minions`, `resources` (managing minion -> SRNs), `away` (which of these minions have no session),
    `unknown` (names in the target that nothing has), and with `explain`, an id or an SRN, the `explanation` of it.

    That has id, owner (None for a minion), read_as, selected, verdict, and `terms`: word, number and column (from 1, 0
    where there is none), group (the nodegroup that has the word, or ""), true, why.
    """
    authorize(principal, Action("match"), master.terms)
    target, fleet = target_of(request), master.fleet
    refuse_pillar_guesses(master, principal, target, request.get("explain", ""))
    chosen = master.resolve(target)
    resources = {owner: list(srns) for owner, srns in by_owner(chosen.resources).items()}
    fields: dict[str, Any] = {
        "minions": sorted(chosen.minions),
        "resources": resources,
        "away": [minion for minion in sorted({*chosen.minions, *resources}) if minion not in master.present],
        "unknown": list(chosen.unknown),
    }
    if "explain" in request:
        fields["explanation"] = _told(explain(target, fleet, request["explain"]))
    return Answer(fields)


def _told(why: Explanation) -> dict[str, Any]:
    terms = [
        {
            "word": one.place.word,
            "number": one.place.number,
            "column": one.place.column,
            "group": one.place.group,
            "true": one.true,
            "why": one.why,
        }
        for one in why.terms
    ]
    return {
        "id": why.id,
        "owner": why.owner,
        "read_as": why.read_as,
        "selected": why.selected,
        "verdict": why.verdict,
        "terms": terms,
    }
