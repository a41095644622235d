"""What somebody would be allowed to have run, and by which rule: asked without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, Verdict, authorize, is_operator, judge, may, no_hook
from saltlite.auth.logins import NAME_MAX, external
from saltlite.auth.rules import HOOK, RUNNER, WHEEL, Call
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.function_support import fitting
from saltlite.master.handlers.hook import checked_path
from saltlite.master.handlers.publish import checked_function, target_of
from saltlite.master.handlers.reach import reach, selected_within_reach
from saltlite.master.handlers.targets import narrowed, refuse_pillar_guesses
from saltlite.master.processes.context import Answer, Master
from saltlite.model.target import Target
from saltlite.platform.accounts import groups_of, uid_of
from saltlite.targeting.fleet import Selection

TARGETS_MAX = 100
"""Targets that are named in an answer; the others are counted."""
PAM = "pam"
_KINDS = {"@runner": RUNNER, "@wheel": WHEEL, "@hook": HOOK}


def handle_acl_explain(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `user`, `allowed`, `reason` ("" when allowed), `operator`, `rules` (those that hold), `targets`, how many
    the target selects, and `refused`, which of them no rule covers (`refused_count` of them).

    `user` is a local user, or `backend:user`; `groups` adds to those that this machine knows of. `tgt` may be @runner,
    @wheel or @hook: then `fun` is one of these, or the path of a hook. Everybody may ask about himself, operators about
    all. Only targets within the reach of the caller are counted, and only operators are told names.
    """
    authorize(principal, Action("acl_explain"), master.terms)
    who = _who(request["user"], request.get("groups", []))
    asks_as_operator = is_operator(principal, master.terms)
    if who.label == principal.label:
        who = principal
    elif not asks_as_operator:
        raise RefusedError(f"{principal} may ask about himself only: saltlite acl explain {principal.label} ...")
    common = {"user": who.label, "groups": sorted(who.groups), "operator": is_operator(who, master.terms)}
    kind = _KINDS.get(request["tgt"])
    if kind is not None:
        name = checked_path(request["fun"]) if kind == HOOK else checked_function(request["fun"])
        return Answer({**common, **_of_kind(master, who, kind, name)})
    target = target_of(request)
    refuse_pillar_guesses(master, principal, target)
    call = Call(checked_function(request["fun"]), request["args"], request["kwargs"])
    try:
        chosen = _chosen(master, principal, target, call)
        verdict = _verdict(master, who, call, chosen)
    except RefusedError as error:
        chosen, verdict = _within(master, principal, target), Verdict((), frozenset(), str(error))
    return Answer(
        {
            **common,
            "allowed": not verdict.reason,
            "reason": verdict.reason and verdict.reason + _no_such_user(who),
            "rules": [rule.text for rule in verdict.rules],
            "targets": len(chosen.minions) + len(chosen.resources),
            **_refused(tuple(sorted(verdict.uncovered)) if asks_as_operator else ()),
        }
    )


def _chosen(master: Master, principal: Principal, target: Target, call: Call) -> Selection:
    """Whom a job of the call would be for. Raises RefusedError as publishing it does."""
    if not is_operator(principal, master.terms):
        authorize(principal, Action("publish", call), master.terms)
    return fitting(master, selected_within_reach(master, principal, target, call), [call.fun]).chosen


def _within(master: Master, principal: Principal, target: Target) -> Selection:
    """What of the target the principal may learn of, when publishing is refused."""
    chosen, within = master.resolve(target), reach(master, principal)
    return chosen if within is None else narrowed(chosen, within)


def _verdict(master: Master, who: Principal, call: Call, chosen: Selection) -> Verdict:
    if is_operator(who, master.terms):
        return Verdict((), frozenset())
    action = Action("publish", call, sorted(chosen.minions), chosen.resources)
    return judge(who, action, master.terms, master.selects)


def _of_kind(master: Master, who: Principal, kind: str, name: str) -> dict[str, Any]:
    allowed = may(who, kind, (name,), master.terms)
    rules = [rule.text for rule in master.terms.granted.of(who) if rule.allows_name(kind, name)]
    what = no_hook(name) if kind == HOOK else f"use the {kind} {name}: no rule grants it"
    reason = "" if allowed else f"{who} may not {what}{_no_such_user(who)}"
    return {"allowed": allowed, "reason": reason, "rules": rules if allowed else [], "targets": 0, **_refused(())}


def _no_such_user(who: Principal) -> str:
    """What else is wrong when a name was written as that of a local user, and is none."""
    if who.backend or who.uid >= 0:
        return ""
    return f" (there is no local user {who.user}; who logs in is written with the backend, as in pam:{who.user})"


def _refused(targets: tuple[str, ...]) -> dict[str, Any]:
    return {"refused": list(targets[:TARGETS_MAX]), "refused_count": len(targets)}


def _who(written: str, groups: list[Any]) -> Principal:
    if not 1 <= len(written) <= 2 * NAME_MAX or not all(isinstance(group, str) for group in groups):
        raise UsageError("a user is written as a name, or as backend:name; groups are a list of names")
    backend, colon, user = written.partition(":")
    if not colon:
        return Principal(written, uid_of(written), groups=groups_of(written) | frozenset(groups))
    known = groups_of(user) if backend == PAM else frozenset()
    return external(backend, user, tuple(known | frozenset(groups)))
