"""Publish a job: resolve the target, authorise exactly that list, commit, and only then tell anybody.

G1: the jid is answered after the commit. G2: the same request id gives the same jid. G3: what is committed is the
resolved list, and nothing else is ever sent the job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from saltlite.auth.acl import OPTIONS_ALONE, Action, Call, Principal, authorize
from saltlite.errors import NoTargetError, RefusedError, UsageError
from saltlite.master.handlers.delivery import LASTS_MAX_MS, batch_of, release, send
from saltlite.master.handlers.functions import Fitting, Known, Skipped, checked_function, fitting, fitting_calls, parsed
from saltlite.master.handlers.targets import (
    by_owner,
    nobody,
    refuse_pillar_guesses,
    selected_within_reach,
    shown_key_states,
    still_accepted,
    subset_of,
    target_of,
    unknown_names,
    whom,
)
from saltlite.master.processes.context import Answer, Follow, Master
from saltlite.master.store.ports import BatchJob, StoreReader, StoreWriter
from saltlite.model.events import tag_job_returners
from saltlite.model.execution import KNOWING, Execution, checked_executors, checked_options
from saltlite.model.ids import Jid, MinionId, TargetId, jid_after, jid_at, parse_jid, parse_request_id
from saltlite.model.job import BY_RUNNER, Job, Target
from saltlite.model.keys import KeyState
from saltlite.targeting.fleet import Selection
from saltlite.wire.job_body import CALLS_MAX, FunctionCall, JobBody, encode_body, holds_secrets, sign
from saltlite.wire.limits import JOB_BODY_MAX, JOBS_QUEUED_PER_MINION
from saltlite.wire.merkle import audience

DELIVER_MAX_MS = 30 * 86_400_000
RUN_MAX_MS = 365 * 86_400_000

_ORIGIN_MAX = 200


def handle_publish(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Fields as in `operator_verbs`; answers jid, minions, resources, away, unknown, skipped, timeout_s, deliver_ms.

    `calls` is a list of [function, args, kwargs]; `module_executors`, a list or one name, are the executors that each
    minion is to use in place of its own, as far as it allows that, and `executor_opts` what they are told; `ret`, as
    that, are the returners of the master that are to get each return; `metadata` stays with the job, for whoever looks
    at it. `resources` has those of each managing minion; `away` are minions that are targets, or manage some, and have
    no session; `unknown` says of each name in a list or an expression why it is none; `skipped` counts the resources
    that were left out, as the type of these has no such function.
    """
    # Before anything is read: a regular expression of somebody who may not publish must not keep the store waiting.
    authorize(principal, Action("publish"), master.terms)
    request_id = parse_request_id(request["request_id"])
    target = target_of(request)
    calls = _calls(request["calls"])
    execution = _execution(request)
    deliver_ms = _within(request.get("deliver_ms", int(master.terms.deliver_s * 1000)), DELIVER_MAX_MS, "--deliver-by")
    run_ms = _within(request.get("run_ms", 0), RUN_MAX_MS, "--run-timeout")
    known = master.store.job_of_request(request_id, principal.uid)
    if known is not None:
        return _answer(master, principal, known, request)
    fit, calls = _targets(master, principal, request, calls, execution)
    returners = _returners(master, request)
    loses_arguments = not master.terms.keep_job_args or holds_secrets(calls, execution.options)
    chosen = fit.chosen
    batch = batch_of(request.get("batch"), len(chosen.minions) + len(chosen.resources))
    if batch is None:
        _refuse_crowded(sorted({*chosen.minions, *chosen.resources.values()}), master.store)
    with master.store.write() as store:
        known = store.job_of_request(request_id, principal.uid)
        if known is None:
            master.refuse_when_full()
            chosen = still_accepted(chosen, store)
            _refuse_nobody(chosen, target, store, shown_key_states(master, principal))
            job = Job(
                jid=_free_jid(store, master.clock.wall()),
                request_id=request_id,
                user=principal.label,
                uid=principal.uid,
                fun=",".join(call.fun for call in calls),
                target=target,
                created_at=master.clock.wall(),
                deliver_ms=deliver_ms,
                run_ms=run_ms,
                body=b"",
                signature=b"",
                minions=tuple(sorted(chosen.minions)),
                resources=by_owner(chosen.resources),
                batch=batch,
                origin=_origin(request),
            )
            job = _signed(job, calls, execution, request.get("metadata", {}), master.identity.job_private)
            _put(store, job, returners, loses_arguments=loses_arguments)
            ids: Collection[TargetId] = {*chosen.minions, *chosen.resources}
            if batch is not None:
                ids, _moved = release(store, BatchJob(job.jid, job.created_at, deliver_ms, batch), job.created_at)
    if known is not None:
        return _answer(master, principal, known, request)
    send(job, ids, master.link, master.proofs)
    return replace(_answer(master, principal, job.jid, request, fit.skipped), committed=True)


