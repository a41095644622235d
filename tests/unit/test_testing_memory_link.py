"""What the in-memory link does beyond the contract: the faults that the simulator asks for."""

from __future__ import annotations

import pytest

from saltlite.errors import LinkError
from saltlite.platform.link import QUEUE_FRAMES, SendResult
from saltlite.testing.link import Fate, Flight, MemoryClientLink, MemoryNetwork


class Fleet:
    """A network with one server and one client that is up, and the frames that each got."""

    def __init__(self, *fates: Fate) -> None:
        self.fates = list(fates)
        self.asked: list[Flight] = []
        self.network = MemoryNetwork(self._fate)
        self.at_server: list[bytes] = []
        self.at_client: list[bytes] = []
        self.downs: list[str] = []
        self.hangups: list[int] = []
        self.routes: list[bytes] = []
        self.server = self.network.server(self._frame, self.hangups.append)
        self.client: MemoryClientLink = self.network.client(lambda: None, self.at_client.append, self.downs.append)
        self.client.open("master:4515")
        self.settle()

    def settle(self) -> None:
        while self.network.deliver():
            pass

    def _frame(self, route: bytes, _connection: int, _address: str, frame: bytes) -> None:
        self.routes.append(route)
        self.at_server.append(frame)

    def _fate(self, flight: Flight) -> Fate:
        self.asked.append(flight)
        return self.fates.pop(0) if self.fates else Fate.DELIVER


def send(fleet: Fleet, *frames: bytes) -> None:
    for frame in frames:
        assert fleet.client.send(frame) is SendResult.OK


def test_nothing_moves_without_deliver() -> None:
    fleet = Fleet()
    send(fleet, b"a")
    assert fleet.at_server == []
    assert fleet.network.deliver() == 1
    assert fleet.at_server == [b"a"]
    assert fleet.network.deliver() == 0


def test_a_dropped_frame_is_lost_and_the_others_are_not() -> None:
    fleet = Fleet(Fate.DELIVER, Fate.DROP)
    send(fleet, b"a", b"b", b"c")
    fleet.settle()
    assert fleet.at_server == [b"a", b"c"]


def test_a_doubled_frame_comes_a_second_time_behind_the_others() -> None:
    fleet = Fleet(Fate.DUPLICATE)
    send(fleet, b"a", b"b")
    fleet.settle()
    assert fleet.at_server == [b"a", b"b", b"a"]


def test_a_delayed_frame_is_overtaken() -> None:
    fleet = Fleet(Fate.DELAY, Fate.DELIVER, Fate.DELAY, Fate.DELIVER)
    send(fleet, b"a", b"b")
    assert fleet.network.deliver() == 2
    assert fleet.at_server == [b"b"]
    fleet.settle()
    assert fleet.at_server == [b"b", b"a"]


def test_a_cut_ends_the_connection_at_both_ends() -> None:
    fleet = Fleet(Fate.DELIVER, Fate.CUT)
    send(fleet, b"a", b"b")
    fleet.settle()
    assert fleet.at_server == [b"a"]
    assert fleet.downs == ["the connection was cut"]
    assert len(fleet.hangups) == 1
    assert fleet.client.send(b"c") is SendResult.GONE
    assert fleet.server.send(fleet.routes[0], b"c") is SendResult.GONE


def test_the_fate_is_told_direction_and_content() -> None:
    fleet = Fleet()
    send(fleet, b"up")
    fleet.settle()
    fleet.server.send(fleet.routes[0], b"down")
    fleet.settle()
    assert [(flight.to_server, flight.frame) for flight in fleet.asked] == [(True, b"up"), (False, b"down")]


def test_a_queue_is_full_at_its_limit() -> None:
    fleet = Fleet()
    for _ in range(QUEUE_FRAMES):
        send(fleet, b"x")
    assert fleet.client.send(b"x") is SendResult.FULL
    fleet.settle()
    assert fleet.client.send(b"x") is SendResult.OK


def test_an_address_has_one_server_and_is_free_when_it_closes() -> None:
    fleet = Fleet()
    with pytest.raises(LinkError, match="master:4515 is in use"):
        fleet.network.server(lambda *_frame: None, lambda _connection: None)
    fleet.server.close()
    fleet.network.server(lambda *_frame: None, lambda _connection: None)


def test_clients_reach_the_master_whose_address_they_open() -> None:
    fleet = Fleet()
    at_second: list[bytes] = []
    fleet.network.server(
        lambda _route, _connection, _address, frame: at_second.append(frame),
        lambda _connection: None,
        address="second:4515",
    )
    fleet.client.open("second:4515")
    fleet.settle()
    send(fleet, b"to the second")
    fleet.settle()
    assert at_second == [b"to the second"]
    assert fleet.at_server == []
