"""Publish a job, and describe functions to a client before it publishes. The steps of a publish are, in this order:

    parse       read the request into a PublishRequest
    resolve     find the minions and resources that the target selects, and authorise every call on exactly these
    ask         answer with a question instead, if the user must accept a risk, or if the client must read the arguments
                again with the functions' signatures; only clients that send `consent` take questions
    check       refuse calls that no target can run
    commit      sign the job, and store it with one row per target
    deliver     send the job to the targets that get it now
    answer      tell the client the jid and the targets

Three guarantees of `saltlite/docs/guarantees.md` are kept here. G1: the jid is answered after the commit. G2: the same
request id gives the same jid. G3: the job is committed for targets that were authorised, and never sent to any others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from saltlite.auth.acl import OPTIONS_ALONE, Action, Call, Principal, authorize
from saltlite.errors import NoTargetError, RefusedError, SaltliteError, UsageError
from saltlite.master.handlers.delivery import LASTS_MAX_MS, batch_of, release, send
from saltlite.master.handlers.fields import (
    NAME,
    BooleanField,
    CallField,
    Field,
    IntegerField,
    ListField,
    MapField,
    Names,
    NamesOrText,
    TextField,
)
from saltlite.master.handlers.functions import (
    FunctionSupport,
    SupportedTargets,
    checked_function,
    depends_on_signature,
    described,
    outputter_for,
    publishable_calls,
    supported_targets,
)
from saltlite.master.handlers.targets import (
    by_owner,
    no_target_message,
    refuse_pillar_guesses,
    selected_within_reach,
    still_accepted,
    subset_of,
    target_fields,
    target_of,
    unknown_names,
)
from saltlite.master.processes.context import Answer, Follow, Master, StoreWrite
from saltlite.master.store.ports import BatchJob, StoreReader, StoreWriter
from saltlite.model.dataclass import dataclass
from saltlite.model.events import tag_job_returners
from saltlite.model.execution import CUSTOM_PREFIX, SHIPPED_EXECUTORS, Execution, checked_executors, checked_options
from saltlite.model.ids import Jid, RequestId, TargetId, jid_after, jid_at, parse_jid, parse_request_id
from saltlite.model.job import BY_RUNNER, Batch, Job, Target, TargetState
from saltlite.targeting.fleet import Budget, Selection
from saltlite.wire.job_body import CALLS_MAX, FunctionCall, JobBody, encode_body, holds_secrets, sign
from saltlite.wire.limits import JOB_BODY_MAX, JOBS_QUEUED_PER_MINION
from saltlite.wire.merkle import audience

DELIVER_MAX_MS = 30 * 86_400_000
RUN_MAX_MS = 365 * 86_400_000

_ORIGIN_MAX = 200


FIELDS: Mapping[str, Field] = {
    "request_id": NAME,
    "tgt": TextField(),
    "tgt_type": NAME,
    "calls": ListField(CallField()),
}
OPTIONAL_FIELDS: Mapping[str, Field] = {
    "deliver_ms": IntegerField(),
    "run_ms": IntegerField(),
    "follow": BooleanField(),
    "subset": IntegerField(),
    "batch": MapField(),
    "metadata": MapField(),
    "origin": NAME,
    "module_executors": NamesOrText,
    "executor_opts": MapField(),
    "ret": NamesOrText,
    "runner": NAME,
    "consent": Names,
    "untyped": BooleanField(),
}
"""A new job option needs a field here, and one of PublishRequest, which `parse` fills."""


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """A publish request, after a check of its fields. Times are milliseconds."""

    request_id: RequestId
    target: Target
    calls: tuple[FunctionCall, ...]
    execution: Execution
    """The executors that minions use instead of their own, if they allow it, and the options of executors."""
    deliver_ms: int
    run_ms: int
    returners: tuple[str, ...]
    """The returners that the master passes each return to."""
    subset: int | None
    """The number of targets to choose at random; None for all. `subset_of` checks it."""
    batch: Mapping[str, Any] | None
    """The fields that `batch_of` checks and reads; None to send the job to all targets at once."""
    metadata: Mapping[str, Any]
    """Data of the user, which is stored with the job and not interpreted."""
    origin: str
    """Where the request comes from: a runner's jid, or a text of the client."""
    follow: bool
    """Whether the client wants the results on the same connection."""
    consent: frozenset[str] | None
    """The risks that the user accepts. The answer is a question if a function has another one. None: never ask."""
    untyped: bool
    """Whether the client read the arguments from words without knowing the signatures. The answer is a question if a
    signature could give an argument another value, or while minions that have just connected report theirs."""

    @classmethod
    def parse(cls, fields: Mapping[str, Any], deliver_s: float) -> PublishRequest:
        """Read the fields of a request. `deliver_s` is the configured time to deliver a job. Raises UsageError."""
        return cls(
            request_id=parse_request_id(fields["request_id"]),
            target=target_of(fields),
            calls=_parsed_calls(fields["calls"]),
            execution=Execution(
                checked_executors(fields.get("module_executors")), checked_options(fields.get("executor_opts"))
            ),
            deliver_ms=_checked_ms(fields.get("deliver_ms", int(deliver_s * 1000)), DELIVER_MAX_MS, "--deliver-by"),
            run_ms=_checked_ms(fields.get("run_ms", 0), RUN_MAX_MS, "--run-timeout"),
            returners=_returner_names(fields.get("ret")),
            subset=fields.get("subset"),
            batch=fields.get("batch"),
            metadata=fields.get("metadata", {}),
            origin=_origin(fields),
            follow=fields.get("follow", False),
            consent=frozenset(fields["consent"]) if "consent" in fields else None,
            untyped=fields.get("untyped", False),
        )

    @property
    def functions(self) -> list[str]:
        """The names of the called functions."""
        return [call.fun for call in self.calls]

    def actions(self, budget: Budget, *, typed: bool) -> list[Action]:
        """One action to authorise for each call. Unless `typed`, the arguments may still change and are not judged."""
        # Options without executors change the executors that a minion has configured, so they are authorised, too.
        executors = self.execution.executors or ((OPTIONS_ALONE,) if self.execution.options else ())
        calls = [
            Call(call.fun, call.args, call.kwargs) if typed else Call(call.fun, kwargs=None) for call in self.calls
        ]
        return [Action("publish", call, executors=executors, returners=self.returners, budget=budget) for call in calls]


