"""The file of the resource registry, shared by all processes of a master: maps, locks, syncs, compaction, repair.

What belongs here: `ResourceRegistry`, and under it one file a duty: the open file, its recovery, its compaction, and
the `Primary` that writes transactions and follows the file when another takes its place.
What does not: how records, slots and headers look, and what a registration changes (`saltlite.resources.registry`).
"""

from __future__ import annotations

from saltlite.resources.registry.mmap.registry import ResourceRegistry, get_registry

__all__ = ["ResourceRegistry", "get_registry"]
