"""The verdict about a key that a minion presents, and which changes of keys an operator may make.

Invariants: a key keeps its id, and an id has at most one accepted key; a second key for an accepted id never displaces
the first (state `conflict`); ids that differ by case only count as one; only a join token, a pre-accepted fingerprint
or an operator accepts a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from saltlite.limits import network_of, site_of
from saltlite.master.store.ports import KeyRow, StoreReader, TokenRecord
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId
from saltlite.model.keys import TRANSITIONS, Fingerprint, KeyRecord, KeyState
from saltlite.wire.limits import PENDING_KEYS, PENDING_KEYS_PER_NETWORK, SESSION_MAX_AGE_S
from saltlite.wire.signatures import proves, token_of

CONFLICTS_KEPT = 3
CONFLICT_EVERY_S = 60.0
"""The least interval between stored conflicts of one id, once CONFLICTS_KEPT are stored."""
SEEN_EVERY_S = 3600.0
"""How often the return of a pending key is stored, to distinguish minions that wait from those that gave up."""
UNSEEN_S = 2.0 * SESSION_MAX_AGE_S
"""A pending key that was not presented for this time can be displaced; its session has ended."""


@dataclass(frozen=True, slots=True)
class Presented:
    """A key that proved itself according to the link process, with its minion's hello. `proof` is that of a join token
    (`saltlite.wire.signatures`), b"" for none. A link process that lies about the key gets a row that waits, no more:
    what accepts a key (a proof, a pre-accepted fingerprint, an operator who compares) is bound to the key itself."""

    id: MinionId
    fingerprint: Fingerprint
    public: bytes
    address: str
    proof: bytes


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """The answer ("busy" when no more keys fit), and the changes to store."""

    state: str
    put: KeyRecord | None = None
    use_token: str = ""
    drop: tuple[Fingerprint, ...] = ()
    """Keys to delete: the oldest conflicts of the id, or a displaced pending key."""


def decide(presented: Presented, store: StoreReader, now: float) -> KeyVerdict:
    """The verdict about a presented key. Changes nothing in the store."""
    known = store.key(presented.fingerprint)
    if known is not None and known.id != presented.id:
        return KeyVerdict(KeyState.CONFLICT)
    if known is not None and known.state not in (KeyState.PENDING, KeyState.CONFLICT):
        return KeyVerdict(known.state)
    holder = store.holder(presented.id, any_case=True)
    if holder is not None:
        return _conflict(presented, known, holder, store, now)
    if store.preaccepted(presented.id) == presented.fingerprint:
        return KeyVerdict(KeyState.ACCEPTED, _record(presented, known, KeyState.ACCEPTED, "pre-accepted", now))
    token = _good_token(presented, store, now)
    if token is not None:
        how = f"join token {token.token_id} of {token.created_by}"
        record = _record(presented, known, KeyState.ACCEPTED, how, now)
        return KeyVerdict(KeyState.ACCEPTED, record, use_token=token.token_id)
    if known is None:
        return _first_contact(presented, store, now)
    if known.state is KeyState.PENDING and now - known.changed_at >= SEEN_EVERY_S:
        return KeyVerdict(KeyState.PENDING, _record(presented, known, KeyState.PENDING, known.how, now))
    return KeyVerdict(known.state)


def refusal(record: KeyRecord, wanted: KeyState, store: StoreReader) -> str:
    """Why an operator may not change this key to `wanted`; "" if it is allowed."""
    if wanted is record.state:
        return f"it is {record.state} already"
    if wanted not in TRANSITIONS[record.state]:
        return f"a key that is {record.state} cannot become {wanted}; delete it, and its minion presents it anew"
    if wanted is KeyState.ACCEPTED:
        holder = store.holder(record.id, any_case=True)
        if holder is not None:
            case = "" if holder.id == record.id else f", and ids that differ by case only are one id: {record.id}"
            return (
                f"{holder.id} has an accepted key already ({holder.fingerprint}){case}; revoke or delete that one first"
            )
    return ""


def _first_contact(presented: Presented, store: StoreReader, now: float) -> KeyVerdict:
    waiting = store.key_rows(KeyState.PENDING)
    network = network_of(presented.address)
    if sum(network_of(key.address) == network for key in waiting) >= PENDING_KEYS_PER_NETWORK:
        return KeyVerdict("busy")
    drop: tuple[Fingerprint, ...] = ()
    if len(waiting) >= PENDING_KEYS:
        drop = _makes_room(presented.address, waiting, now)
        if not drop:
            return KeyVerdict("busy")
    how = "first contact" if not presented.proof else "first contact; its join token was not accepted"
    return KeyVerdict(KeyState.PENDING, _record(presented, None, KeyState.PENDING, how, now), drop=drop)


def _makes_room(address: str, waiting: Sequence[KeyRow], now: float) -> tuple[Fingerprint, ...]:
    """The key of a full table that is displaced by one from that address; () for none.

    One whose minion gave up; else the newest one of the network that has the most, in the site that has the most (the
    network around it, `saltlite.limits`), if that site has at least two more than the newcomer's. So a key that
    waits alone in its site is never displaced, and of two sites with equally many keys the later one loses.
    """
    longest_unseen = min(waiting, key=lambda key: key.changed_at)
    if now - longest_unseen.changed_at >= UNSEEN_S:
        return (longest_unseen.fingerprint,)
    by_site = Counter(site_of(key.address) for key in waiting)
    if max(by_site.values()) < by_site[site_of(address)] + 2:
        return ()
    crowded = _with_most(waiting, site_of)
    return (max(_with_most(crowded, network_of), key=lambda key: key.first_seen).fingerprint,)


def _with_most(waiting: Sequence[KeyRow], place_of: Callable[[str], str]) -> list[KeyRow]:
    """The keys of the network or site with the most of them."""
    count = Counter(place_of(key.address) for key in waiting)
    most = max(count.values())
    return [key for key in waiting if count[place_of(key.address)] == most]


def _conflict(
    presented: Presented, known: KeyRecord | None, holder: KeyRecord, store: StoreReader, now: float
) -> KeyVerdict:
    if known is not None and known.state is KeyState.CONFLICT:
        return KeyVerdict(KeyState.CONFLICT)
    conflicts = store.keys(frozenset({KeyState.CONFLICT}))
    others = [record for record in conflicts if record.id.lower() == presented.id.lower()]
    others.sort(key=lambda record: record.changed_at, reverse=True)
    if len(others) >= CONFLICTS_KEPT and now - others[0].changed_at < CONFLICT_EVERY_S:
        # Keys are made faster than an operator can look at them; they are not stored.
        return KeyVerdict(KeyState.CONFLICT)
    drop = tuple(record.fingerprint for record in others[CONFLICTS_KEPT - 1 :])
    how = "another key holds this id"
    if holder.id != presented.id:
        how += f" as {holder.id}"
    record = _record(presented, known, KeyState.CONFLICT, how, now)
    return KeyVerdict(KeyState.CONFLICT, record, drop=drop)


def _good_token(presented: Presented, store: StoreReader, now: float) -> TokenRecord | None:
    token_id = token_of(presented.proof)
    token = store.token(token_id) if token_id else None
    if token is None or not proves(token.public, presented.proof, presented.id, presented.public):
        return None
    if now >= token.expires_at or token.uses_left < 1 or not fnmatchcase(presented.id, token.id_glob):
        return None
    return token


def _record(presented: Presented, known: KeyRecord | None, state: KeyState, how: str, now: float) -> KeyRecord:
    return KeyRecord(
        id=presented.id,
        fingerprint=presented.fingerprint,
        public=presented.public,
        state=state,
        address=presented.address,
        first_seen=known.first_seen if known is not None else now,
        changed_at=now,
        epoch=0,
        how=how,
    )
