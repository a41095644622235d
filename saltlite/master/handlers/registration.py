"""A minion registers the resources that it manages: validated, written, acknowledged; or refused without effect.

Expensive work is done first: the document is read and validated. The registry's rows are written inside a write
transaction of the store, during which no key changes state. Grains are written after it, because other writers wait for
the store. A second, short transaction corrects what has changed in between.

A resource that its minion no longer finds stays registered until several looks agree, or an operator confirms.

Resources of several minions may share a name; operators are warned, because a bare id means all of them, and where one
name is an SRN and a bare id, the SRN gets the job alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any

from saltlite.errors import RefusedError, RemoteProtocolError, StoreError, UsageError
from saltlite.master.processes.context import Master
from saltlite.master.processes.fleet import Registered, ask_claimants
from saltlite.master.store.ports import StoreReader, StoreWriter
from saltlite.model.dataclass import dataclass
from saltlite.model.events import (
    tag_resource_conflict,
    tag_resource_id_collision,
    tag_resource_missing,
    tag_resource_refresh,
    tag_resource_refused,
)
from saltlite.model.ids import MinionId, TargetId, parse_srn, resource_index_srn_key
from saltlite.model.keys import KeyState
from saltlite.model.resourcelook import bits_of
from saltlite.resources.registry.admission import (
    LOOKS,
    MissingResources,
    RegistrationContext,
    admit,
    read_registration,
    shortened,
    still_missing,
)
from saltlite.resources.registry.registry import Conflict, Holding, Registration, Views
from saltlite.targeting.banks import (
    GRAINS,
    KEY_NAMES_MAX,
    LEAVES_MAX,
    MINE,
    MINE_TIMES,
    PILLAR,
    RESOURCE_GRAINS,
    RESOURCE_GRAINS_MAX,
    RESOURCE_KEYS_MAX,
    RESOURCE_LEAVES_MAX,
    Bank,
    leaves_of,
)
from saltlite.wire.codec import DOCUMENT, decode_document, document_digest, encode
from saltlite.wire.limits import RESOURCE_GRAINS_TOTAL_MAX

log = logging.getLogger(__name__)
NAMES_SHOWN = 20
"""Resources that an event or an answer names; more are counted only."""
CONFLICT_NAMES_MAX = 20
"""Resources, and minions, that a conflict event names; more are counted only."""
ASK_EACH_MAX = 500
"""Up to so many ids are looked up one by one among the minions; for more, all minion ids are read at once."""
NAMES_LOGGED = 20
"""Minion ids in one log line."""
Row = Mapping[str, Any]
"""`grains` of one resource, and `stale_since`."""


# -- register


@dataclass(frozen=True, slots=True)
class Taken:
    """What a minion hears about its registration or grains."""

    sentences: list[str]
    """What was refused, and what stays although it was not found."""
    look_again: bool
    """Whether the minion should look again, because resources are missing."""
    withheld: bytes = b""
    """One bit for each resource of the document, in its order, set if the minion does not manage it; empty for none."""


def register(master: Master, minion: MinionId, data: bytes) -> Taken:
    """Let the minion manage what the document in `data` lists, plus resources that it may miss only for a moment.

    Raises RefusedError, with a line for each reason: then the old registration stays. Raises StoreError: then the
    minion must send the document again, because the registry may have the new rows already.
    """
    try:
        registering = read_registration(_document(data), master.config.resources.quota)
    except RefusedError as error:
        _refused(master, minion, str(error).splitlines())
        raise
    digest = document_digest(data)
    master.banks.look_again()
    missed = still_managed(master, minion, registering, digest)
    missed_before = (master.registrations.of(minion) or Registered()).missing
    whole = with_missing(registering, missed)
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
        _invalidate_digest(master, minion)
        raise StoreError(
            f"the registry has its resources, and what is known of them cannot be kept: {error}"
        ) from error
    free = missed.srns().difference(srns_of(missed_before)).union(done.registration.released)
    ask_claimants(master.registrations, master.asking, free, but=minion)
    sentences = [*shortened(reasons), *missing_messages(minion, registering, missed)]
    return Taken(sentences, bool(missed.missing), _withheld(master, minion, registering) if done.reasons else b"")


def _withheld(master: Master, minion: MinionId, registering: RegistrationContext) -> bytes:
    held = master.registry.views().by_minion.get(minion, {})
    ours = {kind: holding.ids for kind, holding in held.items()}
    return bits_of(bare_id not in ours.get(kind, ()) for kind, ids in registering.resources.items() for bare_id in ids)


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of writing the registry's rows."""

    resources: Mapping[str, Sequence[str]]
    """Those that the minion declared, whoever manages them."""
    registration: Registration
    reasons: list[str]
    had: bool
    """Whether the minion managed any before."""


