"""All stores: each test of a contract runs against SQLite, PostgreSQL and their in-memory twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.master.store.ports import Store
from saltlite.master.store.projection import Projection
from saltlite.master.store.sharing import SharedInventory, SharedStore
from saltlite.master.store.sqlite import SqliteStore
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from tests.support.postgres import Server, opener_of_postgres, running_server, several_of_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server for all tests of the session, which take a schema each."""
    with running_server() as server:
        yield server


OpenStore = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the same store again and again, as several MWorkers or a restarted master do."""
    opened: list[Store] = []
    made = opener(request, tmp_path)

    def open_one() -> Store:
        opened.append(made())
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def opener(request: pytest.FixtureRequest, folder: Path) -> OpenStore:
    """How a store of the kind of this test is opened."""
    if request.param == "memory":
        disk = MemoryStoreDisk()
        return lambda: MemoryStore(disk)
    if request.param == "sqlite":
        return lambda: SqliteStore(f"{folder}/store.db")
    return opener_of_postgres(request.getfixturevalue("postgres").new_schema())


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


OpenInventory = Callable[[], SharedInventory]


@pytest.fixture(params=["memory", "postgres"])
def open_inventory(request: pytest.FixtureRequest) -> Iterator[OpenInventory]:
    """Opens the same inventory again and again, as several masters do."""
    opened: list[SharedStore] = []
    if request.param == "memory":
        disk = MemoryStoreDisk()
        made: Callable[[], SharedStore] = lambda: MemoryStore(disk)  # noqa: E731 - two ways to open
    else:
        made = several_of_postgres(request.getfixturevalue("postgres").new_schema())

    def open_one() -> SharedInventory:
        opened.append(made())
        return opened[-1].inventory()

    yield open_one
    for store in opened:
        store.close()


OpenMaster = Callable[..., Projection]
SEAL_KEY = bytes(range(32))


@pytest.fixture
def open_master(open_inventory: OpenInventory, tmp_path: Path) -> Iterator[OpenMaster]:
    """Opens the copies of the master of that name in one more of its processes."""
    opened: list[Projection] = []

    def open_one(name: str = "a", seal_key: bytes = SEAL_KEY) -> Projection:
        opened.append(Projection(open_inventory(), {"cachedir": str(tmp_path / name)}, seal_key))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()
