"""Strangers and traitors at the master's port: what they send costs their own connection, and nobody else anything.

The stranger speaks real ZeroMQ and real handshakes, made with `saltlite.wire`, and then does what no minion does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from saltlite.model.ids import parse_jid
from saltlite.model.keys import Fingerprint, fingerprint, unspell_fingerprint
from saltlite.platform.link import LINK_FRAME_MAX
from saltlite.wire import codec, frames
from saltlite.wire.frames import SecureSession
from saltlite.wire.limits import FRAME_MAX
from saltlite.wire.noise import Handshake, Role, private_key, public_of
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

ANSWER_MS = 10_000


class Stranger:
    """One ZeroMQ connection to the master of `fleet`, with a key of its own."""

    def __init__(self, fleet: Fleet, name: str = "stranger", private: bytes | None = None) -> None:
        self.name = name
        self.private = os.urandom(32) if private is None else private
        self.fleet_id = unspell_fingerprint(Fingerprint(fleet.fleet_id()))
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self.socket.setsockopt(zmq.SNDTIMEO, ANSWER_MS)  # nobody takes what is sent to a master that has hung up
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.socket.connect(f"tcp://{fleet.address()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.socket.disable_monitor()
        self.monitor.close(0)
        self.context.destroy(linger=0)

    def send(self, *parts: bytes) -> None:
        self.socket.send_multipart(parts)

    def receive(self) -> bytes:
        assert self.socket.poll(ANSWER_MS), "the master does not answer"
        return self.socket.recv()

    def hung_up(self) -> bool:
        """Wait until the master ended the connection."""
        return (
            bool(self.monitor.poll(ANSWER_MS)) and recv_monitor_message(self.monitor)["event"] == zmq.EVENT_DISCONNECTED
        )

    def hello(self) -> bytes:
        self.handshake = Handshake(
            Role.INITIATOR, private_key(self.private), frames.prologue(self.fleet_id), os.urandom(32)
        )
        return frames.hello(self.handshake.write(b""), self.fleet_id)

    def prove(self) -> str:
        """The whole handshake; the state in which the master welcomes this key."""
        self.send(self.hello())
        answer = frames.parse(self.receive())
        assert isinstance(answer, frames.ReplyFrame)
        self.handshake.read(answer.message)
        said = {"id": self.name, "boot": "b", "incarnation": "i", "version": "1", "functions": "", "token": b""}
        self.send(frames.auth(self.handshake.write(codec.encode(said))))
        self.session = SecureSession(self.handshake)
        # A beat may come first: the master feels whether a connection is there whose number was another's before.
        while (welcome := self.heard())["t"] == "heartbeat_ack":
            pass
        state: str = welcome["state"]
        return state

    def seal(self, message: Mapping[str, Any]) -> bytes:
        return self.session.seal(codec.encode(message))

    def heard(self) -> Any:
        return codec.decode(self.session.open(self.receive()))

    def is_heard(self) -> bool:
        """Whether its session works: a heartbeat is answered."""
        self.send(self.seal({"t": "heartbeat", "running": [], "spool": 0}))
        # What an MWorker has to say to it comes when it comes.
        while (verb := self.heard()["t"]) in ("fetch", "return_ack"):
            pass
        return bool(verb == "heartbeat_ack")


@pytest.fixture
def hostile(shared: Fleet) -> Iterator[Stranger]:
    """An accepted minion that is about to misbehave."""
    with Stranger(shared, "traitor") as stranger:
        key = fingerprint(public_of(stranger.private))
        assert shared.cli("key", "preaccept", "traitor", key).code == 0
        try:
            assert stranger.prove() == "accepted"
            yield stranger
        finally:
            assert shared.cli("key", "delete", "traitor", "-y").code == 0


def comings_and_goings(fleet: Fleet) -> list[str]:
    """Every change of presence of the honest minions, as the master recorded it."""
    with fleet.store() as store:
        events = [event for event in store.events(0, 10**6) if event.tag == "salt/presence/change"]
    changes = [name for event in events for kind in ("new", "lost") for name in event.data.get(kind, ())]
    return [name for name in changes if name in ("a", "b")]


@pytest.fixture(autouse=True)
def honest(shared: Fleet) -> Iterator[None]:
    """After each test the honest minions still have the sessions that they had, and answer."""
    before = comings_and_goings(shared)
    link = shared.daemons["master"].child("master link")
    yield
    assert shared.cli("--out", "json", "[ab]", "test.ping").json() == {"a": True, "b": True}
    assert comings_and_goings(shared) == before
    assert shared.daemons["master"].child("master link") == link


# -- before a handshake

GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "one byte": b"\x01",
    "another version": b"\x02\x01" + bytes(48),
    "an unknown type": b"\x01\x63" + bytes(48),
    "a truncated hello": b"\x02\x01" + bytes(47),
    "an oversize hello": b"\x02\x01" + bytes(4000),
    "a hello to another fleet": b"\x02\x01" + bytes(48),
    "an auth that nobody asked for": b"\x02\x03" + bytes(200),
    "what only a master says": b"\x02\x02" + bytes(200),
    "random bytes": bytes(range(1, 256)) * 4,
}


@pytest.mark.parametrize("frame", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_before_a_handshake_is_hung_up_on(shared: Fleet, frame: bytes) -> None:
    with Stranger(shared) as stranger:
        stranger.send(frame)
        assert stranger.hung_up()


def test_a_message_of_several_parts_is_hung_up_on(shared: Fleet) -> None:
    with Stranger(shared) as stranger:
        stranger.send(stranger.hello(), b"and more", b"and more")
        assert stranger.hung_up()


def test_a_frame_that_no_link_may_carry_is_hung_up_on(shared: Fleet) -> None:
    with Stranger(shared) as stranger:
        stranger.send(b"\x02\x04" + bytes(LINK_FRAME_MAX))
        assert stranger.hung_up()


def test_data_of_a_session_that_does_not_exist_is_not_answered(shared: Fleet) -> None:
    with Stranger(shared) as stranger:
        stranger.send(b"\x02\x04" + os.urandom(60))
        assert stranger.prove() == "pending"
    shared.cli("key", "delete", "stranger", "-y")


def test_a_second_hello_in_a_handshake_is_hung_up_on(shared: Fleet) -> None:
    with Stranger(shared) as stranger:
        stranger.send(stranger.hello())
        stranger.receive()
        stranger.send(stranger.hello())
        assert stranger.hung_up()


# -- inside a session

Misuse = Callable[[Stranger], list[bytes]]


def _replayed(it: Stranger) -> list[bytes]:
    frame = it.seal({"t": "heartbeat", "running": [], "spool": 0})
    return [frame, frame]


def _reordered(it: Stranger) -> list[bytes]:
    return [it.seal({"t": "heartbeat", "running": [], "spool": 0}) for _ in range(2)][::-1]


def _truncated(it: Stranger) -> list[bytes]:
    return [it.seal({"t": "heartbeat", "running": [], "spool": 0})[:-1]]


def _flipped(it: Stranger) -> list[bytes]:
    frame = bytearray(it.seal({"t": "heartbeat", "running": [], "spool": 0}))
    frame[-20] ^= 1
    return [bytes(frame)]


def _oversize(it: Stranger) -> list[bytes]:
    frame = it.seal({"t": "heartbeat", "running": [], "spool": 0})
    return [frame + bytes(FRAME_MAX - len(frame))]


def _verb_of_the_master(it: Stranger) -> list[bytes]:
    return [it.seal({"t": "return_ack", "jids": []})]


def _operator_verb(it: Stranger) -> list[bytes]:
    return [it.seal({"t": "publish", "tgt": "*", "fun": "cmd.run", "arg": ["id"]})]


def _deep(it: Stranger) -> list[bytes]:
    return [it.session.seal(b"\x91" * 1000 + b"\x90")]


def _no_msgpack(it: Stranger) -> list[bytes]:
    return [it.session.seal(b"\xc1" * 100)]


@pytest.mark.parametrize(
    "misuse",
    [
        _replayed,
        _reordered,
        _truncated,
        _flipped,
        _oversize,
        _verb_of_the_master,
        _operator_verb,
        _deep,
        _no_msgpack,
    ],
    ids=lambda misuse: misuse.__name__.strip("_"),
)
def test_a_frame_that_no_minion_sends_costs_its_own_session(hostile: Stranger, misuse: Misuse) -> None:
    for frame in misuse(hostile):
        with contextlib.suppress(zmq.Again):  # the first may have been enough
            hostile.send(frame)
    assert hostile.hung_up()


def test_a_frame_of_another_session_is_not_acted_on_and_harms_neither(shared: Fleet, hostile: Stranger) -> None:
    frame = hostile.seal({"t": "heartbeat", "running": [], "spool": 0})
    with Stranger(shared) as thief:
        assert thief.prove() == "pending"
        thief.send(frame)
        assert thief.is_heard()
    hostile.send(frame)  # had it counted before, this would be a replay
    assert hostile.is_heard()
    shared.cli("key", "delete", "stranger", "-y")


def test_a_return_for_a_job_of_another_minion_is_not_stored(shared: Fleet, hostile: Stranger) -> None:
    jid = shared.publish("a", "test.sleep", "1")
    forged = {"state": "returned", "code": 0, "size": 1, "start_ms": 0, "dur_ms": 0, "reason": ""}

    hostile.send(hostile.seal({"t": "return", "jid": jid, "body": b"\xc2", **forged}))

    assert hostile.is_heard()
    shared.wait_state(jid, "a", "returned")
    with shared.store() as store:
        assert [(row.id, row.body) for row in store.returns(parse_jid(jid))] == [("a", b"\xc3")]


def test_a_pending_minion_that_acts_as_an_accepted_one_is_hung_up_on(shared: Fleet) -> None:
    with Stranger(shared) as stranger:
        assert stranger.prove() == "pending"
        stranger.send(stranger.seal({"t": "job_state", "jid": "2" * 20, "state": "running", "reason": ""}))
        assert stranger.hung_up()
    shared.cli("key", "delete", "stranger", "-y")


# -- below ZeroMQ


def tcp(fleet: Fleet) -> socket.socket:
    host, _, port = fleet.address().partition(":")
    return socket.create_connection((host, int(port)), 10)


def is_ended(peer: socket.socket) -> bool:
    """Read until the master ends the connection."""
    with contextlib.suppress(ConnectionResetError):
        while peer.recv(4096):
            pass
    return True


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00\x01" + bytes(500), b"\xff" * 5000],
    ids=["tls", "noise"],
)
def test_other_protocols_on_the_port_are_ended(shared: Fleet, data: bytes) -> None:
    with tcp(shared) as peer:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            peer.sendall(data)
        assert is_ended(peer)


def test_web_browsers_on_the_port_get_nothing_and_delay_nobody(shared: Fleet) -> None:
    with contextlib.ExitStack() as stack:
        browsers = [stack.enter_context(tcp(shared)) for _ in range(50)]
        for peer in browsers:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: master\r\n\r\n")

        assert shared.cli("--out", "json", "-t", "8", "[ab]", "test.ping").json() == {"a": True, "b": True}

        for peer in browsers:
            peer.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                assert b"HTTP" not in peer.recv(4096)


def test_a_hundred_silent_connections_delay_nobody_and_are_ended(shared: Fleet) -> None:
    link = shared.daemons["master"].child("master link")
    before = len(os.listdir(f"/proc/{link}/fd"))
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(tcp(shared)) for _ in range(100)]

        assert shared.cli("--out", "json", "-t", "8", "[ab]", "test.ping").json() == {"a": True, "b": True}

        assert all(is_ended(peer) for peer in silent)
    wait_until(lambda: len(os.listdir(f"/proc/{link}/fd")) <= before, "the link has given their descriptors back")


# -- the other way round


def test_a_minion_gives_nothing_to_a_master_of_another_fleet(shared: Fleet, fleet: Fleet) -> None:
    fleet.start_master()

    fleet.start_minion("m", fleet=shared.fleet_id())

    fleet.wait_log("m", "connection: backoff")
    assert fleet.key_rows() == []
    assert fleet.daemons["m"].process.poll() is None


def open_files(pid: int) -> list[str]:
    """What the descriptors of a process lead to, standard ones excepted."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += [os.readlink(f"/proc/{pid}/fd/{name}")] if int(name) > 2 else []
    return found