def handle_publish(master: Master, principal: Principal, fields: Mapping[str, Any]) -> Answer:
    """Takes FIELDS and OPTIONAL_FIELDS, as PublishRequest explains them; `calls` has [function, args, kwargs] for each.

    Answers `jid`, `minions`, `resources` (managing minion -> SRNs), `away` (minions with a part in the job that have no
    session -> last seen), `unknown` (names in the target that select nothing -> why), `skipped` (the number of
    resources whose type lacks a function), `timeout_s`, `deliver_ms`, and with `consent` the `outputter` of a single
    function. `missing_executors` is there if minions lack a requested executor (`_missing_executors`). If the answer
    has only `question`, with the fields of `handle_describe`, nothing was published.
    """
    request = PublishRequest.parse(fields, master.config.deliver_s)

    def failed(error: SaltliteError) -> Answer:
        # The same request may have published its job before, and an error of now must not hide that job (G2). For
        # example, the target may select nothing any more.
        earlier = master.store.job_of_request(request.request_id, principal.owner)
        if earlier is None:
            raise error
        return _repeated_answer(master, principal, request, earlier)

    try:
        return _publish(master, principal, request, failed)
    except SaltliteError as error:
        return failed(error)


def _publish(
    master: Master, principal: Principal, request: PublishRequest, failed: Callable[[SaltliteError], Answer]
) -> Answer:
    # If a question may come first, the client may send other arguments afterwards. These are authorised then.
    typed = (
        request.consent is None or not request.untyped or not any(call.args or call.kwargs for call in request.calls)
    )
    supported = _resolve(master, principal, request.target, request.actions(master.budget, typed=typed))
    support = FunctionSupport(supported.selection, master)
    if request.consent is not None:
        question = _question(master, request, supported.selection, support)
        if question is not None:
            # A function may have a new risk since the same request published its job (G2).
            earlier = master.store.job_of_request(request.request_id, principal.owner)
            if earlier is not None:
                return _repeated_answer(master, principal, request, earlier)
            return Answer({"question": question})
        if not typed:
            # No signature changes these arguments, so they are final.
            _authorise_targets(master, principal, request.actions(master.budget, typed=True), supported.selection)

    selection = subset_of(master, supported.selection, request.subset)
    calls = _checked_calls(master, principal, request, selection, support)
    missing_executors = _missing_executors(master, request, selection)
    if calls != request.calls:
        request = replace(request, calls=calls)

    def published(committed: tuple[Job, Collection[TargetId]] | Jid) -> Answer:
        if isinstance(committed, str):
            # It is the jid of the job that the same request published before.
            return _repeated_answer(master, principal, request, committed)
        job, due = committed
        send(job, due, master.link, master.proofs)
        target = {"tgt": request.target.expression, "tgt_type": str(request.target.kind)}
        master.record(principal, "publish", {"jid": job.jid, **target, "calls": [call.shown() for call in calls]})
        unknown = unknown_names(master, principal, job, selection.unknown)
        outputter = outputter_for(request.functions, support)
        answer = _answer(master, request, job.jid, job, unknown, outputter, is_new=True)
        answer.fields["skipped"] = [{"type": row.type, "fun": row.fun, "count": row.count} for row in supported.skipped]
        if missing_executors:
            answer.fields["missing_executors"] = missing_executors
        return answer

    batch = batch_of(request.batch, len(selection.minions) + len(selection.resources))
    # Before the transaction: nobody else is to wait while a job with thousands of targets is signed.
    now = master.clock.wall()
    draft = signed_job(master, principal, request, selection, jid_at(int(now * 1_000_000)), batch, now)
    store = partial(_store, master, principal, request, selection, draft)
    # The first targets of a batch get their turn in the same transaction.
    return Answer(write=StoreWrite(store, published, failed, appends_only=batch is None))


