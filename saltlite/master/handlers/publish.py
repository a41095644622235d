"""Publish a job: resolve the target, authorise exactly that list, commit, and only then tell anybody.

G1: the jid is answered after the commit. G2: the same request id gives the same jid. G3: what is committed is the
resolved list, and nothing else is ever sent the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from saltlite.core.acl import Action, Principal, authorize
from saltlite.core.matching import resolve
from saltlite.core.matching.listing import listed
from saltlite.core.ports import BatchJob, StoreReader, StoreWriter
from saltlite.errors import NoTargetError, RefusedError, UsageError
from saltlite.master.context import Answer, Follow, Master
from saltlite.master.handlers.batch import LASTS_MAX_MS, batch_of, release, send
from saltlite.master.handlers.functions import refuse_misfits
from saltlite.master.handlers.room import refuse_when_full
from saltlite.model.ids import Jid, MinionId, jid_after, jid_at, parse_request_id
from saltlite.model.job import Job
from saltlite.model.keys import KeyState
from saltlite.model.target import Target, TargetKind
from saltlite.wire.jobbody import CALLS_MAX, FunctionCall, JobBody, encode_body, sign
from saltlite.wire.limits import JOB_BODY_MAX, JOBS_QUEUED_PER_MINION
from saltlite.wire.merkle import root

DELIVER_MAX_MS = 30 * 86_400_000
RUN_MAX_MS = 365 * 86_400_000

_FUNCTION = re.compile(r"[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_ORIGIN_MAX = 200
_REASONS_MAX = 10
_NOT_ACCEPTED = {
    KeyState.PENDING: "its key is pending: saltlite key accept {}",
    KeyState.CONFLICT: "its key is in conflict with another of this id: saltlite key list",
    KeyState.REJECTED: "its key is rejected",
    KeyState.REVOKED: "its key is revoked",
}
"""Why somebody who came here is no target; the first that holds is told."""
_NO_KEY = "no minion of this id has a key here"


def handle_publish(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Fields as in `operator_verbs`; answers jid, minions, away, unknown, timeout_s, deliver_ms.

    `calls` is a list of [function, args, kwargs]; `unknown` says of each name in a list target why it is none.
    """
    # Before anything is read: a regular expression of somebody who may not publish must not keep the store waiting.
    authorize(principal, Action("publish"), master.terms.operators)
    request_id = parse_request_id(request["request_id"])
    target = target_of(request)
    calls = _calls(request["calls"])
    deliver_ms = _within(request.get("deliver_ms", int(master.terms.deliver_s * 1000)), DELIVER_MAX_MS, "--deliver-by")
    run_ms = _within(request.get("run_ms", 0), RUN_MAX_MS, "--run-timeout")
    known = master.store.job_of_request(request_id, principal.uid)
    if known is not None:
        return _answer(master, known, request)
    ids = _targets(master, principal, request, calls)
    batch = batch_of(request.get("batch"), len(ids))
    if batch is None:
        _refuse_crowded(ids, master.store)
    with master.store.write() as store:
        known = store.job_of_request(request_id, principal.uid)
        if known is None:
            refuse_when_full(master)
            ids = _still_accepted(ids, target, store)
            job = Job(
                jid=_free_jid(store, master.clock.wall()),
                request_id=request_id,
                user=principal.user,
                uid=principal.uid,
                fun=",".join(call.fun for call in calls),
                target=target,
                created_at=master.clock.wall(),
                deliver_ms=deliver_ms,
                run_ms=run_ms,
                body=b"",
                signature=b"",
                minions=tuple(ids),
                batch=batch,
                origin=_printable(request.get("origin", "")),
            )
            job = _signed(job, calls, master.identity.job_private)
            store.put_job(job)
            if batch is not None:
                planned = BatchJob(job.jid, job.created_at, deliver_ms, batch)
                ids, _moved = release(store, planned, job.created_at)
    if known is not None:
        return _answer(master, known, request)
    send(job, ids, master.link, master.proofs)
    return replace(_answer(master, job.jid, request), committed=True)


def _targets(
    master: Master, principal: Principal, request: Mapping[str, Any], calls: Sequence[FunctionCall]
) -> list[MinionId]:
    """Whom the job is for, when the principal may have these calls run there and one of them at least could take each.

    No writer waits for this: a regular expression, the functions of a whole fleet and a near name take their time.
    """
    target = target_of(request)
    ids = _chosen(master, resolve(target, master.store.accepted_ids()), request.get("subset"))
    for call in calls:
        authorize(principal, Action("publish", call.fun, ids), master.terms.operators)
    if not ids:
        raise NoTargetError(_nobody(target, master.store))
    refuse_misfits(calls, ids, master.store)
    return ids


def _still_accepted(ids: list[MinionId], target: Target, store: StoreWriter) -> list[MinionId]:
    """Those whose key nobody has revoked since they were looked up (S5)."""
    accepted = set(store.accepted_ids())
    still = [minion for minion in ids if minion in accepted]
    if not still:
        raise NoTargetError(_nobody(target, store))
    return still


