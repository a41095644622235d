"""Jobs that minions publish (`publish.publish`), under the rules of the option `peer`, runners that they run
(`publish.runner`), under those of `peer_run`, and jobs that they have begun by themselves, for their schedule.

A minion is a principal of the backend PEER, whose rules are those of `peer`: the job takes the steps of every publish,
and is authorised on exactly its targets. A job that was published by a minion publishes no other and runs no runner, so
that minions cannot keep each other busy.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import PEER, Call, Principal, authorize_peer_run, call_within
from saltlite.auth.logins import external
from saltlite.errors import RefusedError, StoreError, UsageError
from saltlite.master.handlers.functions import checked_function
from saltlite.master.handlers.publish import PublishRequest, free_jid, handle_publish, signed_job
from saltlite.master.handlers.targets import still_accepted
from saltlite.master.processes.context import Master
from saltlite.master.store.ports import PartRow
from saltlite.model.events import tag_run_new, tag_run_return
from saltlite.model.ids import MinionId, RequestId, jid_at, parse_jid, parse_request_id
from saltlite.model.job import BY_RUNNER, TargetKind, TargetState, part_id, split_part
from saltlite.targeting.fleet import Selection
from saltlite.wire.job_body import holds_secrets
from saltlite.wire.limits import JOBS_QUEUED_PER_MINION, MIB

log = logging.getLogger(__name__)

ORIGIN = "publish.publish"
"""The origin of jobs that minions publish."""
OWN_ORIGIN = "schedule"
"""Begins the origin of jobs that minions begin by themselves, so that it cannot be that of another kind of job."""
RETURNS_BYTES = 4 * MIB
"""Bytes of returns after which an answer ends; the minion asks for the rest."""


def principal_of(minion: MinionId) -> Principal:
    """The principal of a minion, as its session proves it."""
    return external(PEER, minion, ())


def publish_for(master: Master, minion: MinionId, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Publish a job of a minion. Takes `request_id`, `by`, the job that asks ("" for none), `tgt`, `tgt_type`, `fun`,
    `args`, `kwargs` and `ret`. Answers `jid` and `targets`, the number of targets."""
    request_id, tgt, tgt_type, fun, returners, by = (
        _text(fields, name) for name in ("request_id", "tgt", "tgt_type", "fun", "ret", "by")
    )
    args, kwargs = _list(fields, "args"), _map(fields, "kwargs")
    who = principal_of(minion)
    _refuse_recursion(master, Call(fun, args, kwargs), by)
    known = master.store.job_of_request(parse_request_id(request_id), who.owner)
    if known is None and master.peer_jobs.take(minion, master.clock.monotonic()):
        return None
    request: dict[str, Any] = {"request_id": request_id, "tgt": tgt, "tgt_type": tgt_type, "origin": ORIGIN}
    if returners:
        request["ret"] = returners
    try:
        answer = handle_publish(master, who, {**request, "calls": [[fun, args, kwargs]]})
    except RefusedError as error:
        if master.audit is not None:
            master.audit.refused(str(who), "publish", str(error), {"tgt": tgt, "tgt_type": tgt_type, "fun": fun})
        raise
    if answer.write is not None:
        answer = answer.write.alone(master.store)
    found = answer.fields
    return {"jid": found["jid"], "targets": len(found["minions"]) + sum(map(len, found["resources"].values()))}


