"""Publish a job, and describe its functions. A publish is one pipeline, which `handle_publish` reads top-down:

    parse       the request, once, into a PublishRequest
    resolve     the target into minions and resources, and authorise every call on exactly these
    ask         a question instead of publishing, if the client wants one where consent or signatures are needed
    sign        the job, and commit it with one row a target
    deliver     to the targets whose turn it is, and answer

G1: the jid is answered after the commit. G2: the same request id gives the same jid. G3: exactly the list that was
resolved and authorised is committed, and the job is never sent to anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
    shown_key_states,
    still_accepted,
    subset_of,
    target_fields,
    target_of,
    unknown_names,
)
from saltlite.master.processes.context import Answer, Follow, Master
from saltlite.master.store.ports import BatchJob, StoreReader, StoreWriter
from saltlite.model.events import tag_job_returners
from saltlite.model.execution import KNOWING, Execution, checked_executors, checked_options
from saltlite.model.ids import Jid, RequestId, TargetId, jid_after, jid_at, parse_jid, parse_request_id
from saltlite.model.job import BY_RUNNER, Batch, Job, Target
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
"""A job option is a field here, which `PublishRequest.parse` reads."""


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The fields of a publish, read once. Times in milliseconds."""

    request_id: RequestId
    target: Target
    calls: tuple[FunctionCall, ...]
    execution: Execution
    """The executors that minions use instead of their own, as far as they allow it, and the executors' options."""
    deliver_ms: int
    run_ms: int
    returners: tuple[str, ...]
    """Returners of the master that get each return."""
    subset: int | None
    """Run on so many targets, chosen at random."""
    batch: Mapping[str, Any] | None
    metadata: Mapping[str, Any]
    """Stored with the job, for whoever reads it."""
    origin: str
    """Where the request comes from: a runner's jid, or a text of the client."""
    follow: bool
    consent: frozenset[str] | None
    """The risks that the user accepts; with any other one the answer is a question. None: publish in any case."""
    untyped: bool
    """The arguments were read from words without signatures: if these could change them, the answer is a question."""

    @classmethod
    def parse(cls, fields: Mapping[str, Any], deliver_s: float) -> PublishRequest:
        """Raises UsageError. `deliver_s` is the configured time to deliver a job, in seconds."""
        return cls(
            request_id=parse_request_id(fields["request_id"]),
            target=target_of(fields),
            calls=_calls(fields["calls"]),
            execution=Execution(
                checked_executors(fields.get("module_executors")), checked_options(fields.get("executor_opts"))
            ),
            deliver_ms=_within(fields.get("deliver_ms", int(deliver_s * 1000)), DELIVER_MAX_MS, "--deliver-by"),
            run_ms=_within(fields.get("run_ms", 0), RUN_MAX_MS, "--run-timeout"),
            returners=_names(fields.get("ret")),
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
        """The functions of its calls."""
        return [call.fun for call in self.calls]

    def actions(self, budget: Budget, *, typed: bool) -> list[Action]:
        """What has to be authorised, one action a call. Unless `typed`, with any arguments."""
        # Options without executors are for the executors that each minion has.
        executors = self.execution.executors or ((OPTIONS_ALONE,) if self.execution.options else ())
        calls = [
            Call(call.fun, call.args, call.kwargs) if typed else Call(call.fun, kwargs=None) for call in self.calls
        ]
        return [Action("publish", call, executors=executors, returners=self.returners, budget=budget) for call in calls]


def handle_publish(master: Master, principal: Principal, fields: Mapping[str, Any]) -> Answer:
    """Fields as in `operator_verbs` and PublishRequest; `calls` is a list of [function, args, kwargs].

    Answers `jid`, `minions`, `resources` (managing minion -> SRNs), `away` (minions with a part in the job that have no
    session -> last seen), `unknown` (names in the target that select nothing -> why), `skipped` (resources whose type
    lacks a function, counted), `timeout_s`, `deliver_ms`, and with `consent` the `outputter` of a single function. A
    question is answered as `question` alone, with the fields of `handle_describe`; then nothing was published.
    """
    request = PublishRequest.parse(fields, master.config.deliver_s)
    try:
        return _published(master, principal, request)
    except SaltliteError:
        # The target may have changed since the same request made its job (G2).
        made = master.store.job_of_request(request.request_id, principal.uid)
        if made is None:
            raise
        return _replayed(master, principal, request, made)


def _published(master: Master, principal: Principal, request: PublishRequest) -> Answer:
    typed = request.consent is None or not request.untyped
    supported = _resolve(master, principal, request.target, request.actions(master.budget, typed=typed))
    known = FunctionSupport(supported.selection, master)
    if request.consent is not None:
        question = _question(master, request, supported.selection, known)
        if question is not None:
            made = master.store.job_of_request(request.request_id, principal.uid)
            return Answer({"question": question}) if made is None else _replayed(master, principal, request, made)
        if not typed:
            _authorise_on(master, principal, request.actions(master.budget, typed=True), supported.selection)

    selection = subset_of(master, supported.selection, request.subset)
    calls = _publishable(master, principal, request, selection, known)
    committed = _commit(master, principal, replace(request, calls=calls), selection)
    if isinstance(committed, str):
        return _replayed(master, principal, request, committed)

    job, due = committed
    send(job, due, master.link, master.proofs)
    unknown = unknown_names(master, principal, job, selection.unknown)
    outputter = outputter_for(request.functions, known)
    answer = _answer(master, request, job.jid, job, unknown, outputter, is_new=True)
    answer.fields["skipped"] = [{"type": one.type, "fun": one.fun, "count": one.count} for one in supported.skipped]
    return replace(answer, committed=True)


def handle_describe(master: Master, principal: Principal, fields: Mapping[str, Any]) -> Answer:
    """What functions take on the targets of a job, so that a client can read arguments, warn and refuse.

    Answers `count` of the targets, `resources` among them, `away`, how many are unreachable now, and `functions`:
    name -> what `functions.described` says of it.
    """
    funs = [checked_function(fun) for fun in fields["funs"]]
    if not 1 <= len(funs) <= CALLS_MAX:
        raise UsageError(f"describe takes 1 to {CALLS_MAX} functions, not {len(funs)}")
    actions = [Action("describe", Call(fun, kwargs=None)) for fun in funs]
    selection = _resolve(master, principal, target_of(fields), actions).selection
    return Answer(_description(master, funs, selection, FunctionSupport(selection, master)))


# -- parse


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


def _within(value: int, longest: int, option: str) -> int:
    if not 0 <= value <= longest:
        raise UsageError(f"{option} takes at most {longest // 86_400_000} days")
    return value


def _names(value: object) -> tuple[str, ...]:
    """The names in a field that is one, several with commas, or a list, each once."""
    if value is None:
        return ()
    names = value.strip("[] ").split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(str(name).strip() for name in names))