@dataclass(frozen=True, slots=True)
class _Settling:
    """A registration whose rows are written."""

    registering: RegistrationContext
    done: _Done
    kept: Mapping[TargetId, Mapping[str, Any]]
    reasons: list[str]
    digest: str
    changed: bool
    """Whether the grains changed."""
    missed: StillManaged


def _document(data: bytes) -> Mapping[Any, Any]:
    try:
        return decode_document(data)
    except RemoteProtocolError as error:
        raise RefusedError(f"the registration could not be read: {error}") from None


def _claimed(master: Master, minion: MinionId, registering: RegistrationContext, missed: StillManaged) -> _Done:
    """Write the registry's rows. Raises RefusedError without an accepted key, StoreError."""
    rules = master.config.resources
    with master.store.write() as store:
        if store.holder(minion) is None:
            raise RefusedError("the key is not accepted any more")
        master.banks.look_again()
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
        _record_taken(master, store, minion, done)
        report_id_collisions(master, store, minion, held)
    if names.pending:
        log.warning(
            "%s registers %s, the id of a minion whose key is pending: it cannot be accepted while there is a "
            "resource of that id",
            minion,
            " ".join(sorted(names.pending)[:NAMES_LOGGED]),
        )
    return _Done(declared, done, reasons, had=bool(held))


def _without_lost(
    master: Master, minion: MinionId, registering: RegistrationContext, missed: StillManaged
) -> RegistrationContext:
    """Without missing resources that another minion manages by now."""
    held = master.registry.views().by_minion.get(minion, {})
    resources = dict(registering.resources)
    for kind, one in missed.missing.items():
        ids = held[kind].ids if kind in held else frozenset[str]()
        resources[kind] = [bare_id for bare_id in resources[kind] if bare_id in ids or bare_id not in one.since]
    return replace(registering, resources=resources)


@dataclass(frozen=True, slots=True)
class _Names:
    """Bare ids of a registration that are also ids of accepted or pending minions."""

    accepted: frozenset[str]
    pending: frozenset[str]


def _names_of_minions(registering: RegistrationContext, held: frozenset[str], store: StoreReader) -> _Names:
    """The new bare ids that are also minions' ids. Ids that it held before are skipped: no such key is accepted.

    A pending key refuses nothing, because anyone can present a key under any id.
    """
    fresh = {bare_id for ids in registering.resources.values() for bare_id in ids if bare_id not in held}
    pending = fresh.intersection(key.id for key in store.keys(frozenset({KeyState.PENDING})))
    if len(fresh) <= ASK_EACH_MAX:
        accepted = {one for one in fresh if store.holder(MinionId(one)) is not None}
    else:
        accepted = fresh.intersection(store.accepted_ids())
    return _Names(frozenset(accepted), frozenset(pending - accepted))


