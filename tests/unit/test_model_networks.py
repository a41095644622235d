"""Which addresses count as one network, wherever something is limited by where it comes from."""

from __future__ import annotations

import pytest

from saltlite.limits import network_of, site_of


@pytest.mark.parametrize(
    ("address", "known_as"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::"),
        ("2001:db8::ffff:1", "2001:db8::"),
        ("2001:db8:0:0:1:2:3:4", "2001:db8::"),
        ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::"),
        ("", ""),
    ],
)
def test_of_ipv6_a_network_is_known_however_its_addresses_are_written(address: str, known_as: str) -> None:
    assert network_of(address) == known_as


@pytest.mark.parametrize("mapped", ["::ffff:192.0.2.1", "::FFFF:192.0.2.1", "::ffff:c000:201"])
def test_an_ipv4_address_written_as_an_ipv6_one_is_the_same_network(mapped: str) -> None:
    assert network_of(mapped) == network_of("192.0.2.1")
    assert site_of(mapped) == site_of("192.0.2.1")


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("192.0.2.1", "192.0.2.0/24"),
        ("192.0.2.255", "192.0.2.0/24"),
        ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ("2001:db8:1:ffff::3%eth0", "2001:db8:1::/48"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_site_is_the_network_around_a_network(address: str, site: str) -> None:
    assert site_of(address) == site
