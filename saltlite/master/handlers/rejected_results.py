"""Operators are told what was left out of what minions said of resources."""

from __future__ import annotations

import logging

from saltlite.master.processes.context import Master
from saltlite.model.events import tag_resource_refused

log = logging.getLogger(__name__)


def tell_left_out(master: Master) -> bool:
    """An event and a line of the log for each minion that it is time for; whether there was one. Raises StoreError,
    and then all of it is told later."""
    now = master.clock.monotonic()
    due = master.left_out.due(now)
    if not due:
        return False
    with master.store.write() as store:
        for minion, refused in due:
            store.put_event(tag_resource_refused(minion), refused.event(minion), master.clock.wall())
    for minion, refused in due:
        log.warning(
            "%d results of %s were left out, the first for job %s: %s %s",
            refused.count,
            minion,
            refused.jid,
            refused.reason,
            ", ".join(refused.srns),
        )
        master.left_out.told(minion, now)
    return True
