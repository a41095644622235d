"""Who may do what: the one decision for every way into the master (R8). Deny by default.

Operators may everything: root and whoever started the master, as the kernel proves through the Unix socket. Others
may what rules grant them, local users those of `publisher_acl`, holders of a login those of `external_auth`. Nobody who
connects as the user that a master became is served: its link process, which reads what strangers send, runs as that
user, and must not be able to publish (S10).

A job is allowed when each of its functions is, on each of the targets that were resolved for it. Everything else that
can be asked of the master stands in RIGHTS, mostly under the names of the runners and wheel functions of Salt that do
the same; so a right to a runner is a right to what that runner asks, and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from saltlite.auth.rules import (
    EXECUTOR,
    HOOK,
    NO_RULES,
    RETURNER,
    RUNNER,
    WHEEL,
    Blacklist,
    Call,
    Rule,
    Rules,
    call_within,
)
from saltlite.errors import RefusedError
from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.budget import Budget

ANYBODY, SOMEBODY, JOBS = "anybody", "somebody", "jobs"
"""Kinds of rows in RIGHTS that are no kinds of rules: whoever may connect; whoever was granted anything; whoever was
granted any of a job's functions."""

_MINIONS = (
    "manage.status", "manage.up", "manage.down", "manage.versions",
    "manage.list_state", "manage.present", "manage.alived", "manage.allowed", "manage.joined",
    "manage.list_not_state", "manage.not_present", "manage.not_alived", "manage.not_allowed", "manage.not_joined",
)  # fmt: skip
_RESOURCES = ("resource.list", "resource.list_grains", "resource.owner", "resource.grains", "resource.match")
_FILES = (
    "fileserver.envs", "fileserver.file_list", "fileserver.dir_list", "fileserver.empty_dir_list",
    "fileserver.symlink_list",
)  # fmt: skip
CLOUD = ("cloud.action", "cloud.destroy", "cloud.function", "cloud.map_run", "cloud.profile")
"""Runners that run drivers of clouds, and tell of it."""

RIGHTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "login": (ANYBODY, ()),
    "logout": (ANYBODY, ()),
    "whoami": (ANYBODY, ()),
    "acl_explain": (ANYBODY, ()),
    "publish": (JOBS, ()),
    "describe": (JOBS, ()),
    "copy_begin": (JOBS, ("cp.recv",)),
    "copy_put": (JOBS, ("cp.recv",)),
    "copy_end": (JOBS, ("cp.recv",)),
    # Of one's own jobs; what there is of those of others is decided by `sees_jobs_of_others`.
    "follow": (SOMEBODY, ()),
    "job_list": (SOMEBODY, ()),
    "job_show": (SOMEBODY, ()),
    "job_kill": (SOMEBODY, ()),
    "events": (SOMEBODY, ()),
    "heard": (SOMEBODY, ()),
    "complete": (SOMEBODY, ()),
    "runner_event": (SOMEBODY, ()),
    "auth_token_list": (SOMEBODY, ()),
    "auth_token_revoke": (SOMEBODY, ()),
    # Which path, its handler says.
    "hook": (HOOK, ()),
    "event_send": (RUNNER, ("event.send",)),
    "status": (RUNNER, ("manage.status",)),
    "minions": (RUNNER, _MINIONS),
    "match": (RUNNER, ("resource.match",)),
    # Which bank of these, its handler says.
    "cached": (RUNNER, ("cache.grains", "cache.pillar", "cache.list", "cache.fetch")),
    "cache_clear": (RUNNER, ("cache.clear_grains", "cache.clear_pillar", "cache.clear_all", "cache.flush")),
    # What of it, its handler says.
    "served": (RUNNER, _FILES),
    "lacking": (RUNNER, ("doc.execution", "smi.report")),
    "pillar_show": (RUNNER, ("pillar.show_pillar", "pillar.show_top")),
    "resource_list": (RUNNER, _RESOURCES),
    "resource_owner": (RUNNER, ("resource.owner", "resource.show")),
    "resource_grains": (RUNNER, ("resource.grains", "resource.show")),
    "resource_list_grains": (RUNNER, ("resource.list_grains",)),
    "resource_transfer": (RUNNER, ("resource.transfer",)),
    "resource_confirm": (RUNNER, ("resource.confirm",)),
    "resource_stats": (RUNNER, ("resource.stats",)),
    "resource_compact": (RUNNER, ("resource.compact",)),
    "resource_verify": (RUNNER, ("resource.verify",)),
    "key_list": (WHEEL, ("key.list_all", "key.list", "key.glob_match", "key.name_match", "key.finger")),
    "key_finger": (WHEEL, ("key.finger", "key.finger_master", "key.master_key_str")),
    "key_change": (WHEEL, ("key.accept", "key.reject", "key.delete", "key.revoke")),
    "key_preaccept": (WHEEL, ("key.accept",)),
    "token_create": (WHEEL, ("key.token_create",)),
    "token_revoke": (WHEEL, ("key.token_revoke",)),
    "cloud_event": (RUNNER, CLOUD),
}
"""verb -> who may ask it: a kind, and the names of which one is enough."""