# -- parse


def _parsed_calls(rows: Sequence[Any]) -> tuple[FunctionCall, ...]:
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


def _checked_ms(value_ms: int, max_ms: int, option: str) -> int:
    if not 0 <= value_ms <= max_ms:
        raise UsageError(f"{option} takes at most {max_ms // 86_400_000} days")
    return value_ms


def _returner_names(value: object) -> tuple[str, ...]:
    """The names in a list, or in a text that separates them with commas; each name once."""
    if value is None:
        return ()
    names = value.strip("[] ").split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(str(name).strip() for name in names))


def _origin(fields: Mapping[str, Any]) -> str:
    if "runner" in fields:
        return BY_RUNNER + parse_jid(fields["runner"])
    text = fields.get("origin", "")
    # Other users are shown this text, so it must not contain control characters.
    return "".join(letter for letter in text if letter.isprintable())[:_ORIGIN_MAX]


# -- resolve and authorise


def _resolve(master: Master, principal: Principal, target: Target, actions: Sequence[Action]) -> SupportedTargets:
    """The targets that have the functions. Raises if the principal may not do all of these actions on each of them.

    Call it outside of transactions: regular expressions and the functions of a large fleet can take a second.
    """
    refuse_pillar_guesses(master, principal, target)
    # First without targets: if no rule grants a call anywhere, its refusal must not depend on what the target selects.
    for action in actions:
        authorize(principal, action, master.config)
    calls = [action.call for action in actions if action.call is not None]
    # The call is only for the message of a refusal.
    selection = selected_within_reach(master, principal, target, calls[0])
    supported = supported_targets(master, selection, [call.fun for call in calls])
    # --subset chooses among these at random later. All are authorised, so that chance does not decide on a refusal.
    _authorise_targets(master, principal, actions, supported.selection)
    return supported