def _pinned(master: Master, minion: MinionId, resources: dict[str, list[str]]) -> list[tuple[TargetId, str]]:
    """Remove from `resources` what the minion lost to another one that still manages it; returns (SRN, that minion).

    Repeating a claim does not make it the newest: otherwise two minions would take a resource from each other forever.
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


def _settle(master: Master, minion: MinionId, what: _Settling) -> None:
    """Store what is known of the minion's resources, inside a transaction, so that no key and no resource changes.

    Raises RefusedError without an accepted key, StoreError.
    """
    with master.store.write() as store:
        if store.holder(minion) is None:
            forget(master, minion)
            raise RefusedError("the key is not accepted any more")
        master.banks.look_again()
        bank = master.banks.bank(RESOURCE_GRAINS)
        now_held = held_rows(master, minion, what.kept)
        overtaken = what.changed and bool(what.kept) and bank.digest(minion) != what.digest
        if overtaken or len(now_held) != len(what.kept):
            put_rows(master, minion, now_held, what.digest)
        held = master.registry.views().by_minion.get(minion, {})
        count = sum(len(holding.ids) for holding in held.values())
        lost = _lost(master, minion, what.done.resources)
        if master.config.resources.events and (what.done.had or count):
            store.put_event(tag_resource_refresh(minion), {"Resource cache refresh": minion}, master.clock.wall())
        _report_refusals(master, store, minion, what)
        report_missing(master, store, minion, what.registering, what.missed)
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
        # Without a digest the minion is asked again in its next session, when its claim may succeed.
        master.registrations.put(minion, row, "" if what.reasons or lost or row.missing else what.digest)


def _functions(what: _Settling, known: Registered) -> Mapping[str, Mapping[str, str]]:
    """The functions that the minion reported; of types with missing resources only, those it reported before."""
    old = {kind: known.functions[kind] for kind in what.missed.missing if kind in known.functions}
    return {**old, **what.registering.functions}


def _still_held(missed: StillManaged, held: Mapping[str, Holding]) -> dict[str, MissingResources]:
    """The missing resources that the minion still manages."""
    found = {}
    for kind, one in missed.missing.items():
        left = one.without(one.since.keys() - (held[kind].ids if kind in held else set()))
        if left is not None:
            found[kind] = left
    return found


def _lost(master: Master, minion: MinionId, declared: Mapping[str, Sequence[str]]) -> frozenset[TargetId]:
    """What the minion declared and another one manages, where that one may have taken it."""
    if master.config.resources.conflict is not Conflict.NEWEST:
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


def _held(master: Master, minion: MinionId) -> list[str]:
    """The bare ids of the minion's resources."""
    held = master.registry.views().by_minion.get(minion, {})
    return [bare_id for one in held.values() for bare_id in one.ids]


def _refused(master: Master, minion: MinionId, reasons: list[str]) -> None:
    """Record that a whole registration was refused."""
    row = master.registrations.of(minion) or Registered()
    if list(row.reasons) != reasons:
        log.warning("a registration of %s was refused: %s", minion, reasons[0])
        with master.store.write() as store:
            event = {"id": minion, "act": "register", "whole": True, "reasons": reasons}
            store.put_event(tag_resource_refused(minion), event, master.clock.wall())
    row = replace(row, refusals=row.refusals + 1, reasons=reasons)
    master.registrations.put(minion, row, master.registrations.digest(minion))


def _invalidate_digest(master: Master, minion: MinionId) -> None:
    """Have the minion asked for its resources whatever digest it announces. A row with `lost` has no digest already."""
    row = master.registrations.of(minion)
    if row is not None and not row.lost:
        try:
            master.registrations.put(minion, row, "")
        except StoreError:
            with suppress(StoreError):
                master.registrations.forget(minion)


def forget(master: Master, minion: MinionId) -> int:
    """Release the resources of a minion whose key is gone, and drop its data from the banks; returns how many.

    Minions whose claims on them were refused are asked to register again.
    """
    master.banks.look_again()
    held = master.registry.views().by_minion.get(minion, {})
    free = [resource_index_srn_key(kind, bare_id) for kind, one in held.items() for bare_id in one.ids]
    released = master.registry.unregister_minion(minion)
    for name in (GRAINS, PILLAR, RESOURCE_GRAINS, MINE, MINE_TIMES):
        master.banks.bank(name).delete(minion)
    master.registrations.forget(minion)
    ask_claimants(master.registrations, master.asking, free, but=minion)
    return released


# -- conflicts and refusals


def _record_taken(master: Master, store: StoreWriter, minion: MinionId, done: Registration) -> None:
    """Record the resources that moved from other minions. Raises StoreError."""
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
    """The data of a conflict event about claimed resources (SRN, other minion): `count`, the first `resources`, and
    under `how` the number for each of the other minions."""
    others = Counter(other for _srn, other in moved).most_common(CONFLICT_NAMES_MAX)
    names = sorted(srn for srn, _other in moved)[:CONFLICT_NAMES_MAX]
    return {"id": minion, "count": len(moved), how: dict(others), "resources": names}


