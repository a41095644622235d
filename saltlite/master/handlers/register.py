"""A minion registers the resources that it manages: checked, written, acknowledged; or refused, and nothing changes.

The order is what keeps the promises: what costs time is read and checked first; the rows of the registry are written
inside a write transaction of the store, where no key is accepted, revoked or deleted; the grains are written after it,
for others wait for the store; and a second, short transaction makes good what happened meanwhile.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from saltlite.errors import RefusedError, RemoteProtocolError, StoreError
from saltlite.master.handlers.id_collisions import note_namesakes
from saltlite.master.handlers.missing import (
    Kept,
    kept_of,
    note_missing,
    sentences,
    srns_of,
    with_kept,
    yields,
)
from saltlite.master.handlers.resource_grains import checked_grains, drop_grains, held_rows, put_rows
from saltlite.master.processes.claimants import ask_claimants
from saltlite.master.processes.context import Master
from saltlite.master.processes.registrations import Registered
from saltlite.master.store.ports import StoreReader, StoreWriter
from saltlite.model.events import tag_resource_conflict, tag_resource_refresh, tag_resource_refused
from saltlite.model.ids import MinionId, TargetId
from saltlite.model.keys import KeyState
from saltlite.model.srn import resource_index_srn_key
from saltlite.resources.registry.admission import Registering, admit, read_registration, shortened
from saltlite.resources.registry.claims import Conflict, Registration
from saltlite.resources.registry.missing import Missing
from saltlite.resources.registry.views import Holding
from saltlite.targeting.banks import GRAINS, PILLAR, RESOURCE_GRAINS
from saltlite.wire.document import decode_document, document_digest

log = logging.getLogger(__name__)

CONFLICT_NAMES_MAX = 20
"""Resources, and minions that have them, that the event of a conflict names; the others are counted."""

ASK_EACH_MAX = 500
"""Up to so many ids are looked up one by one among the minions; for more, all ids of minions are read at once."""

NAMES_LOGGED = 20
"""Ids of minions that one line of the log names."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a minion is told about its registration."""

    sentences: list[str]
    """What of it did not count, and what stays although it was not found."""
    look_again: bool
    """Whether another look is needed before what was not found goes."""


def register(master: Master, minion: MinionId, data: bytes) -> Taken:
    """Let the minion manage what the document in `data` says, and nothing else but what it may only miss for a moment.

    Raises RefusedError, a line for each reason: then the old registration stays. Raises StoreError: then the minion is
    to send it again, for the rows of the registry may be the new ones already.
    """
    try:
        registering = read_registration(_document(data), master.terms.resources.quota)
    except RefusedError as error:
        _refused(master, minion, str(error).splitlines())
        raise
    digest = document_digest(data)
    missed = kept_of(master, minion, registering, digest)
    missed_before = (master.registrations.of(minion) or Registered()).missing
    whole = with_kept(registering, missed)
    before = master.banks.bank(RESOURCE_GRAINS).get(minion) or {}
    rows, bad_grains = checked_grains(whole, before, master.clock.wall())
    generation = master.registry.generation()
    try:
        done = _claimed(master, minion, whole, missed)
        reasons = [*done.reasons, *bad_grains]
        kept = held_rows(master, minion, rows)
        if kept != before:
            put_rows(master, minion, kept, digest)
        settling = _Settling(registering, done, kept, reasons, digest, changed=kept != before, missed=missed)
        _settle(master, minion, settling)
    except StoreError as error:
        if master.registry.generation() == generation:
            raise
        _doubt(master, minion)
        raise StoreError(
            f"the registry has its resources, and what is known of them cannot be kept: {error}"
        ) from error
    free = missed.srns().difference(srns_of(missed_before)).union(done.registration.released)
    ask_claimants(master.registrations, master.link, free, but=minion)
    return Taken([*shortened(reasons), *sentences(minion, registering, missed)], look_again=bool(missed.missing))


