"""Log in: a name and a password for a token, which then stands in every request. And out again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize, is_operator
from saltlite.auth.logins import GROUPS_MAX, NAME_MAX, SECRET_BYTES, TOKENS_MAX, external
from saltlite.errors import LoginError, UsageError
from saltlite.master.processes.context import Answer, LoginCheck, Master

log = logging.getLogger(__name__)

PASSWORD_MAX = 1024
"""Bytes of a password: nobody has the master hash more."""

WRONG = "the login was refused: the name or the password is wrong, or external_auth grants this user nothing"
"""One sentence for all of it: which names there are is nobody's business."""


def handle_login(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `token`, `start` and `expire` (wall-clock seconds), `user`, `eauth` and `perms`, the rules that hold.

    Raises LoginError, with the same sentence for a wrong name, a wrong password and a user without any rule.
    """
    authorize(principal, Action("login"), master.terms)
    backend, user, password = request["backend"], request["username"], request["password"]
    if not 1 <= len(user) <= NAME_MAX or not user.isprintable():
        raise UsageError(f"a user's name has 1 to {NAME_MAX} printable characters")
    if len(password.encode()) > PASSWORD_MAX:
        raise UsageError(f"a password has at most {PASSWORD_MAX} bytes")
    if backend not in master.terms.granted.external:
        raise LoginError(f"external_auth has no backend {backend[:NAME_MAX]!r}")

    def fields(groups: tuple[str, ...]) -> dict[str, Any]:
        return _logged_in(master, external(backend, user, groups[:GROUPS_MAX]), principal)

    return Answer(login=LoginCheck(backend, user, password, fields))


def _logged_in(master: Master, who: Principal, peer: Principal) -> dict[str, Any]:
    rules = master.terms.granted.of(who)
    if not rules or master.terms.granted.blacklist.user(who.user):
        log.warning("%s has the right password, and no rule in external_auth: not let in", who)
        raise LoginError(WRONG)
    now = master.clock.wall()
    text, row = master.logins.make(master.clock.entropy(SECRET_BYTES), who, now, master.terms.login_s)
    with master.store.write() as store:
        store.expire_auth_tokens(now)
        store.put_auth_token(row, TOKENS_MAX)
    log.info("%s has logged in, by a process of %s: token %s", who, peer, row.token_id)
    return {
        "token": text,
        "start": row.created_at,
        "expire": row.expires_at,
        "user": who.user,
        "eauth": who.backend,
        "perms": [rule.text.partition(": ")[2] for rule in rules],
    }


def handle_logout(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Makes the token of this request void. Raises UsageError without one."""
    authorize(principal, Action("logout"), master.terms)
    if "token" not in request:
        raise UsageError("there is no token to make void: log in first")
    with master.store.write() as store:
        store.delete_auth_token(master.logins.id_of(request["token"]))
    log.info("%s has logged out", principal)
    return Answer()


def handle_whoami(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `user`, `eauth` ("" for a local user), `groups`, `operator`, and `perms`, the rules that hold."""
    authorize(principal, Action("whoami"), master.terms)
    fields: dict[str, Any] = {
        "user": principal.user,
        "eauth": principal.backend,
        "groups": sorted(principal.groups),
        "operator": is_operator(principal, master.terms),
        "perms": [rule.text.partition(": ")[2] for rule in master.terms.granted.of(principal)],
    }
    if "token" in request:
        row = master.store.auth_token(master.logins.id_of(request["token"]))
        fields |= {"start": row.created_at, "expire": row.expires_at} if row is not None else {}
    return Answer(fields)