def _report_refusals(master: Master, store: StoreWriter, minion: MinionId, what: _Settling) -> None:
    """Write events and a log line about refused parts, unless they are the same as those of the last registration."""
    now, reasons = master.clock.wall(), what.reasons
    known = master.registrations.of(minion)
    if not reasons or (known is not None and list(known.reasons) == shortened(reasons)):
        return
    more = f" (and {len(reasons) - 1} more like it)" if len(reasons) > 1 else ""
    log.warning("a part of the registration of %s was refused: %s%s", minion, reasons[0], more)
    refused = what.done.registration.refused
    if refused:
        store.put_event(tag_resource_conflict(minion), conflict(minion, "owned_by", refused), now)
    data = {"id": minion, "act": "register", "whole": False, "reasons": shortened(reasons)}
    store.put_event(tag_resource_refused(minion), data, now)


# -- resources that the minion does not find


@dataclass(frozen=True, slots=True)
class StillManaged:
    """The resources that a minion keeps although it did not find them. `was`: type -> how many it managed."""

    missing: Mapping[str, MissingResources]
    was: Mapping[str, int]

    def srns(self) -> frozenset[TargetId]:
        """These resources."""
        return frozenset(srns_of(self.missing))


def still_managed(master: Master, minion: MinionId, registering: RegistrationContext, digest: str) -> StillManaged:
    """The resources that stay after this registration; `digest` is that of its document.

    The document of a minion that does not number its looks counts as a look.
    """
    before = master.registrations.of(minion) or Registered()
    held = master.registry.views().by_minion.get(minion, {})
    missing = {}
    for kind, holding in held.items():
        seen = registering.seen(kind)
        if not registering.look and kind not in registering.reports:
            seen = replace(seen, look=digest)
        found = still_missing(holding.ids, seen, before.missing.get(kind), master.clock.wall())
        if found is not None:
            missing[kind] = found
    return StillManaged(missing, {kind: len(holding.ids) for kind, holding in held.items()})


def with_missing(registering: RegistrationContext, kept: StillManaged) -> RegistrationContext:
    """The registration with the resources that stay, which keep their old grains."""
    resources = {kind: list(ids) for kind, ids in registering.resources.items()}
    for kind, one in kept.missing.items():
        resources.setdefault(kind, []).extend(one.since)
    return replace(registering, resources=resources, stale=registering.stale | kept.srns())


def missing_messages(minion: MinionId, registering: RegistrationContext, kept: StillManaged) -> list[str]:
    """A message for each type of which resources stay."""
    return [
        f"{_counted(kind, registering, kept)} {_waits(one)}, or until `saltlite runner resource.confirm {minion}`"
        for kind, one in kept.missing.items()
    ]


def _counted(kind: str, registering: RegistrationContext, kept: StillManaged) -> str:
    report, count = registering.reports.get(kind), len(kept.missing[kind].since)
    if report is not None and report.found is None:
        return f"resource type {kind} could not be looked at ({report.error}), and its {count} resources stay"
    found = len(registering.resources.get(kind, ()))
    return f"of resource type {kind} {found} were found where {kept.was[kind]} were, and the missing {count} stay"


def _waits(missing: MissingResources) -> str:
    left = LOOKS - missing.looks
    return f"until {left} more {'look agrees' if left == 1 else 'looks agree'}"


def report_missing(
    master: Master, store: StoreWriter, minion: MinionId, registering: RegistrationContext, kept: StillManaged
) -> None:
    """Write an event about missing resources, if they changed. Raises StoreError."""
    before = (master.registrations.of(minion) or Registered()).missing
    if kept.missing == before:
        return
    gone = frozenset(srns_of(before)) - kept.srns()
    found = gone & frozenset(registering.srns())
    data = {
        "id": minion,
        "missing": {
            kind: {
                "count": len(one.since),
                "found": len(registering.resources.get(kind, ())),
                "was": kept.was[kind],
                "looks": one.looks,
                "resources": sorted(one.since)[:NAMES_SHOWN],
            }
            for kind, one in kept.missing.items()
        },
        "released": len(gone - found),
        "found_again": len(found),
    }
    store.put_event(tag_resource_missing(minion), data, master.clock.wall())
    for sentence in missing_messages(minion, registering, kept):
        log.warning("%s: %s", minion, sentence)