def _origin(fields: Mapping[str, Any]) -> str:
    if "runner" in fields:
        return BY_RUNNER + parse_jid(fields["runner"])
    text = fields.get("origin", "")
    return "".join(letter for letter in text if letter.isprintable())[:_ORIGIN_MAX]


# -- resolve and authorise


def _resolve(master: Master, principal: Principal, target: Target, actions: Sequence[Action]) -> SupportedTargets:
    """The targets that have the functions, if the principal may do all of these actions on each of them.

    No transaction is open: regular expressions and the functions of a whole fleet take their time.
    """
    refuse_pillar_guesses(master, principal, target)
    # Before the target is resolved: what no rule grants anywhere is refused whatever the target selects.
    for action in actions:
        authorize(principal, action, master.config)
    calls = [action.call for action in actions if action.call is not None]
    selection = selected_within_reach(master, principal, target, calls[0])
    supported = supported_targets(master, selection, [call.fun for call in calls])
    # All that the target selects, and not only the random ones of --subset: so the answer is the same each time.
    _authorise_on(master, principal, actions, supported.selection)
    return supported


def _authorise_on(master: Master, principal: Principal, actions: Sequence[Action], selection: Selection) -> None:
    for action in actions:
        on_targets = replace(action, minions=selection.minions, resources=selection.resources)
        authorize(principal, on_targets, master.config, master.selects)


# -- ask


def _question(
    master: Master, request: PublishRequest, selection: Selection, known: FunctionSupport
) -> dict[str, Any] | None:
    """The description that the client needs before it can publish; None if it needs none."""
    description = _description(master, request.functions, selection, known)
    risks = {row["risk"] for one in description["functions"].values() for row in one["risks"]}
    untyped = request.untyped and any(depends_on_signature(call, known) for call in request.calls)
    return description if untyped or risks - (request.consent or frozenset()) else None


def _description(master: Master, funs: Sequence[str], selection: Selection, known: FunctionSupport) -> dict[str, Any]:
    owners = [*selection.minions, *selection.resources.values()]
    return {
        "count": len(owners),
        "resources": len(selection.resources),
        "away": sum(minion not in master.present for minion in owners),
        "functions": {fun: described(fun, known) for fun in funs},
    }


