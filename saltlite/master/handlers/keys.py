"""Minion keys and join tokens: users' decisions, and the verdict on a key that a minion presents.

A change by a user is answered after every session of that key has ended or changed (S5). A join token pins the fleet
key for a minion and accepts its key, a limited number of times and until it expires; the store has only its public key.
"""

from __future__ import annotations

import base64
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import SaltliteError, StoreError, UsageError
from saltlite.master.handlers.registration import forget, id_collision
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.contests import ask_owners
from saltlite.master.processes.context import Answer, Master, Question
from saltlite.master.protocol.keyring import KeyVerdict, Presented, decide, refusal
from saltlite.master.store.ports import KeyRow, PartRow, StoreWriter, TokenRecord
from saltlite.model.events import CLONE_SUSPECT, tag_auth, tag_key
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.model.job import TargetState
from saltlite.model.keys import (
    Fingerprint,
    JoinToken,
    KeyRecord,
    KeyState,
    fingerprint,
    parse_fingerprint,
    public_pem,
)
from saltlite.model.minion import KEY_ORDERS, KEY_STATES, SessionEnd, end_with, natural
from saltlite.wire.framing import IpcMessage
from saltlite.wire.signatures import token_public

log = logging.getLogger(__name__)

ACTIONS: dict[str, KeyState | None] = {
    "accept": KeyState.ACCEPTED,
    "reject": KeyState.REJECTED,
    "revoke": KeyState.REVOKED,
    "delete": None,
}
DELETED = "deleted"


ROWS_MAX = 1000
"""Rows of one page of keys."""
PAGE_FIELDS = frozenset({"state", "search", "sort", "offset", "limit"})


