"""What a master knows of resources and grains, in memory, for tests that build a Master."""

from __future__ import annotations

from saltlite.resources.registry.registry import MemoryPrimary, MemoryRows, Registry
from saltlite.testing.banks import MemoryBanks, MemoryCache
from tests.support.keys import NOW


def inventory(rows: MemoryRows | None = None, cache: MemoryCache | None = None) -> tuple[Registry, MemoryBanks]:
    """The registry and the banks of one process; give `rows` and `cache` to have several share them."""
    shared = MemoryCache(lambda: NOW) if cache is None else cache
    return Registry(MemoryPrimary(MemoryRows() if rows is None else rows)), MemoryBanks(shared)
