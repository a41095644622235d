"""Resources that their minion does not find any more: kept until that is sure, told, and let go by an operator."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.errors import UsageError
from saltlite.master.handlers.resource_grains import drop_grains
from saltlite.master.processes.claimants import ask_claimants
from saltlite.master.processes.context import Answer, Master
from saltlite.master.processes.registrations import Registered
from saltlite.master.store.ports import StoreWriter
from saltlite.model.events import tag_resource_missing
from saltlite.model.ids import MinionId, TargetId, parse_minion_id
from saltlite.model.srn import resource_index_srn_key
from saltlite.resources.registry.admission import Registering
from saltlite.resources.registry.missing import LOOKS, Missing, still_missing

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


def kept_of(master: Master, minion: MinionId, registering: Registering, digest: str) -> Kept:
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


def with_kept(registering: Registering, kept: Kept) -> Registering:
    """The registration with what stays; the grains of that are the old ones."""
    resources = {kind: list(ids) for kind, ids in registering.resources.items()}
    for kind, one in kept.missing.items():
        resources.setdefault(kind, []).extend(one.since)
    return replace(registering, resources=resources, stale=registering.stale | kept.srns())


def sentences(minion: MinionId, registering: Registering, kept: Kept) -> list[str]:
    """One for each type of which something stays."""
    return [
        f"{_counted(kind, registering, kept)} {_waits(one)}, or until `saltlite runner resource.confirm {minion}`"
        for kind, one in kept.missing.items()
    ]


def note_missing(master: Master, store: StoreWriter, minion: MinionId, registering: Registering, kept: Kept) -> None:
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
    authorize(principal, Action("resource_confirm"), master.terms)
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


def _counted(kind: str, registering: Registering, kept: Kept) -> str:
    report, count = registering.reports.get(kind), len(kept.missing[kind].since)
    if report is not None and report.found is None:
        return f"resource type {kind} could not be looked at ({report.error}), and its {count} resources stay"
    found = len(registering.resources.get(kind, ()))
    return f"of resource type {kind} {found} were found where {kept.was[kind]} were, and the missing {count} stay"


def _waits(missing: Missing) -> str:
    left = LOOKS - missing.looks
    return f"until {left} more {'look agrees' if left == 1 else 'looks agree'}"