def _authorise_targets(master: Master, principal: Principal, actions: Sequence[Action], selection: Selection) -> None:
    for action in actions:
        on_targets = replace(action, minions=selection.minions, resources=selection.resources)
        authorize(principal, on_targets, master.config, master.selects)


# -- ask


def _question(
    master: Master, request: PublishRequest, selection: Selection, support: FunctionSupport
) -> dict[str, Any] | None:
    """The description of the functions, if the client needs it before it can publish; None otherwise.

    Raises UncallableError before it asks for consent to a call that no target can run.
    """
    description = _description(master, request.functions, selection, support)
    risks = {row["risk"] for function in description["functions"].values() for row in function["risks"]}
    awaited = support.awaited() if request.untyped else 0
    needs_signatures = request.untyped and any(depends_on_signature(call, support) for call in request.calls)
    needs_consent = not risks <= (request.consent or frozenset())
    if needs_consent and not awaited and not needs_signatures:
        # No signature changes these arguments, so they are final.
        publishable_calls(request.calls, support, may_be_missing=_may_be_missing(request))
    return {**description, "awaited": awaited} if awaited or needs_signatures or needs_consent else None


def _may_be_missing(request: PublishRequest) -> bool:
    """Whether an executor that does not ship may run functions that the minion does not have."""
    return not SHIPPED_EXECUTORS.issuperset(request.execution.executors)


def _description(master: Master, funs: Sequence[str], selection: Selection, support: FunctionSupport) -> dict[str, Any]:
    owners = [*selection.minions, *selection.resources.values()]
    return {
        "count": len(owners),
        "resources": len(selection.resources),
        "away": sum(minion not in master.present for minion in owners),
        "functions": {fun: described(fun, support) for fun in funs},
    }


# -- check


def _checked_calls(
    master: Master, principal: Principal, request: PublishRequest, selection: Selection, support: FunctionSupport
) -> tuple[FunctionCall, ...]:
    """The calls, with their secret arguments marked. Raises NoTargetError or UsageError if no target can run them."""
    _refuse_no_targets(master, principal, request, selection, master.store)
    # `support` counts the targets from before --subset chose some of them.
    support = support if request.subset is None else FunctionSupport(selection, master)
    calls = publishable_calls(request.calls, support, may_be_missing=_may_be_missing(request))
    unknown = [name for name in request.returners if name not in master.config.returners]
    if unknown:
        configured = ", ".join(sorted(master.config.returners)) or "none"
        raise UsageError(f"the master has no returner {unknown[0][:40]!r}; returner_config names {configured}")
    return calls


def _missing_executors(master: Master, request: PublishRequest, selection: Selection) -> list[dict[str, Any]]:
    """`executor`, `count` of the minions that do not have it and `one` of them, for each requested executor that some
    lack. Raises UsageError if all of them lack one.
    """
    own = [name for name in request.execution.executors if name not in SHIPPED_EXECUTORS]
    if not own:
        return []
    minions = sorted({*selection.minions, *selection.resources.values()})
    sets = [
        (known.functions, count, first)
        for digest, (count, first) in master.store.function_digests(minions).items()
        if digest and (known := master.functions.of(digest, master.store)) is not None
    ]
    rows = []
    for name in own:
        lacking = [(count, first) for functions, count, first in sets if f"{CUSTOM_PREFIX}{name}" not in functions]
        if sum(count for count, _first in lacking) == len(minions):
            raise UsageError(
                f"none of the targets has an executor {name!r} that can be loaded: `saltlite {lacking[0][1]} "
                "saltutil.sync_executors` installs those in _executors, sys.list_executors lists them. "
                "Nothing was published."
            )
        if lacking:
            count, one = sum(count for count, _first in lacking), min(first for _count, first in lacking)
            rows.append({"executor": name, "count": count, "one": one})
    return rows


