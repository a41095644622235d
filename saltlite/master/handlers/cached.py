"""The cache banks as operators see them: under the names of minions and resources, whatever the banks use inside.

    bank               keys                             value
    grains             minions; also resources          grains
    pillar             minions; also resources          the minion's pillar; of a resource, that of its minion
    resource_grains    SRNs; also bare ids, minions     a resource's grains; of a minion, the rows of all its resources
    resources          bare ids; also SRNs              id, managing_minions, and types: type -> minion

"Also" are keys that are answered and not listed. Where a minion and a resource share a name, the minion is meant. A
bare id of several types has a map from SRNs to values, except in `resources`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from saltlite.auth.acl import RUNNER, Principal, may
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.resources import grain_rows, named
from saltlite.master.handlers.targets import refuse_pillar_guesses, target_of
from saltlite.master.processes.context import Answer, Master
from saltlite.model.ids import MinionId, TargetId, parse_srn
from saltlite.targeting.banks import GRAINS, PILLAR, RESOURCE_GRAINS
from saltlite.wire.codec import encode_document
from saltlite.wire.limits import MIB

NAMES_MAX = 10_000
"""Keys that one answer names."""
VALUES_MAX = 8 * MIB
"""Bytes of values that complete an answer; one value may have RESOURCE_GRAINS_TOTAL_MAX and more."""

RESOURCES = "resources"
"""The bank of resources and their minions. The registry answers for it."""

_ALL = ("cache.fetch",)
_READ = {GRAINS: ("cache.grains", *_ALL), PILLAR: ("cache.pillar", *_ALL), RESOURCE_GRAINS: _ALL, RESOURCES: _ALL}
"""Bank -> runners of which a user needs one to read its values."""
_CLEAR = {
    GRAINS: ("cache.clear_grains", "cache.clear_all", "cache.flush"),
    PILLAR: ("cache.clear_pillar", "cache.clear_all", "cache.flush"),
}
"""The same to clear it. Grains of resources are removed with their registration only."""


def handle_cached(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `values`: minion of the target -> its value in the bank, or {}; and `more`: the client asks for those
    after `last` (`after`).

    With `key`, only the value of that key, if there is one. With `names`, the keys of the bank that have a value, and
    None instead of each value; those of resources whose minions are targets.
    """
    names_only, after = request.get("names", False), request.get("after", "")
    bank_name = request["bank"]
    _require(principal, bank_name, _READ, ("cache.list",) if names_only else (), master)
    if "key" in request:
        found = _value_of(master, bank_name, request["key"])
        return Answer({"values": {} if found is None else {request["key"]: found}, "more": False, "last": ""})
    minions = _minions(master, principal, request)
    if names_only:
        rows = list(islice(_names(master, bank_name, minions, after), NAMES_MAX + 1))
        more = len(rows) > NAMES_MAX
        last = rows[NAMES_MAX - 1][0] if more else ""
        return Answer({"values": dict.fromkeys(name for _at, name in rows[:NAMES_MAX]), "more": more, "last": last})
    if bank_name == RESOURCES:
        raise UsageError("the bank resources has no values by minion: name a resource, or ask for the names")
    minions = [minion for minion in minions if minion > after]
    bank = master.banks.bank(bank_name)
    values: dict[str, Any] = {}
    size = 0
    for minion in minions:
        if len(values) >= NAMES_MAX or size >= VALUES_MAX:
            break
        values[minion] = bank.get(minion) or {}
        size += len(encode_document(values[minion]))
    return Answer({"values": values, "more": len(values) < len(minions), "last": max(values, default="")})


def _names(master: Master, bank_name: str, minions: list[MinionId], after: str) -> Iterator[tuple[str, str]]:
    """(cursor, key) of the bank's keys behind the cursor `after`."""
    wanted = frozenset(minions)
    if bank_name == RESOURCE_GRAINS:
        yield from ((at, srn) for at, minion, srn, _row, _when in grain_rows(master, after) if minion in wanted)
    elif bank_name == RESOURCES:
        ids = {str(parse_srn(srn).id) for srn, minion in master.fleet.resources() if minion in wanted}
        yield from ((one, one) for one in heapq.nsmallest(NAMES_MAX + 1, (one for one in ids if one > after)))
    else:
        filled = frozenset(master.banks.bank(bank_name).keys())
        yield from ((minion, minion) for minion in minions if minion in filled and minion > after)


def _value_of(master: Master, bank_name: str, key: str) -> Any:
    """The value of a key, None if there is none."""
    if bank_name == RESOURCES:
        return _managed(master, key)
    if key in master.fleet.minions():
        return master.banks.bank(bank_name).get(key)
    rows = {srn: _of_resource(master, bank_name, srn, minion) for srn, minion in named(master, key)}
    values = {srn: value for srn, value in rows.items() if value is not None}
    return next(iter(values.values()), None) if len(rows) < 2 else values


def _of_resource(master: Master, bank_name: str, srn: TargetId, minion: MinionId) -> Any:
    if bank_name == PILLAR:
        return master.banks.bank(PILLAR).get(minion)
    row = (master.banks.bank(RESOURCE_GRAINS).get(minion) or {}).get(srn)
    return None if row is None else row["grains"]


def _managed(master: Master, key: str) -> dict[str, Any] | None:
    rows = named(master, key)
    types = {str(parse_srn(srn).type): str(minion) for srn, minion in rows}
    if not types:
        return None
    return {
        "id": parse_srn(rows[0][0]).id,
        "managing_minions": sorted(set(types.values())),
        "types": dict(sorted(types.items())),
    }


def handle_cache_clear(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Remove the values of the target's minions from the banks; answers `cleared`, how many minions had one.

    Connected minions are asked for their grains at once, because they would not send unchanged grains by themselves;
    others send them in their next session. A pillar is evaluated when its minion asks for it.
    """
    for name in request["banks"]:
        _require(principal, name, _CLEAR, (), master)
    minions = _minions(master, principal, request)
    cleared: set[MinionId] = set()
    for name in request["banks"]:
        bank = master.banks.bank(name)
        gone = [minion for minion in minions if bank.delete(minion)]
        cleared.update(gone)
        for minion in gone if name == GRAINS else ():
            master.asking.fetch(minion, "grains")
    return Answer({"cleared": len(cleared)})


def _require(
    principal: Principal, bank: object, rights: Mapping[str, tuple[str, ...]], more: tuple[str, ...], master: Master
) -> None:
    names = rights.get(bank) if isinstance(bank, str) else None
    if names is None:
        raise UsageError(f"there is no cache bank {str(bank)[:40]!r} for this: there are {', '.join(rights)}")
    if not may(principal, RUNNER, (*names, *more), master.config):
        raise RefusedError(f"{principal} may not do this with cached {bank}: that takes @runner {' or '.join(names)}")


def _minions(master: Master, principal: Principal, request: Mapping[str, Any]) -> list[MinionId]:
    target = target_of(request)
    refuse_pillar_guesses(master, principal, target)
    return sorted(master.resolve(target).minions)