def returns_for(master: Master, minion: MinionId, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The returns of a job that this minion has published. Takes `jid` and `after`, the `seq` of the last known one.

    Answers `returns`, rows of id, state, retcode, body and seq, and `open`, the number of targets that may still
    return; it counts only if there are no further returns.
    """
    jid, after = parse_jid(_text(fields, "jid")), fields.get("after")
    if type(after) is not int:
        raise UsageError("`after` is the number of the last known return")
    job = master.store.job(jid)
    if job is None or job.uid != principal_of(minion).owner or job.origin != ORIGIN:
        raise RefusedError(f"this minion has published no job {jid}")
    # Read before the returns: so the return of each target that has ended is among them.
    still_open = master.store.open_targets(jid)
    rows = master.store.returns(jid, after, size=RETURNS_BYTES)
    return {
        "open": still_open,
        "returns": [[row.id, str(row.state), row.retcode, row.body, row.seq] for row in rows],
    }


def run_for(master: Master, minion: MinionId, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run a runner for a minion. Takes `request_id`, `by`, the job that asks ("" for none), `fun`, `args` and `kwargs`.

    The same request is repeated until it answers `done`, with `value` and `retcode`. An answer with `waits` says that
    the runner has not begun, for there are too many. After any other the minion adds `begun`, and the request starts
    nothing any more: this MWorker may not be the one that has started the runner.
    """
    request_id, by, fun = parse_request_id(_text(fields, "request_id")), _text(fields, "by"), _text(fields, "fun")
    call, who, now = (
        Call(checked_function(fun), _list(fields, "args"), _map(fields, "kwargs")),
        principal_of(minion),
        master.clock.monotonic(),
    )
    runs = master.peer_runs
    run = None if runs is None else runs.get(minion, request_id, now)
    if runs is None or run is None:
        if fields.get("begun") is True:
            raise _begun_elsewhere(fun)
        try:
            authorize_peer_run(who, call, master.config.granted)
            _refuse_runner(master, by)
        except RefusedError as error:
            if master.audit is not None:
                master.audit.refused(str(who), "runner", str(error), {"fun": fun})
            raise
        if runs is None or not runs.has_room(minion) or master.peer_jobs.take(minion, now):
            return {"done": False, "waits": True}
        jid = jid_at(int(master.clock.wall() * 1e6))
        about = {"fun": fun, "user": who.label}
        if not _enter_run(master, minion, request_id, tag_run_new(jid), about):
            raise _begun_elsewhere(fun)
        master.record(who, "runner", {"jid": jid, "fun": fun})

        def ended(retcode: int) -> None:
            duration_ms = round((master.clock.monotonic() - now) * 1000)
            found = {"retcode": retcode, "success": retcode == 0, "duration_ms": duration_ms}
            try:
                _put_event(master, tag_run_return(jid), about | found)
            except StoreError as error:
                log.error("the end of the runner %s of %s is not noted: %s", fun, minion, error)  # noqa: TRY400 - a sentence

        run = runs.start(minion, request_id, call, jid, ended)
    if not run.ended_at:
        return {"done": False}
    return {"done": True, "value": json.loads(run.value), "retcode": run.retcode}


def _put_event(master: Master, tag: str, data: Mapping[str, Any]) -> None:
    with master.store.write() as store:
        store.put_event(tag, data, master.clock.wall())


def _begun_elsewhere(fun: str) -> RefusedError:
    from saltlite.master.processes.runners import lost_sight  # noqa: PLC0415 - most masters run none for minions

    return RefusedError(lost_sight(fun))


def _enter_run(master: Master, minion: MinionId, request_id: RequestId, tag: str, about: Mapping[str, Any]) -> bool:
    """Store the event of a runner that begins; False if this request has begun it on any master that shares the store.
    On others the starter of runners knows that."""
    if master.shared is None:
        _put_event(master, tag, about)
        return True
    # Masters would forget it early, or late, by their own clocks.
    now = master.shared.clock()
    with master.shared.write() as store:
        if not store.enter_runner_request(minion, request_id, now):
            return False
        store.put_event(tag, about, master.clock.wall())
    return True


def _refuse_runner(master: Master, by: str) -> None:
    """Raises RefusedError if the job that asks was published by a minion or by a runner."""
    asking = master.store.job(parse_jid(split_part(by)[0])) if by else None
    if asking is not None and (asking.origin == ORIGIN or asking.origin.startswith(BY_RUNNER)):
        raise RefusedError("a job that a minion or a runner has published runs no runner")


OWN_LATE_S = 30 * 86_400.0
"""Seconds after which a job that a minion has begun gets a new jid: the master may have been away so long."""
OWN_EARLY_S = 60.0
"""Seconds by which the clock of a minion may be ahead, for its jid to be used."""


def take_own_job(master: Master, minion: MinionId, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Store a job that this minion has begun by itself. Takes `jid`, `calls`, `metadata` and `origin`.

    Answers `jid`, under which the master has it: another one if some job has it already. A repeated request has the
    same answer. The job has no other target, and needs no rule: it ran where it was begun.
    """
    jid, who = parse_jid(_text(fields, "jid")), principal_of(minion)
    request = PublishRequest.parse(
        {
            "request_id": hashlib.sha256(f"own job {minion} {jid}".encode()).hexdigest()[:32],
            "tgt": minion,
            "tgt_type": str(TargetKind.LIST),
            "calls": _list(fields, "calls"),
            "metadata": _map(fields, "metadata"),
            "origin": f"{OWN_ORIGIN} {_text(fields, 'origin').removeprefix(OWN_ORIGIN).lstrip()}",
            # The minion has it: it is never delivered.
            "deliver_ms": 0,
        },
        0.0,
    )
    earlier = master.store.job_of_request(request.request_id, who.owner)
    if earlier is not None:
        return {"jid": earlier}
    # Open jobs are never pruned: without this limit one minion could fill the store.
    if len(master.store.unsettled(minion)) >= JOBS_QUEUED_PER_MINION:
        return None
    if master.own_jobs.take(minion, master.clock.monotonic()):
        return None
    master.refuse_when_full()
    now = master.clock.wall()
    with master.store.write() as store:
        selection = still_accepted(Selection(frozenset({minion}), {}), store)
        if not selection.minions:
            raise RefusedError("the key is not accepted any more")
        in_time = jid_at(int((now - OWN_LATE_S) * 1e6)) < jid < jid_at(int((now + OWN_EARLY_S) * 1e6))
        if store.jid_taken(jid) or not in_time:
            jid = free_jid(store, now)
        store.put_job(signed_job(master, who, request, selection, jid, None, now))
        store.set_parts([PartRow(part_id(jid, 0), minion, TargetState.RUNNING, "", now)])
        if not master.config.keep_job_args or holds_secrets(request.calls, {}):
            store.mark_reducible(jid)
    return {"jid": jid}


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise UsageError(f"the field {name} of a request is a list")
    return value


def _map(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"the field {name} of a request is a map of names")
    return value


def _refuse_recursion(master: Master, call: Call, by: str) -> None:
    """Raises RefusedError if the job would publish others, or was itself published by a minion."""
    asking = master.store.job(parse_jid(split_part(by)[0])) if by else None
    if asking is not None and asking.origin == ORIGIN:
        raise RefusedError("a job that a minion has published publishes no other")
    inner: Call | None = call
    while inner is not None:
        if inner.fun.startswith("publish."):
            raise RefusedError("a minion cannot publish functions of publish")
        inner = call_within(inner)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise UsageError(f"the field {name} of a request is text")
    return value