def _refuse_crowded(ids: Sequence[MinionId], store: StoreReader) -> None:
    """Raises RefusedError when as many jobs as there may be wait for one of these already.

    Looked at before the commit, so jobs that are published at the same moment can exceed the limit by their number.
    """
    crowded = store.crowded(ids, JOBS_QUEUED_PER_MINION)
    if crowded:
        others = f" (and for {len(crowded) - 1} more of the targets)" if len(crowded) > 1 else ""
        raise RefusedError(
            f"{JOBS_QUEUED_PER_MINION} jobs wait for {crowded[0]}{others}, and no more may: leave it out of the target "
            f"or end some of them with `saltlite job kill JID` (`saltlite job list --minion {crowded[0]} --state open` "
            "has them). Nothing was published."
        )


def away(master: Master, ids: Sequence[MinionId]) -> dict[str, float | None]:
    """Those of `ids` that have no session now, with the wall-clock time at which each was last seen."""
    gone = [minion for minion in ids if minion not in master.present]
    rows = {minion: master.store.minion(minion) for minion in gone}
    return {minion: row.last_seen if row is not None else None for minion, row in rows.items()}


def _answer(master: Master, jid: Jid, request: Mapping[str, Any]) -> Answer:
    job = master.store.job(jid)
    ids = job.minions if job is not None else ()
    target = target_of(request)
    unknown: dict[str, str] = {}
    if target.kind is TargetKind.LIST and "subset" not in request:
        targeted = set(ids)
        unknown = _why_not([name for name in listed(target.expression) if name not in targeted], master.store)
    fields = {
        "jid": jid,
        "minions": list(ids),
        "away": away(master, ids),
        "unknown": unknown,
        "timeout_s": master.terms.timeout_s,
        "deliver_ms": job.deliver_ms if job is not None else 0,
    }
    return Answer(fields, follow=Follow(jid, 0) if request.get("follow") else None)


def target_of(request: Mapping[str, Any]) -> Target:
    """The target in the fields tgt and tgt_type. Raises UsageError for a type that there is not."""
    try:
        kind = TargetKind(request["tgt_type"])
    except ValueError:
        raise UsageError(f"there is no target type {request['tgt_type'][:40]!r}") from None
    return Target(request["tgt"], kind)


def checked_function(fun: object) -> str:
    """`fun`, when it is written as a function; UsageError otherwise."""
    if not isinstance(fun, str) or not _FUNCTION.fullmatch(fun):
        raise UsageError(f"{str(fun)[:80]!r} is not a function: it is written module.function, as in test.ping")
    return fun


def _within(value: int, longest: int, option: str) -> int:
    if not 0 <= value <= longest:
        raise UsageError(f"{option} takes at most {longest // 86_400_000} days")
    return value


def _free_jid(store: StoreWriter, wall: float) -> Jid:
    jid = jid_at(int(wall * 1_000_000))
    while store.jid_taken(jid):
        jid = jid_after(jid)
    return jid


def _calls(rows: Sequence[Any]) -> tuple[FunctionCall, ...]:
    if not 1 <= len(rows) <= CALLS_MAX:
        raise UsageError(f"a job has 1 to {CALLS_MAX} functions, not {len(rows)}")
    calls = []
    for row in rows:
        match row:
            case [str() as fun, list() as args, dict() as kwargs]:
                calls.append(FunctionCall(fun, args, kwargs))
            case _:
                raise UsageError("a call is a list of a function, its arguments and its keyword arguments")
        checked_function(fun)
    return tuple(calls)


def _chosen(master: Master, ids: list[MinionId], subset: int | None) -> list[MinionId]:
    """All of them, or so many by chance; those that are connected first, for an answer is what is wanted."""
    if subset is None:
        return ids
    if subset < 1:
        raise UsageError(f"--subset takes 1 minion or more, not {subset}")
    by_chance = sorted(ids, key=lambda minion: (minion not in master.present, master.clock.uniform(0.0, 1.0)))
    return sorted(by_chance[:subset])


def _nobody(target: Target, store: StoreReader) -> str:
    sentence = f"no accepted minion matches {target.expression!r}: nothing was published"
    if target.kind is TargetKind.PCRE:
        return sentence
    names = listed(target.expression) if target.kind is TargetKind.LIST else [target.expression]
    if any(letter in name for name in names for letter in "*?["):
        return sentence
    reasons = _why_not(names[:_REASONS_MAX], store)
    return "; ".join([sentence, *(f"{name}: {reason}" for name, reason in reasons.items())])


def _why_not(names: Sequence[str], store: StoreReader) -> dict[str, str]:
    """Why each of these is no id of an accepted minion."""
    if not names:
        return {}
    states: dict[str, set[KeyState]] = {name: set() for name in names}
    for key in store.keys(frozenset(_NOT_ACCEPTED)):
        if key.id in states:
            states[key.id].add(key.state)
    return {
        name: next((text.format(name) for state, text in _NOT_ACCEPTED.items() if state in known), _NO_KEY)
        for name, known in states.items()
    }


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())[:_ORIGIN_MAX]


def _signed(job: Job, calls: tuple[FunctionCall, ...], private: bytes) -> Job:
    body = encode_body(
        JobBody(
            jid=job.jid,
            calls=calls,
            user=job.user,
            audience=root(job.minions),
            run_ms=job.run_ms,
            # The minion counts it from the jid, and in a batch a target's turn comes late.
            deliver_ms=job.deliver_ms if job.batch is None else job.deliver_ms + LASTS_MAX_MS,
        )
    )
    if len(body) > JOB_BODY_MAX:
        raise UsageError(
            f"the arguments make a job of {len(body)} bytes, and the limit is {JOB_BODY_MAX}: "
            "put large data into a file and pass its name"
        )
    return replace(job, body=body, signature=sign(private, body))