JOBS_OF_OTHERS = (
    "jobs.list_jobs", "jobs.list_jobs_filter", "jobs.list_job", "jobs.print_job", "jobs.lookup_jid", "jobs.active",
    "jobs.last_run", "jobs.exit_success",
)  # fmt: skip
KILL_OF_OTHERS = ("jobs.kill",)
ALL_EVENTS = ("event.listen", "state.event")

OPTIONS_ALONE = "executor_opts"
"""Stands among the executors of a job that names none, and options for those that minions have."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks: a local user, as the kernel named him, or whom a backend has let in."""

    user: str
    uid: int
    """The uid of a local user. Of others a negative number, made of the backend and the name: no uid is one."""
    backend: str = ""
    """A backend of `external_auth`; "" for a local user."""
    groups: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The name under which jobs and logs have him: that of a local user has no colon."""
        return f"{self.backend}:{self.user}" if self.backend else self.user

    def __str__(self) -> str:
        return self.label if self.backend or self.uid < 0 else f"{self.user} (uid {self.uid})"


@dataclass(frozen=True, slots=True)
class Action:
    """What they ask for. `minions` and `resources` (SRNs) are exactly what a job would go to; empty for other verbs.

    `call` is one function of a job; without one it is only asked whether any may be. `name` is the function of a wheel
    or runner when the verb stands for several of them, or the path of a hook; `executors` and `returners` are those
    that a job names.
    """

    verb: str
    call: Call | None = None
    minions: Collection[MinionId] = ()
    resources: Collection[TargetId] = ()
    name: str = ""
    executors: Sequence[str] = ()
    returners: Sequence[str] = ()
    budget: Budget = field(default_factory=Budget, compare=False)
    """What it may cost to compare `call` with the patterns of rules."""


@dataclass(frozen=True, slots=True)
class Granted:
    """What the configuration says."""

    publisher: Rules = field(default=NO_RULES)
    external: dict[str, Rules] = field(default_factory=dict)
    """Of each backend of `external_auth`."""
    blacklist: Blacklist = field(default_factory=Blacklist)
    barred: frozenset[int] = frozenset()
    """The uids that the master's processes have, its link process included: nobody who has one of them is served,
    unless it is an operator's."""

    def of(self, principal: Principal) -> tuple[Rule, ...]:
        """Every rule for this principal."""
        rules = self.external.get(principal.backend, NO_RULES) if principal.backend else self.publisher
        return rules.of(principal.user, principal.groups)


class Terms(Protocol):
    """Where the decision finds who is an operator, and what is granted."""

    @property
    def operators(self) -> Collection[int]: ...

    @property
    def granted(self) -> Granted: ...


Selects = Callable[[str], Collection[TargetId]]
"""Which of the fleet a target expression of a rule selects now."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one call: the rules that hold for some of its targets, and the targets that none covers."""

    rules: tuple[Rule, ...]
    uncovered: frozenset[TargetId]
    reason: str = ""
    """Why it is not allowed; "" when it is."""


