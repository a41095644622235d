"""What programs elsewhere tell the API becomes an event, under a tag of its own (R13)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import UsageError
from saltlite.master.handlers.disk_quota import refuse_when_full
from saltlite.master.processes.context import Answer, Master
from saltlite.model.events import tag_hook

PATH_MAX = 200
DATA_MAX = 128 * 1024
"""Characters of what a hook says: each is stored until it is pruned."""

_PART = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.:@-]+"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)


def checked_path(path: str) -> str:
    """`path`, when it is that of a hook ("" is that of /hook itself); UsageError otherwise."""
    if path and (len(path) > PATH_MAX or not _PATH.fullmatch(path)):
        raise UsageError(f"the path of a hook has at most {PATH_MAX} letters, digits, _ . : @ - and single slashes")
    return path


def handle_hook(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/netapi/hook/<path>` with what was `said`, and by whom in `_user`."""
    path, data = checked_path(request["path"]), request["said"]
    authorize(principal, Action("hook", name=path), master.terms)
    if len(repr(data)) > DATA_MAX:
        raise UsageError(f"a hook says at most {DATA_MAX} characters")
    refuse_when_full(master)
    with master.store.write() as store:
        store.put_event(tag_hook(path), {**data, "_user": principal.label}, master.clock.wall())
    return Answer(committed=True)