def _refuse_no_targets(
    master: Master, principal: Principal, request: PublishRequest, selection: Selection, store: StoreReader
) -> None:
    if not selection.minions and not selection.resources:
        raise NoTargetError(no_target_message(master, principal, request.target, selection.unknown, store))


# -- commit


def _store(
    master: Master,
    principal: Principal,
    request: PublishRequest,
    selection: Selection,
    draft: Job,
    store: StoreWriter,
) -> tuple[Job, Collection[TargetId]] | Jid:
    """Store the job; returns it with the targets that get it now. It is `draft` if nothing has changed since.

    If the same request has published a job before, nothing is stored, and the jid of that job is returned (G2).
    """
    earlier = store.job_of_request(request.request_id, principal.owner)
    if earlier is not None:
        return earlier
    batch, now = draft.batch, draft.created_at
    if batch is None:
        # A batch waits on the master until it is the turn of a minion, and so does not lengthen any queue.
        _refuse_full_queues(selection, store)
    master.refuse_before_joined()
    master.refuse_when_full()
    # Keys may have been rejected or revoked since the target was resolved.
    accepted = still_accepted(selection, store)
    _refuse_no_targets(master, principal, request, accepted, store)
    jid = free_jid(store, now)
    is_as_drafted = jid == draft.jid and accepted == selection
    job = draft if is_as_drafted else signed_job(master, principal, request, accepted, jid, batch, now)
    store.put_job(job)
    if not master.config.keep_job_args or holds_secrets(request.calls, request.execution.options):
        # The arguments are deleted from the store when the job has ended.
        store.mark_reducible(jid)
    if request.returners:
        # The returners' processes read events in order, so they know of the job before its first return.
        data = {"jid": jid, "returners": list(request.returners)}
        store.put_event(tag_job_returners(jid), data, job.created_at)
    if batch is None:
        return job, {*accepted.minions, *accepted.resources}
    due, _moved = release(store, BatchJob(jid, job.created_at, job.deliver_ms, batch), job.created_at)
    return job, due


def _refuse_full_queues(selection: Selection, store: StoreReader) -> None:
    """Raises RefusedError if the queue of one of these minions has no room for another job."""
    crowded = store.crowded(sorted({*selection.minions, *selection.resources.values()}), JOBS_QUEUED_PER_MINION)
    if crowded:
        others = f" (and for {len(crowded) - 1} more of the targets)" if len(crowded) > 1 else ""
        raise RefusedError(
            f"{JOBS_QUEUED_PER_MINION} jobs wait for {crowded[0]}{others}, and no more may: leave it out of the target "
            f"or end some of them with `saltlite job kill JID` (`saltlite job list --minion {crowded[0]} --state open` "
            "has them). Nothing was published."
        )


def free_jid(store: StoreWriter, wall_s: float) -> Jid:
    """The jid of this wall-clock time, or the next one that no job has."""
    jid = jid_at(int(wall_s * 1_000_000))
    while store.jid_taken(jid):
        jid = jid_after(jid)
    return jid


def signed_job(
    master: Master,
    principal: Principal,
    request: PublishRequest,
    selection: Selection,
    jid: Jid,
    batch: Batch | None,
    now: float,
) -> Job:
    """The job with its signed body. Raises UsageError if it is too large."""
    # The signed body contains the audience, which is made from the targets in the job. So the job comes first.
    job = Job(
        jid=jid,
        request_id=request.request_id,
        user=principal.label,
        uid=principal.owner,
        fun=",".join(request.functions),
        target=request.target,
        created_at=now,
        deliver_ms=request.deliver_ms,
        run_ms=request.run_ms,
        body=b"",
        signature=b"",
        minions=tuple(sorted(selection.minions)),
        resources=by_owner(selection.resources),
        batch=batch,
        origin=request.origin,
    )
    body = encode_body(
        JobBody(
            jid=jid,
            calls=request.calls,
            user=job.user,
            audience=audience(job),
            run_ms=job.run_ms,
            # A minion counts this time from the jid. The turn of a target in a batch may come LASTS_MAX_MS later.
            deliver_ms=job.deliver_ms if batch is None else job.deliver_ms + LASTS_MAX_MS,
            executors=request.execution.executors,
            executor_opts=request.execution.options,
            metadata=dict(request.metadata),
        )
    )
    if len(body) > JOB_BODY_MAX:
        raise UsageError(
            f"the arguments make a job of {len(body)} bytes, and the limit is {JOB_BODY_MAX}: "
            "put large data into a file and pass its name"
        )
    return replace(job, body=body, signature=sign(master.identity.job_private, body))


