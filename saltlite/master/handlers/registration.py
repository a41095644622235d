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
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import RefusedError, RemoteProtocolError, StoreError, UsageError
from saltlite.master.processes.context import Answer, Master
from saltlite.master.processes.fleet import Registered, ask_claimants
from saltlite.master.store.ports import StoreReader, StoreWriter
from saltlite.model.events import (
    tag_resource_conflict,
    tag_resource_missing,
    tag_resource_namesake,
    tag_resource_refresh,
    tag_resource_refused,
)
from saltlite.model.ids import MinionId, TargetId, parse_minion_id, parse_srn, resource_index_srn_key
from saltlite.model.keys import KeyState
from saltlite.resources.registry.admission import (
    LOOKS,
    Missing,
    RegistrationContext,
    admit,
    read_registration,
    shortened,
    still_missing,
)
from saltlite.resources.registry.primary import Conflict, Holding, Registration, Views
from saltlite.targeting.banks import (
    GRAINS,
    KEY_NAMES_MAX,
    LEAVES_MAX,
    PILLAR,
    RESOURCE_GRAINS,
    RESOURCE_GRAINS_MAX,
    RESOURCE_GRAINS_TOTAL_MAX,
    RESOURCE_KEYS_MAX,
    RESOURCE_LEAVES_MAX,
    Bank,
    leaves_of,
)
from saltlite.wire.codec import DOCUMENT, decode_document, document_digest, encode

Grains = Mapping[TargetId, Mapping[str, Any]]
Row = Mapping[str, Any]
"""`grains` of one resource with `stale_since`."""


class _Room:
    """What the grains of one minion's resources may still fill. Those that do not fit change nothing."""

    def __init__(self) -> None:
        self._bytes = RESOURCE_GRAINS_TOTAL_MAX
        self._leaves = RESOURCE_LEAVES_MAX
        self._names: set[str] = set()

    def take(self, grains: Mapping[Any, Any]) -> str:
        """Why these grains cannot be kept beside the ones before, "" when they are taken."""
        if not all(isinstance(name, str) for name in grains):
            return "they have names that are no text"
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
    """The rows of grains that a registration makes, and a sentence for each resource whose grains are not kept.

    `before`: the rows of the minion until now: those of stale resources stay, and so do those of resources whose new
    grains are refused, marked stale at `now`, wall-clock seconds since 1970.
    """
    ours = frozenset(registering.srns())
    room = _Room()
    rows: dict[TargetId, Row] = {}
    reasons: list[str] = []
    old: list[TargetId] = [srn for srn in registering.stale if srn in ours]
    for srn, grains in registering.grains.items():
        if srn not in ours:
            reasons.append(f"{str(srn)[:80]!r} has grains and is not registered")
        elif srn not in registering.stale:
            problem = room.take(grains)
            if problem:
                reasons.append(f"the grains of {srn} were not kept: {problem}")
                old.append(srn)
            else:
                rows[srn] = {"grains": grains, "stale_since": None}
    for srn in old:
        row = before.get(srn)
        if row is not None and not room.take(row["grains"]):
            rows[srn] = {**row, "stale_since": row["stale_since"] or now}
    return rows, reasons


def held_rows(master: Master, minion: MinionId, rows: Mapping[TargetId, Row]) -> dict[TargetId, Row]:
    """Those of the rows whose resources are the minion's."""
    held = master.registry.views().by_minion.get(minion, {})
    names = {f"{kind}:{bare_id}" for kind, holding in held.items() for bare_id in holding.ids}
    return {srn: row for srn, row in rows.items() if srn in names}


def put_rows(master: Master, minion: MinionId, rows: Mapping[TargetId, Row], digest: str) -> None:
    """Store the rows in place of those before. Raises StoreError."""
    _put(master.banks.bank(RESOURCE_GRAINS), minion, rows, digest)


def drop_grains(master: Master, moved: Iterable[tuple[TargetId, str]]) -> None:
    """Drop the grains of resources (SRN, the minion that had it): another minion has them now. Raises StoreError."""
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


