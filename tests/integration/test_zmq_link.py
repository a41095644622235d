"""The ZeroMQ link against what only a real network has: strangers, silence, names, forks, lost wake-ups."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import zmq

from saltlite.errors import LinkError, LocalProtocolError, StartupError
from saltlite.platform import zmq_link
from saltlite.platform.link import SendResult
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import listen_tcp
from saltlite.platform.zmq_link import DealerLink, DrainReader, RouterLink

HELLO = b"\x02\x01" + b"h" * 48
MORE, LAST = 1, 0


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    made = Reactor()
    yield made
    made.close()


def until(reactor: Reactor, condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    met: list[bool] = []

    def look() -> None:
        if condition():
            met.append(True)
        if met or time.monotonic() > deadline:
            reactor.stop()
        else:
            reactor.call_later(0.002, look)

    look()
    reactor.run()
    assert met


@pytest.mark.parametrize("kind", [zmq.ROUTER, zmq.DEALER])
def test_no_connection_has_a_timer_of_its_own_in_zeromq(kind: int) -> None:
    # `python -m tests.bench.bench_storm` shows what ten thousand of them cost.
    with contextlib.closing(zmq_link.new_socket(kind, ipv6=0)) as made:
        assert made.getsockopt(zmq.HEARTBEAT_IVL) == 0


class Server:
    """A RouterLink that keeps what it was told."""

    def __init__(self, reactor: Reactor, interface: str = "127.0.0.1") -> None:
        self.frames: list[tuple[bytes, int, str, bytes]] = []
        self.hangups: list[int] = []
        with listen_tcp(interface, 0) as listener:
            self.port: int = listener.getsockname()[1]
            self.link = RouterLink(reactor, listener, self._frame, self.hangups.append)

    def _frame(self, route: bytes, connection: int, address: str, frame: bytes) -> None:
        self.frames.append((route, connection, address, frame))


@pytest.fixture
def server(reactor: Reactor) -> Iterator[Server]:
    made = Server(reactor)
    yield made
    made.link.close()


class Client:
    """A DealerLink that keeps what it was told."""

    def __init__(self, reactor: Reactor) -> None:
        self.frames: list[bytes] = []
        self.downs: list[str] = []
        self.ups = 0
        self.link = DealerLink(reactor, self._up, self.frames.append, self.downs.append)

    def _up(self) -> None:
        self.ups += 1


@pytest.fixture
def client(reactor: Reactor) -> Iterator[Client]:
    made = Client(reactor)
    yield made
    made.link.close()


class Stranger:
    """ZMTP 3.0 by hand, as anybody on the network can speak it."""

    def __init__(self, port: int, identity: bytes = b"") -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        properties = self._property(b"Socket-Type", b"DEALER") + self._property(b"Identity", identity)
        ready = b"\x05READY" + properties
        self.sock.sendall(bytes([4, len(ready)]) + ready)
        # libzmq takes no message before its own READY has left: greeting of 64 bytes, flags, length, command.
        self._read(64)
        self._read(self._read(2)[1])

    def send(self, payload: bytes, flags: int = LAST) -> None:
        self.sock.sendall(bytes([flags | 2]) + struct.pack(">Q", len(payload)) + payload)

    def _read(self, size: int) -> bytes:
        return self.sock.recv(size, socket.MSG_WAITALL)

    def hung_up(self) -> bool:
        """Whether the other side ended the connection; reads away what came before."""
        self.sock.setblocking(False)
        try:
            while self.sock.recv(65536):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        return True

    @staticmethod
    def _property(name: bytes, value: bytes) -> bytes:
        return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


def test_a_peer_that_gives_itself_a_name_is_hung_up_on_and_never_heard(reactor: Reactor, server: Server) -> None:
    stranger = Stranger(server.port, identity=b"web1")
    with stranger.sock:
        stranger.send(HELLO)
        until(reactor, stranger.hung_up)
    assert server.frames == []
    assert server.link.bad_shape == 1


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_a_message_of_several_parts_costs_its_sender_the_connection(
    reactor: Reactor, server: Server, parts: int
) -> None:
    stranger = Stranger(server.port)
    with stranger.sock:
        for _ in range(parts - 1):
            stranger.send(HELLO, MORE)
        stranger.send(HELLO)
        until(reactor, stranger.hung_up)
    assert server.frames == []
    assert server.link.bad_shape == 1


def test_peers_of_another_shape_do_not_disturb_a_minion(reactor: Reactor, server: Server, client: Client) -> None:
    stranger = Stranger(server.port)
    client.link.open(f"127.0.0.1:{server.port}")
    with stranger.sock:
        stranger.send(b"", MORE)
        stranger.send(b"")
        until(reactor, lambda: client.ups == 1)
        client.link.send(HELLO)
        until(reactor, lambda: len(server.frames) == 1)
    assert server.frames[0][3] == HELLO


def test_a_silent_tcp_connection_is_ended_after_the_handshake_time(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_link, "HANDSHAKE_MS", 100)
    server = Server(reactor)
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.setblocking(False)
        ended: list[bool] = []

        def readable() -> None:
            if not silent.recv(65536):
                reactor.remove_reader(silent.fileno())
                ended.append(True)

        reactor.add_reader(silent.fileno(), readable)
        until(reactor, lambda: bool(ended))
    server.link.close()


def test_a_peer_that_greets_and_then_says_nothing_is_ended(reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmq_link, "FIRST_FRAME_S", 0.2)
    server = Server(reactor)
    talking, silent = Client(reactor), Client(reactor)
    for client in (talking, silent):
        client.link.open(f"127.0.0.1:{server.port}")
    until(reactor, lambda: talking.ups == silent.ups == 1)
    talking.link.send(HELLO)
    until(reactor, lambda: bool(silent.downs))
    assert silent.downs[0].endswith("closed the connection")
    assert talking.downs == []
    assert talking.link.send(HELLO) is SendResult.OK
    until(reactor, lambda: len(server.frames) == 2)
    for link in (talking.link, silent.link, server.link):
        link.close()


def test_a_peer_whose_first_frame_is_data_is_ended_as_if_silent(
    reactor: Reactor, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_link, "FIRST_FRAME_S", 0.1)
    server = Server(reactor)
    client.link.open(f"127.0.0.1:{server.port}")
    until(reactor, lambda: client.ups == 1)
    client.link.send(b"\x02\x04" + bytes(40))
    until(reactor, lambda: bool(client.downs))
    server.link.close()


def test_a_server_that_never_greets_is_down_after_the_handshake_time(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_link, "HANDSHAKE_MS", 100)
    client = Client(reactor)
    with listen_tcp("127.0.0.1", 0) as silent:
        client.link.open(f"127.0.0.1:{silent.getsockname()[1]}")
        until(reactor, lambda: bool(client.downs))
    assert client.ups == 0
    assert "did not greet as a master" in client.downs[0]


def test_a_port_of_another_protocol_is_down_with_a_sentence(reactor: Reactor, client: Client) -> None:
    with listen_tcp("127.0.0.1", 0) as other:

        def answer() -> None:
            sock, _ = other.accept()
            with sock:
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + bytes(200))

        reactor.add_reader(other.fileno(), answer)
        client.link.open(f"127.0.0.1:{other.getsockname()[1]}")
        until(reactor, lambda: bool(client.downs))
        reactor.remove_reader(other.fileno())
    assert client.ups == 0
    assert "did not greet as a master" in client.downs[0]


def test_a_name_that_cannot_be_resolved_is_down_with_a_sentence(
    reactor: Reactor, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_such_name(*_args: object, **_kwargs: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    client.link.open("no-such-host.invalid:4515")
    assert client.downs == []
    until(reactor, lambda: bool(client.downs))
    assert client.downs == ["the name no-such-host.invalid cannot be resolved: Name or service not known"]


def test_the_addresses_of_a_name_are_tried_in_turn(
    reactor: Reactor, server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two_addresses(*_args: object, **_kwargs: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in ("127.0.0.2", "127.0.0.1")]

    def outcomes() -> int:
        return client.ups + len(client.downs)

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    for opened in (1, 2, 3, 4):
        client.link.open(f"master.test:{server.port}")
        until(reactor, partial(lambda wanted: outcomes() == wanted, opened))
    assert client.ups == 2
    assert len(client.downs) == 2


def test_a_minion_reaches_a_master_by_name(reactor: Reactor, server: Server, client: Client) -> None:
    client.link.open(f"localhost:{server.port}")
    if not client.ups:
        until(reactor, lambda: client.ups == 1 or bool(client.downs))
    if client.downs:  # localhost may be ::1 first; the next open takes the next address
        client.link.open(f"localhost:{server.port}")
        until(reactor, lambda: client.ups == 1)
    assert client.link.send(HELLO) is SendResult.OK


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
@pytest.mark.parametrize(("host", "seen"), [("[::1]", "::1"), ("127.0.0.1", "127.0.0.1")])
def test_a_server_on_all_ipv6_interfaces_takes_both_kinds_of_minion(
    reactor: Reactor, client: Client, host: str, seen: str
) -> None:
    try:
        server = Server(reactor, "::")
    except StartupError:
        pytest.skip("this machine has no IPv6")
    client.link.open(f"{host}:{server.port}")
    until(reactor, lambda: client.ups == 1)
    client.link.send(HELLO)
    until(reactor, lambda: len(server.frames) == 1)
    assert server.frames[0][2] == seen
    server.link.close()


def test_a_port_in_use_is_a_sentence_with_the_way_out() -> None:
    with listen_tcp("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(StartupError, match=rf"port {port} on .* is in use .*set another `port`"):
            listen_tcp("127.0.0.1", port)


def test_an_interface_of_another_machine_is_a_sentence_with_the_way_out() -> None:
    with pytest.raises(StartupError, match=r"has no address 192\.0\.2\.77 .*set `interface`"):
        listen_tcp("192.0.2.77", 4515)


def test_an_interface_that_is_no_address_is_a_sentence() -> None:
    with pytest.raises(StartupError, match="interface not-an-address! is not a network address"):
        listen_tcp("not-an-address!", 4515)


def test_the_port_is_free_again_after_the_link_and_the_listener_are_closed(reactor: Reactor) -> None:
    server = Server(reactor)
    server.link.close()
    opened: list[socket.socket] = []

    def free() -> bool:
        try:
            opened.append(listen_tcp("127.0.0.1", server.port))
        except StartupError:
            return False
        return True

    until(reactor, free)
    opened[0].close()


def test_zeromq_refuses_to_work_in_a_process_forked_after_its_first_use(reactor: Reactor, server: Server) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            Client(Reactor()).link.open("127.0.0.1:4515")
        except LocalProtocolError as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    assert said.startswith("LocalProtocolError: ZeroMQ was used before this process was forked")


def test_the_routes_of_two_masters_begin_at_different_numbers() -> None:
    # A stranger who knows the next route can crash libzmq 4.3.5, so it must not be rand()'s first.
    program = (
        "import zmq\n"
        "from saltlite.platform.zmq_link import new_socket\n"
        "router = new_socket(zmq.ROUTER, ipv6=0)\n"
        "port = router.bind_to_random_port('tcp://127.0.0.1')\n"
        "dealer = new_socket(zmq.DEALER, ipv6=0)\n"
        "dealer.setsockopt(zmq.IMMEDIATE, 0)\n"
        "dealer.connect(f'tcp://127.0.0.1:{port}')\n"
        "dealer.send(b'x')\n"
        "print(router.recv_multipart()[0].hex())\n"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert len(first.strip()) == 10
    assert first != second


SIGNAL_PAUSE_S = 0.003
"""A send uses up the wake-up of a frame that has arrived only when it is 1 ms after the last look."""


def test_a_send_does_not_use_up_the_wake_up_of_a_frame_that_came_before(
    reactor: Reactor, server: Server, client: Client
) -> None:
    client.link.open(f"127.0.0.1:{server.port}")
    until(reactor, lambda: client.ups == 1)
    client.link.send(HELLO)
    until(reactor, lambda: len(server.frames) == 1)
    route = server.frames[0][0]
    for number in range(1, 6):
        server.link.send(route, b"to the minion")
        time.sleep(SIGNAL_PAUSE_S)  # the fault: frames arrive in a chosen order
        client.link.send(HELLO)
        time.sleep(SIGNAL_PAUSE_S)  # as above
        server.link.send(route, b"to the minion")
        until(reactor, partial(lambda wanted: len(client.frames) == wanted, number * 2), seconds=3)
        until(reactor, partial(lambda wanted: len(server.frames) == wanted, number + 1), seconds=3)


def test_a_server_that_rests_looks_for_frames_a_few_times_and_not_for_each(
    reactor: Reactor, server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_link, "REST_S", 0.2)
    client.link.open(f"127.0.0.1:{server.port}")
    until(reactor, lambda: client.ups == 1)
    seen: set[int] = set()
    began = reactor.now()
    for _ in range(100):
        server.link.rest()
        client.link.send(HELLO)
        until(reactor, partial(lambda due: reactor.now() >= due, reactor.now() + 0.002))
        seen.add(len(server.frames))
    assert len(seen) <= (reactor.now() - began) / 0.2 + 2
    until(reactor, lambda: len(server.frames) == 100)


def test_a_server_that_rests_looks_for_frames_when_it_sends(
    reactor: Reactor, server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.link.open(f"127.0.0.1:{server.port}")
    until(reactor, lambda: client.ups == 1)
    client.link.send(HELLO)
    until(reactor, lambda: len(server.frames) == 1)
    monkeypatch.setattr(zmq_link, "REST_S", 3600.0)
    server.link.rest()
    server.link.send(server.frames[0][0], b"to the minion")
    until(reactor, lambda: len(client.frames) == 1)
    client.link.send(HELLO)
    until(reactor, lambda: len(server.frames) == 2)


def test_a_closed_link_cannot_send(reactor: Reactor, server: Server) -> None:
    server.link.close()
    with pytest.raises(LinkError, match="cannot send"):
        server.link.send(b"\0abcd", HELLO)


EXCHANGES = 100_000
"""Messages in each direction of the stress test."""


def test_no_wake_up_is_lost_in_a_hundred_thousand_messages_both_ways() -> None:
    # Each side waits for the other's answers with no timer to rescue it: one lost wake-up stops the exchange.
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _echo(reading)
    rng = random.Random(20261121)
    reactor = Reactor()
    context = zmq.Context(io_threads=1)
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.LINGER, 0)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    os.write(writing, struct.pack(">I", port))
    counted = {"in": 0, "out": 0, "answers": 0}

    def received(parts: list[zmq.Frame]) -> None:
        route, payload = parts[0].bytes, parts[1].bytes
        counted["in"] += 1
        if payload[:1] == b"q":
            router.send_multipart([route, b"a" + payload[1:]], zmq.DONTWAIT)
            reader.kick()
            counted["out"] += 1
        if counted["in"] % 997 == 0:
            time.sleep(rng.random() / 500)  # a busy process; the instant is chance
        if counted["in"] >= EXCHANGES:
            reactor.stop()

    reader = DrainReader(reactor, router, received, budget=3)
    reactor.call_later(50, reactor.stop)
    reactor.run()
    reader.close()
    # What was queued last has to leave before the sockets go.
    assert os.waitpid(pid, 0)[1] == 0
    router.close()
    context.term()
    reactor.close()
    os.close(reading)
    os.close(writing)
    assert counted["in"] == counted["out"] == EXCHANGES


def _echo(reading: int) -> None:
    """The other process: asks in bursts of random size and goes on when all answers are there."""
    (port,) = struct.unpack(">I", os.read(reading, 4))
    rng = random.Random(42)
    reactor = Reactor()
    context = zmq.Context(io_threads=1)
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.LINGER, 0)
    dealer.connect(f"tcp://127.0.0.1:{port}")
    state = {"sent": 0, "answered": 0}

    def burst() -> None:
        for _ in range(min(rng.randrange(1, 60), EXCHANGES - state["sent"])):
            dealer.send(b"q" + bytes(rng.randrange(40)), zmq.DONTWAIT)
            reader.kick()
            state["sent"] += 1
        if rng.random() < 0.01:
            time.sleep(rng.random() / 500)  # as above

    def received(_parts: list[zmq.Frame]) -> None:
        state["answered"] += 1
        if state["answered"] == EXCHANGES:
            reactor.stop()
        elif state["answered"] == state["sent"]:
            burst()

    reader = DrainReader(reactor, dealer, received, budget=2)
    reactor.call_soon(burst)
    reactor.call_later(50, reactor.stop)
    reactor.run()
    os._exit(0 if state["answered"] == EXCHANGES else 1)
