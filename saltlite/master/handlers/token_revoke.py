"""Make a join token void: nobody joins by it any more. Who has joined stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.master.processes.context import Answer, Master
from saltlite.model.events import tag_key


def handle_token_revoke(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers whether the token of this `token_id` was there, which it is no more when it was used up and pruned."""
    authorize(principal, Action("token_revoke"), master.terms)
    token_id = request["token_id"]
    with master.store.write() as store:
        was_there = store.delete_token(token_id)
        if was_there:
            data = {"act": "token-revoked", "token": token_id, "by": principal.label}
            store.put_event(tag_key(), data, master.clock.wall())
    return Answer({"revoked": was_there}, committed=True)
