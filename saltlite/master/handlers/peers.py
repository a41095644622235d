"""Jobs that minions publish (`publish.publish`), under the rules of the option `peer`.

A minion is a principal of the backend PEER, whose rules are those of `peer`: the job takes the steps of every publish,
and is authorised on exactly its targets. A job that was published by a minion publishes no other, so that minions
cannot keep each other busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import PEER, Call, Principal, call_within
from saltlite.auth.logins import external
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.publish import handle_publish
from saltlite.master.processes.context import Master
from saltlite.model.ids import MinionId, parse_jid, parse_request_id
from saltlite.model.job import split_part
from saltlite.wire.limits import MIB

ORIGIN = "publish.publish"
"""The origin of jobs that minions publish."""
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
    args, kwargs = fields.get("args"), fields.get("kwargs")
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise UsageError("the arguments of a function are a list and a map")
    who = principal_of(minion)
    _refuse_recursion(master, Call(fun, args, kwargs), by)
    known = master.store.job_of_request(parse_request_id(request_id), who.uid)
    if known is None and master.peer_jobs.take(minion, master.clock.monotonic()):
        return None
    request: dict[str, Any] = {"request_id": request_id, "tgt": tgt, "tgt_type": tgt_type, "origin": ORIGIN}
    if returners:
        request["ret"] = returners
    answer = handle_publish(master, who, {**request, "calls": [[fun, args, kwargs]]})
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
    if job is None or job.uid != principal_of(minion).uid or job.origin != ORIGIN:
        raise RefusedError(f"this minion has published no job {jid}")
    # Read before the returns: so the return of each target that has ended is among them.
    still_open = master.store.open_targets(jid)
    rows = master.store.returns(jid, after, size=RETURNS_BYTES)
    return {
        "open": still_open,
        "returns": [[row.id, str(row.state), row.retcode, row.body, row.seq] for row in rows],
    }


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
