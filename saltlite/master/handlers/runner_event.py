"""A runner begins or has ended: noted in the event log for whoever watches, by the client that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize, may
from saltlite.auth.rules import RUNNER
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.publish import checked_function
from saltlite.master.processes.context import Answer, Master
from saltlite.model.events import tag_run_new, tag_run_return
from saltlite.model.ids import parse_jid
from saltlite.wire.jobbody import CALLS_MAX


def handle_runner_event(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/run/<jid>/new`; with `retcode` and `duration_ms` it is `salt/run/<jid>/ret`.

    Only these two tags can be made so (R13). Arguments and returns are not in them: they may hold secrets.
    """
    authorize(principal, Action("runner_event"), master.terms)
    jid, funs = parse_jid(request["jid"]), request["funs"]
    if not 1 <= len(funs) <= CALLS_MAX:
        raise UsageError(f"a runner has 1 to {CALLS_MAX} functions, not {len(funs)}")
    for fun in funs:
        if not may(principal, RUNNER, (checked_function(fun),), master.terms):
            raise RefusedError(f"{principal} may not run the runner {fun}: that takes @runner {fun}")
    data: dict[str, Any] = {"fun": ",".join(checked_function(fun) for fun in funs), "user": principal.label}
    tag = tag_run_new(jid)
    if "retcode" in request:
        tag = tag_run_return(jid)
        data.update({name: request[name] for name in ("retcode", "duration_ms") if name in request})
        data["success"] = request["retcode"] == 0
    with master.store.write() as store:
        store.put_event(tag, data, master.clock.wall())
    return Answer(committed=True)
