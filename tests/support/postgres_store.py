"""Fixtures of tests of the store in PostgreSQL: a server for the tests of one file, and stores in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from saltlite.errors import StoreError
from saltlite.master.store.ports import ReturnCommit, Stored
from tests.support.postgres import Server, running_server
from tests.support.store import NOW, WEB1, commit, job, ret

if TYPE_CHECKING:
    from saltlite.master.store.postgres import PostgresStore

Opened = Callable[..., "PostgresStore"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def dsn(server: Server) -> str:
    return server.new_schema()


@pytest.fixture
def opened() -> Iterator[Callable[..., PostgresStore]]:
    from saltlite.master.store.postgres import PostgresStore

    stores: list[PostgresStore] = []

    def open_one(dsn: str, master: int = 1, waits_s: float = 0.0, name: str = "", **more: Any) -> PostgresStore:
        stores.append(PostgresStore(dsn, master=master, waits_s=waits_s, name=name, several=bool(name), **more))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def commit_appended(store: PostgresStore, *commits: ReturnCommit) -> None:
    """Store these returns beside other writers."""
    with store.write(appends_only=True) as tx:
        assert tx.put_returns(commits, NOW) == [Stored.NEW] * len(commits)


def stored_again(store: PostgresStore) -> bool:
    """Whether the store takes the return of job 1 again, which it has."""
    with suppress(StoreError):
        return commit(store, ret(job(1), WEB1)) == [Stored.DUPLICATE]
    return False
