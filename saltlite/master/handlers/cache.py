"""The cache banks: what they have of minions, and clearing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import RUNNER, Principal, may
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.targets import refuse_pillar_guesses, target_of
from saltlite.master.processes.context import Answer, Master
from saltlite.model.ids import MinionId
from saltlite.targeting.banks import GRAINS, PILLAR, RESOURCE_GRAINS
from saltlite.wire.codec import encode_document
from saltlite.wire.limits import MIB

NAMES_MAX = 10_000
"""Minions that one answer names."""
VALUES_MAX = 8 * MIB
"""Bytes of values that complete an answer; one value may have RESOURCE_GRAINS_TOTAL_MAX and more."""

_ALL = ("cache.fetch",)
_READ = {GRAINS: ("cache.grains", *_ALL), PILLAR: ("cache.pillar", *_ALL), RESOURCE_GRAINS: _ALL}
"""Bank -> runners of which a user needs one to read its values."""
_CLEAR = {
    GRAINS: ("cache.clear_grains", "cache.clear_all", "cache.flush"),
    PILLAR: ("cache.clear_pillar", "cache.clear_all", "cache.flush"),
}
"""The same to clear it. Grains of resources are removed with their registration only."""


def handle_cached(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `values`: minion -> its value in the bank, or {}; and `more`: the client asks for those after the last
    (`after`).

    With `names`, only minions with a value, and None instead of each value.
    """
    names_only = request.get("names", False)
    bank_name = request["bank"]
    _require(principal, bank_name, _READ, ("cache.list",) if names_only else (), master)
    minions = [minion for minion in _minions(master, principal, request) if minion > request.get("after", "")]
    bank = master.banks.bank(bank_name)
    if names_only:
        filled = frozenset(bank.keys())
        known = [minion for minion in minions if minion in filled]
        return Answer({"values": dict.fromkeys(known[:NAMES_MAX]), "more": len(known) > NAMES_MAX})
    values: dict[str, Any] = {}
    size = 0
    for minion in minions:
        if len(values) >= NAMES_MAX or size >= VALUES_MAX:
            break
        values[minion] = bank.get(minion) or {}
        size += len(encode_document(values[minion]))
    return Answer({"values": values, "more": len(values) < len(minions)})


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
            master.link.fetch(minion, "grains")
    return Answer({"cleared": len(cleared)})


def _require(
    principal: Principal, bank: object, rights: Mapping[str, tuple[str, ...]], more: tuple[str, ...], master: Master
) -> None:
    names = rights.get(bank) if isinstance(bank, str) else None
    if names is None:
        raise UsageError(f"there is no cache bank {str(bank)[:40]!r} for this: there are {', '.join(rights)}")
    if not may(principal, RUNNER, (*names, *more), master.terms):
        raise RefusedError(f"{principal} may not do this with cached {bank}: that takes @runner {' or '.join(names)}")


def _minions(master: Master, principal: Principal, request: Mapping[str, Any]) -> list[MinionId]:
    target = target_of(request)
    refuse_pillar_guesses(master, principal, target)
    return sorted(master.resolve(target).minions)