def authorize(principal: Principal, action: Action, terms: Terms, selects: Selects | None = None) -> None:
    """Return if the principal may do this; RefusedError otherwise.

    `selects` resolves the targets of rules; an action with targets needs it. Without it rules for some targets only
    cover none.
    """
    refuse_barred(principal, terms)
    if action.verb in RIGHTS and is_operator(principal, terms):
        return
    rules = () if terms.granted.blacklist.user(principal.user) else terms.granted.of(principal)
    kind, names = RIGHTS.get(action.verb, ("", ()))
    if kind == JOBS and _may_publish(rules, names, action, terms):
        if action.call is None:
            return
        verdict = judge(principal, action, terms, selects)
        if not verdict.reason:
            return
        raise RefusedError(verdict.reason)
    if kind == ANYBODY or (kind == SOMEBODY and rules):
        return
    wanted = (action.name,) if action.name or kind == HOOK else names
    if kind in (RUNNER, WHEEL, HOOK) and _names_any(rules, kind, wanted):
        return
    raise RefusedError(_refusal(principal, action.verb, kind, wanted, terms))


def is_operator(principal: Principal, terms: Terms) -> bool:
    """Whether everything is allowed to him."""
    return not principal.backend and principal.uid in terms.operators


def refuse_barred(principal: Principal, terms: Terms) -> None:
    """Raises RefusedError for the user that the master's own processes became."""
    if not principal.backend and principal.uid in terms.granted.barred and principal.uid not in terms.operators:
        raise RefusedError(
            f"{principal} may ask nothing: the master's own processes run as this user, and one that was broken into "
            "must not command the fleet; use another user"
        )


def may(principal: Principal, kind: str, names: Sequence[str], terms: Terms) -> bool:
    """Whether one of these names (of runners, wheel functions ...) is granted."""
    if is_operator(principal, terms):
        return True
    if terms.granted.blacklist.user(principal.user):
        return False
    return _names_any(terms.granted.of(principal), kind, names)


def sees_jobs_of_others(principal: Principal, terms: Terms) -> bool:
    """Whether all jobs are shown to him, and not his own only."""
    return may(principal, RUNNER, JOBS_OF_OTHERS, terms)


def knows_pillars(principal: Principal, terms: Terms) -> bool:
    """Whether all pillars are shown to him: by the master, or by every minion."""
    if may(principal, RUNNER, RIGHTS["pillar_show"][1], terms):
        return True
    call = Call("pillar.items", kwargs=None)
    blacklist = terms.granted.blacklist
    if blacklist.user(principal.user) or blacklist.function(call.fun):
        return False
    return any(rule.allows(call, Budget()) and not rule.where for rule in terms.granted.of(principal))


def judge(principal: Principal, action: Action, terms: Terms, selects: Selects | None = None) -> Verdict:
    """What is to be said of a job's call on its targets, for whoever is no operator.

    A function that calls the one that it is told takes the right to both.
    """
    call = action.call
    if call is None:
        raise ValueError("only a call can be judged")
    verdict, within = _judge_one(principal, call, action, terms, selects), call_within(call)
    if within is None or verdict.reason:
        return verdict
    inner = judge(principal, replace(action, call=within), terms, selects)
    rules = () if inner.reason else tuple(dict.fromkeys((*verdict.rules, *inner.rules)))
    return Verdict(rules, inner.uncovered, inner.reason and f"{call.fun} runs what it is told, and {inner.reason}")