def handle_key_list(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `keys`: every key, sorted by id; with a true field `public` each public key in PEM, too.

    With a field `id`, the keys of this id, and of ids that differ from it by case only.

    With any of PAGE_FIELDS, a page: `state` and `search` (a part of an id, or the beginning of a fingerprint) narrow
    the list, `sort` is one of `saltlite.model.minion.KEY_ORDERS`, and keys with the same value are sorted by id. Then
    there are also `total`, how many rows that is of all pages, and `counts`, how many keys there are in each state.
    """
    more: dict[str, Any] = {}
    if "id" in request:
        records = master.store.keys_of(request["id"])
    elif request.keys() & PAGE_FIELDS:
        records, more = _page(master, request)
    else:
        records = master.store.keys()
    with_public = request.get("public", False)
    rows = [
        {
            "id": key.id,
            "fingerprint": key.fingerprint,
            "state": str(key.state),
            "address": key.address,
            "first_seen": key.first_seen,
            "changed_at": key.changed_at,
            "how": key.how,
            **({"public": public_pem(key.public)} if with_public else {}),
        }
        for key in records
    ]
    return Answer({"keys": rows, **more})


def _page(master: Master, request: Mapping[str, Any]) -> tuple[list[KeyRecord], dict[str, Any]]:
    """The records of the page, and the fields about the whole list."""
    lists = master.key_lists.follow(master.store, master.clock.monotonic())
    # Only what narrows the list: the rows of a page are read anew.
    rows = lists.of("id", lambda: sorted(map(_ListedKey.of, master.store.key_rows()), key=lambda row: natural(row.id)))
    counts = lists.of("counts", lambda: Counter(row.state for row in rows))
    order = request.get("sort", "state")
    if order.removeprefix("-") not in KEY_ORDERS:
        raise UsageError(f"keys are sorted by {', '.join(KEY_ORDERS)}, not by {order.removeprefix('-')[:40]!r}")
    found = lists.of(order, lambda: _sorted(master, rows, order))
    state, search = request.get("state", ""), request.get("search", "")
    if state:
        if state not in KEY_STATES:
            raise UsageError(f"a key is {', '.join(KEY_STATES)}, not {state[:40]!r}")
        found = [row for row in found if row.state == state]
    if search:
        by_fingerprint = lists.of("fingerprint", lambda: _sorted(master, rows, "fingerprint"))
        begun = _beginning_with(by_fingerprint, search.upper())
        found = [row for row in found if search in row.id or row.fingerprint in begun]
    offset = request.get("offset", 0)
    wanted = [row.fingerprint for row in found[offset : offset + request.get("limit", len(found))]]
    records = {key.fingerprint: key for key in master.store.keys_among(wanted)}
    page = [records[one] for one in wanted if one in records]
    return page, {"total": len(found), "counts": {state: counts[KeyState(state)] for state in KEY_STATES}}


class _ListedKey(NamedTuple):
    """The filters of a list of keys."""

    fingerprint: Fingerprint
    id: MinionId
    state: KeyState

    @classmethod
    def of(cls, row: KeyRow) -> _ListedKey:
        return cls(row.fingerprint, row.id, KeyState(row.state))


def _beginning_with(rows: list[_ListedKey], start: str) -> set[Fingerprint]:
    """The fingerprints that begin with this text; `rows` are sorted by theirs."""
    first = bisect_left(rows, start, key=lambda row: row.fingerprint)
    return {row.fingerprint for row in takewhile(lambda row: row.fingerprint.startswith(start), rows[first:])}


def _sorted(master: Master, rows: list[_ListedKey], order: str) -> list[_ListedKey]:
    """These rows, which are in the natural order of their ids, sorted by a field."""
    name = order.removeprefix("-")
    match name:
        case "id":
            return rows if order == name else rows[::-1]
        case "state":
            ranks = {KeyState(state): rank for rank, state in enumerate(KEY_STATES)}
            return sorted(rows, key=lambda row: ranks[row.state], reverse=order != name)
    values = {row.fingerprint: getattr(row, name) for row in master.store.key_rows()}
    # One that was deleted since the rows were read has no value, and no row in the page.
    default: Any = 0.0 if name == "first_seen" else ""
    return sorted(rows, key=lambda row: values.get(row.fingerprint, default), reverse=order != name)


def handle_key_change(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Accept, reject, revoke or delete exactly these fingerprints; answers `changed` and `refused`."""
    action = request["action"]
    if action not in ACTIONS:
        raise UsageError(f"a key can be accepted, rejected, revoked or deleted, not {action[:40]!r}")
    authorize(principal, Action("key_change", name=f"key.{action}"), master.config)
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
                    # The MWorker that changed it may have died before the link learned of it.
                    again.append((record.fingerprint, str(record.state), record.id))
            else:
                changed.append({**row, "state": str(ACTIONS[action] or DELETED)})
        seq = store.last_seq()
    changes = [(row["fingerprint"], row["state"], row["id"]) for row in changed]
    return _once_sessions_know([*changes, *again], {"changed": changed, "refused": refused}, seq)


def handle_key_preaccept(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Accept the key with this fingerprint for this id: now if it is pending, else when it is presented."""
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
            problem = id_collision(master, minion)
            if problem:
                raise UsageError(f"{minion}: {problem}")
            store.put_preaccept(minion, key, principal.label)
        seq = store.last_seq()
    return _once_sessions_know(changes, {}, seq)


def handle_key_rename(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Give the accepted key of `id` the id `new_id`; answers its `fingerprint`.

    The minion must come with the new id: under the old one this key is a conflict. What was known of the old id is
    forgotten as with a deleted key. Raises UsageError.
    """
    old, new = parse_minion_id(request["id"]), parse_minion_id(request["new_id"])
    now = master.clock.wall()
    with master.store.write() as store:
        record = store.holder(old)
        if record is None:
            raise UsageError(f"{old} has no accepted key: `saltlite key list` shows all of them")
        holder = store.holder(new, any_case=True)
        if holder is not None and holder.fingerprint != record.fingerprint:
            raise UsageError(f"{holder.id} has an accepted key already ({holder.fingerprint}): nothing was renamed")
        if old == new:
            raise UsageError(f"that is its id already: {old}")
        if problem := id_collision(master, new):
            raise UsageError(f"{new}: {problem}")
        store.put_key(
            replace(
                record, id=new, changed_at=now, epoch=store.next_epoch(), how=f"renamed from {old} by {principal.label}"
            )
        )
        _end_parts(store, old, f"the minion was renamed to {new}", now)
        _forget(master, old)
        data = {"id": new, "fingerprint": record.fingerprint, "act": "renamed", "from": old, "by": principal.label}
        seq = store.put_event(tag_key(), data, now)
    return _once_sessions_know([(record.fingerprint, DELETED, old)], {"fingerprint": record.fingerprint}, seq)


def handle_key_finger(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """The fleet's fingerprint, which minions pin, and this master's own."""
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


def _once_sessions_know(changes: Sequence[tuple[str, str, str]], fields: dict[str, Any], seq: int) -> Answer:
    """The answer, once every session of these keys has ended or changed. `seq` is the last event of the change. Other
    masters need not have applied later events, such as the one of a session that ends here."""
    if not changes:
        return Answer(fields)

    def confirmed(reply: IpcMessage | None) -> dict[str, Any]:
        if reply is None:
            raise SaltliteError(
                "the change is stored, but the link process has not confirmed that it dropped the sessions"
            )
        return fields

    question = Question(lambda number: ipc.keys(number, changes), confirmed, everywhere=seq)
    return Answer(question=question, committed=True)


def _change(store: StoreWriter, record: KeyRecord, action: str, principal: Principal, master: Master) -> str:
    """Make one change inside the transaction; returns why it is refused, or ""."""
    now = master.clock.wall()
    wanted = ACTIONS[action]
    if wanted is not None:
        reason = refusal(record, wanted, store)
        if not reason and wanted is KeyState.ACCEPTED:
            reason = id_collision(master, record.id)
        if reason:
            return reason
        how = f"{action}ed by {principal.label}".replace("eed", "ed")
        store.put_key(replace(record, state=wanted, changed_at=now, epoch=store.next_epoch(), how=how))
        if wanted is KeyState.ACCEPTED:
            store.delete_preaccept(record.id)
    else:
        store.delete_key(record.fingerprint)
    if record.state is KeyState.ACCEPTED:
        _end_parts(store, record.id, f"the key was {wanted or DELETED}", now)
        _forget(master, record.id)
    data = {
        "id": record.id,
        "fingerprint": record.fingerprint,
        "act": str(wanted or DELETED),
        "by": principal.label,
    }
    store.put_event(tag_key(), data, now)
    return ""


def _end_parts(store: StoreWriter, minion: MinionId, reason: str, now: float) -> None:
    """End what jobs still wait for from a minion whose key goes."""
    parts = [*(part for part, _state in store.unsettled(minion)), *store.planned_of(minion)]
    store.set_parts(PartRow(part, minion, TargetState.REVOKED, reason, now) for part in parts)


def _forget(master: Master, minion: MinionId) -> None:
    """Release the minion's resources. The key changes even if this fails; maintenance tries again."""
    try:
        released = forget(master, minion)
    except StoreError as error:
        log.error("the resources of %s could not be released for now: %s", minion, error)  # noqa: TRY400 - the message is complete
    else:
        if released:
            log.info("with the key of %s its resources were released: %d", minion, released)


# -- a key that a minion presents


def handle_decide(master: Master, ask: dict[str, Any]) -> None:
    """Answers the link by `decided`, with "busy" if the store fails: then the minion connects again."""
    presented = _presented(ask)
    try:
        verdict = _decide(master, presented)
        if verdict.state == KeyState.ACCEPTED and ask_owners(master, [ask]):
            return
    except StoreError:
        verdict = KeyVerdict("busy")
    master.link.decided(ask["session"], verdict.state, presented.id, verdict.drop)


def handle_decides(master: Master, asks: Sequence[dict[str, Any]]) -> None:
    """As `handle_decide`, for many minions: one statement for all whose keys are accepted, which are most when a fleet
    reconnects. Raises StoreError before any is answered."""
    presented = [(ask, _presented(ask)) for ask in asks]
    wanted = [one.fingerprint for _ask, one in presented]
    known = {record.fingerprint: record for record in master.store.keys_among(wanted)}
    accepted = [(ask, one) for ask, one in presented if _is_accepted(known.get(one.fingerprint), one)]
    waiting = ask_owners(master, [ask for ask, _one in accepted])
    for ask, one in accepted:
        if ask["session"] not in waiting:
            master.link.decided(ask["session"], KeyState.ACCEPTED, one.id)
    for ask, one in presented:
        if not _is_accepted(known.get(one.fingerprint), one):
            handle_decide(master, ask)


def _presented(ask: dict[str, Any]) -> Presented:
    hello = ask["hello"]
    return Presented(
        id=parse_minion_id(hello["id"]),
        fingerprint=fingerprint(ask["public"]),
        public=ask["public"],
        address=ask["address"],
        proof=hello["token"],
    )


def _is_accepted(known: KeyRecord | None, presented: Presented) -> bool:
    """Whether this key was accepted for this id."""
    return known is not None and known.id == presented.id and known.state is KeyState.ACCEPTED


def handle_suspect(master: Master, ask: dict[str, Any]) -> None:
    """Two machines seem to share a key: an event and a warning for operators."""
    log.warning(
        "two machines use the key of %s: the one at %s was sent away, the one at %s stays. Give the copy a key of its "
        "own (stop its minion, remove its pki_dir and data_dir, start it again); if the machine was not copied, the "
        "key was stolen: saltlite key revoke %s",
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
        "act": CLONE_SUSPECT,
    }
    with master.store.write() as store:
        store.put_event(tag_auth(), data, master.clock.wall())


def _decide(master: Master, presented: Presented) -> KeyVerdict:
    known = master.store.key(presented.fingerprint)
    if _is_accepted(known, presented):
        # The usual case when a fleet reconnects: nothing to write, so no transaction.
        return KeyVerdict(KeyState.ACCEPTED)
    now = master.clock.wall()
    with master.store.write() as store:
        verdict = _without_id_collision(master, decide(presented, store, now))
        if known is not None and known.id != presented.id:
            store.refused(known.id, known.fingerprint, end_with(SessionEnd.RENAMED, presented.id))
        if verdict.use_token and not store.use_token(verdict.use_token):
            return KeyVerdict("busy")
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


def _without_id_collision(master: Master, verdict: KeyVerdict) -> KeyVerdict:
    """A key whose id is a resource's stays pending, even with a token or a known fingerprint; `how` says why."""
    record = verdict.put
    if record is None or record.state is not KeyState.ACCEPTED:
        return verdict
    problem = id_collision(master, record.id)
    if not problem:
        return verdict
    record = replace(record, state=KeyState.PENDING, how=f"first contact; not accepted, for {problem}")
    return KeyVerdict(KeyState.PENDING, record, drop=verdict.drop)


# -- join tokens


USES_MAX = 1_000_000
EXPIRES_MAX_S = 365 * 86_400
GLOB_MAX = 256


def handle_token_create(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers the token's text. It is shown only once, because the store has only a public key."""
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


def handle_token_list(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `tokens`: id, id_glob, uses_left, created_at, expires_at and created_by of those that are still valid."""
    now = master.clock.wall()
    valid = [one for one in master.store.tokens() if one.expires_at > now and one.uses_left > 0]
    return Answer(
        {
            "tokens": [
                {
                    "id": one.token_id,
                    "id_glob": one.id_glob,
                    "uses_left": one.uses_left,
                    "created_at": one.created_at,
                    "expires_at": one.expires_at,
                    "created_by": one.created_by,
                }
                for one in valid
            ]
        }
    )


def handle_token_revoke(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers whether the token existed: one that was used up may have been pruned."""
    token_id = request["token_id"]
    with master.store.write() as store:
        was_there = store.delete_token(token_id)
        if was_there:
            data = {"act": "token-revoked", "token": token_id, "by": principal.label}
            store.put_event(tag_key(), data, master.clock.wall())
    return Answer({"revoked": was_there}, committed=True)
