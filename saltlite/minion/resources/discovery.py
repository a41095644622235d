"""Discovery in the process of a resource type: its resources and their grains. Which types are declared on this
minion."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import UsageError
from saltlite.loader.resource_types import ResourceType
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import (
    TargetId,
    check_resource_id,
    check_resource_ids,
    check_resource_type,
    resource_index_srn_key,
)
from saltlite.model.resourcelook import RESOURCE_PILLAR_KEY
from saltlite.wire.framing import IpcMessage
from saltlite.wire.limits import RESOURCE_GRAINS_TOTAL_MAX

if TYPE_CHECKING:
    from saltlite.config.minion import MinionConfig

log = logging.getLogger(__name__)

DISCOVER_S = 60.0
"""Seconds that `discover` may take."""
GRAINS_S = 60.0
"""Seconds without new grains after which the missing ones are not awaited any longer."""
REPORT_S = 0.5
"""While grains are awaited, those found are reported after this time; the delay doubles …"""
REPORT_MAX_S = 30.0
"""… up to this maximum: each report contains the whole document."""
IDS_NAMED = 5
"""Invalid ids, and resources with too many grains, that the log names."""


@dataclass(frozen=True, slots=True)
class DiscoveryContext:
    """What discovery needs of its process: `collect` starts to collect grains, whose answers come to
    `Discovery.answered`; `give_up` stops it. `post` runs a function in the main thread. `keep` gets all
    resources that were found."""

    collect: Callable[[Sequence[TargetId]], None]
    give_up: Callable[[], None]
    say: Callable[[IpcMessage], None]
    post: Callable[[Callable[[], None]], None]
    keep: Callable[[Sequence[TargetId]], None]


@dataclass(slots=True)
class _Attempt:
    number: int
    discover_by: float
    faulty: bool
    heard_at: float = 0.0
    awaited: set[TargetId] = field(default_factory=set)
    stale: list[TargetId] = field(default_factory=list)
    fresh: dict[TargetId, Mapping[str, Any]] = field(default_factory=dict)
    """Grains that were not reported yet."""
    too_many: list[TargetId] = field(default_factory=list)
    """Resources whose grains did not fit."""
    report_at: float = 0.0
    report_s: float = REPORT_S


class Discovery:
    """Lives in the main thread. `grains` are the last known ones by SRN, which it keeps up to date."""

    def __init__(
        self,
        loaded: ResourceType,
        functions: Sequence[str],
        grains: Mapping[TargetId, Mapping[str, Any]],
        ways: DiscoveryContext,
    ) -> None:
        self.grains = dict(grains)
        self._sizes = {srn: _size_of(one) for srn, one in self.grains.items()}
        self._total = sum(self._sizes.values())
        self._asked: set[TargetId] = set()
        """Resources with a call in progress, for this discovery or the one before."""
        self._type = loaded
        self._functions = functions
        self._ways = ways
        self._look: _Attempt | None = None

    @property
    def busy(self) -> bool:
        """Whether a discovery is running."""
        return self._look is not None

    def find(self, number: int, *, faulty: bool) -> None:
        """Start a discovery; it reports `found` and then `grains` once or several times, with this number.

        `faulty`: the type may find its resources, but cannot be called. A running discovery is replaced; resources with
        a call in progress are not called a second time.
        """
        self._look = look = _Attempt(number, time.monotonic() + DISCOVER_S, faulty=faulty)
        threading.Thread(target=self._discover, args=(look,), daemon=True).start()

    def answered(self, srn: TargetId, grains: dict[str, Any] | str) -> None:
        """Take the grains of a resource, or the reason why there are none."""
        self._asked.discard(srn)
        look = self._look
        if look is None or srn not in look.awaited:
            return
        look.awaited.discard(srn)
        look.heard_at = time.monotonic()
        if isinstance(grains, str):
            log.warning("the grains of %s could not be collected: %s", srn, grains)
            look.stale.append(srn)
        elif self._has_room(srn, grains):
            self.grains[srn] = look.fresh[srn] = grains
        else:
            look.too_many.append(srn)
        self._complete(look)

    def tick(self, now: float) -> float:
        """Give up what takes too long; returns the time of the next tick."""
        look = self._look
        if look is None:
            return math.inf
        if now >= look.discover_by:
            self._found(look, [], f"discover() has not ended within {DISCOVER_S:g} s")
            return math.inf
        if not look.awaited:
            return look.discover_by
        if now < look.heard_at + GRAINS_S:
            return min(look.heard_at + GRAINS_S, self._report(look, now))
        self._ways.give_up()
        self._asked.clear()
        for srn in sorted(look.awaited):
            self.answered(srn, f"no resource has given its grains for {GRAINS_S:g} s")
        return math.inf

    def _discover(self, look: _Attempt) -> None:
        found: Any
        try:
            found, why = self._type.discover() or [], ""
            if not isinstance(found, list | tuple | set | frozenset):
                found, why = [], f"discover() returned {type(found).__name__}, and not a list"
        except BaseException as error:  # noqa: BLE001 - supervision point: it is the type's own code
            found, why = [], f"discover() raised {type(error).__name__}: {error}"
        self._ways.post(lambda: self._found(look, list(found), why))

    def _found(self, look: _Attempt, found: Sequence[Any], why: str) -> None:
        if look is not self._look or math.isinf(look.discover_by):
            return  # too late
        look.discover_by = math.inf
        ids = good_ids(self._type.name, found)
        found_now = {"n": look.number, "ids": ids, "functions": list(self._functions), "why": why}
        self._ways.say({"t": "found", **found_now, "faulty": look.faulty or bool(why)})
        if why:
            self._look = None
            return
        srns = [resource_index_srn_key(self._type.name, one) for one in ids]
        self._ways.keep(srns)
        self.grains = {srn: self.grains[srn] for srn in srns if srn in self.grains}
        self._sizes = {srn: self._sizes[srn] for srn in self.grains}
        self._total = sum(self._sizes.values())
        look.awaited, look.heard_at = set(srns), time.monotonic()
        look.report_at = look.heard_at + look.report_s
        asked = [srn for srn in srns if srn not in self._asked]
        self._asked.update(asked)
        self._ways.collect(asked)
        self._complete(look)

    def _has_room(self, srn: TargetId, grains: Mapping[str, Any]) -> bool:
        """Count the grains of a resource, if they fit."""
        size = _size_of(grains)
        total = self._total - self._sizes.get(srn, 0) + size
        if total > RESOURCE_GRAINS_TOTAL_MAX:
            return False
        self._sizes[srn], self._total = size, total
        return True

    def _report(self, look: _Attempt, now: float) -> float:
        """Report the new grains if it is time; returns when it will be."""
        if not look.fresh:
            return math.inf
        if now < look.report_at:
            return look.report_at
        look.report_s = min(2 * look.report_s, REPORT_MAX_S)
        look.report_at = now + look.report_s
        self._say_grains(look, last=False)
        return math.inf

    def _complete(self, look: _Attempt) -> None:
        if look.awaited or look is not self._look:
            return
        self._look = None
        if look.too_many:
            text = "resource type %s: the grains of %d resources are skipped (%s): those of a type may have %d MiB"
            named = ", ".join([*sorted(look.too_many)[:IDS_NAMED], *["…"][: len(look.too_many) > IDS_NAMED]])
            log.warning(text, self._type.name, len(look.too_many), named, RESOURCE_GRAINS_TOTAL_MAX >> 20)
            look.stale += look.too_many
        self._say_grains(look, last=True)

    def _say_grains(self, look: _Attempt, *, last: bool) -> None:
        fresh, look.fresh = look.fresh, {}
        self._ways.say({"t": "grains", "n": look.number, "grains": fresh, "stale": sorted(look.stale), "last": last})


def _size_of(grains: Mapping[str, Any]) -> int:
    return len(msgpack.packb(grains))


def good_ids(kind: str, found: Iterable[Any]) -> list[str]:
    """The valid bare ids in the result of `discover`, sorted. Invalid ones are skipped with a warning."""
    listed = list(found)
    try:
        ids = check_resource_ids(listed)
    except UsageError:
        ids, bad = [], []
        for one in listed:
            try:
                ids.append(check_resource_id(one))
            except UsageError as error:
                bad.append(str(error))
        more = f" (and {len(bad) - IDS_NAMED} more)" if len(bad) > IDS_NAMED else ""
        log.warning("resource type %s: ids are skipped: %s%s", kind, "; ".join(bad[:IDS_NAMED]), more)
    unique = sorted(set(ids))
    if len(unique) < len(ids):
        log.warning("resource type %s: discover() returned %d ids twice", kind, len(ids) - len(unique))
    return unique


# -- Declared types: by pillar and configuration

KEYS_SHOWN = 10
"""Keys of a type's pillar that a message names …"""
KEY_SHOWN = 40
"""… and the characters of one of them."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The options for resources, under their names in the configuration."""

    pillar_key: str
    places: int
    timeout_s: float
    type_limits: Mapping[str, int]

    def types_in(self, pillar: Mapping[str, Any]) -> list[str]:
        """The names of the types that the pillar declares, sorted. Invalid ones are skipped with a warning."""
        key = self._key()
        if not self.pillar_key:
            log.warning("option resource_pillar_key is empty, and %s is used", key)
        declared = pillar.get(key)
        if declared is not None and not isinstance(declared, Mapping):
            log.warning("pillar key %s declares no resources: it has to be a map of types", key)
        names = []
        for name in declared if isinstance(declared, Mapping) else ():
            try:
                names.append(check_resource_type(name))
            except UsageError as error:
                log.warning("pillar key %s: %s", key, error)
        return sorted(names)

    def settings_of(self, name: str, pillar: Mapping[str, Any]) -> Any:
        """The pillar of that type; None without one."""
        declared = pillar.get(self._key())
        return declared.get(name) if isinstance(declared, Mapping) else None

    def looked_at(self, name: str, pillar: Mapping[str, Any]) -> str:
        """For people: the pillar key that declares the resources of a type, and its content."""
        settings = self.settings_of(name, pillar)
        if isinstance(settings, Mapping) and settings:
            keys = [str(key)[:KEY_SHOWN] for key in settings]
            more = f" and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
            what = f"which has the keys {', '.join(keys[:KEYS_SHOWN])}{more}"
        elif isinstance(settings, list | tuple) and settings:
            what = f"which is a list of {len(settings)}"
        else:
            what = "which is empty" if not settings else f"which is {type(settings).__name__}, and not a map"
        return f"pillar {self._key()}:{name}, {what}"

    def nothing_declared(self, pillar: Mapping[str, Any] | None) -> str:
        """For people: why there is no type."""
        if pillar is None:
            return "no pillar has come from the master yet"
        there = "declares no resource types" if self._key() in pillar else "is not there"
        return f"pillar {self._key()} {there}"

    def _key(self) -> str:
        return self.pillar_key or RESOURCE_PILLAR_KEY

    def places_of(self, name: str) -> int:
        """How many resources of that type are called at once."""
        return min(self.places, self.type_limits.get(name, self.places))


def declared_by(config: MinionConfig) -> Declared:
    return Declared(
        config.resource_pillar_key, config.resource_workers, config.resource_timeout, config.resource_type_limits
    )