def _execution(request: Mapping[str, Any]) -> Execution:
    return Execution(checked_executors(request.get("module_executors")), checked_options(request.get("executor_opts")))


def _targets(
    master: Master, principal: Principal, request: Mapping[str, Any], calls: Sequence[FunctionCall], asked: Execution
) -> tuple[Fitting, tuple[FunctionCall, ...]]:
    """Whom the job is for, when the principal may have these calls run there and one of them at least could take each;
    and the calls as they are to be published.

    No writer waits for this: a regular expression, the functions of a whole fleet and a near name take their time.
    """
    target = target_of(request)
    refuse_pillar_guesses(master, principal, target)
    executors, returners = _granted(asked), _named(request.get("ret"))
    actions = [
        Action(
            "publish",
            Call(call.fun, call.args, call.kwargs),
            executors=executors,
            returners=returners,
            budget=master.budget,
        )
        for call in calls
    ]
    # Before the target is looked at: what no rule grants anywhere is refused whatever the target selects.
    for action in actions:
        authorize(principal, action, master.terms)
    chosen = selected_within_reach(master, principal, target, Call(calls[0].fun, calls[0].args, calls[0].kwargs))
    fit = fitting(master, chosen, [call.fun for call in calls])
    # All that the target selects, and not the few that --subset takes by chance: the answer is the same each time.
    for action in actions:
        on_targets = replace(action, minions=fit.chosen.minions, resources=fit.chosen.resources)
        authorize(principal, on_targets, master.terms, master.selects)
    chosen = subset_of(master, fit.chosen, request.get("subset"))
    _refuse_nobody(chosen, target, master.store, shown_key_states(master, principal))
    calls = fitting_calls(calls, chosen, master, may_be_missing=not KNOWING.issuperset(asked.executors))
    return replace(fit, chosen=chosen), calls


def _granted(asked: Execution) -> Sequence[str]:
    """What of the way to a function is to be granted: options alone are for the executors that a minion has."""
    return asked.executors or ((OPTIONS_ALONE,) if asked.options else ())


def _named(value: object) -> tuple[str, ...]:
    """The names in a field that is one, several with commas, or a list. Anything else is a name that no rule grants."""
    if value is None:
        return ()
    names = value.strip("[] ").split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return tuple(str(name).strip() for name in names)


def _put(store: StoreWriter, job: Job, returners: Sequence[str], *, loses_arguments: bool) -> None:
    store.put_job(job)
    if loses_arguments:
        store.mark_reducible(job.jid)
    if returners:
        # Their processes read it before any return.
        about = {"jid": job.jid, "returners": list(returners)}
        store.put_event(tag_job_returners(job.jid), about, job.created_at)


def _returners(master: Master, request: Mapping[str, Any]) -> list[str]:
    names = list(dict.fromkeys(_named(request.get("ret"))))
    unknown = [name for name in names if name not in master.terms.returners]
    if unknown:
        known = ", ".join(sorted(master.terms.returners)) or "none"
        raise UsageError(f"the master has no returner {unknown[0][:40]!r}; returner_config names {known}")
    return names


def _refuse_nobody(chosen: Selection, target: Target, store: StoreReader, states: frozenset[KeyState]) -> None:
    if not chosen.minions and not chosen.resources:
        raise NoTargetError(nobody(target, chosen.unknown, store, states))


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


def _answer(
    master: Master, principal: Principal, jid: Jid, request: Mapping[str, Any], skipped: Sequence[Skipped] = ()
) -> Answer:
    job = master.store.job(jid)
    fields = {
        "jid": jid,
        **whom(master, job),
        "unknown": unknown_names(master, principal, job) if job is not None and "subset" not in request else {},
        "skipped": [{"type": one.type, "fun": one.fun, "count": one.count} for one in skipped],
        "timeout_s": master.terms.timeout_s,
        "deliver_ms": job.deliver_ms if job is not None else 0,
    }
    return Answer(fields, follow=Follow(jid, 0) if request.get("follow") else None)


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


