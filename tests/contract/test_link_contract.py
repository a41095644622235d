"""What a link promises, asked of the in-memory twin and of ZeroMQ over loopback alike."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from saltlite.errors import LinkError
from saltlite.platform.link import LINK_FRAME_MAX, QUEUE_FRAMES, ClientLink, SendResult, ServerLink
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import listen_tcp
from saltlite.platform.zmq_link import DealerLink, RouterLink
from saltlite.testing.link import DEFAULT_ADDRESS, MemoryNetwork
from tests.support.fleet import WAIT_S

HELLO = b"\x02\x01" + b"h" * 48
DATA = b"\x02\x04" + b"d" * 40


class Events:
    """What the owner of one end was told, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []
        self.connections: list[tuple[int, str]] = []

    def up(self) -> None:
        self.seen.append(("up",))

    def down(self, reason: str) -> None:
        self.seen.append(("down", reason))

    def frame(self, frame: bytes) -> None:
        self.seen.append(("frame", frame))

    def server_frame(self, route: bytes, connection: int, address: str, frame: bytes) -> None:
        self.seen.append(("frame", route, connection, address, frame))

    def connected(self, connection: int, address: str) -> None:
        self.connections.append((connection, address))

    def hangup(self, connection: int) -> None:
        self.seen.append(("hangup", connection))

    def names(self) -> list[str]:
        return [str(event[0]) for event in self.seen]

    def last(self, name: str) -> tuple[object, ...]:
        return next(event for event in reversed(self.seen) if event[0] == name)


class Rig(Protocol):
    """A server with its events, clients on demand, and a way to let things happen."""

    address: str
    nobody: str
    server: ServerLink
    events: Events

    def client(self, events: Events) -> ClientLink: ...

    def until(self, condition: Callable[[], bool]) -> None: ...

    def settle(self) -> None: ...

    def close(self) -> None: ...


class MemoryRig:
    address = DEFAULT_ADDRESS
    nobody = "nobody:4515"

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.events = Events()
        self.server: ServerLink = self.network.server(
            self.events.server_frame, self.events.hangup, self.events.connected
        )

    def client(self, events: Events) -> ClientLink:
        return self.network.client(events.up, events.frame, events.down)

    def until(self, condition: Callable[[], bool]) -> None:
        self.settle()
        assert condition()

    def settle(self) -> None:
        while self.network.deliver():
            pass

    def close(self) -> None:
        self.server.close()


class ZmqRig:
    def __init__(self) -> None:
        self.reactor = Reactor()
        self.events = Events()
        self.listener = listen_tcp("127.0.0.1", 0)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.nobody = f"127.0.0.1:{free.getsockname()[1]}"
        self.server: ServerLink = RouterLink(
            self.reactor, self.listener, self.events.server_frame, self.events.hangup, self.events.connected
        )
        self.listener.close()
        self.clients: list[ClientLink] = []

    def client(self, events: Events) -> ClientLink:
        client = DealerLink(self.reactor, events.up, events.frame, events.down)
        self.clients.append(client)
        return client

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S

        def look() -> None:
            if condition() or time.monotonic() > deadline:
                self.reactor.stop()
            else:
                self.reactor.call_later(0.002, look)

        look()
        self.reactor.run()
        assert condition()

    def settle(self) -> None:
        """Let pass what takes a moment on loopback, to show that something does not happen."""
        end = time.monotonic() + 0.15
        self.until(lambda: time.monotonic() > end)

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.server.close()
        self.reactor.close()


@pytest.fixture(params=[MemoryRig, ZmqRig])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made: Rig = request.param()
    yield made
    made.close()


def connected(rig: Rig) -> tuple[ClientLink, Events, bytes, int, str]:
    """A client that has said HELLO, with the route, connection and address that the server saw."""
    events = Events()
    client = rig.client(events)
    client.open(rig.address)
    rig.until(lambda: "up" in events.names())
    assert client.send(HELLO) is SendResult.OK
    before = rig.events.names().count("frame")
    rig.until(lambda: rig.events.names().count("frame") > before)
    _, route, connection, address, frame = rig.events.last("frame")
    assert isinstance(route, bytes)
    assert isinstance(connection, int)
    assert isinstance(address, str)
    assert frame == HELLO
    return client, events, route, connection, address