@dataclass(frozen=True, slots=True)
class _Done:
    """What the registry has of a registration."""

    resources: Mapping[str, Sequence[str]]
    """Those that the minion was to have, whoever has them."""
    registration: Registration
    reasons: list[str]
    had: bool
    """Whether the minion had any before."""


@dataclass(frozen=True, slots=True)
class _Settling:
    """A registration whose rows stand."""

    registering: Registering
    done: _Done
    kept: Mapping[TargetId, Mapping[str, Any]]
    reasons: list[str]
    digest: str
    changed: bool
    """Whether the grains are others than before."""
    missed: Kept


def _claimed(master: Master, minion: MinionId, registering: Registering, missed: Kept) -> _Done:
    """Write the rows of the registry. Raises RefusedError without an accepted key, StoreError."""
    rules = master.terms.resources
    with master.store.write() as store:
        if store.holder(minion) is None:
            raise RefusedError("the key is not accepted any more")
        held = frozenset(_held(master, minion))
        registering = _without_lost(master, minion, registering, missed)
        names = _names_of_minions(registering, held, store)
        admitted = admit(registering, minion, rules, is_minion=names.accepted.intersection)
        declared = {kind: list(ids) for kind, ids in admitted.resources.items()}
        pinned = _pinned(master, minion, admitted.resources)
        done = master.registry.register(
            minion, admitted.resources, conflict=rules.conflict, yields=yields(master, minion)
        )
        conflicts = [f"{srn} is managed by {owner}, and stays so" for srn, owner in (*pinned, *done.refused)]
        done = replace(done, refused=(*pinned, *done.refused))
        reasons = [*admitted.refused, *conflicts]
        _note_taken(master, store, minion, done)
        note_namesakes(master, store, minion, held)
    if names.pending:
        log.warning(
            "%s registers %s, the id of a minion whose key waits to be accepted: it cannot be, while there is a "
            "resource of that id",
            minion,
            " ".join(sorted(names.pending)[:NAMES_LOGGED]),
        )
    return _Done(declared, done, reasons, had=bool(held))


def _without_lost(master: Master, minion: MinionId, registering: Registering, missed: Kept) -> Registering:
    """Without what was missed and kept, where another minion has it by now."""
    held = master.registry.views().by_minion.get(minion, {})
    resources = dict(registering.resources)
    for kind, one in missed.missing.items():
        ids = held[kind].ids if kind in held else frozenset[str]()
        resources[kind] = [bare_id for bare_id in resources[kind] if bare_id in ids or bare_id not in one.since]
    return replace(registering, resources=resources)


def _settle(master: Master, minion: MinionId, what: _Settling) -> None:
    """Keep what is known of the minion's resources, where no key changes and no resource moves meanwhile.

    Raises RefusedError without an accepted key, StoreError.
    """
    with master.store.write() as store:
        if store.holder(minion) is None:
            forget(master, minion)
            raise RefusedError("the key is not accepted any more")
        bank = master.banks.bank(RESOURCE_GRAINS)
        now_held = held_rows(master, minion, what.kept)
        overtaken = what.changed and bool(what.kept) and bank.digest(minion) != what.digest
        if overtaken or len(now_held) != len(what.kept):
            put_rows(master, minion, now_held, what.digest)
        held = master.registry.views().by_minion.get(minion, {})
        count = sum(len(holding.ids) for holding in held.values())
        lost = _lost(master, minion, what.done.resources)
        if master.terms.resources.events and (what.done.had or count):
            store.put_event(tag_resource_refresh(minion), {"Resource cache refresh": minion}, master.clock.wall())
        _note_kept_back(master, store, minion, what)
        note_missing(master, store, minion, what.registering, what.missed)
        known = master.registrations.of(minion) or Registered()
        row = Registered(
            functions=_functions(what, known),
            count=count,
            refusals=known.refusals + 1 if what.reasons else 0,
            reasons=shortened(what.reasons),
            lost=lost,
            claims=frozenset(srn for srn, _owner in what.done.registration.refused),
            missing=_still_held(what.missed, held),
            reports=what.registering.reports,
        )
        # Without a digest the minion is asked again in its next session: by then its claim may stand.
        master.registrations.put(minion, row, "" if what.reasons or lost or row.missing else what.digest)


