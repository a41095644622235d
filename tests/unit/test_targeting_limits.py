"""How long and how deep a target may be, and what an address is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId
from saltlite.model.job import Target, TargetKind
from saltlite.targeting import resolve
from saltlite.targeting.expression import DEPTH_MAX, TARGET_MAX, WORDS_MAX
from saltlite.targeting.matchers import ADDRESS_MAX, Address, address_test, has_address, parse_network
from saltlite.targeting.memory_fleet import Member, MemoryFleet

WEB = MinionId("web")


def selected(expression: str, nodegroups: dict[str, str | list[str]] | None = None) -> frozenset[MinionId]:
    return resolve(Target(expression, TargetKind.COMPOUND), MemoryFleet({WEB: Member()}, nodegroups)).minions


def test_a_target_has_a_longest_length() -> None:
    assert selected("L@" + "web," * (TARGET_MAX // 4 - 1)) == {WEB}
    with pytest.raises(UsageError, match="the target is too long: at most 65536 characters"):
        selected("L@" + "web," * (TARGET_MAX // 4))


def test_a_nodegroup_has_a_longest_length() -> None:
    with pytest.raises(UsageError, match="nodegroup 'big' is too long"):
        selected("N@big", {"big": "L@" + "web," * (TARGET_MAX // 4)})


def test_parentheses_have_a_deepest_level() -> None:
    assert selected("( " * DEPTH_MAX + "web" + " )" * DEPTH_MAX) == {WEB}
    with pytest.raises(UsageError, match=r"word 33 \('\('\), column 65: more than 32 parentheses and nodegroups"):
        selected("( " * (DEPTH_MAX + 1) + "web" + " )" * (DEPTH_MAX + 1))


def test_parentheses_one_after_the_other_have_no_level() -> None:
    assert selected(" or ".join(["( web )"] * (DEPTH_MAX + 1))) == {WEB}


def test_nodegroups_have_a_deepest_level() -> None:
    groups: dict[str, str | list[str]] = {f"g{number}": f"N@g{number + 1}" for number in range(DEPTH_MAX)}
    assert selected("N@g1", groups | {f"g{DEPTH_MAX}": "web"}) == {WEB}
    with pytest.raises(UsageError, match=r"nodegroup 'g31', word 1 \('N@g32'\).*more than 32 nodegroups"):
        selected("N@g0", groups | {f"g{DEPTH_MAX}": "web"})


def test_a_target_has_a_number_of_words() -> None:
    assert selected(" or ".join(["web"] * (WORDS_MAX // 2))) == {WEB}
    with pytest.raises(UsageError, match="the target has more than 4096 words"):
        selected(" or ".join(["web"] * (WORDS_MAX // 2 + 1)))


def test_the_words_of_nodegroups_count_each_time() -> None:
    groups: dict[str, str | list[str]] = {
        f"g{number}": f"N@g{number + 1} or N@g{number + 1}" for number in range(DEPTH_MAX - 1)
    }
    with pytest.raises(UsageError, match="with those of its nodegroups"):
        selected("N@g0", groups | {f"g{DEPTH_MAX - 1}": "web"})


@pytest.mark.parametrize(
    ("network", "holds"),
    [
        ("10.1.0.7", True),
        ("10.0.0.0/8", True),
        ("10.1.0.99/24", True),
        ("10.2.0.0/16", False),
        ("2001:db8::/32", True),
        ("2001:db8:0::7", True),
        ("fe80::/10", True),
        ("192.168.0.0/16", False),
        ("0.0.0.0/0", True),
        ("172.16.0.0/12", False),
        ("::/128", False),
    ],
)
def test_addresses_are_those_of_the_grains(network: str, holds: bool) -> None:
    grains = {
        "ipv4": ["10.1.0.7"],
        "ipv6": ["2001:db8::7", "fe80::1%eth0"],
        "ip_interfaces": {"eth0": ["192.168.1.1"]},
    }
    assert has_address(grains, parse_network(network)) is holds


@pytest.mark.parametrize("text", ["", "10.0.0.0/33", "10.0.0", "web", "10.0.0.0/8/8", "10.0.0.0 /8"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="neither an address nor a network"):
        parse_network(text)


def test_strange_grains_have_no_addresses() -> None:
    grains = {"ipv4": [None, 7, ["10.0.0.1"], "x"], "ipv6": 5, "ip4_interfaces": ["10.0.0.1"]}
    assert not has_address(grains, parse_network("0.0.0.0/0"))
    assert not has_address(grains, parse_network("::/0"))


def test_a_long_text_is_no_address() -> None:
    """What minions send is remembered by the text, so it must be short."""
    fits = "fe80::1%".ljust(ADDRESS_MAX, "e")
    is_inside = address_test(parse_network("::/0"))
    assert is_inside(fits)
    assert not is_inside(fits + "e")


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 128))
def test_an_address_is_in_a_network_where_pythons_own_comparison_says_so(
    address: Address, other: Address, prefix: int
) -> None:
    for start in (address, other):
        network = parse_network(f"{start}/{min(prefix, start.max_prefixlen)}")
        assert address_test(network)(str(address)) is (address in network)
