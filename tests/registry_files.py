"""What tests of the registry's file share: where it is, and how it is opened in another life of the machine."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

from saltlite.resources.registry.mmap import ResourceRegistry
from saltlite.resources.registry.mmap.primary import FilePrimary, World
from saltlite.resources.registry.mmap.registry import FILE
from saltlite.resources.registry.registry import Registry


def file_of(folder: Path) -> Path:
    """The registry's file below that cachedir."""
    return folder / FILE


def opened(folder: Path, **options: object) -> ResourceRegistry:
    """A registry that takes a report of damage for a failure of the test."""
    return ResourceRegistry({"cachedir": str(folder), **options}, report=no_report)


def no_report(sentence: str) -> None:
    raise AssertionError(sentence)


_lives = itertools.count(1)


def after_a_restart_of_the_machine(folder: Path, reports: list[str] | None = None) -> Registry:
    """The registry opened in a life of the machine that it was not written in."""
    world = World(
        entropy=os.urandom,
        wall_ns=time.time_ns,
        boot=next(_lives).to_bytes(16, "big"),
        report=no_report if reports is None else reports.append,
    )
    return Registry(FilePrimary(str(file_of(folder)), world, capacity=1, sync=True))


def rows_of(registry: Registry, *minions: str) -> dict[str, str]:
    """SRN -> minion, as the views have it; each row is looked up as well, and has to say the same."""
    rows = {}
    for minion in minions:
        for kind, ids in registry.get_resources_for_minion(minion).items():
            for bare_id in ids:
                rows[f"{kind}:{bare_id}"] = minion
                assert registry.get_managing_minions_for_srn(kind, bare_id) == [minion]
    return rows