def yields(master: Master, claimant: MinionId) -> Any:
    """A function that says whether an owner yields a resource to `claimant`: it does if it misses it itself."""
    rows: dict[str, Registered] = {}

    def missed(srn: str, owner: str) -> bool:
        if owner not in rows:
            rows[owner] = master.registrations.of(MinionId(owner)) or Registered()
        return owner != claimant and rows[owner].missing_since(srn) is not None

    return missed


def srns_of(missing: Mapping[str, MissingResources]) -> Iterable[TargetId]:
    """The missing resources."""
    return (resource_index_srn_key(kind, bare_id) for kind, one in missing.items() for bare_id in one.since)


# -- grains of resources


class _GrainsQuota:
    """What the grains of one minion's resources may still use."""

    def __init__(self) -> None:
        self._bytes = RESOURCE_GRAINS_TOTAL_MAX
        self._leaves = RESOURCE_LEAVES_MAX
        self._names: set[str] = set()

    def take(self, grains: Mapping[Any, Any]) -> str:
        """Count these grains; returns why they exceed the quota, or "". Refused grains are not counted."""
        if not all(isinstance(name, str) for name in grains):
            return "they have names that are not text"
        if len(grains) > RESOURCE_KEYS_MAX:
            return f"they have {len(grains)} names, and there may be {RESOURCE_KEYS_MAX}"
        size = len(encode(grains, DOCUMENT))
        if size > RESOURCE_GRAINS_MAX:
            return f"they have {size} bytes, and there may be {RESOURCE_GRAINS_MAX}"
        try:
            leaves = leaves_of(grains)
        except UsageError as error:
            return str(error)
        if leaves > LEAVES_MAX:
            return f"they have {leaves} values, and there may be {LEAVES_MAX}"
        if size > self._bytes:
            return f"those of all its resources have more than {RESOURCE_GRAINS_TOTAL_MAX} bytes"
        if leaves > self._leaves:
            return f"those of all its resources have more than {RESOURCE_LEAVES_MAX} values"
        names = self._names.union(grains) if not self._names.issuperset(grains) else self._names
        if len(names) > KEY_NAMES_MAX:
            return f"those of all its resources have more than {KEY_NAMES_MAX} different names"
        self._bytes -= size
        self._leaves -= leaves
        self._names = names
        return ""


def checked_grains(
    registering: RegistrationContext, before: Mapping[TargetId, Row], now: float
) -> tuple[dict[str, Row], list[str]]:
    """The rows of grains that a registration results in, and a message for each resource whose grains are refused.

    Of `before`, the minion's rows until now, those of stale resources stay, and those of resources whose new grains are
    refused, marked stale at `now` (wall-clock seconds since 1970).
    """
    ours = frozenset(registering.srns())
    quota = _GrainsQuota()
    rows: dict[TargetId, Row] = {}
    reasons: list[str] = []
    old: list[TargetId] = [srn for srn in registering.stale if srn in ours]
    for srn, grains in registering.grains.items():
        if srn not in ours:
            reasons.append(f"{str(srn)[:80]!r} has grains and is not registered")
        elif srn not in registering.stale:
            problem = quota.take(grains)
            if problem:
                reasons.append(f"the grains of {srn} were not kept: {problem}")
                old.append(srn)
            else:
                rows[srn] = {"grains": grains, "stale_since": None}
    for srn in old:
        row = before.get(srn)
        if row is not None and not quota.take(row["grains"]):
            rows[srn] = {**row, "stale_since": row["stale_since"] or now}
    return rows, reasons


