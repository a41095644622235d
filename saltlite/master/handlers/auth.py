"""Logins, login tokens, and what a user's rules allow.

A login exchanges a name and a password for a token, which stands in every later request. An operator, and a user with
the right in LOGINS_OF_OTHERS, lists and revokes all tokens, any other user only their own. `acl_explain` says whether a
user may run a function, and by which rule, without running it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import (
    HOOK,
    LOGINS_OF_OTHERS,
    RULES_OF_OTHERS,
    RUNNER,
    WHEEL,
    AccessVerdict,
    Action,
    Call,
    Principal,
    authorize,
    is_operator,
    judge,
    may,
    no_hook,
)
from saltlite.auth.logins import GROUPS_MAX, NAME_MAX, SECRET_BYTES, TOKENS_MAX, external
from saltlite.errors import LoginError, RefusedError, UsageError
from saltlite.master.handlers.events import checked_path
from saltlite.master.handlers.functions import checked_function, supported_targets
from saltlite.master.handlers.targets import narrowed, reach, refuse_pillar_guesses, selected_within_reach, target_of
from saltlite.master.processes.context import Answer, LoginCheck, Master
from saltlite.model.job import Target
from saltlite.model.keys import AuthToken
from saltlite.platform.privileges import groups_of, uid_of
from saltlite.targeting.fleet import Selection

log = logging.getLogger(__name__)

PASSWORD_MAX = 1024
"""Bytes of a password, so that hashing it stays cheap."""

WRONG = "the login was refused: the name or the password is wrong, or external_auth grants this user nothing"
"""The same message for each case, so that it does not reveal which names exist."""


def handle_login(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `token`, `start` and `expire` (wall-clock seconds), `user`, `eauth` and `perms`, the rules that apply.

    Raises LoginError, with the same message for a wrong name, a wrong password and a user without any rule.
    """
    backend, user, password = request["backend"], request["username"], request["password"]
    if not 1 <= len(user) <= NAME_MAX or not user.isprintable():
        raise UsageError(f"a user's name has 1 to {NAME_MAX} printable characters")
    if len(password.encode()) > PASSWORD_MAX:
        raise UsageError(f"a password has at most {PASSWORD_MAX} bytes")
    if backend not in master.config.granted.external:
        raise LoginError(f"external_auth has no backend {backend[:NAME_MAX]!r}")

    def fields(groups: tuple[str, ...]) -> dict[str, Any]:
        return _logged_in(master, external(backend, user, groups[:GROUPS_MAX]), principal)

    return Answer(login=LoginCheck(backend, user, password, fields))


def _logged_in(master: Master, who: Principal, peer: Principal) -> dict[str, Any]:
    rules = master.config.granted.of(who)
    if not rules or master.config.granted.blacklist.user(who.user):
        log.warning("%s has the right password, and no rule in external_auth: not let in", who)
        raise LoginError(WRONG)
    now = master.clock.wall()
    text, row = master.logins.make(master.clock.entropy(SECRET_BYTES), who, now, master.config.login_s)
    with master.store.write() as store:
        store.expire_auth_tokens(now)
        store.put_auth_token(row, TOKENS_MAX)
    log.info("%s has logged in, by a process of %s: token %s", who, peer, row.token_id)
    master.record(who, "login", {"by": str(peer), "token": row.token_id})
    return {
        "token": text,
        "start": row.created_at,
        "expire": row.expires_at,
        "user": who.user,
        "eauth": who.backend,
        "perms": [rule.text.partition(": ")[2] for rule in rules],
    }


