"""The resources of the fleet: lists, grains, transfers, missing ones, and repair of the registry."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import UsageError
from saltlite.master.handlers.registration import NAMES_SHOWN, conflict, drop_grains
from saltlite.master.processes.context import Answer, Master
from saltlite.master.processes.fleet import Registered, ask_claimants
from saltlite.model.events import tag_resource_conflict, tag_resource_missing
from saltlite.model.ids import MinionId, TargetId, check_resource_id, check_resource_type, parse_minion_id, parse_srn
from saltlite.targeting.banks import RESOURCE_GRAINS

ROWS_MAX = 10_000
"""Rows of one answer; a client asks for those after the last one."""

REFUSED_MAX = 100
"""Minions with refused registrations, with missing resources, and with failing types that one answer names."""


def handle_resource_list(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `resources`: rows with srn, type, id, minion, `up` (whether the minion is) and `stale_since` (since when
    it has not found the resource, or None), sorted by SRN, from behind `after` on; and `more`.

    `type` and `minion` restrict the list.
    """
    after, owner = request.get("after", ""), request.get("minion")
    fleet = master.fleet
    found = fleet.resources_of_type(request["type"]) if "type" in request else fleet.resources()
    wanted = ((srn, minion) for srn, minion in found if srn > after and owner in (None, minion))
    rows = heapq.nsmallest(ROWS_MAX + 1, wanted)
    return Answer({"resources": _rows(master, rows[:ROWS_MAX]), "more": len(rows) > ROWS_MAX})