# -- answer


def _repeated_answer(master: Master, principal: Principal, request: PublishRequest, jid: Jid) -> Answer:
    """The answer about the job that the same request has published before."""
    job = master.store.job(jid)
    if job is None:
        # Old jobs are deleted. The answer still has the jid (G2).
        return _answer(master, request, jid, None, {}, "")
    # Whoever published it may have ended before it sent it; a minion that has it already does not run it again (G4).
    send(job, [row.id for row in master.store.targets_in(jid, TargetState.QUEUED)], master.link, master.proofs)
    owners = {srn: owner for owner, srns in job.resources.items() for srn in srns}
    outputter = outputter_for(request.functions, FunctionSupport(Selection(frozenset(job.minions), owners), master))
    return _answer(master, request, jid, job, unknown_names(master, principal, job), outputter)


def _answer(
    master: Master,
    request: PublishRequest,
    jid: Jid,
    job: Job | None,
    unknown: Mapping[str, str],
    outputter: str,
    *,
    is_new: bool = False,
) -> Answer:
    fields = {
        "jid": jid,
        **target_fields(master, job),
        # With --subset, a name that was not chosen would count as unknown.
        "unknown": unknown if request.subset is None else {},
        # `_publish` fills it; nothing is stored about skipped resources for a repeated answer.
        "skipped": [],
        "timeout_s": master.config.timeout_s,
        "deliver_ms": job.deliver_ms if job is not None else 0,
    }
    if request.consent is not None:
        fields["outputter"] = outputter
    follow = Follow(jid, 0, job=job, is_new=is_new) if request.follow else None
    # Nothing was moved: no other stream follows a new job yet.
    return Answer(fields, follow=follow, committed=is_new, moved=())


# -- describe


def handle_describe(master: Master, principal: Principal, fields: Mapping[str, Any]) -> Answer:
    """Describes functions on the targets of a job, so that a client can read arguments, warn of risks, or refuse.

    Answers `count`, the number of targets; `resources`, how many of them are resources; `away`, how many have no
    session now; `awaited`, how many are about to report their functions; and `functions`: name -> the fields of
    `functions.described`. With `permitted`, functions that the principal may not run there are omitted; without it one
    of them refuses all.
    """
    funs = [checked_function(fun) for fun in fields["funs"]]
    if not 1 <= len(funs) <= CALLS_MAX:
        raise UsageError(f"describe takes 1 to {CALLS_MAX} functions, not {len(funs)}")
    actions = {fun: Action("describe", Call(fun, kwargs=None)) for fun in funs}
    target = target_of(fields)
    try:
        selection = _resolve(master, principal, target, list(actions.values())).selection
    except RefusedError:
        if not fields.get("permitted", False):
            raise
        funs = [fun for fun, action in actions.items() if _is_permitted(master, principal, target, action)]
        if not funs:
            raise
        selection = _resolve(master, principal, target, [actions[fun] for fun in funs]).selection
    support = FunctionSupport(selection, master)
    return Answer({**_description(master, funs, selection, support), "awaited": support.awaited()})


def _is_permitted(master: Master, principal: Principal, target: Target, action: Action) -> bool:
    try:
        _resolve(master, principal, target, [action])
    except RefusedError:
        return False
    return True