def handle_logout(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Revoke the token of this request. Raises UsageError if it has none."""
    if "token" not in request:
        raise UsageError("there is no token to revoke: log in first")
    with master.store.write() as store:
        store.delete_auth_token(master.logins.id_of(request["token"]))
    log.info("%s has logged out", principal)
    return Answer()


def handle_whoami(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `user`, `eauth` ("" for a local user), `groups`, `operator`, and `perms`, the rules that apply.

    With `runners`, names of runners, also `runners`: those of them that the principal may run.
    """
    fields: dict[str, Any] = {
        "user": principal.user,
        "eauth": principal.backend,
        "groups": sorted(principal.groups),
        "operator": is_operator(principal, master.config),
        "perms": [rule.text.partition(": ")[2] for rule in master.config.granted.of(principal)],
    }
    if "runners" in request:
        named = request["runners"]
        fields["runners"] = [name for name in named if may(principal, RUNNER, (name,), master.config)]
    if "token" in request:
        row = master.store.auth_token(master.logins.id_of(request["token"]))
        fields |= {"start": row.created_at, "expire": row.expires_at} if row is not None else {}
    return Answer(fields)


# -- login tokens


IDS_MAX = 1000


def handle_auth_token_list(master: Master, principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `tokens`: id, user, eauth, groups, start and expire of valid ones. Their texts are not stored."""
    now = master.clock.wall()
    valid = (token for token in master.store.auth_tokens() if token.expires_at > now)
    return Answer(
        {"tokens": [_row(token) for token in valid if _may_manage(master, principal, token, "auth_token_list")]}
    )


def handle_auth_token_revoke(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Revoke tokens by their ids; answers `revoked`, those that existed. Streams that they opened end too."""
    ids = request["ids"]
    if not 1 <= len(ids) <= IDS_MAX or not all(isinstance(one, str) for one in ids):
        raise UsageError(f"auth_token_revoke takes 1 to {IDS_MAX} ids of tokens")
    revoked = []
    with master.store.write() as store:
        for one in ids:
            token = store.auth_token(one)
            if token is None or not _may_manage(master, principal, token, "auth_token_revoke"):
                continue
            if store.delete_auth_token(one):
                revoked.append(one)
    log.info("%s has revoked %d tokens", principal, len(revoked))
    return Answer({"revoked": revoked})


def _may_manage(master: Master, principal: Principal, token: AuthToken, verb: str) -> bool:
    if (token.backend, token.user) == (principal.backend, principal.user):
        return True
    return may(principal, WHEEL, LOGINS_OF_OTHERS[verb], master.config)


def _row(token: AuthToken) -> dict[str, Any]:
    return {
        "id": token.token_id,
        "user": token.user,
        "eauth": token.backend,
        "groups": list(token.groups),
        "start": token.created_at,
        "expire": token.expires_at,
    }


# -- explaining rules


TARGETS_MAX = 100
"""Targets that an answer names; more are counted only."""
PAM = "pam"
_KINDS = {"@runner": RUNNER, "@wheel": WHEEL, "@hook": HOOK}


def handle_acl_explain(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `user`, `allowed`, `reason` ("" if allowed), `operator`, `rules` (those that apply), `targets`, how many
    the target selects, and `refused`, those that no rule covers (`refused_count`).

    `user` is a local user, or `backend:user`; `groups` adds to the groups known on this machine. `tgt` may be @runner,
    @wheel or @hook: then `fun` is one of these, or the path of a hook. Users may ask about themselves. Operators, and
    those who may see all rules (RULES_OF_OTHERS) and the whole fleet, may ask about anyone. Only they get the names of
    targets; for others only targets within their reach are counted.
    """
    who = _who(request["user"], request.get("groups", []))
    sees_all = may(principal, RUNNER, RULES_OF_OTHERS, master.config) and reach(master, principal) is None
    if who.label == principal.label:
        who = principal
    elif not sees_all:
        raise RefusedError(
            f"{principal} may ask about himself only: saltlite acl explain {principal.label} ...; it takes @runner "
            "config.get and manage.up to ask about others"
        )
    common = {"user": who.label, "groups": sorted(who.groups), "operator": is_operator(who, master.config)}
    kind = _KINDS.get(request["tgt"])
    if kind is not None:
        name = checked_path(request["fun"]) if kind == HOOK else checked_function(request["fun"])
        return Answer({**common, **_of_kind(master, who, kind, name)})
    target = target_of(request)
    refuse_pillar_guesses(master, principal, target)
    call = Call(checked_function(request["fun"]), request["args"], request["kwargs"])
    try:
        chosen = _chosen(master, principal, target, call, sees_all=sees_all)
        verdict = _verdict(master, who, call, chosen)
    except RefusedError as error:
        chosen, verdict = _within(master, principal, target), AccessVerdict((), frozenset(), str(error))
    return Answer(
        {
            **common,
            "allowed": not verdict.reason,
            "reason": verdict.reason and verdict.reason + _no_such_user(who),
            "rules": [rule.text for rule in verdict.rules],
            "targets": len(chosen.minions) + len(chosen.resources),
            **_refused(tuple(sorted(verdict.uncovered)) if sees_all else ()),
        }
    )


def _chosen(master: Master, principal: Principal, target: Target, call: Call, *, sees_all: bool) -> Selection:
    """The targets of a job with that call. Unless the caller sees all, raises RefusedError as publishing it does."""
    if not sees_all:
        authorize(principal, Action("publish", call), master.config)
    return supported_targets(master, selected_within_reach(master, principal, target, call), [call.fun]).selection


def _within(master: Master, principal: Principal, target: Target) -> Selection:
    """The part of the target that is within the principal's reach, for when publishing is refused."""
    chosen, within = master.resolve(target), reach(master, principal)
    return chosen if within is None else narrowed(chosen, within)


def _verdict(master: Master, who: Principal, call: Call, chosen: Selection) -> AccessVerdict:
    if is_operator(who, master.config):
        return AccessVerdict((), frozenset())
    action = Action("publish", call, sorted(chosen.minions), chosen.resources)
    return judge(who, action, master.config, master.selects)


def _of_kind(master: Master, who: Principal, kind: str, name: str) -> dict[str, Any]:
    allowed = may(who, kind, (name,), master.config)
    rules = [rule.text for rule in master.config.granted.of(who) if rule.allows_name(kind, name)]
    what = no_hook(name) if kind == HOOK else f"use the {kind} {name}: no rule grants it"
    reason = "" if allowed else f"{who} may not {what}{_no_such_user(who)}"
    return {"allowed": allowed, "reason": reason, "rules": rules if allowed else [], "targets": 0, **_refused(())}


def _no_such_user(who: Principal) -> str:
    """A hint, if the name is written as that of a local user, and there is none."""
    if who.backend or who.uid >= 0:
        return ""
    return f" (there is no local user {who.user}; write a user who logs in with the backend, as in pam:{who.user})"


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