def handle_resource_owner(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `resources`: a row for each resource with this SRN or bare id, as `handle_resource_list` has them."""
    return Answer({"resources": _rows(master, named(master, request["id"]))})


def handle_resource_grains(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `grains` of one resource, or None; `stale_since`, None if they are current; `at`, when its minion
    registered them, in seconds since 1970."""
    srn = f"{request['type']}:{request['id']}"
    owner = master.fleet.owner(srn)
    bank = master.banks.bank(RESOURCE_GRAINS)
    row = (bank.get(owner) or {}).get(srn) if owner is not None else None
    if owner is None or row is None:
        return Answer({"grains": None, "stale_since": None, "at": None})
    return Answer({"grains": row["grains"], "stale_since": row["stale_since"], "at": bank.changed_at(owner)})


def handle_resource_list_grains(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `resources`: SRN -> grain_keys, sorted, grain_count, stale_since and at, at most ROWS_MAX; `more`; and
    `last`, the `after` of the next request."""
    rows = list(islice(grain_rows(master, request.get("after", "")), ROWS_MAX + 1))
    found = {srn: _summary(row, at) for _place, _minion, srn, row, at in rows[:ROWS_MAX]}
    more = len(rows) > ROWS_MAX
    return Answer({"resources": found, "more": more, "last": rows[ROWS_MAX - 1][0] if more else ""})


def grain_rows(master: Master, after: str) -> Iterator[tuple[str, MinionId, TargetId, Mapping[str, Any], float | None]]:
    """(cursor, minion, SRN, row, when it was registered) of each resource with grains behind the cursor `after`, in the
    order of minion ids, then of SRNs."""
    fleet, bank = master.fleet, master.banks.bank(RESOURCE_GRAINS)
    since, _, last = after.partition(" ")
    for minion in bank.keys():  # noqa: SIM118 - a bank is not a dict
        if minion < since:
            continue
        at = bank.changed_at(minion)
        for srn, row in sorted((bank.get(minion) or {}).items()):
            if (minion != since or srn > last) and fleet.owner(srn) == minion:
                yield f"{minion} {srn}", MinionId(minion), srn, row, at


def _summary(row: Mapping[str, Any], at: float | None) -> dict[str, Any]:
    names = sorted(row["grains"])
    return {"grain_keys": names, "grain_count": len(names), "stale_since": row["stale_since"], "at": at}


def handle_resource_transfer(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Transfer a resource to another minion; answers `former`, which managed it.

    Both minions are asked to register again: the new owner keeps the resource if it declares it, and the former one is
    told that it has lost it.
    """
    kind, bare_id = parse_srn(request["srn"])
    check_resource_type(kind)
    check_resource_id(bare_id)
    minion, srn = parse_minion_id(request["minion"]), request["srn"]
    with master.store.write() as store:
        if store.holder(minion) is None:
            raise UsageError(f"no minion of the id {minion} has an accepted key here")
        master.banks.look_again()
        former = master.registry.transfer(str(kind), str(bare_id), minion)
        if former is None:
            raise UsageError(f"no minion manages {srn[:80]!r}: `saltlite-run resource.list` has what there is")
        if former != minion:
            drop_grains(master, [(srn, former)])
            master.registrations.lose(MinionId(former), [srn])
            data = {**conflict(minion, "taken_from", [(srn, former)]), "by": principal.label}
            store.put_event(tag_resource_conflict(minion), data, master.clock.wall())
    for one in {former, minion}:
        master.asking.fetch(one, "resources")
    return Answer({"former": former}, committed=True)


def handle_resource_confirm(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Release what a minion misses, of one `type` or of all; answers `released`: type -> how many."""
    minion, kind = parse_minion_id(request["minion"]), request.get("type", "")
    with master.store.write() as store:
        master.banks.look_again()
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
    ask_claimants(master.registrations, master.asking, done.released, but=minion)
    return Answer({"released": released}, committed=True)


def handle_resource_stats(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `registry`, the fields of `ResourceRegistry.stats`; `types`, resources of each; `minions` that manage
    any; `refused`: minion -> refusals, its consecutive registrations that were refused in whole or in part, and the
    reasons of the last; `missing`: minion -> type -> resources that it still manages and no longer finds; and
    `reports`: minion -> type -> its report, where that has a problem."""
    views = master.registry.views()
    types = {kind: sum(len(one.ids) for one in holdings.values()) for kind, holdings in views.by_type.items()}
    return Answer(
        {
            "registry": master.registry.stats(),
            "types": dict(sorted(types.items())),
            "minions": len(views.by_minion),
            "refused": dict(sorted(_refused(master))[:REFUSED_MAX]),
            "missing": dict(sorted(missing_rows(master))[:REFUSED_MAX]),
            "reports": dict(sorted(_reports(master))[:REFUSED_MAX]),
        }
    )


def handle_resource_compact(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `before` and `after`: records of the registry's log."""
    before, after = master.registry.compact()
    return Answer({"before": before, "after": after})


def handle_resource_verify(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Check every row, and repair damage; answers `rows`, `problems` (messages) and `aside`, where the damaged file was
    moved, or ""."""
    found = master.registry.verify()
    return Answer({"rows": found.rows, "problems": list(found.problems), "aside": found.aside})


def _refused(master: Master) -> Iterator[tuple[MinionId, dict[str, Any]]]:
    for minion, row in master.registrations.rows():
        if row.reasons:
            yield minion, {"refusals": row.refusals, "reasons": list(row.reasons)}


def missing_rows(master: Master) -> Iterator[tuple[MinionId, dict[str, dict[str, Any]]]]:
    """Each minion that misses resources: type -> count, looks, since when, and the first SRNs."""
    for minion, row in master.registrations.rows():
        if row.missing:
            yield (
                minion,
                {
                    kind: {
                        "count": len(one.since),
                        "looks": one.looks,
                        "stale_since": min(one.since.values()),
                        "resources": sorted(one.since)[:NAMES_SHOWN],
                    }
                    for kind, one in row.missing.items()
                },
            )


def _reports(master: Master) -> Iterator[tuple[MinionId, dict[str, Any]]]:
    for minion, row in master.registrations.rows():
        problems = {kind: report.shown() for kind, report in row.reports.items() if report.problem()}
        if problems:
            yield minion, problems


def named(master: Master, name: str) -> list[tuple[TargetId, MinionId]]:
    """(SRN, its minion) of the resource with this SRN, or of those with this bare id, sorted."""
    owner = master.fleet.owner(name)
    return [(name, owner)] if owner is not None else sorted(master.fleet.with_bare_id(name))


def _rows(master: Master, found: Sequence[tuple[TargetId, MinionId]]) -> list[dict[str, Any]]:
    known = {minion: master.registrations.of(minion) for minion in {minion for _srn, minion in found}}
    return [_row(master, srn, minion, known[minion]) for srn, minion in found]


def _row(master: Master, srn: TargetId, minion: MinionId, known: Registered | None) -> dict[str, Any]:
    kind, bare_id = parse_srn(srn)
    stale_since = known.missing_since(srn) if known is not None else None
    row = {"srn": srn, "type": kind, "id": bare_id, "minion": minion}
    return {**row, "up": minion in master.present, "stale_since": stale_since}
