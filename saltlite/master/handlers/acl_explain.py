"""What somebody would be allowed to have run, and by which rule: asked without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.adapters.accounts import groups_of, uid_of
from saltlite.core.acl import (
    Action,
    Principal,
    authorize,
    is_operator,
    judge,
    may,
)
from saltlite.core.acl_rules import RUNNER, WHEEL, Call
from saltlite.core.logins import NAME_MAX, external
from saltlite.errors import RefusedError, UsageError
from saltlite.master.context import Answer, Master
from saltlite.master.handlers.fitting import fitting
from saltlite.master.handlers.publish import checked_function, target_of
from saltlite.master.handlers.targets import refuse_pillar_patterns

TARGETS_MAX = 100
"""Targets that are named in an answer; the others are counted."""
PAM = "pam"
_KINDS = {"@runner": RUNNER, "@wheel": WHEEL}


def handle_acl_explain(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `user`, `allowed`, `reason` ("" when allowed), `operator`, `rules` (those that hold), `targets`, how many
    the target selects, and `refused`, which of them no rule covers (`refused_count` of them).

    `user` is a local user, or `backend:user`; `groups` adds to those that this machine knows of. `tgt` may be @runner
    or @wheel: then `fun` is one of these. Everybody may ask about himself, operators about all.
    """
    authorize(principal, Action("acl_explain"), master.terms)
    who = _who(request["user"], request.get("groups", []))
    if who.label == principal.label:
        who = principal
    elif not is_operator(principal, master.terms):
        raise RefusedError(f"{principal} may ask about himself only: saltlite acl explain {principal.label} ...")
    operator = is_operator(who, master.terms)
    fun = checked_function(request["fun"])
    common = {"user": who.label, "groups": sorted(who.groups), "operator": operator}
    if request["tgt"] in _KINDS:
        return Answer({**common, **_of_kind(master, who, _KINDS[request["tgt"]], fun)})
    target = target_of(request)
    refuse_pillar_patterns(master, principal, target)
    chosen = fitting(master, master.resolve(target), [fun]).chosen
    action = Action("publish", Call(fun, request["args"], request["kwargs"]), sorted(chosen.minions), chosen.resources)
    count = len(chosen.minions) + len(chosen.resources)
    if operator:
        return Answer({**common, "allowed": True, "reason": "", "rules": [], "targets": count, **_refused(())})
    verdict = judge(who, action, master.terms, master.selects)
    return Answer(
        {
            **common,
            "allowed": not verdict.reason,
            "reason": verdict.reason and verdict.reason + _no_such_user(who),
            "rules": [rule.text for rule in verdict.rules],
            "targets": count,
            # Who is not an operator learns of no targets that he may not use.
            **_refused(tuple(sorted(verdict.uncovered)) if is_operator(principal, master.terms) else ()),
        }
    )


def _of_kind(master: Master, who: Principal, kind: str, fun: str) -> dict[str, Any]:
    allowed = may(who, kind, (fun,), master.terms)
    rules = [rule.text for rule in master.terms.granted.of(who) if rule.allows_name(kind, fun)]
    reason = "" if allowed else f"{who} may not use the {kind} {fun}: no rule grants it"
    reason = reason and reason + _no_such_user(who)
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
