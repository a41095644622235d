"""Events that people write, by the runner `event.send`: under no tag that the core mints (R13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import UsageError
from saltlite.master.handlers.disk_quota import refuse_when_full
from saltlite.master.processes.context import Answer, Master
from saltlite.model.events import SENT_BY, parse_free_tag
from saltlite.model.ids import parse_jid

DATA_MAX = 128 * 1024
"""Characters of the data of one event: each is stored until it is pruned."""


def handle_event_send(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes an event of that `tag` with what was `said`, by whom in `_user`, and by which `runner` in `_run`."""
    authorize(principal, Action("event_send"), master.terms)
    tag, data = parse_free_tag(request["tag"]), request["said"]
    if len(repr(data)) > DATA_MAX:
        raise UsageError(f"the data of an event has at most {DATA_MAX} characters")
    refuse_when_full(master)
    by = {SENT_BY: parse_jid(request["runner"])} if "runner" in request else {}
    with master.store.write() as store:
        store.put_event(tag, {**data, "_user": principal.label, **by}, master.clock.wall())
    return Answer(committed=True)
