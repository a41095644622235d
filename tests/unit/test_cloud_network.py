"""The networks of machines: which range is one, and in which order its parts are tried."""

from __future__ import annotations

import ipaddress
from itertools import islice

import pytest

from saltlite.cloud.drivers._namespaces import cable_of, free_cables, room
from saltlite.errors import MachineError


def test_a_cable_has_the_hosts_address_first_and_an_interface_named_after_its_network() -> None:
    cable = cable_of("10.231.0.4/30")
    assert (cable.gateway, cable.address, cable.interface) == ("10.231.0.5", "10.231.0.6", "slm0ae70004")
    assert len(cable_of("255.255.255.252/30").interface) <= 15


def test_networks_of_others_are_left_out_and_ones_own_comes_first() -> None:
    tried = free_cables(room("10.231.0.0/28"), "10.231.0.8/30", {"10.231.0.0/30"})
    assert [str(cable.network) for cable in tried] == [
        "10.231.0.8/30", "10.231.0.4/30", "10.231.0.8/30", "10.231.0.12/30",
    ]  # fmt: skip


def test_a_large_range_is_not_gone_through_to_its_end() -> None:
    assert len(list(islice(free_cables(room("10.0.0.0/8"), "", ()), 10_000))) == 4096


@pytest.mark.parametrize("text", ["10.231.0.0/31", "10.231.0.1/16", "fd00::/64", "lab", ""])
def test_what_is_no_range_for_machines_is_refused(text: str) -> None:
    with pytest.raises(MachineError, match=r"such as 10\.231\.0\.0/16|is too small"):
        room(text)


def test_a_range_of_one_network_is_enough() -> None:
    assert room("10.231.0.0/30") == ipaddress.IPv4Network("10.231.0.0/30")