# -- check, sign and commit


def _publishable(
    master: Master, principal: Principal, request: PublishRequest, selection: Selection, known: FunctionSupport
) -> tuple[FunctionCall, ...]:
    """The calls as they are published. Raises NoTargetError, UsageError and RefusedError if the job cannot be."""
    _refuse_no_targets(master, principal, request, selection, master.store)
    may_be_missing = not KNOWING.issuperset(request.execution.executors)
    known = known if request.subset is None else FunctionSupport(selection, master)
    calls = publishable_calls(request.calls, known, may_be_missing=may_be_missing)
    unknown = [name for name in request.returners if name not in master.config.returners]
    if unknown:
        configured = ", ".join(sorted(master.config.returners)) or "none"
        raise UsageError(f"the master has no returner {unknown[0][:40]!r}; returner_config names {configured}")
    return calls


def _commit(
    master: Master, principal: Principal, request: PublishRequest, selection: Selection
) -> tuple[Job, Collection[TargetId]] | Jid:
    """Store the job; returns it with the targets that are sent it now, or the jid of the job of the same request."""
    batch = batch_of(request.batch, len(selection.minions) + len(selection.resources))
    loses_arguments = not master.config.keep_job_args or holds_secrets(request.calls, request.execution.options)
    with master.store.write() as store:
        published = store.job_of_request(request.request_id, principal.uid)
        if published is not None:
            return published
        if batch is None:
            _refuse_crowded(selection, store)
        master.refuse_when_full()
        selection = still_accepted(selection, store)
        _refuse_no_targets(master, principal, request, selection, store)
        jid = _free_jid(store, master.clock.wall())
        job = _signed_job(master, principal, request, selection, jid, batch)
        store.put_job(job)
        if loses_arguments:
            store.mark_reducible(jid)
        if request.returners:
            # The returners' processes read it before any return.
            data = {"jid": jid, "returners": list(request.returners)}
            store.put_event(tag_job_returners(jid), data, job.created_at)
        if batch is None:
            return job, {*selection.minions, *selection.resources}
        due, _moved = release(store, BatchJob(jid, job.created_at, job.deliver_ms, batch), job.created_at)
        return job, due


def _refuse_no_targets(
    master: Master, principal: Principal, request: PublishRequest, selection: Selection, store: StoreReader
) -> None:
    if not selection.minions and not selection.resources:
        states = shown_key_states(master, principal)
        raise NoTargetError(no_target_message(request.target, selection.unknown, store, states))


def _refuse_crowded(selection: Selection, store: StoreReader) -> None:
    """Raises RefusedError if the maximum number of jobs already waits for one of these minions."""
    crowded = store.crowded(sorted({*selection.minions, *selection.resources.values()}), JOBS_QUEUED_PER_MINION)
    if crowded:
        others = f" (and for {len(crowded) - 1} more of the targets)" if len(crowded) > 1 else ""
        raise RefusedError(
            f"{JOBS_QUEUED_PER_MINION} jobs wait for {crowded[0]}{others}, and no more may: leave it out of the target "
            f"or end some of them with `saltlite job kill JID` (`saltlite job list --minion {crowded[0]} --state open` "
            "has them). Nothing was published."
        )


def _free_jid(store: StoreWriter, wall: float) -> Jid:
    jid = jid_at(int(wall * 1_000_000))
    while store.jid_taken(jid):
        jid = jid_after(jid)
    return jid


def _signed_job(
    master: Master, principal: Principal, request: PublishRequest, selection: Selection, jid: Jid, batch: Batch | None
) -> Job:
    job = Job(
        jid=jid,
        request_id=request.request_id,
        user=principal.label,
        uid=principal.uid,
        fun=",".join(request.functions),
        target=request.target,
        created_at=master.clock.wall(),
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
            # The minion counts it from the jid, and in a batch a target's turn comes late.
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


def _replayed(master: Master, principal: Principal, request: PublishRequest, jid: Jid) -> Answer:
    """The answer about the job that this request has published before."""
    job = master.store.job(jid)
    if job is None:
        return _answer(master, request, jid, None, {}, "")
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
        "unknown": unknown if request.subset is None else {},
        "skipped": [],
        "timeout_s": master.config.timeout_s,
        "deliver_ms": job.deliver_ms if job is not None else 0,
    }
    if request.consent is not None:
        fields["outputter"] = outputter
    return Answer(fields, follow=Follow(jid, 0, job=job, is_new=is_new) if request.follow else None)