log = logging.getLogger(__name__)

NAMES_TOLD = 20
"""Resources that an event or an answer names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a minion's resources stays although it did not find them. `was`: type -> how many it managed."""

    missing: Mapping[str, Missing]
    was: Mapping[str, int]

    def srns(self) -> frozenset[TargetId]:
        """All of these resources."""
        return frozenset(srns_of(self.missing))


def kept_of(master: Master, minion: MinionId, registering: RegistrationContext, digest: str) -> Kept:
    """What stays of the minion's resources after this registration; `digest` is that of its document.

    The document of a minion that does not name its looks counts as a look.
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
    return Kept(missing, {kind: len(holding.ids) for kind, holding in held.items()})


def with_kept(registering: RegistrationContext, kept: Kept) -> RegistrationContext:
    """The registration with what stays; the grains of that are the old ones."""
    resources = {kind: list(ids) for kind, ids in registering.resources.items()}
    for kind, one in kept.missing.items():
        resources.setdefault(kind, []).extend(one.since)
    return replace(registering, resources=resources, stale=registering.stale | kept.srns())


def sentences(minion: MinionId, registering: RegistrationContext, kept: Kept) -> list[str]:
    """One for each type of which something stays."""
    return [
        f"{_counted(kind, registering, kept)} {_waits(one)}, or until `saltlite runner resource.confirm {minion}`"
        for kind, one in kept.missing.items()
    ]


def note_missing(
    master: Master, store: StoreWriter, minion: MinionId, registering: RegistrationContext, kept: Kept
) -> None:
    """Write down what is missed, if that is news. Raises StoreError."""
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
                "resources": sorted(one.since)[:NAMES_TOLD],
            }
            for kind, one in kept.missing.items()
        },
        "released": len(gone - found),
        "found_again": len(found),
    }
    store.put_event(tag_resource_missing(minion), data, master.clock.wall())
    for sentence in sentences(minion, registering, kept):
        log.warning("%s: %s", minion, sentence)


def yields(master: Master, claimant: MinionId) -> Any:
    """Whether an owner leaves a resource to `claimant`: it does when it misses it itself."""
    rows: dict[str, Registered] = {}

    def missed(srn: str, owner: str) -> bool:
        if owner not in rows:
            rows[owner] = master.registrations.of(MinionId(owner)) or Registered()
        return owner != claimant and rows[owner].missing_since(srn) is not None

    return missed


def handle_resource_confirm(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Let go what a minion misses, of one `type` or of all; answers `released`: type -> how many."""
    minion, kind = parse_minion_id(request["minion"]), request.get("type", "")
    with master.store.write() as store:
        row = master.registrations.of(minion) or Registered()
        going = {name: one for name, one in row.missing.items() if kind in ("", name)}
        if not going:
            waiting = ", ".join(row.missing)
            of_type = f" of type {kind[:64]}" if kind else ""
            also = f"; what it misses is of type {waiting}" if waiting else ""
            raise UsageError(f"no resources{of_type} of {minion} wait to be let go{also}")
        held = master.registry.get_resources_for_minion(minion)
        left = {
            name: [one for one in ids if name not in going or one not in going[name].since]
            for name, ids in held.items()
        }
        done = master.registry.register(minion, left)
        drop_grains(master, [(srn, minion) for srn in done.released])
        missing = {name: one for name, one in row.missing.items() if name not in going}
        row = replace(row, missing=missing, count=sum(map(len, left.values())))
        master.registrations.put(minion, row, "")
        released = {name: len(one.since) for name, one in going.items()}
        data = {"id": minion, "missing": {}, "released": len(done.released), "found_again": 0, "by": principal.label}
        store.put_event(tag_resource_missing(minion), data, master.clock.wall())
    ask_claimants(master.registrations, master.link, done.released, but=minion)
    return Answer({"released": released}, committed=True)


