"""When were these minions last heard? What tells a silent minion from one that cannot be reached any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import UsageError
from saltlite.master.handlers.reach import reach
from saltlite.master.processes import ipc_messages as inside
from saltlite.master.processes.context import Answer, Master, Question
from saltlite.wire.ipc import Inside

IDS_MAX = 1000


def handle_heard(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `heard`: seconds since the last frame of each of `ids`, None for those without a session.

    Empty when the link process does not say: then nobody knows.
    """
    authorize(principal, Action("heard"), master.terms)
    ids = request["ids"]
    if len(ids) > IDS_MAX or not all(isinstance(minion, str) for minion in ids):
        raise UsageError(f"heard takes at most {IDS_MAX} minion ids")

    within = reach(master, principal)
    if within is not None:
        ids = [minion for minion in ids if minion in within]

    def fields(said: Inside | None) -> dict[str, Any]:
        return {"heard": {minion: said["silent_s"].get(minion) for minion in ids} if said is not None else {}}

    return Answer(question=Question(lambda number: inside.ask_heard(number, ids), fields))