def _functions(what: _Settling, known: Registered) -> Mapping[str, Mapping[str, str]]:
    """What the minion said, and of types of which everything is missed what it said before."""
    old = {kind: known.functions[kind] for kind in what.missed.missing if kind in known.functions}
    return {**old, **what.registering.functions}


def _still_held(missed: Kept, held: Mapping[str, Holding]) -> dict[str, Missing]:
    """What is missed and still the minion's."""
    found = {}
    for kind, one in missed.missing.items():
        left = one.without(one.since.keys() - (held[kind].ids if kind in held else set()))
        if left is not None:
            found[kind] = left
    return found


def forget(master: Master, minion: MinionId) -> int:
    """The minion's key is gone: release its resources, and drop what the banks have of it; how many resources.

    Others whose claims on them were refused are asked to register again.
    """
    held = master.registry.views().by_minion.get(minion, {})
    free = [resource_index_srn_key(kind, bare_id) for kind, one in held.items() for bare_id in one.ids]
    released = master.registry.unregister_minion(minion)
    for name in (GRAINS, PILLAR, RESOURCE_GRAINS):
        master.banks.bank(name).delete(minion)
    master.registrations.forget(minion)
    ask_claimants(master.registrations, master.link, free, but=minion)
    return released


def namesake(master: Master, minion: MinionId) -> str:
    """Why no key can be accepted for that id, "" when one can: two things must not answer to one name."""
    found = [
        f"{kind}:{bare_id} (of {', '.join(master.registry.get_managing_minions_for_srn(kind, bare_id))})"
        for kind, bare_id in master.registry.resolve_bare_resource_id(minion)
    ]
    if not found:
        return ""
    return f"a resource has this id: {', '.join(found)}. Give the minion another id, or the resource"


def _document(data: bytes) -> Mapping[Any, Any]:
    try:
        return decode_document(data)
    except RemoteProtocolError as error:
        raise RefusedError(f"the registration could not be read: {error}") from None


def _held(master: Master, minion: MinionId) -> list[str]:
    """The bare ids that the minion has already."""
    held = master.registry.views().by_minion.get(minion, {})
    return [bare_id for one in held.values() for bare_id in one.ids]


@dataclass(frozen=True, slots=True)
class _Names:
    """Bare ids of a registration that minions are called, or want to be."""

    accepted: frozenset[str]
    pending: frozenset[str]


def _names_of_minions(registering: Registering, held: frozenset[str], store: StoreReader) -> _Names:
    """What is registered is no accepted minion's id: no such key was accepted since.

    Anybody can present a key under any id, so one that nobody has accepted keeps nothing back.
    """
    fresh = {bare_id for ids in registering.resources.values() for bare_id in ids if bare_id not in held}
    pending = fresh.intersection(key.id for key in store.keys(frozenset({KeyState.PENDING})))
    if len(fresh) <= ASK_EACH_MAX:
        accepted = {one for one in fresh if store.holder(MinionId(one)) is not None}
    else:
        accepted = fresh.intersection(store.accepted_ids())
    return _Names(frozenset(accepted), frozenset(pending - accepted))


def _pinned(master: Master, minion: MinionId, resources: dict[str, list[str]]) -> list[tuple[TargetId, str]]:
    """Take out of `resources` what the minion lost to another one that still has it: SRN and who has it.

    To say the same again is not to be the newest: two minions with one resource would take it from each other for ever.
    """
    known = master.registrations.of(minion)
    if known is None or not known.lost:
        return []
    views, left = master.registry.views(), yields(master, minion)
    pinned: list[tuple[TargetId, str]] = []
    for kind, ids in resources.items():
        mine: list[str] = []
        for bare_id in ids:
            srn = resource_index_srn_key(kind, bare_id)
            owner = views.owner(kind, bare_id) if srn in known.lost else None
            if owner is None or owner.minion == minion or left(srn, owner.minion):
                mine.append(bare_id)
            else:
                pinned.append((srn, owner.minion))
        resources[kind] = mine
    return pinned