def _origin(request: Mapping[str, Any]) -> str:
    if "runner" in request:
        return BY_RUNNER + parse_jid(request["runner"])
    text = request.get("origin", "")
    return "".join(letter for letter in text if letter.isprintable())[:_ORIGIN_MAX]


def _signed(
    job: Job, calls: tuple[FunctionCall, ...], execution: Execution, metadata: dict[str, Any], private: bytes
) -> Job:
    body = encode_body(
        JobBody(
            jid=job.jid,
            calls=calls,
            user=job.user,
            audience=audience(job),
            run_ms=job.run_ms,
            # The minion counts it from the jid, and in a batch a target's turn comes late.
            deliver_ms=job.deliver_ms if job.batch is None else job.deliver_ms + LASTS_MAX_MS,
            executors=execution.executors,
            executor_opts=execution.options,
            metadata=metadata,
        )
    )
    if len(body) > JOB_BODY_MAX:
        raise UsageError(
            f"the arguments make a job of {len(body)} bytes, and the limit is {JOB_BODY_MAX}: "
            "put large data into a file and pass its name"
        )
    return replace(job, body=body, signature=sign(private, body))


# -- describing functions


SIGNATURES_MAX = 16
"""Different signatures of one function that an answer holds; minions with further ones count as unknown."""


def handle_describe(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Fields as in `operator_verbs`; answers `count`, the targets, with `resources`, how many of them are such, and
    `away`, how many cannot be reached now; and `functions`: name -> what is known.

    That is `signatures`, the different texts of `saltlite.model.signature`, and `takers`, who declares each of them;
    `risks`, who declares which; `lacking`, how many targets do not have it; and `unknown`, how many may have
    it and have not said what it takes. No minion is asked. What a few minions say is told as theirs (`minions`, how
    many; `of`, how many have it; `one`, the first of them by id), for one that was broken into can say anything.
    """
    authorize(principal, Action("describe"), master.terms)
    funs = [checked_function(fun) for fun in request["funs"]]
    if not 1 <= len(funs) <= CALLS_MAX:
        raise UsageError(f"describe takes 1 to {CALLS_MAX} functions, not {len(funs)}")
    target = target_of(request)
    refuse_pillar_guesses(master, principal, target)
    for fun in funs:
        authorize(principal, Action("describe", Call(fun, kwargs=None)), master.terms)
    chosen = selected_within_reach(master, principal, target, Call(funs[0], kwargs=None))
    chosen = fitting(master, chosen, funs).chosen
    for fun in funs:
        wanted = Action("describe", Call(fun, kwargs=None), chosen.minions, chosen.resources)
        authorize(principal, wanted, master.terms, master.selects)
    known = Known(chosen, master)
    owners = [*chosen.minions, *chosen.resources.values()]
    fields = {
        "count": len(owners),
        "resources": len(chosen.resources),
        "away": sum(minion not in master.present for minion in owners),
        "functions": {fun: _described(fun, known) for fun in funs},
    }
    return Answer(fields)


@dataclass(slots=True)
class _Sayers:
    """Who says the same of a function."""

    minions: int = 0
    one: str = ""

    def add(self, count: int, first: TargetId) -> None:
        self.minions += count
        self.one = min(self.one or first, first)


def _described(fun: str, known: Known) -> dict[str, Any]:
    signatures: dict[str, _Sayers] = {}
    risks: dict[str, _Sayers] = {}
    having = lacking = unknown = 0
    for functions, count, first in known.sets():
        text = functions.functions.get(fun) if functions is not None else None
        if text is None:
            if functions is not None and functions.whole:
                lacking += count
            else:
                unknown += count
            continue
        having += count
        _fun, signature, risk = parsed(text)
        if risk:
            risks.setdefault(risk, _Sayers()).add(count, first)
        if signature is None or (text not in signatures and len(signatures) == SIGNATURES_MAX):
            unknown += count
        else:
            signatures.setdefault(text, _Sayers()).add(count, first)
    return {
        "signatures": list(signatures),
        "takers": [{"minions": who.minions, "of": having, "one": who.one} for who in signatures.values()],
        "risks": [{"risk": risk, "minions": who.minions, "of": having, "one": who.one} for risk, who in risks.items()],
        "lacking": lacking,
        "unknown": unknown,
    }
