"""Rate limiters, connection limiters and fair semaphores."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from saltlite.limits import KEYS_MAX, ConnectionLimiter, FairSemaphore, RateLimiter, Slot, network_of

# -- RateLimiter


def test_a_burst_passes_and_then_so_many_a_second() -> None:
    limiter = RateLimiter(2, 3)
    assert [limiter.take("a", 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert limiter.take("a", 0.5) == 0.0


def test_one_key_does_not_slow_down_another() -> None:
    limiter = RateLimiter(1, 1)
    limiter.take("a", 0.0)
    assert limiter.take("b", 0.0) == 0.0


def test_a_burst_below_one_still_lets_one_through() -> None:
    limiter = RateLimiter(0.5, 0.5)
    assert [limiter.take("a", now) for now in (0.0, 1.0, 2.0)] == [0.0, 1.0, 0.0]


def test_what_is_given_back_may_be_taken_again_and_no_more_than_the_burst() -> None:
    limiter = RateLimiter(1, 2)
    for _ in range(5):
        assert limiter.take("a", 0.0) == 0.0
        limiter.give_back("a")
    limiter.give_back("a")
    assert [limiter.take("a", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]


def test_a_clock_that_stands_still_gives_nothing() -> None:
    limiter = RateLimiter(1, 1)
    limiter.take("a", 5.0)
    assert limiter.take("a", 5.0) > 0


def test_tokens_of_different_amounts_come_from_one_bucket() -> None:
    limiter = RateLimiter(1, 60)
    assert [limiter.take("hook", 7.0, 20.0) for _ in range(4)] == [0.0, 0.0, 0.0, 20.0]
    assert limiter.take("other", 7.0, 60.0) == 0.0
    assert limiter.take("hook", 7.0 + 19.0, 20.0) > 0
    assert limiter.take("hook", 7.0 + 20.0, 20.0) == 0.0


def test_what_is_spent_beyond_the_bucket_is_a_debt() -> None:
    limiter = RateLimiter(0.25, 1.0)
    limiter.spend("a", 10.0, 3.0)
    assert limiter.debt_s("a", 10.0) == 12.0
    assert limiter.wait_s("a", 10.0, 0.0) == 8.0
    assert limiter.wait_s("a", 18.0, 0.0) == 0.0
    assert limiter.debt_s("b", 10.0) == limiter.wait_s("b", 10.0) == 0.0


def test_the_key_that_was_used_longest_ago_is_forgotten_first() -> None:
    for limiter, most in ((RateLimiter(1, 1), KEYS_MAX), (RateLimiter(1, 1, keys_max=3), 3)):
        for number in range(most):
            limiter.take(number, 0.0)
        assert limiter.take(0, 0.0) > 0.0  # used again, though in vain
        limiter.take(most, 0.0)
        assert limiter.take(0, 0.0) > 0.0
        assert limiter.take(1, 0.0) == 0.0


# -- ConnectionLimiter


def filled(total: int, per_network: int, addresses: list[str]) -> ConnectionLimiter[str]:
    """A table with an entry for each of these: `0 of 10.0.0.1`, and so on."""
    it: ConnectionLimiter[str] = ConnectionLimiter(total, per_network)
    for number, address in enumerate(addresses):
        it.add(f"{number} of {address}", address)
    return it


def test_one_network_has_no_more_than_its_part_however_many_addresses_it_uses() -> None:
    it = filled(100, 16, [f"2001:db8:1:2::{number:x}" for number in range(3000)])
    assert len(it) == 16
    assert not it.add("another", "2001:db8:1:2:ffff::1").admitted
    assert it.add("elsewhere", "2001:db8:1:3::1") == Slot(admitted=True)


def test_a_full_table_displaces_the_oldest_connection_of_the_heaviest_network() -> None:
    it = filled(5, 4, ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"])
    assert it.add("new", "10.0.0.4") == Slot(admitted=True, displaced="1 of 10.0.0.2")
    assert len(it) == 5
    assert "1 of 10.0.0.2" not in it


def test_a_connection_that_is_alone_in_its_network_is_never_displaced() -> None:
    it = filled(3, 4, ["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    assert [it.add(f"new {number}", f"10.0.1.{number}").admitted for number in range(50)] == [False] * 50


def test_a_network_that_has_nearly_as_many_as_the_heaviest_displaces_none() -> None:
    it = filled(3, 4, ["10.0.0.1", "10.0.0.1", "10.0.0.2"])
    assert not it.add("new", "10.0.0.2").admitted
    assert not it.add("new", "10.0.0.1").admitted


def test_a_slot_that_was_released_is_free() -> None:
    it = filled(2, 1, ["10.0.0.1", "10.0.0.2"])
    it.remove("0 of 10.0.0.1")
    it.remove("0 of 10.0.0.1")
    assert it.add("new", "10.0.0.1") == Slot(admitted=True)


NETWORKS = [f"10.0.0.{number}" for number in range(5)]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(NETWORKS), st.integers(0, 40)), max_size=120))
def test_it_does_what_a_slow_table_would(moves: list[tuple[bool, str, int]]) -> None:
    it: ConnectionLimiter[int] = ConnectionLimiter(8, 4)
    slow: dict[int, str] = {}
    for number, (adds, address, old) in enumerate(moves):
        if not adds:
            it.remove(100 + old)
            slow.pop(100 + old, None)
            continue
        count = Counter(slow.values())
        key = 100 + number
        slot = it.add(key, address)
        network = network_of(address)
        if count[network] >= 4:
            assert slot == Slot(admitted=False)
        elif len(slow) < 8:
            assert slot == Slot(admitted=True)
            slow[key] = network
        elif max(count.values()) < count[network] + 2:
            assert slot == Slot(admitted=False)
        else:
            assert slot.displaced is not None
            assert count[slow[slot.displaced]] == max(count.values())
            del slow[slot.displaced]
            slow[key] = network
        assert len(it) == len(slow)
        assert all(one in it for one in slow)


def test_without_displacing_a_full_table_admits_none() -> None:
    it: ConnectionLimiter[int] = ConnectionLimiter(3, 2, displaces=False)
    assert [it.add(number, "192.0.2.1").admitted for number in range(3)] == [True, True, False]
    assert [it.add(10 + number, "192.0.2.2") for number in range(2)] == [Slot(admitted=True), Slot(admitted=False)]
    it.remove(0)
    it.remove(0)
    assert (len(it), it.add(2, "192.0.2.2").admitted, it.add(3, "192.0.2.3").admitted) == (2, True, False)


# -- FairSemaphore


def test_a_caller_who_wants_many_slots_does_not_delay_another() -> None:
    it: FairSemaphore[int] = FairSemaphore(4, 2)
    assert [it.acquire(number, "greedy") for number in range(5)] == [True, True, False, False, False]
    assert [it.acquire(10, "other"), it.acquire(11, "third"), it.acquire(12, "late")] == [True, True, False]
    assert it.release(0) == [2]
    assert it.release(10) == [12]
    assert it.release(3) == []
    assert it.release(1) == [4]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.integers(0, 20)), max_size=60))
def test_slots_are_never_more_than_there_are_and_none_is_lost(moves: list[tuple[bool, str, int]]) -> None:
    it: FairSemaphore[int] = FairSemaphore(3, 2)
    callers: dict[int, str] = {}
    held: set[int] = set()
    for number, (acquires, caller, old) in enumerate(moves, start=100):
        if acquires:
            callers[number] = caller
            if it.acquire(number, caller):
                held.add(number)
        else:
            key = 100 + old
            held.discard(key)
            callers.pop(key, None)
            held.update(it.release(key))
        count = Counter(callers[key] for key in held)
        assert len(held) <= 3
        assert all(many <= 2 for many in count.values())
        waiting = [key for key in callers if key not in held]
        assert len(held) == 3 or all(count[callers[key]] == 2 for key in waiting)
