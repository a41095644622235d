"""Wrong passwords, counted by all masters of a store together."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.auth.logins import WRONG_AT_ONCE, WRONG_EVERY_S, Logins
from saltlite.errors import LoginError, StoreError
from saltlite.master.processes.login_limiter import LoginLimiter
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk

FRED = ("pam", "fred")


class Site:
    """Two masters of one store, whose clock is `now`."""

    def __init__(self) -> None:
        self.now = 1000.0
        disk = MemoryStoreDisk()
        self.stores = [self._opened(disk) for _ in range(2)]
        self.one, self.two = (LoginLimiter(store, Logins(b"k" * 32)) for store in self.stores)

    def _opened(self, disk: MemoryStoreDisk) -> MemoryStore:
        store = MemoryStore(disk)
        store.clock = lambda: self.now  # type: ignore[method-assign]  # a clock that stands
        return store


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_name_may_be_tried_as_often_on_two_masters_as_on_one(site: Site) -> None:
    for pace in [site.one, site.two] * (WRONG_AT_ONCE // 2):
        pace.refuse_guesses(*FRED)
        pace.count(*FRED)
    for pace in (site.one, site.two):
        with pytest.raises(LoginError, match=f"too many wrong passwords .* try again in {WRONG_EVERY_S:.0f} s"):
            pace.refuse_guesses(*FRED)
        pace.refuse_guesses("pam", "gina")
        pace.refuse_guesses("file", "fred")
    site.now += WRONG_EVERY_S
    site.two.refuse_guesses(*FRED)
    site.two.count(*FRED)
    with pytest.raises(LoginError):
        site.one.refuse_guesses(*FRED)


def test_guesses_that_were_checked_at_the_same_moment_all_count(site: Site) -> None:
    for pace in [site.one, site.two] * WRONG_AT_ONCE:
        pace.count(*FRED)
    with pytest.raises(LoginError, match=f"in {WRONG_EVERY_S * (WRONG_AT_ONCE + 1):.0f} s"):
        site.one.refuse_guesses(*FRED)


def test_without_the_store_nobody_is_let_in_and_no_guess_is_answered(site: Site) -> None:
    site.stores[0].close()
    with pytest.raises(StoreError):
        site.one.refuse_guesses(*FRED)
    with pytest.raises(StoreError):
        site.one.count(*FRED)
    site.two.refuse_guesses(*FRED)


def test_the_store_has_no_name_that_was_tried(site: Site) -> None:
    written: list[Any] = []
    site.one.count("file", "my secret password")
    written.extend(site.stores[0]._tables.login_limits)
    assert len(written) == 1
    assert "secret" not in repr(written)
    assert written == [Logins(b"k" * 32).mark_of("file", "my secret password")]
    assert written != [Logins(b"l" * 32).mark_of("file", "my secret password")]
