"""The wall clock of masters that share a database is the database's."""

from __future__ import annotations

from dataclasses import dataclass, field

from saltlite.errors import StoreError
from saltlite.master.store.database_clock import EXACT_S, LEARN_S, DatabaseClock
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


def test_without_an_answer_the_last_one_counts_and_before_it_the_clock_of_the_machine() -> None:
    database, clock = made()
    database.fails = True
    assert clock.wall() == database.own.wall()
    database.fails = False
    database.own.advance(LEARN_S)
    assert clock.wall() == database.now()
    database.fails = True
    for _ in range(3):
        database.own.advance(LEARN_S)
        assert clock.wall() == database.now()


def test_an_answer_that_takes_long_moves_no_clock_that_knows_the_time() -> None:
    database, clock = made()
    database.takes_s = 2 * EXACT_S
    assert abs(clock.wall() - database.now()) <= EXACT_S
    database.takes_s = 0.0
    database.own.advance(LEARN_S)
    assert clock.wall() == database.now()
    database.takes_s = 30.0
    database.own.advance(LEARN_S)
    assert clock.wall() == database.now()


def made() -> tuple[Database, DatabaseClock]:
    own = ManualClock()
    database = Database(own)
    store: SharedStore = database  # type: ignore[assignment]  # all that the clock asks for
    return database, DatabaseClock(own, store)