def held_rows(master: Master, minion: MinionId, rows: Mapping[TargetId, Row]) -> dict[TargetId, Row]:
    """The rows whose resources the minion manages."""
    held = master.registry.views().by_minion.get(minion, {})
    names = {f"{kind}:{bare_id}" for kind, holding in held.items() for bare_id in holding.ids}
    return {srn: row for srn, row in rows.items() if srn in names}


def put_rows(master: Master, minion: MinionId, rows: Mapping[TargetId, Row], digest: str) -> None:
    """Replace the minion's rows. Raises StoreError."""
    _put(master.banks.bank(RESOURCE_GRAINS), minion, rows, digest)


def drop_grains(master: Master, moved: Iterable[tuple[TargetId, str]]) -> None:
    """Drop the grains of resources (SRN, former minion) that another minion manages now. Raises StoreError."""
    by_minion: dict[str, set[TargetId]] = {}
    for srn, minion in moved:
        by_minion.setdefault(minion, set()).add(srn)
    bank = master.banks.bank(RESOURCE_GRAINS)
    for minion, srns in by_minion.items():
        rows = bank.get(minion)
        if rows is not None and not srns.isdisjoint(rows):
            _put(bank, minion, {srn: row for srn, row in rows.items() if srn not in srns}, "")


def _put(bank: Bank, minion: str, rows: Mapping[TargetId, Row], digest: str) -> None:
    if rows:
        bank.put(minion, rows, digest)
    else:
        bank.delete(minion)


# -- names that several have


def id_collision(master: Master, minion: MinionId) -> str:
    """Why no key can be accepted for that id, or "": a minion and a resource must not share a name. Inside a
    transaction, so that none of them becomes another's meanwhile."""
    master.banks.look_again()
    found = [
        f"{kind}:{bare_id} (of {', '.join(master.registry.get_managing_minions_for_srn(kind, bare_id))})"
        for kind, bare_id in master.registry.resolve_bare_resource_id(minion)
    ]
    if not found:
        return ""
    return f"a resource has this id: {', '.join(found)}. Give the minion another id, or the resource"


def report_id_collisions(master: Master, store: StoreWriter, minion: MinionId, held: Set[str]) -> None:
    """Write an event and a log line about names that the minion's new resources share with those of other minions. Bare
    ids in `held`, which it had before, were reported then. Raises StoreError."""
    names = _shared(master.registry.views(), minion, held)
    if not names:
        return
    shown = {name: names[name] for name in sorted(names)[:NAMES_SHOWN]}
    data = {"id": minion, "count": len(names), "names": shown}
    store.put_event(tag_resource_id_collision(minion), data, master.clock.wall())
    log.warning(
        "%s registered names that resources of other minions have as well, %d in all: %s. A bare id means all "
        "that have it; type:id means one",
        minion,
        len(names),
        "; ".join(", ".join(srns) for srns in shown.values()),
    )


def _shared(views: Views, minion: MinionId, held: Set[str]) -> dict[str, list[TargetId]]:
    """Name -> the SRNs that it may mean, of names of the minion's new resources that others have too."""
    found: dict[str, list[TargetId]] = {}
    for kind, holding in views.by_minion.get(minion, {}).items():
        fresh = [bare_id for bare_id in holding.ids if bare_id not in held]
        # Other writers wait while all of up to 100,000 are checked: only a few need the expensive check.
        suspects = [bare_id for bare_id in fresh if ":" in bare_id or len(views.holdings(bare_id)) > 1]
        suspects += views.known(resource_index_srn_key(kind, bare_id) for bare_id in fresh)
        for name in suspects:
            rows = _meant(views, name)
            if len(rows) > 1 and any(owner != minion for _srn, owner in rows):
                found[name] = sorted(srn for srn, _owner in rows)
    return found


def _meant(views: Views, name: str) -> list[tuple[TargetId, str]]:
    """(SRN, owner) of what has that name as its bare id, which may have colons, or as its SRN."""
    rows = [(resource_index_srn_key(one.type, name), one.minion) for one in views.holdings(name)]
    kind, bare_id = parse_srn(name)
    owner = views.owner(kind, bare_id) if kind is not None and bare_id is not None else None
    return rows if owner is None else [*rows, (name, owner.minion)]
