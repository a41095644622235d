"""Both stores: each test of a contract runs against SQLite and its in-memory twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.master.store.ports import Store
from saltlite.master.store.sqlite import SqliteStore
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk

OpenStore = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the same store again and again, as several MWorkers or a restarted master do."""
    opened: list[Store] = []
    disk = MemoryStoreDisk()

    def open_one() -> Store:
        store: Store = MemoryStore(disk) if request.param == "memory" else SqliteStore(f"{tmp_path}/store.db")
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()
