"""Connections without a session: limited by network, for a time; an honest minion from elsewhere finds a place."""

from __future__ import annotations

import tracemalloc

import pytest

from saltlite.master.protocol.effects import CloseConnection, Decide
from saltlite.master.protocol.handshakes import CONNECTS_S, Balancers, UnauthenticatedConnections
from saltlite.model.minion import SessionEnd
from saltlite.wire.limits import (
    HANDSHAKE_TIMEOUT_S,
    UNAUTHENTICATED_MAX,
    UNAUTHENTICATED_PER_NETWORK,
    UNAUTHENTICATED_S,
)
from tests.support.memory_fleet import Peer, SessionRig


def of_one_network(count: int) -> list[str]:
    """Addresses of one IPv6 network."""
    return [f"2001:db8:bad:1:{number:x}::1" for number in range(count)]


def hung_up(rig: SessionRig) -> list[int]:
    return [effect.connection for effect in rig.take() if isinstance(effect, CloseConnection)]


def connect(rig: SessionRig, addresses: list[str], start: int = 10_000) -> list[int]:
    """Connections that say nothing; those of them that were hung up on."""
    for number, address in enumerate(addresses, start):
        rig.manager.connected(number, address)
    return hung_up(rig)


def honest(rig: SessionRig, address: str = "2001:db8:900d:1::1") -> Peer:
    """A minion connects, and does what minions do."""
    peer = Peer(rig, "web1", address=address)
    rig.manager.connected(peer.number, address)
    return peer


def test_three_thousand_silent_strangers_of_one_network_hold_no_more_than_its_part() -> None:
    rig = SessionRig(per_address=10.0)
    ended = connect(rig, of_one_network(3000))
    assert len(ended) == 3000 - UNAUTHENTICATED_PER_NETWORK
    assert rig.manager.figures()["unauthenticated"] == UNAUTHENTICATED_PER_NETWORK

    peer = honest(rig)
    peer.prove()
    peer.decided("accepted")

    assert peer.number not in hung_up(rig)
    assert rig.manager.sessions.by_id["web1"].address == peer.address
    assert rig.manager.figures()["unauthenticated"] == UNAUTHENTICATED_PER_NETWORK


def test_a_full_table_keeps_a_place_for_another_network() -> None:
    rig = SessionRig(per_address=10.0)
    for site in range(UNAUTHENTICATED_MAX // UNAUTHENTICATED_PER_NETWORK):
        addresses = [f"2001:db8:bad:{site:x}:{number:x}::1" for number in range(UNAUTHENTICATED_PER_NETWORK)]
        assert connect(rig, addresses, 10_000 * (site + 1)) == []
    assert rig.manager.figures()["unauthenticated"] == UNAUTHENTICATED_MAX

    peer = honest(rig)

    assert hung_up(rig) == [10_000]
    peer.prove()
    assert [effect for effect in rig.done if isinstance(effect, Decide)] or rig.manager.sessions.deciding


def test_a_stranger_is_hung_up_on_when_its_time_is_over_whatever_it_said() -> None:
    rig = SessionRig()
    silent, asking = honest(rig), Peer(rig, "asks")
    rig.manager.connected(asking.number, asking.address)
    asking.raw(b"\x02\x06")
    rig.take()
    rig.wait(UNAUTHENTICATED_S - 0.1)
    assert hung_up(rig) == []
    rig.wait(0.2)
    assert hung_up(rig) == [silent.number, asking.number]


def test_a_session_that_waits_or_is_accepted_is_no_stranger() -> None:
    for state in ("pending", "accepted"):
        rig = SessionRig()
        peer = honest(rig)
        peer.prove()
        assert len(rig.manager._unauthenticated) == 1
        peer.decided(state)
        assert len(rig.manager._unauthenticated) == 0


def test_a_connection_whose_session_is_over_is_a_stranger_again() -> None:
    """Else whoever was refused could stay for ever."""
    rig = SessionRig()
    peer = honest(rig)
    peer.prove()
    peer.decided("pending")
    rig.manager.key_changed(peer.key, "rejected", "web1")
    assert len(rig.manager._unauthenticated) == 1
    rig.take()
    rig.wait(UNAUTHENTICATED_S)
    assert peer.number in hung_up(rig)


def test_a_connection_that_is_over_is_forgotten_and_its_number_is_free() -> None:
    rig = SessionRig()
    peer = honest(rig)
    peer.prove()
    peer.decided("accepted")
    rig.manager.hangup(peer.number)
    # The number belongs to another connection by now, when the link says that the old one is gone.
    other = Peer(rig, "web2")
    other.number = peer.number
    rig.manager.connected(other.number, other.address)
    other.prove()
    other.decided("accepted")
    rig.manager._drop(rig.manager.sessions.by_id["web1"], SessionEnd.LOST)
    assert len(rig.manager._unauthenticated) == 0
    rig.take()
    rig.wait(1.0)
    assert hung_up(rig) == []


@pytest.mark.parametrize("is_told", [True, False], ids=["the end is told first", "the new handshake comes first"])
def test_a_handshake_that_was_broken_off_ends_no_later_connection_with_its_number(is_told: bool) -> None:
    """As after `saltlite doctor`, which asks a master for its proof and hangs up."""
    rig = SessionRig()
    asking = honest(rig)
    asking.hello()
    if is_told:
        rig.manager.hangup(asking.number)
    other = Peer(rig, "web2", address=asking.address)
    other.number = asking.number
    rig.manager.connected(other.number, other.address)
    other.prove()
    other.decided("accepted")
    rig.take()
    rig.wait(HANDSHAKE_TIMEOUT_S)
    assert hung_up(rig) == []


def test_a_network_that_may_begin_more_handshakes_may_have_more_connected() -> None:
    """A whole site behind one address, or a laboratory."""
    it = UnauthenticatedConnections(handshakes_per_network=200.0, balancers=Balancers())
    most = int(200 * CONNECTS_S)
    ended = [it.connected(number, "10.0.0.1", 0.0) for number in range(most + 1)]
    assert ended == [[]] * most + [[CloseConnection(most, "10.0.0.1")]]


def test_a_stranger_alone_in_its_network_costs_at_most_400_bytes_of_python() -> None:
    count = 3000
    strangers = UnauthenticatedConnections(handshakes_per_network=10.0, balancers=Balancers())
    tracemalloc.start()
    try:
        for number in range(10_000, 10_000 + count):
            address = f"203.0.{number // 256}.{number % 256}"
            assert strangers.connected(number, address, now=float(number)) == []
        taken, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(strangers) == count
    assert taken / count < 400
