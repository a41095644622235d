"""Who is up, and who was when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.master.processes.context import Answer, Master


def handle_minions(master: Master, principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `minions`, the rows of minion_rows."""
    authorize(principal, Action("minions"), master.terms)
    return Answer({"minions": minion_rows(master)})


def minion_rows(master: Master) -> list[dict[str, Any]]:
    """Every accepted minion: `state` is up, away or never; last_seen, address and version where known; `resources`, how
    many it manages."""
    held = master.registry.views().by_minion
    rows = {row.id: row for row in master.store.minions()}
    answer = []
    for minion in master.store.accepted_ids():
        row = rows.get(minion)
        up = minion in master.present
        answer.append(
            {
                "id": minion,
                "state": "up" if up else "away" if row is not None else "never",
                "last_seen": row.last_seen if row is not None else None,
                "address": row.address if row is not None else "",
                "version": row.version if row is not None else "",
                "resources": sum(len(one.ids) for one in held.get(minion, {}).values()),
            }
        )
    return answer
