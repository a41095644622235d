"""Operators' work on keys. A change is answered after every session of the key has felt it (S5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import SaltliteError, StoreError, UsageError
from saltlite.master.handlers.register import forget, namesake
from saltlite.master.processes import ipc_messages as inside
from saltlite.master.processes.context import Answer, Master, Question
from saltlite.master.protocol.keyring import refusal
from saltlite.master.store.ports import PartRow, StoreWriter
from saltlite.model.events import tag_key
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.model.job import TargetState
from saltlite.model.keys import KeyRecord, KeyState, fingerprint, parse_fingerprint
from saltlite.wire.ipc import Inside

log = logging.getLogger(__name__)

ACTIONS: dict[str, KeyState | None] = {
    "accept": KeyState.ACCEPTED,
    "reject": KeyState.REJECTED,
    "revoke": KeyState.REVOKED,
    "delete": None,
}
DELETED = "deleted"


def handle_key_list(master: Master, principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Every key, sorted by id."""
    authorize(principal, Action("key_list"), master.terms)
    records = master.store.keys()
    rows = [
        {
            "id": key.id,
            "fingerprint": key.fingerprint,
            "state": str(key.state),
            "address": key.address,
            "first_seen": key.first_seen,
            "changed_at": key.changed_at,
            "how": key.how,
        }
        for key in records
    ]
    return Answer({"keys": rows})


def handle_key_change(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """accept, reject, revoke or delete exactly these fingerprints; answers `changed` and `refused`."""
    authorize(principal, Action("key_change"), master.terms)
    action = request["action"]
    if action not in ACTIONS:
        raise UsageError(f"a key can be accepted, rejected, revoked or deleted, not {action[:40]!r}")
    authorize(principal, Action("key_change", name=f"key.{action}"), master.terms)
    wanted = [parse_fingerprint(text) for text in request["fingerprints"]]
    changed: list[dict[str, str]] = []
    refused: list[dict[str, str]] = []
    again: list[tuple[str, str, str]] = []
    with master.store.write() as store:
        for key in wanted:
            record = store.key(key)
            reason = "there is no such key" if record is None else _change(store, record, action, principal, master)
            row = {"id": record.id if record is not None else "", "fingerprint": str(key)}
            if reason:
                refused.append({**row, "reason": reason})
                if record is not None and record.state is ACTIONS[action]:
                    # The MWorker that changed it may have died before the link was told.
                    again.append((record.fingerprint, str(record.state), record.id))
            else:
                changed.append({**row, "state": str(ACTIONS[action] or DELETED)})
    changes = [(row["fingerprint"], row["state"], row["id"]) for row in changed]
    return _when_felt([*changes, *again], {"changed": changed, "refused": refused})


def handle_key_preaccept(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Accept the key with this fingerprint for this id, whenever it comes; if it is pending, now."""
    authorize(principal, Action("key_preaccept"), master.terms)
    minion = parse_minion_id(request["id"])
    key = parse_fingerprint(request["fingerprint"])
    changes: list[tuple[str, str, str]] = []
    with master.store.write() as store:
        record = store.key(key)
        if record is not None and record.id != minion:
            raise UsageError(f"that key presented itself as {record.id}, not as {minion}")
        if record is not None:
            reason = _change(store, record, "accept", principal, master)
            if reason:
                raise UsageError(f"{minion}: {reason}")
            changes.append((record.fingerprint, str(KeyState.ACCEPTED), record.id))
        else:
            problem = namesake(master, minion)
            if problem:
                raise UsageError(f"{minion}: {problem}")
            store.put_preaccept(minion, key, principal.label)
    return _when_felt(changes, {})


def handle_key_finger(master: Master, principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """The fleet's fingerprint, which minions pin, and this master's own."""
    authorize(principal, Action("key_finger"), master.terms)
    certificate = master.identity.certificate
    return Answer(
        {
            "fleet": master.identity.fleet,
            "master": {
                "name": certificate.name,
                "fingerprint": fingerprint(certificate.static_public),
                "not_after": certificate.not_after,
            },
        }
    )


def _when_felt(changes: Sequence[tuple[str, str, str]], fields: dict[str, Any]) -> Answer:
    """Answer when every session of these keys has felt its change."""
    if not changes:
        return Answer(fields)

    def told(said: Inside | None) -> dict[str, Any]:
        if said is None:
            raise SaltliteError(
                "the change is stored, but the link process has not confirmed that it dropped the sessions"
            )
        return fields

    return Answer(question=Question(lambda number: inside.keys(number, changes), told), committed=True)


def _change(store: StoreWriter, record: KeyRecord, action: str, principal: Principal, master: Master) -> str:
    """Carry out one change inside the transaction; the reason why not, "" when done."""
    now = master.clock.wall()
    wanted = ACTIONS[action]
    if wanted is not None:
        reason = refusal(record, wanted, store)
        if not reason and wanted is KeyState.ACCEPTED:
            reason = namesake(master, record.id)
        if reason:
            return reason
        how = f"{action}ed by {principal.label}".replace("eed", "ed")
        store.put_key(replace(record, state=wanted, changed_at=now, epoch=store.next_epoch(), how=how))
        if wanted is KeyState.ACCEPTED:
            store.delete_preaccept(record.id)
    else:
        store.delete_key(record.fingerprint)
    if record.state is KeyState.ACCEPTED:
        reason = f"the key was {wanted or DELETED}"
        parts = [*(part for part, _state in store.unsettled(record.id)), *store.planned_of(record.id)]
        store.set_parts(PartRow(part, record.id, TargetState.REVOKED, reason, now) for part in parts)
        _forget(master, record.id)
    data = {
        "id": record.id,
        "fingerprint": record.fingerprint,
        "act": str(wanted or DELETED),
        "by": principal.label,
    }
    store.put_event(tag_key(), data, now)
    return ""


def _forget(master: Master, minion: MinionId) -> None:
    """Release what the minion managed. Whatever stands in the way, the key goes; maintenance tries again."""
    try:
        released = forget(master, minion)
    except StoreError as error:
        log.error("the resources of %s could not be released for now: %s", minion, error)  # noqa: TRY400 - a sentence
    else:
        if released:
            log.info("with the key of %s its resources were released: %d", minion, released)
