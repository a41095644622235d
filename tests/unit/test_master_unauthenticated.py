"""Connections without a session: limited by network, for a time; an honest minion from elsewhere finds a place."""

from __future__ import annotations

import tracemalloc

from saltlite.master.protocol.effects import CloseConnection, Decide
from saltlite.master.protocol.handshakes import CONNECTS_S, Balancers, UnauthenticatedConnections
from saltlite.model.minion import SessionEnd
from saltlite.wire.limits import UNAUTHENTICATED_MAX, UNAUTHENTICATED_PER_NETWORK, UNAUTHENTICATED_S
from tests.support.memory_fleet import Guest, Table


def of_one_network(count: int) -> list[str]:
    """Addresses of one IPv6 network."""
    return [f"2001:db8:bad:1:{number:x}::1" for number in range(count)]


def hung_up(table: Table) -> list[int]:
    return [effect.connection for effect in table.take() if isinstance(effect, CloseConnection)]


def crowd(table: Table, addresses: list[str], start: int = 10_000) -> list[int]:
    """Connections that say nothing; those of them that were hung up on."""
    for number, address in enumerate(addresses, start):
        table.manager.connected(number, address)
    return hung_up(table)


def honest(table: Table, address: str = "2001:db8:900d:1::1") -> Guest:
    """A minion connects, and does what minions do."""
    guest = Guest(table, "web1", address=address)
    table.manager.connected(guest.number, address)
    return guest


def test_three_thousand_silent_strangers_of_one_network_hold_no_more_than_its_part() -> None:
    table = Table(per_address=10.0)
    ended = crowd(table, of_one_network(3000))
    assert len(ended) == 3000 - UNAUTHENTICATED_PER_NETWORK
    assert table.manager.figures()["unauthenticated"] == UNAUTHENTICATED_PER_NETWORK

    guest = honest(table)
    guest.prove()
    guest.decided("accepted")

    assert guest.number not in hung_up(table)
    assert table.manager.sessions.by_id["web1"].address == guest.address
    assert table.manager.figures()["unauthenticated"] == UNAUTHENTICATED_PER_NETWORK


def test_a_full_table_keeps_a_place_for_another_network() -> None:
    table = Table(per_address=10.0)
    for site in range(UNAUTHENTICATED_MAX // UNAUTHENTICATED_PER_NETWORK):
        addresses = [f"2001:db8:bad:{site:x}:{number:x}::1" for number in range(UNAUTHENTICATED_PER_NETWORK)]
        assert crowd(table, addresses, 10_000 * (site + 1)) == []
    assert table.manager.figures()["unauthenticated"] == UNAUTHENTICATED_MAX

    guest = honest(table)

    assert hung_up(table) == [10_000]
    guest.prove()
    assert [effect for effect in table.done if isinstance(effect, Decide)] or table.manager.sessions.deciding


def test_a_stranger_is_hung_up_on_when_its_time_is_over_whatever_it_said() -> None:
    table = Table()
    silent, asking = honest(table), Guest(table, "asks")
    table.manager.connected(asking.number, asking.address)
    asking.raw(b"\x02\x06")
    table.take()
    table.wait(UNAUTHENTICATED_S - 0.1)
    assert hung_up(table) == []
    table.wait(0.2)
    assert hung_up(table) == [silent.number, asking.number]


def test_a_session_that_waits_or_is_accepted_is_no_stranger() -> None:
    for state in ("pending", "accepted"):
        table = Table()
        guest = honest(table)
        guest.prove()
        assert len(table.manager._unauthenticated) == 1
        guest.decided(state)
        assert len(table.manager._unauthenticated) == 0


def test_a_connection_whose_session_is_over_is_a_stranger_again() -> None:
    """Else whoever was refused could stay for ever."""
    table = Table()
    guest = honest(table)
    guest.prove()
    guest.decided("pending")
    table.manager.key_changed(guest.key, "rejected", "web1")
    assert len(table.manager._unauthenticated) == 1
    table.take()
    table.wait(UNAUTHENTICATED_S)
    assert guest.number in hung_up(table)


def test_a_connection_that_is_over_is_forgotten_and_its_number_is_free() -> None:
    table = Table()
    guest = honest(table)
    guest.prove()
    guest.decided("accepted")
    table.manager.hangup(guest.number)
    # The number belongs to another connection by now, when the link says that the old one is gone.
    other = Guest(table, "web2")
    other.number = guest.number
    table.manager.connected(other.number, other.address)
    other.prove()
    other.decided("accepted")
    table.manager._drop(table.manager.sessions.by_id["web1"], SessionEnd.LOST)
    assert len(table.manager._unauthenticated) == 0
    table.take()
    table.wait(1.0)
    assert hung_up(table) == []


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