def listener_of(fleet: Fleet) -> str:
    """The listening TCP socket of the master, as `open_files` shows it."""
    port = f":{int(fleet.address().rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    (inode,) = [row[9] for row in rows if row[1].endswith(port) and row[3] == "0A"]
    return f"socket:[{inode}]"


def test_only_the_link_of_the_master_holds_its_port(shared: Fleet) -> None:
    listener, master = listener_of(shared), shared.daemons["master"]

    assert listener in open_files(master.child("master link"))
    for name in ("MWorker-0", "MWorker-1", "maintenance"):
        assert listener not in open_files(master.child(name))


def sockets(pid: int) -> list[str]:
    return [name for name in open_files(pid) if name.startswith("socket:")]


def test_a_network_process_that_was_started_again_holds_no_more_than_the_first(fleet: Fleet) -> None:
    """Above all neither the journal nor the sockets at which processes with all rights wait for their jobs."""
    fleet.start_master()
    fleet.join("m")
    minion = fleet.daemons["m"]
    first = minion.child("minion link")
    before = len(sockets(first))
    jid = fleet.publish("m", "test.sleep", "30")
    fleet.wait_state(jid, "m", "running")

    os.kill(first, signal.SIGKILL)
    second = wait_until(lambda: [pid for pid in minion.children("minion link") if pid != first], "another one")[0]
    wait_until(lambda: fleet.cli("-t", "1", "m", "test.ping").code == 0, "it is connected")

    assert not [name for name in open_files(second) if "/var/lib/" in name or "/etc/" in name]
    assert len(sockets(second)) == before