def _judge_one(principal: Principal, call: Call, action: Action, terms: Terms, selects: Selects | None) -> Verdict:
    targets = frozenset((*action.minions, *action.resources))
    blacklist = terms.granted.blacklist
    if blacklist.user(principal.user):
        return Verdict((), targets, f"{principal} may publish nothing: publisher_acl_blacklist has this user")
    if blacklist.function(call.fun):
        return Verdict((), targets, f"{principal} may not run {call.fun}: publisher_acl_blacklist has this function")
    rules = terms.granted.of(principal)
    missing = _unnamed(rules, action)
    if missing:
        return Verdict((), targets, f"{principal} may not have a job use {missing}: no rule grants it")
    about = tuple(rule for rule in rules if rule.allows(call, action.budget))
    left, used = targets, []
    for rule in sorted(about, key=lambda one: one.where != ""):
        covered = _covered(rule, targets, selects)
        if covered or not targets:
            used.append(rule)
            left -= covered
        if targets and not left:
            break
    if not about:
        return Verdict((), targets, _no_function(principal, call, rules))
    if left:
        return Verdict(tuple(used), left, too_wide(principal, call, terms))
    return Verdict(tuple(used), frozenset())


def _covered(rule: Rule, targets: frozenset[TargetId], selects: Selects | None) -> frozenset[TargetId]:
    """Those of the targets that the rule holds for. Without targets nothing is resolved."""
    if not rule.where or not targets:
        return targets
    return targets.intersection(selects(rule.where)) if selects is not None else frozenset()


def places_of(principal: Principal, terms: Terms) -> frozenset[str]:
    """The target expressions of all rules that let him run some function; "" among them stands for every target."""
    if terms.granted.blacklist.user(principal.user):
        return frozenset()
    return frozenset(rule.where for rule in terms.granted.of(principal) if not rule.kind)


def too_wide(principal: Principal, call: Call, terms: Terms) -> str:
    """The refusal for a target that rules do not cover. It must not tell how many targets there are, or whether any."""
    rules = terms.granted.of(principal)
    places = ", ".join(sorted({rule.where for rule in rules if rule.where and rule.allows(call, Budget())}))
    return (
        f"{principal} may not run {call.fun} on this target, which selects others as well or nobody, but on {places} "
        "only: nothing was published"
    )


def _may_publish(rules: Sequence[Rule], names: Sequence[str], action: Action, terms: Terms) -> bool:
    """Whether it is worth to look at the job: some function at least is granted, or one of `names`."""
    if action.call is not None:
        return True
    if names:
        calls = [Call(name, kwargs=None) for name in names if not terms.granted.blacklist.function(name)]
        return any(rule.allows(call, action.budget) for rule in rules for call in calls)
    return any(not rule.kind for rule in rules)


def _names_any(rules: Sequence[Rule], kind: str, names: Sequence[str]) -> bool:
    return any(rule.allows_name(kind, name) for rule in rules for name in names)


def _unnamed(rules: Sequence[Rule], action: Action) -> str:
    for kind, names in ((EXECUTOR, action.executors), (RETURNER, action.returners)):
        for name in names:
            if not _names_any(rules, kind, (name,)):
                return "options of executors without naming these" if name == OPTIONS_ALONE else f"the {kind} {name}"
    return ""


def _no_function(principal: Principal, call: Call, rules: Sequence[Rule]) -> str:
    with_any = any(rule.allows(Call(call.fun, kwargs=None), Budget()) for rule in rules)
    what = f"{call.fun} with these arguments" if with_any else call.fun
    return f"{principal} may not run {what}: no rule grants it; `saltlite acl explain` shows what is granted"


def no_hook(path: str) -> str:
    """What is said of a hook that no rule grants, behind `may not`."""
    return f"post to /hook/{path}: that takes @hook with this path in publisher_acl or external_auth"


def _refusal(principal: Principal, verb: str, kind: str, names: Sequence[str], terms: Terms) -> str:
    what = verb.replace("_", " ")
    if not terms.granted.of(principal):
        return f"{principal} may not {what}: run it as root, or as the user who started the master"
    if kind == HOOK:
        return f"{principal} may not {no_hook(names[0])}"
    need = f"@{kind} {' or '.join(names)}" if kind in (RUNNER, WHEEL) else "a right to any function"
    return f"{principal} may not {what}: that takes {need} in publisher_acl or external_auth"