def test_frames_arrive_in_order_in_both_directions(rig: Rig) -> None:
    client, events, route, _, _ = connected(rig)
    for number in range(QUEUE_FRAMES - 4):
        assert client.send(DATA + bytes([number])) is SendResult.OK
        assert rig.server.send(route, b"answer" + bytes([number])) is SendResult.OK
    rig.until(lambda: len(rig.events.seen) == QUEUE_FRAMES - 3 and len(events.seen) == QUEUE_FRAMES - 3)
    assert [event[4] for event in rig.events.seen[1:]] == [DATA + bytes([n]) for n in range(QUEUE_FRAMES - 4)]
    assert [event[1] for event in events.seen[1:]] == [b"answer" + bytes([n]) for n in range(QUEUE_FRAMES - 4)]


def test_a_connection_is_reported_with_its_address_before_it_has_said_anything(rig: Rig) -> None:
    silent = Events()
    rig.client(silent).open(rig.address)
    rig.until(lambda: bool(rig.events.connections))
    ((_, address),) = rig.events.connections
    assert rig.events.seen == []
    _, _, _, number, same_address = connected(rig)
    assert rig.events.connections[1:] == [(number, same_address)]
    assert address == same_address


def test_a_connection_that_said_nothing_can_be_hung_up_on(rig: Rig) -> None:
    silent = Events()
    rig.client(silent).open(rig.address)
    rig.until(lambda: bool(rig.events.connections) and "up" in silent.names())
    rig.server.hang_up(*rig.events.connections[0])
    rig.until(lambda: "down" in silent.names() and "hangup" in rig.events.names())


def test_every_frame_of_a_connection_comes_by_the_same_route(rig: Rig) -> None:
    client, _, route, _, _ = connected(rig)
    client.send(DATA)
    rig.until(lambda: len(rig.events.seen) == 2)
    assert rig.events.last("frame")[1] == route


def test_only_frames_that_are_not_data_say_where_they_come_from(rig: Rig) -> None:
    client, _, _, connection, address = connected(rig)
    assert connection > 0
    assert address in ("127.0.0.1", "10.0.0.1")
    client.send(DATA)
    rig.until(lambda: len(rig.events.seen) == 2)
    assert rig.events.last("frame")[2:4] == (-1, "")


def test_two_clients_have_different_routes_and_connections(rig: Rig) -> None:
    _, _, route_a, connection_a, _ = connected(rig)
    _, _, route_b, connection_b, _ = connected(rig)
    assert route_a != route_b
    assert connection_a != connection_b


def test_an_unknown_route_is_gone(rig: Rig) -> None:
    assert rig.server.send(b"\0none", DATA) is SendResult.GONE


def test_a_client_that_closes_rings_the_bell_and_its_route_is_gone(rig: Rig) -> None:
    client, events, route, connection, _ = connected(rig)
    client.close()
    rig.until(lambda: ("hangup", connection) in rig.events.seen)
    rig.until(lambda: rig.server.send(route, DATA) is SendResult.GONE)
    assert client.send(DATA) is SendResult.GONE
    assert events.names() == ["up"]


def test_a_server_that_closes_is_reported_once_with_a_sentence(rig: Rig) -> None:
    client, events, _, _, _ = connected(rig)
    rig.server.close()
    rig.until(lambda: "down" in events.names())
    rig.settle()
    assert events.names() == ["up", "down"]
    assert "closed the connection" in str(events.last("down")[1])
    assert client.send(DATA) is SendResult.GONE


def test_an_address_where_nobody_listens_is_reported_once(rig: Rig) -> None:
    events = Events()
    client = rig.client(events)
    client.open(rig.nobody)
    rig.until(lambda: "down" in events.names())
    rig.settle()
    assert events.names() == ["down"]
    assert rig.nobody in str(events.last("down")[1])


def test_a_client_can_open_again_after_it_was_told_that_the_connection_is_down(rig: Rig) -> None:
    events = Events()
    client = rig.client(events)
    client.open(rig.nobody)
    rig.until(lambda: events.names() == ["down"])
    client.open(rig.address)
    rig.until(lambda: events.names() == ["down", "up"])
    assert client.send(HELLO) is SendResult.OK