def missing_rows(master: Master) -> Iterator[tuple[MinionId, dict[str, dict[str, Any]]]]:
    """Each minion that misses resources: type -> count, looks, the first since when, and the first names."""
    for minion, row in master.registrations.rows():
        if row.missing:
            yield (
                minion,
                {
                    kind: {
                        "count": len(one.since),
                        "looks": one.looks,
                        "stale_since": min(one.since.values()),
                        "resources": sorted(one.since)[:NAMES_TOLD],
                    }
                    for kind, one in row.missing.items()
                },
            )


def srns_of(missing: Mapping[str, Missing]) -> Iterable[TargetId]:
    """All resources that are missed."""
    return (resource_index_srn_key(kind, bare_id) for kind, one in missing.items() for bare_id in one.since)


def _counted(kind: str, registering: RegistrationContext, kept: Kept) -> str:
    report, count = registering.reports.get(kind), len(kept.missing[kind].since)
    if report is not None and report.found is None:
        return f"resource type {kind} could not be looked at ({report.error}), and its {count} resources stay"
    found = len(registering.resources.get(kind, ()))
    return f"of resource type {kind} {found} were found where {kept.was[kind]} were, and the missing {count} stay"


def _waits(missing: Missing) -> str:
    left = LOOKS - missing.looks
    return f"until {left} more {'look agrees' if left == 1 else 'looks agree'}"


SHOWN = 20
"""Names of one registration that are told."""


def note_namesakes(master: Master, store: StoreWriter, minion: MinionId, held: Set[str]) -> None:
    """One event and one line of the log about names of the minion's resources that others' have as well. Of the bare
    ids in `held`, which it had before, operators were told when they came. Raises StoreError."""
    names = _shared(master.registry.views(), minion, held)
    if not names:
        return
    told = {name: names[name] for name in sorted(names)[:SHOWN]}
    data = {"id": minion, "count": len(names), "names": told}
    store.put_event(tag_resource_namesake(minion), data, master.clock.wall())
    log.warning(
        "%s registered names that resources of other minions have as well, %d in all: %s. A bare id means all "
        "that have it; type:id means one",
        minion,
        len(names),
        "; ".join(", ".join(srns) for srns in told.values()),
    )


def _shared(views: Views, minion: MinionId, held: Set[str]) -> dict[str, list[TargetId]]:
    """Name -> the SRNs that it may mean, of the names that the minion's resources have newly and others' have too."""
    found: dict[str, list[TargetId]] = {}
    for kind, holding in views.by_minion.get(minion, {}).items():
        fresh = [bare_id for bare_id in holding.ids if bare_id not in held]
        # All of a hundred thousand are looked at while others wait for the store: only of few is more to be asked.
        suspects = [bare_id for bare_id in fresh if ":" in bare_id or len(views.holdings(bare_id)) > 1]
        suspects += views.known(resource_index_srn_key(kind, bare_id) for bare_id in fresh)
        for name in suspects:
            rows = _meant(views, name)
            if len(rows) > 1 and any(owner != minion for _srn, owner in rows):
                found[name] = sorted(srn for srn, _owner in rows)
    return found


def _meant(views: Views, name: str) -> list[tuple[TargetId, str]]:
    """What has that name as its bare id, and as its SRN: a bare id may have colons. Each with its owner."""
    rows = [(resource_index_srn_key(one.type, name), one.minion) for one in views.holdings(name)]
    kind, bare_id = parse_srn(name)
    owner = views.owner(kind, bare_id) if kind is not None and bare_id is not None else None
    return rows if owner is None else [*rows, (name, owner.minion)]


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

    registering: RegistrationContext
    done: _Done
    kept: Mapping[TargetId, Mapping[str, Any]]
    reasons: list[str]
    digest: str
    changed: bool
    """Whether the grains are others than before."""
    missed: Kept


def _claimed(master: Master, minion: MinionId, registering: RegistrationContext, missed: Kept) -> _Done:
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


def _without_lost(
    master: Master, minion: MinionId, registering: RegistrationContext, missed: Kept
) -> RegistrationContext:
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


def _names_of_minions(registering: RegistrationContext, held: frozenset[str], store: StoreReader) -> _Names:
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
