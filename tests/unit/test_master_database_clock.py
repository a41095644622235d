"""The wall clock of masters that share a database is the database's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from saltlite.errors import StoreError
from saltlite.master.store.database_clock import EXACT_S, LEARN_S, DatabaseClock, certain_wall
from saltlite.master.store.sharing import SharedStore
from saltlite.platform.daemon import ManualClock

DATABASE = 2_000_000_000.0


@dataclass
class Database:
    """Answers what time it is."""

    own: ManualClock
    takes_s: float = 0.0
    fails: bool = False
    asked: int = 0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.own.boottime()

    def now(self) -> float:
        return DATABASE + self.own.boottime() - self.began

    def clock(self) -> float:
        self.asked += 1
        if self.fails:
            raise StoreError("the database cannot be reached")
        now = self.now()
        self.own.advance(self.takes_s)
        return now


def test_the_time_is_that_of_the_database_and_is_asked_for_rarely() -> None:
    database, clock = made()
    for _ in range(20):
        assert clock.wall() == database.now()
        database.own.advance(LEARN_S / 10)
    assert database.asked == 2


def test_without_an_answer_the_last_one_counts_and_before_it_there_is_no_time() -> None:
    database, clock = made(fails=True)
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be reached"):
            clock.wall()
    database.fails = False
    assert clock.wall() == database.now()
    database.fails = True
    for _ in range(3):
        database.own.advance(LEARN_S)
        assert clock.wall() == database.now()


def test_an_answer_that_takes_long_moves_no_clock_that_knows_the_time() -> None:
    database, clock = made(takes_s=2 * EXACT_S)
    assert abs(clock.wall() - database.now()) <= EXACT_S
    database.takes_s = 0.0
    database.own.advance(LEARN_S)
    assert clock.wall() == database.now()
    database.takes_s = 30.0
    database.own.advance(LEARN_S)
    assert clock.wall() == database.now()


@pytest.mark.parametrize(("ahead_s", "earlier_s"), [(1e9, 0.0), (-1e9, -1e9)])
def test_what_deletes_goes_by_the_earlier_one_of_both_clocks(ahead_s: float, earlier_s: float) -> None:
    own = ManualClock(wall=DATABASE + ahead_s)
    store: SharedStore = Database(own)  # type: ignore[assignment]  # all that the clock asks for
    assert certain_wall(DatabaseClock(own, store)) == DATABASE + earlier_s
    assert certain_wall(own) == DATABASE + ahead_s


def made(**about: Any) -> tuple[Database, DatabaseClock]:
    own = ManualClock()
    database = Database(own, **about)
    store: SharedStore = database  # type: ignore[assignment]  # all that the clock asks for
    return database, DatabaseClock(own, store)
