"""Make a join token: it pins the fleet for a minion and lets it in, so often and so long as said."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import UsageError
from saltlite.master.processes.context import Answer, Master
from saltlite.master.store.ports import TokenRecord
from saltlite.model.events import tag_key
from saltlite.model.keys import JoinToken
from saltlite.wire.joinproof import token_public

USES_MAX = 1_000_000
EXPIRES_MAX_S = 365 * 86_400
GLOB_MAX = 256


def handle_token_create(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers the token's text: the only time that it is seen, for the store keeps a public key."""
    authorize(principal, Action("token_create"), master.terms)
    uses, expires_s, id_glob = request["uses"], float(request["expires_s"]), request["id_glob"]
    if not 1 <= uses <= USES_MAX:
        raise UsageError(f"a join token has 1 to {USES_MAX} uses, not {uses}")
    if not 0 < expires_s <= EXPIRES_MAX_S:
        raise UsageError("a join token expires after a moment to 365 days")
    if not 1 <= len(id_glob) <= GLOB_MAX:
        raise UsageError(f"the id glob of a join token has 1 to {GLOB_MAX} characters")
    token = JoinToken(
        fleet=master.identity.fleet,
        token_id=_letters(master.clock.entropy(5)),
        secret=_letters(master.clock.entropy(20)),
    )
    now = master.clock.wall()
    with master.store.write() as store:
        store.put_token(
            TokenRecord(
                token_id=token.token_id,
                public=token_public(token),
                id_glob=id_glob,
                uses_left=uses,
                created_at=now,
                expires_at=now + expires_s,
                created_by=principal.label,
            )
        )
        store.put_event(tag_key(), {"act": "token", "token": token.token_id, "by": principal.label}, now)
    return Answer({"token": token.text()})


def _letters(raw: bytes) -> str:
    return base64.b32encode(raw).decode("ascii").lower()
