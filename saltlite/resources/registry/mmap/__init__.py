"""The resource registry of a master, in one mapped file that all its processes share.

`ResourceRegistry` opens it from the options of the configuration. Below it, `primary` writes transactions and follows
the file when another takes its place, `file` is the open file, and `recovery` repairs and compacts it. The layout of
records and slots, and the rules of a registration, are in `saltlite.resources.registry`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.resources.registry.layout import CAPACITY_MAX, CAPACITY_MIN
from saltlite.resources.registry.memory import MemoryPrimary, MemoryRows
from saltlite.resources.registry.mmap.primary import Environment, FilePrimary
from saltlite.resources.registry.primary import Conflict, Registration, Yields, never
from saltlite.resources.registry.registry import Registry

log = logging.getLogger(__name__)

FILE = "resources/resource_index.by_id.mmap"
"""The path of the registry below `cachedir`."""

COMPACT_MIN_RECORDS = 1024
"""Smaller registries are not compacted automatically, because it would gain nothing."""


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options of the registry; `_FIELDS` has their names in the configuration."""

    cachedir: str
    capacity: int = CAPACITY_MIN
    """Slots of a new table; it grows by itself."""
    compact_load_factor: float = 0.6
    """Used slots for each slot of the table, above which it is compacted."""
    compact_tombstone_ratio: float = 0.2
    """Share of obsolete records above which it is compacted."""
    compact_min_interval: float = 30.0
    """Seconds between two compactions, or two checks whether one is due."""
    fsync: str = "registration"
    """Whether a registration is on disk before it is acknowledged: `registration` or `never`."""

    @classmethod
    def from_opts(cls, opts: Mapping[str, Any]) -> RegistryOptions:
        """The options of a configuration. Raises ValueError without a `cachedir` and for invalid values."""
        given = {field: opts[name] for name, field in _FIELDS.items() if opts.get(name) is not None}
        if not given.get("cachedir") or not isinstance(given["cachedir"], str):
            raise ValueError("the resource registry needs the option `cachedir`: a folder that the master may write to")
        options = cls(**given)
        if not isinstance(options.capacity, int) or not 1 <= options.capacity <= CAPACITY_MAX:
            raise ValueError(f"resource_index_primary_capacity has to be a number from 1 to {CAPACITY_MAX}")
        if options.fsync not in {"registration", "never"}:
            raise ValueError("registry_fsync has to be `registration` or `never`")
        return options


_FIELDS = {
    "cachedir": "cachedir",
    "resource_index_primary_capacity": "capacity",
    "resource_registry_compact_load_factor": "compact_load_factor",
    "resource_registry_compact_tombstone_ratio": "compact_tombstone_ratio",
    "resource_registry_compact_min_interval": "compact_min_interval",
    "registry_fsync": "fsync",
}
"""The options of the master's configuration."""


class ResourceRegistry(Registry):
    """The registry in `<cachedir>/resources`, shared by all processes that open it. See `Registry`.

    `opts` is the configuration of the master. Raises ValueError for invalid options, and StoreError when the folder
    cannot be used. `report` takes sentences about damage.
    """

    def __init__(self, opts: Mapping[str, Any], *, report: Callable[[str], None] = log.error) -> None:
        self._options = options = RegistryOptions.from_opts(opts)
        world = Environment(entropy=os.urandom, wall_ns=time.time_ns, boot=_boot_id(), report=report)
        path = os.path.join(options.cachedir, FILE)
        super().__init__(FilePrimary(path, world, capacity=options.capacity, sync=options.fsync == "registration"))
        self._looked_at = -options.compact_min_interval

    def maybe_compact(self, *, force_check: bool = False) -> tuple[bool, dict[str, Any]]:
        """Compact if the table is full enough or enough of the log is obsolete; returns whether it did, and `stats`.

        It checks at most once in `compact_min_interval` seconds, unless `force_check` is set.
        """
        now = time.monotonic()
        stats = self.stats()
        if not force_check and now - self._looked_at < self._options.compact_min_interval:
            return False, stats
        self._looked_at = now
        found = stats["primary"]
        spent = found["records"] - found["rows"]
        options = self._options
        due = found["load"] >= options.compact_load_factor or found["garbage"] >= options.compact_tombstone_ratio
        if not due or max(spent, found["used"]) < COMPACT_MIN_RECORDS:
            return False, stats
        self.compact()
        return True, self.stats()

    def close(self) -> None:
        """Release all resources; `get_registry` opens another registry on demand. A second close does nothing."""
        for place in [place for place, registry in _registries.items() if registry is self]:
            del _registries[place]
        super().close()


class InertRegistry(Registry):
    """An empty registry for a configuration without `cachedir`: registrations have no effect."""

    def __init__(self) -> None:
        super().__init__(MemoryPrimary(MemoryRows()))

    def register(
        self,
        minion: str,  # noqa: ARG002 - the signature is that of a registry
        resources: Mapping[str, Iterable[str]],  # noqa: ARG002 - as above
        *,
        conflict: Conflict = Conflict.REFUSE,  # noqa: ARG002 - as above
        yields: Yields = never,  # noqa: ARG002 - as above
    ) -> Registration:
        """No effect."""
        return Registration(0, 0, (), 0)

    def maybe_compact(self, *, force_check: bool = False) -> tuple[bool, dict[str, Any]]:  # noqa: ARG002 - as above
        """No effect."""
        return False, self.stats()


_registries: dict[tuple[int, str], ResourceRegistry] = {}


def get_registry(opts: Mapping[str, Any]) -> ResourceRegistry | InertRegistry:
    """The registry of this process for that `cachedir`, opened once; an inert one without a `cachedir`."""
    cachedir = opts.get("cachedir")
    if not cachedir:
        return InertRegistry()
    place = os.getpid(), os.path.realpath(cachedir)
    if place not in _registries:
        _registries[place] = ResourceRegistry(opts)
    return _registries[place]


def _boot_id() -> bytes:
    """The kernel's boot id; if the kernel has none, every opening counts as a new start."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except (OSError, ValueError):
        return os.urandom(16)
