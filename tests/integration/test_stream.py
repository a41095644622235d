"""Channels, listeners and acceptors on real Unix sockets."""

from __future__ import annotations

import os
import resource
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.errors import LocalProtocolError, RefusedError, StartupError, UnreachableError
from saltlite.platform import stream
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Acceptor, Channel, Peer, connect_unix, listen_unix, peer_of
from tests.support.fleet import WAIT_S

MESSAGE_MAX = 1 << 20
SEND_BUFFER_MAX = 4 << 20


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    made = Reactor()
    yield made
    made.close()


def until(reactor: Reactor, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
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


class End:
    """A channel that keeps what it was told."""

    def __init__(self, reactor: Reactor, sock: socket.socket, *, message_max: int = MESSAGE_MAX) -> None:
        self.batches: list[list[bytes]] = []
        self.reasons: list[str] = []
        self.channel = Channel(
            reactor,
            sock,
            self.batches.append,
            self.reasons.append,
            message_max=message_max,
            send_buffer_max=SEND_BUFFER_MAX,
        )

    @property
    def messages(self) -> list[bytes]:
        return [message for batch in self.batches for message in batch]


@pytest.fixture
def ends(reactor: Reactor) -> Iterator[tuple[End, End]]:
    left, right = socket.socketpair()
    made = End(reactor, left), End(reactor, right)
    yield made
    for end in made:
        end.channel.close()


@pytest.fixture
def raw(reactor: Reactor) -> Iterator[tuple[End, socket.socket]]:
    """A channel, and the bare socket at its other end."""
    left, right = socket.socketpair()
    end = End(reactor, left, message_max=1000)
    with right:
        yield end, right
    end.channel.close()


def test_messages_arrive_in_order_whatever_their_length(reactor: Reactor, ends: tuple[End, End]) -> None:
    sent = [bytes([n % 256]) * length for n, length in enumerate([0, 1, 5, 70_000, 0, 1_000_000, 3] * 3)]
    for message in sent:
        ends[0].channel.send(message)
    until(reactor, lambda: len(ends[1].messages) == len(sent))
    assert ends[1].messages == sent
    assert ends[0].channel.buffered == 0


def test_all_messages_of_one_turn_come_as_one_batch(reactor: Reactor, ends: tuple[End, End]) -> None:
    for number in range(500):
        ends[0].channel.send(b"%d" % number)
    until(reactor, lambda: bool(ends[1].batches))
    assert ends[1].batches == [[b"%d" % number for number in range(500)]]


def test_what_is_flushed_leaves_before_the_turn_ends(reactor: Reactor, raw: tuple[End, socket.socket]) -> None:
    end, peer = raw
    end.channel.send(b"at once")
    end.channel.flush()
    assert peer.recv(100, socket.MSG_DONTWAIT).endswith(b"at once")


def test_a_message_in_pieces_is_delivered_when_it_is_whole(reactor: Reactor, raw: tuple[End, socket.socket]) -> None:
    end, sock = raw
    message = struct.pack(">I", 5) + b"hello"
    for piece in (message[:2], message[2:6], message[6:]):
        assert end.messages == []
        sock.send(piece)
        until(reactor, lambda: not _readable(end))
    assert end.messages == [b"hello"]


def _readable(end: End) -> bool:
    """Whether bytes still wait in the kernel for that channel."""
    try:
        return bool(end.channel._socket.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_a_message_over_the_limit_ends_the_channel_after_those_before_it(
    reactor: Reactor, raw: tuple[End, socket.socket]
) -> None:
    end, sock = raw
    sock.send(struct.pack(">I", 2) + b"ok" + struct.pack(">I", 1001))
    until(reactor, lambda: bool(end.reasons))
    assert end.messages == [b"ok"]
    assert end.reasons == ["a message of 1001 bytes is over the limit of 1000"]
    sock.settimeout(60)
    assert sock.recv(1) == b""


def test_a_message_of_exactly_the_limit_is_delivered(reactor: Reactor, raw: tuple[End, socket.socket]) -> None:
    end, sock = raw
    sock.send(struct.pack(">I", 1000) + bytes(1000))
    until(reactor, lambda: end.messages == [bytes(1000)])


def test_sending_more_than_the_limit_is_refused(raw: tuple[End, socket.socket]) -> None:
    with pytest.raises(LocalProtocolError, match="1001 bytes is over the limit of 1000"):
        raw[0].channel.send(bytes(1001))


def test_the_end_of_the_other_side_is_reported_once_after_its_messages(
    reactor: Reactor, raw: tuple[End, socket.socket]
) -> None:
    end, sock = raw
    sock.send(struct.pack(">I", 3) + b"bye" + struct.pack(">I", 9) + b"half")
    sock.close()
    until(reactor, lambda: bool(end.reasons))
    end.channel.send(b"to nobody")
    until(reactor, lambda: True)
    assert end.messages == [b"bye"]
    assert end.reasons == ["the other side closed the connection"]


def test_a_message_to_a_peer_that_went_away_ends_the_channel_but_not_its_last_words(
    reactor: Reactor, raw: tuple[End, socket.socket]
) -> None:
    end, sock = raw
    sock.send(struct.pack(">I", 3) + b"bye")
    sock.close()
    end.channel.send(b"hello?")
    until(reactor, lambda: bool(end.reasons))
    assert end.messages == [b"bye"]
    assert len(end.reasons) == 1


def test_a_peer_that_does_not_read_ends_the_channel_beyond_the_send_buffer(
    reactor: Reactor, raw: tuple[End, socket.socket]
) -> None:
    end, _ = raw
    sent = 0
    while not end.channel.closed:
        end.channel.send(bytes(1000))
        sent += 1000
        assert end.channel.buffered <= SEND_BUFFER_MAX
        assert sent < 4 * SEND_BUFFER_MAX
    assert end.reasons == []
    until(reactor, lambda: bool(end.reasons))
    assert end.reasons[0].startswith("the peer does not read: ")


def test_a_slow_reader_gets_everything_that_fits_into_the_buffer(reactor: Reactor, ends: tuple[End, End]) -> None:
    ends[1].channel.pause_reading()
    for _ in range(3):
        ends[0].channel.send(bytes(1_000_000))
    until(reactor, lambda: 0 < ends[0].channel.buffered < 3_000_000)
    assert ends[1].messages == []
    ends[1].channel.resume_reading()
    until(reactor, lambda: len(ends[1].messages) == 3)
    assert ends[0].channel.buffered == 0


def test_a_channel_paused_in_a_batch_delivers_nothing_more_until_it_is_resumed(reactor: Reactor) -> None:
    left, right = socket.socketpair()
    batches: list[list[bytes]] = []

    def on_batch(batch: list[bytes]) -> None:
        batches.append(batch)
        channel.pause_reading()

    channel = Channel(reactor, left, on_batch, lambda _reason: None, message_max=100, send_buffer_max=SEND_BUFFER_MAX)
    with right:
        right.send(struct.pack(">I", 1) + b"a")
        until(reactor, lambda: batches == [[b"a"]])
        right.send(struct.pack(">I", 1) + b"b")
        end = time.monotonic() + 0.05
        until(reactor, lambda: time.monotonic() > end)
        assert batches == [[b"a"]]
        channel.resume_reading()
        until(reactor, lambda: batches == [[b"a"], [b"b"]])
        channel.close()


def test_a_channel_that_reads_little_leaves_the_rest_to_the_kernel(reactor: Reactor) -> None:
    left, right = socket.socketpair()
    batches: list[list[bytes]] = []
    large: list[int] = []

    def on_batch(batch: list[bytes]) -> None:
        batches.append(batch)
        channel.pause_reading()

    channel = Channel(reactor, left, on_batch, lambda _reason: None, message_max=10_000, send_buffer_max=10_000)
    channel.read_little(100, lambda: large.append(len(batches)))
    message = struct.pack(">I", 20) + bytes(20)
    with right:
        right.send(message * 50 + struct.pack(">I", 5000) + bytes(5000) + message)
        until(reactor, lambda: bool(batches))
        assert len(batches[0]) == 100 // len(message)
        for _ in range(50):
            channel.resume_reading()
            before = len(batches)
            until(reactor, lambda before=before: len(batches) > before)  # type: ignore[misc]  # bound at once
            if large:
                break
        assert max(map(len, batches)) <= 100 // len(message) + 1
        channel.resume_reading()
        until(reactor, lambda: sum(map(len, batches)) >= 51)
        assert len(large) == 1
        assert [len(data) for batch in batches for data in batch][:51] == [20] * 50 + [5000]
        channel.close()


def test_close_still_sends_what_the_kernel_takes_and_reports_nothing(
    reactor: Reactor, raw: tuple[End, socket.socket]
) -> None:
    end, sock = raw
    end.channel.send(b"answer")
    end.channel.close()
    sock.settimeout(60)
    assert sock.recv(100) == struct.pack(">I", 6) + b"answer"
    assert sock.recv(100) == b""
    until(reactor, lambda: True)
    assert end.reasons == []


def test_the_kernel_says_who_connected(reactor: Reactor, tmp_path: Path) -> None:
    seen: list[Peer] = []

    def accept(sock: socket.socket, peer: Peer) -> None:
        seen.append(peer)
        sock.close()

    with listen_unix(str(tmp_path / "s"), 0o600) as listener:
        acceptor = Acceptor(reactor, listener, accept)
        with connect_unix(str(tmp_path / "s")) as sock:
            until(reactor, lambda: bool(seen))
            assert peer_of(sock).pid == os.getpid()
        acceptor.close()
    assert seen == [Peer(os.getpid(), os.getuid(), os.getgid())]


def test_an_acceptor_at_its_limit_takes_the_next_connection_when_one_is_released(
    reactor: Reactor, tmp_path: Path
) -> None:
    path = str(tmp_path / "s")
    taken: list[socket.socket] = []
    with listen_unix(path, 0o600) as listener:
        acceptor = Acceptor(reactor, listener, lambda sock, _peer: taken.append(sock), connections_max=2)
        callers = [connect_unix(path) for _ in range(4)]
        until(reactor, lambda: len(taken) == 2)
        end = time.monotonic() + 0.05
        until(reactor, lambda: time.monotonic() > end)
        assert len(taken) == 2
        acceptor.released()
        until(reactor, lambda: len(taken) == 3)
        acceptor.close()
    for sock in (*taken, *callers):
        sock.close()


def test_an_acceptor_out_of_descriptors_waits_and_goes_on(
    reactor: Reactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream, "ACCEPT_PAUSE_S", 0.02)
    path = str(tmp_path / "s")
    taken: list[socket.socket] = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with listen_unix(path, 0o600) as listener, connect_unix(path) as caller:
        acceptor = Acceptor(reactor, listener, lambda sock, _peer: taken.append(sock))
        filling = [os.dup(caller.fileno())]
        while filling[-1] < max(filling[0], caller.fileno()):  # no number below may be free
            filling.append(os.dup(caller.fileno()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(filling[-1], caller.fileno()) + 1, limits[1]))
        try:
            until(reactor, lambda: "increase LimitNOFILE" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for number in filling:
                os.close(number)
        assert taken == []
        until(reactor, lambda: len(taken) == 1)
        acceptor.close()
        taken[0].close()


def test_several_processes_share_one_listening_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with listen_unix(path, 0o600) as listener:
        children = [_answering_child(listener) for _ in range(2)]
        answers = []
        for _ in range(40):
            with connect_unix(path) as sock:
                sock.settimeout(60)
                answers.append(int(sock.recv(20)))
        for pid in children:
            os.kill(pid, 15)
            os.waitpid(pid, 0)
    assert len(answers) == 40
    assert set(answers) <= set(children)


def _answering_child(listener: socket.socket) -> int:
    """A process that tells every caller its pid."""
    pid = os.fork()
    if pid:
        return pid
    reactor = Reactor()

    def answer(sock: socket.socket, _peer: Peer) -> None:
        sock.send(b"%d" % os.getpid())
        sock.close()
        acceptor.released()

    acceptor = Acceptor(reactor, listener, answer)
    reactor.run()
    os._exit(0)


def test_a_socket_gets_the_permissions_asked_for_and_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with listen_unix(str(path), 0o660, parent_mode=0o750):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750


def test_the_socket_of_a_dead_process_is_replaced(reactor: Reactor, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    listen_unix(path, 0o600).close()
    with listen_unix(path, 0o600), connect_unix(path) as sock:
        assert sock.getpeername() == path


def test_the_socket_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with listen_unix(path, 0o600):
        with pytest.raises(StartupError, match=r"another process answers on .*sock_dir"):
            listen_unix(path, 0o600)
        connect_unix(path).close()


def test_a_plain_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(StartupError, match="exists and is not a socket"):
        listen_unix(str(path), 0o600)
    assert path.read_text() == "precious"


def test_a_path_too_long_for_a_socket_says_how_long_it_may_be(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="a Unix socket's path may have 107: set a shorter `sock_dir`"):
        listen_unix(str(tmp_path / ("x" * 120)), 0o600)


def test_connecting_where_nobody_is_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with pytest.raises(UnreachableError, match=r"no process answers on .*is the daemon up"):
        connect_unix(path)
    listen_unix(path, 0o600).close()
    with pytest.raises(UnreachableError, match="no process answers"):
        connect_unix(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_connecting_without_permission_is_refused() -> None:
    path = f"/tmp/saltlite-refused-{os.getpid()}"
    with listen_unix(path, 0o600):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setuid(65534)
            try:
                connect_unix(path)
            except RefusedError as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(pid, 0)
    os.unlink(path)
    assert said.startswith("user 65534 may not connect to ")


def test_a_socket_that_another_user_made_is_not_talked_to(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with listen_unix(path, 0o600):
        connect_unix(path, made_by=os.geteuid()).close()
        with pytest.raises(RefusedError, match=f"user {os.geteuid()} listens there, and not user 12345"):
            connect_unix(path, made_by=12345)
