"""Who is logged in, and the end of it: an operator sees and ends all tokens, everybody else his own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize, is_operator
from saltlite.errors import UsageError
from saltlite.master.processes.context import Answer, Master
from saltlite.model.authtoken import AuthToken

log = logging.getLogger(__name__)

IDS_MAX = 1000


def handle_auth_token_list(master: Master, principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `tokens`: id, user, eauth, groups, start, expire of those that are good; the texts nobody has."""
    authorize(principal, Action("auth_token_list"), master.terms)
    now = master.clock.wall()
    rows = [
        token for token in master.store.auth_tokens() if token.expires_at > now and _is_his(master, principal, token)
    ]
    return Answer({"tokens": [_row(token) for token in rows]})


def handle_auth_token_revoke(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Makes tokens void, by their ids; answers `revoked`, those that were good. Streams that they opened end too."""
    authorize(principal, Action("auth_token_revoke"), master.terms)
    ids = request["ids"]
    if not 1 <= len(ids) <= IDS_MAX or not all(isinstance(one, str) for one in ids):
        raise UsageError(f"auth_token_revoke takes 1 to {IDS_MAX} ids of tokens")
    revoked = []
    with master.store.write() as store:
        for one in ids:
            token = store.auth_token(one)
            if token is not None and _is_his(master, principal, token) and store.delete_auth_token(one):
                revoked.append(one)
    log.info("%s has revoked %d tokens", principal, len(revoked))
    return Answer({"revoked": revoked})


def _is_his(master: Master, principal: Principal, token: AuthToken) -> bool:
    if is_operator(principal, master.terms):
        return True
    return (token.backend, token.user) == (principal.backend, principal.user)


def _row(token: AuthToken) -> dict[str, Any]:
    return {
        "id": token.token_id,
        "user": token.user,
        "eauth": token.backend,
        "groups": list(token.groups),
        "start": token.created_at,
        "expire": token.expires_at,
    }
