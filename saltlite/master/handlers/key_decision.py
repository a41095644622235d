"""A minion's key has proved itself: pending, accepted, or what else? And what if two machines have the same?"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.handlers.register import namesake
from saltlite.master.processes.context import Master
from saltlite.master.protocol.keyring import Presented, Verdict, decide
from saltlite.model.events import tag_auth
from saltlite.model.ids import parse_minion_id
from saltlite.model.keys import KeyState, fingerprint

log = logging.getLogger(__name__)


def handle_decide(master: Master, ask: dict[str, Any]) -> None:
    """Answers the link by `decided`; "busy" when the store cannot say, which a minion takes as "come again"."""
    said = ask["said"]
    presented = Presented(
        id=parse_minion_id(said["id"]),
        fingerprint=fingerprint(ask["public"]),
        public=ask["public"],
        address=ask["address"],
        proof=said["token"],
    )
    try:
        verdict = _decide(master, presented)
    except StoreError:
        verdict = Verdict("busy")
    master.link.decided(ask["session"], verdict.state, presented.id, verdict.drop)


def handle_suspect(master: Master, ask: dict[str, Any]) -> None:
    """Two machines seem to share a key: written down as an event, which needs a person."""
    log.warning(
        "two machines use the key of %s: the one at %s was sent away, the one at %s stays. Give the copy a key of its "
        "own (stop its minion, remove its pki_dir and data_dir, start it again); if nobody made a copy the key was "
        "stolen: saltlite key revoke %s",
        ask["id"],
        ask["address"],
        ask["stays"],
        ask["id"],
    )
    data = {
        "id": ask["id"],
        "fingerprint": ask["fingerprint"],
        "address": ask["address"],
        "stays": ask["stays"],
        "act": "clone-suspect",
    }
    with master.store.write() as store:
        store.put_event(tag_auth(), data, master.clock.wall())


def _decide(master: Master, presented: Presented) -> Verdict:
    known = master.store.key(presented.fingerprint)
    if known is not None and known.id == presented.id and known.state is KeyState.ACCEPTED:
        # The usual case at a reconnection storm: nothing to write, so no transaction.
        return Verdict(KeyState.ACCEPTED)
    now = master.clock.wall()
    with master.store.write() as store:
        verdict = _without_namesake(master, decide(presented, store, now))
        if verdict.use_token and not store.use_token(verdict.use_token):
            return Verdict("busy")
        for old in verdict.drop:
            store.delete_key(old)
        if verdict.put is not None:
            store.put_key(verdict.put)
            if verdict.put.state is KeyState.ACCEPTED:
                store.delete_preaccept(presented.id)
            data = {
                "id": presented.id,
                "fingerprint": presented.fingerprint,
                "address": presented.address,
                "act": verdict.state,
                "how": verdict.put.how,
            }
            store.put_event(tag_auth(), data, now)
    return verdict


def _without_namesake(master: Master, verdict: Verdict) -> Verdict:
    """No token and no fingerprint accepts a key whose id is a resource's: it waits for an operator, who reads why."""
    record = verdict.put
    if record is None or record.state is not KeyState.ACCEPTED:
        return verdict
    problem = namesake(master, record.id)
    if not problem:
        return verdict
    record = replace(record, state=KeyState.PENDING, how=f"first contact; not accepted, for {problem}")
    return Verdict(KeyState.PENDING, record, drop=verdict.drop)
