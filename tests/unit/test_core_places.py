"""A table that networks share: nobody takes more than a part, and a full one keeps a place for others."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from saltlite.master.protocol.network_places import Place, Places
from saltlite.model.networks import network_of


def filled(total: int, per_network: int, addresses: list[str]) -> Places[str]:
    """A table with an entry for each of these: `0 of 10.0.0.1`, and so on."""
    it: Places[str] = Places(total, per_network)
    for number, address in enumerate(addresses):
        it.add(f"{number} of {address}", address)
    return it


def test_one_network_takes_no_more_than_its_part_however_many_addresses_it_has() -> None:
    it = filled(100, 16, [f"2001:db8:1:2::{number:x}" for number in range(3000)])
    assert len(it) == 16
    assert not it.add("another", "2001:db8:1:2:ffff::1").given
    assert it.add("elsewhere", "2001:db8:1:3::1") == Place(given=True)


def test_a_full_table_gives_a_newcomer_the_place_of_the_oldest_of_the_heaviest_network() -> None:
    it = filled(5, 4, ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"])
    assert it.add("new", "10.0.0.4") == Place(given=True, instead_of="1 of 10.0.0.2")
    assert len(it) == 5
    assert "1 of 10.0.0.2" not in it


def test_an_entry_that_is_alone_in_its_network_is_never_displaced() -> None:
    it = filled(3, 4, ["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    assert [it.add(f"new {number}", f"10.0.1.{number}").given for number in range(50)] == [False] * 50


def test_a_network_that_has_nearly_as_many_as_the_heaviest_displaces_nobody() -> None:
    it = filled(3, 4, ["10.0.0.1", "10.0.0.1", "10.0.0.2"])
    assert not it.add("new", "10.0.0.2").given
    assert not it.add("new", "10.0.0.1").given


def test_a_place_that_was_left_is_free() -> None:
    it = filled(2, 1, ["10.0.0.1", "10.0.0.2"])
    it.remove("0 of 10.0.0.1")
    it.remove("0 of 10.0.0.1")
    assert it.add("new", "10.0.0.1") == Place(given=True)


NETWORKS = [f"10.0.0.{number}" for number in range(5)]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(NETWORKS), st.integers(0, 40)), max_size=120))
def test_it_does_what_a_slow_table_would(moves: list[tuple[bool, str, int]]) -> None:
    it: Places[int] = Places(8, 4)
    slow: dict[int, str] = {}
    for number, (adds, address, old) in enumerate(moves):
        if not adds:
            it.remove(old)
            slow.pop(old, None)
            continue
        count = Counter(slow.values())
        key = 100 + number
        place = it.add(key, address)
        network = network_of(address)
        if count[network] >= 4:
            assert place == Place(given=False)
        elif len(slow) < 8:
            assert place == Place(given=True)
            slow[key] = network
        elif max(count.values()) < count[network] + 2:
            assert place == Place(given=False)
        else:
            assert place.instead_of is not None
            assert count[slow[place.instead_of]] == max(count.values())
            del slow[place.instead_of]
            slow[key] = network
        assert len(it) == len(slow)
        assert all(one in it for one in slow)