def test_opening_again_gives_a_new_route_and_reports_nothing_of_the_old_connection(rig: Rig) -> None:
    client, events, route, connection, _ = connected(rig)
    client.open(rig.address)
    rig.until(lambda: events.names().count("up") == 2)
    client.send(HELLO)
    rig.until(lambda: rig.events.names().count("frame") == 2)
    assert rig.events.last("frame")[1] != route
    rig.until(lambda: ("hangup", connection) in rig.events.seen)
    assert events.names() == ["up", "up"]


def test_an_open_that_is_overtaken_by_another_is_never_reported(rig: Rig) -> None:
    events = Events()
    client = rig.client(events)
    client.open(rig.nobody)
    client.open(rig.address)
    rig.until(lambda: "up" in events.names())
    rig.settle()
    assert events.names() == ["up"]


def test_nothing_is_reported_after_close(rig: Rig) -> None:
    events = Events()
    client = rig.client(events)
    client.open(rig.nobody)
    client.close()
    rig.settle()
    assert events.seen == []


def test_sending_before_the_connection_is_up_is_gone(rig: Rig) -> None:
    client = rig.client(Events())
    assert client.send(HELLO) is SendResult.GONE
    client.open(rig.address)
    assert client.send(HELLO) is SendResult.GONE


def test_a_peer_that_does_not_read_makes_send_full_and_what_was_taken_arrives(rig: Rig) -> None:
    _, events, route, _, _ = connected(rig)
    frame = DATA + bytes(100_000)
    taken = 0
    while (said := rig.server.send(route, frame)) is SendResult.OK:
        taken += 1
        assert taken < 1_000
    assert said is SendResult.FULL
    rig.until(lambda: events.names().count("frame") == taken)
    rig.until(lambda: rig.server.send(route, DATA) is SendResult.OK)


def test_frames_that_arrive_while_the_server_rests_are_not_lost(rig: Rig) -> None:
    client, _, route, _, _ = connected(rig)
    for number in range(3):
        rig.server.rest()
        assert client.send(DATA + bytes([number])) is SendResult.OK
        rig.until(lambda number=number: rig.events.last("frame")[4] == DATA + bytes([number]))  # type: ignore[misc]  # a default binds it
    rig.server.rest()
    assert rig.server.send(route, DATA) is SendResult.OK
    assert client.send(DATA + b"x") is SendResult.OK
    rig.until(lambda: rig.events.last("frame")[4] == DATA + b"x")
    rig.server.rest()


def test_hang_up_ends_exactly_that_connection(rig: Rig) -> None:
    _, events, route, connection, address = connected(rig)
    _, other_events, other_route, _, _ = connected(rig)
    rig.server.hang_up(connection, address)
    rig.until(lambda: "down" in events.names() and ("hangup", connection) in rig.events.seen)
    assert rig.server.send(route, DATA) is SendResult.GONE
    assert rig.server.send(other_route, DATA) is SendResult.OK
    rig.until(lambda: other_events.names() == ["up", "frame"])


def test_hang_up_leaves_a_connection_alone_that_belongs_to_another_address(rig: Rig) -> None:
    _, events, route, connection, _ = connected(rig)
    rig.server.hang_up(connection, "192.0.2.1")
    assert rig.server.send(route, DATA) is SendResult.OK
    rig.until(lambda: events.names() == ["up", "frame"])


def test_a_frame_of_the_greatest_length_arrives_whole(rig: Rig) -> None:
    client, _, _, _, _ = connected(rig)
    longest = DATA.ljust(LINK_FRAME_MAX, b"x")
    assert client.send(longest) is SendResult.OK
    rig.until(lambda: len(rig.events.seen) == 2)
    assert rig.events.last("frame")[4] == longest


def test_a_longer_frame_costs_the_sender_its_connection(rig: Rig) -> None:
    client, events, _, _, _ = connected(rig)
    client.send(DATA.ljust(LINK_FRAME_MAX + 1, b"x"))
    rig.until(lambda: "down" in events.names())
    assert rig.events.names().count("frame") == 1


@pytest.mark.parametrize("address", ["", "host", "host:", ":4515", "host:ssh", "host:70000", "fe80::1:4515"])
def test_an_address_of_another_form_is_refused(rig: Rig, address: str) -> None:
    client = rig.client(Events())
    with pytest.raises(LinkError, match="not the address of a master"):
        client.open(address)
