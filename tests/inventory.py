"""What a master knows of resources and grains, in memory, for tests that build a Master."""

from __future__ import annotations

from saltlite.adapters.memory_cache import MemoryBanks, MemoryCache
from saltlite.adapters.memory_registry import MemoryPrimary, MemoryRows
from saltlite.core.resources.registry import Registry
from tests.core_keys import NOW


def inventory(rows: MemoryRows | None = None, cache: MemoryCache | None = None) -> tuple[Registry, MemoryBanks]:
    """The registry and the banks of one process; give `rows` and `cache` to have several share them."""
    shared = MemoryCache(lambda: NOW) if cache is None else cache
    return Registry(MemoryPrimary(MemoryRows() if rows is None else rows)), MemoryBanks(shared)
