"""Events about machines of clouds, as `saltlite cloud` tells them: under tags of their own (R13)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import UsageError
from saltlite.master.processes.context import Answer, Master
from saltlite.model.events import tag_cloud

WHAT_MAX = 64
MACHINE_MAX = 200
DATA_MAX = 128 * 1024
"""Characters of the data of one event: each is stored until it is pruned."""

_WHAT = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


def handle_cloud_event(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/cloud/<machine>/<what>` with what was `said`, and by whom in `_user`."""
    authorize(principal, Action("cloud_event"), master.terms)
    machine, what, data = request["machine"], request["what"], request["said"]
    if not 1 <= len(machine) <= MACHINE_MAX or not machine.isprintable() or "/" in machine or " " in machine:
        raise UsageError(f"the name of a machine has 1 to {MACHINE_MAX} printable characters, no slash and no space")
    if len(what) > WHAT_MAX or not _WHAT.fullmatch(what):
        raise UsageError(f"what happened to a machine is one word of up to {WHAT_MAX} letters, digits and hyphens")
    if len(repr(data)) > DATA_MAX:
        raise UsageError(f"the data of an event has at most {DATA_MAX} characters")
    with master.store.write() as store:
        store.put_event(tag_cloud(machine, what), {**data, "_user": principal.label}, master.clock.wall())
    return Answer(committed=True)