def _lost(master: Master, minion: MinionId, declared: Mapping[str, Sequence[str]]) -> frozenset[TargetId]:
    """What the minion registered and another one has, where that one may have taken it."""
    if master.terms.resources.conflict is not Conflict.NEWEST:
        return frozenset()
    views = master.registry.views()
    held = views.by_minion.get(minion, {})
    lacking = {
        kind: [bare_id for bare_id in ids if kind not in held or bare_id not in held[kind].ids]
        for kind, ids in declared.items()
    }
    return frozenset(
        f"{kind}:{bare_id}"
        for kind, ids in lacking.items()
        for bare_id in ids
        if views.owner(kind, bare_id) is not None
    )


def _note_taken(master: Master, store: StoreWriter, minion: MinionId, done: Registration) -> None:
    """Write down what moved from other minions, with all that is known of it. Raises StoreError."""
    now = master.clock.wall()
    drop_grains(master, done.taken)
    formers: dict[str, list[TargetId]] = {}
    for srn, former in done.taken:
        formers.setdefault(former, []).append(srn)
    for former, srns in formers.items():
        master.registrations.lose(MinionId(former), srns)
    if done.taken:
        store.put_event(tag_resource_conflict(minion), conflict(minion, "taken_from", done.taken), now)


def conflict(minion: MinionId, how: str, moved: Sequence[tuple[TargetId, str]]) -> dict[str, Any]:
    """The data of the event about a minion that claims resources (SRN, other minion): `count`, the first `resources`,
    and below `how` how many each of the others has or had."""
    others = Counter(other for _srn, other in moved).most_common(CONFLICT_NAMES_MAX)
    names = sorted(srn for srn, _other in moved)[:CONFLICT_NAMES_MAX]
    return {"id": minion, "count": len(moved), how: dict(others), "resources": names}


def _note_kept_back(master: Master, store: StoreWriter, minion: MinionId, what: _Settling) -> None:
    """Write down what was kept back, if that is news.

    Who is asked again and again, and says the same each time, makes one event of it, and one line in the log.
    """
    now, reasons = master.clock.wall(), what.reasons
    known = master.registrations.of(minion)
    if not reasons or (known is not None and list(known.reasons) == shortened(reasons)):
        return
    more = f" (and {len(reasons) - 1} more like it)" if len(reasons) > 1 else ""
    log.warning("of what %s registered something was kept back: %s%s", minion, reasons[0], more)
    refused = what.done.registration.refused
    if refused:
        store.put_event(tag_resource_conflict(minion), conflict(minion, "owned_by", refused), now)
    data = {"id": minion, "act": "register", "whole": False, "reasons": shortened(reasons)}
    store.put_event(tag_resource_refused(minion), data, now)


def _doubt(master: Master, minion: MinionId) -> None:
    """Nothing may say any more that what was sent before stands: whatever the minion holds, it is to be asked.

    What it lost stays known: a row that has any comes without a digest.
    """
    row = master.registrations.of(minion)
    if row is not None and not row.lost:
        try:
            master.registrations.put(minion, row, "")
        except StoreError:
            with suppress(StoreError):
                master.registrations.forget(minion)


def _refused(master: Master, minion: MinionId, reasons: list[str]) -> None:
    """Write down that a whole registration counts for nothing."""
    row = master.registrations.of(minion) or Registered()
    if list(row.reasons) != reasons:
        log.warning("a registration of %s was refused: %s", minion, reasons[0])
        with master.store.write() as store:
            event = {"id": minion, "act": "register", "whole": True, "reasons": reasons}
            store.put_event(tag_resource_refused(minion), event, master.clock.wall())
    row = replace(row, refusals=row.refusals + 1, reasons=reasons)
    master.registrations.put(minion, row, master.registrations.digest(minion))
