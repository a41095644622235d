"""How many strangers are listened to: rates, and a table that does not grow."""

from __future__ import annotations

import pytest

from saltlite.master.protocol.admission import NETWORKS_MAX, Admission


def door(*, per_second: float = 1000.0, per_network: float = 10.0) -> Admission:
    return Admission(per_second, per_network, 0.0)


def admitted(door: Admission, address: str, tries: int, now: float = 0.0) -> int:
    return sum(door.begin(address, now) for _ in range(tries))


def test_an_address_gets_its_rate_and_no_more() -> None:
    it = door()
    assert admitted(it, "10.0.0.1", 50) == 10
    assert admitted(it, "10.0.0.1", 50, 0.5) == 5
    assert admitted(it, "10.0.0.1", 50, 1000.0) == 10


def test_one_address_does_not_use_up_the_rate_of_another() -> None:
    it = door()
    admitted(it, "10.0.0.1", 50)
    assert admitted(it, "10.0.0.2", 50) == 10


def test_all_addresses_together_have_a_rate() -> None:
    it = door(per_second=100.0)
    assert sum(admitted(it, f"10.0.{n}.1", 10) for n in range(200)) == 100


def test_a_rate_below_one_a_second_still_lets_one_in() -> None:
    it = door(per_network=0.5)
    assert admitted(it, "10.0.0.1", 5) == 1
    assert admitted(it, "10.0.0.1", 5, 1.0) == 0
    assert admitted(it, "10.0.0.1", 5, 2.0) == 1


@pytest.mark.parametrize("other", ["2001:db8:1:2:ffff::7", "2001:db8:1:2::1%eth0"])
def test_addresses_of_one_ipv6_network_share_one_allowance(other: str) -> None:
    it = door()
    admitted(it, "2001:db8:1:2::1", 10)
    assert admitted(it, other, 10) == 0
    assert admitted(it, "2001:db8:1:3::1", 10) == 10


def test_an_address_that_cannot_be_read_is_an_address_like_another() -> None:
    it = door()
    assert admitted(it, "not:an:address", 50) == 10


def test_the_table_of_addresses_keeps_the_ones_used_last_and_no_more() -> None:
    it = door(per_second=1e9, per_network=1.0)
    admitted(it, "10.0.0.1", 1)
    for number in range(NETWORKS_MAX - 1):
        admitted(it, f"address {number}", 1)
    assert admitted(it, "10.0.0.1", 1) == 0
    for number in range(NETWORKS_MAX):
        admitted(it, f"other {number}", 1)
    assert admitted(it, "10.0.0.1", 1) == 1
