"""The socket at which a minion takes events and refreshes of `saltlite call`: from whom, and until when."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from saltlite.minion.jobs.rpc_server import CALLERS_MAX, SOCKET_MODE, SOCKET_NAME, LocalCallers, RpcServer
from saltlite.platform.reactor import Reactor
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.messages import response_message
from tests.support.keys import answer_check

NOBODY = pwd.getpwnam("nobody")
LOOK_S = 0.1


class Minion:
    """The job server's part; `told` is what went to the network process."""

    def __init__(self, folder: Path) -> None:
        self.reactor = Reactor()
        self.told: list[Any] = []
        self.report: IpcMessage = {}
        self.asks = RpcServer(
            self.reactor, self._tell, lambda what, done: done({"what": what, **self.report}), answer_check()
        )
        self.path = folder / SOCKET_NAME
        self.callers = LocalCallers(self.reactor, self.asks, str(folder))
        self.callers.start()

    def _tell(self, message: IpcMessage) -> None:
        self.told.append(message["message"])

    def look(self) -> None:
        """Do what there is to do."""
        self.reactor.call_later(LOOK_S, self.reactor.stop)
        self.reactor.run()

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60.0)
        try:
            sock.connect(str(self.path))
        except OSError:
            sock.close()
            raise
        return sock

    def close(self) -> None:
        """The process ends."""
        self.look()
        for one in vars(self.callers).values():
            if isinstance(one, socket.socket):
                one.close()
        self.reactor.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter."""
    made = Path(tempfile.mkdtemp(prefix="saltlite-callers-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def minion(folder: Path) -> Iterator[Minion]:
    made = Minion(folder)
    yield made
    made.close()


@contextmanager
def as_nobody() -> Iterator[None]:
    """This process is that user's for a while."""
    os.setegid(NOBODY.pw_gid)
    os.seteuid(NOBODY.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def frame(**fields: Any) -> bytes:
    data = pack({"t": "event", "n": 7, "tag": "app/x", "data": pack({}), "jid": "", **fields})
    return struct.pack(">I", len(data)) + data


def test_an_event_is_handed_on_and_its_answer_comes_back_under_the_callers_number(minion: Minion) -> None:
    with minion.connect() as sock:
        sock.sendall(frame())
        minion.look()
        (told,) = minion.told
        minion.asks.on_response(response_message(told["n"], "ok"))
        minion.look()
        (size,) = struct.unpack(">I", sock.recv(4))
        said = unpack(sock.recv(size))
    assert (said["n"], said["state"]) == (7, "ok")


def answer_to(minion: Minion, raw: bytes) -> Any:
    """The minion's answer on the socket."""
    with minion.connect() as sock:
        sock.sendall(raw)
        minion.look()
        (size,) = struct.unpack(">I", sock.recv(4))
        return unpack(sock.recv(size))


def test_a_refresh_is_done_and_its_report_comes_back_under_the_callers_number(minion: Minion) -> None:
    told = answer_to(minion, frame(t="refresh", what="resources"))
    assert told == {"t": "refreshed", "n": 7, "answer": {"what": "resources"}}
    assert minion.told == []


def test_a_report_that_is_too_long_for_the_socket_is_an_error_and_the_next_caller_is_served(minion: Minion) -> None:
    minion.report = {"types": "x" * 100_000}
    assert "its report is too long" in answer_to(minion, frame(t="refresh", what="resources"))["answer"]["error"]
    minion.report = {}
    assert answer_to(minion, frame(t="refresh", what="pillar"))["answer"] == {"what": "pillar"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_connect_and_is_not_heard_where_he_can(minion: Minion) -> None:
    assert stat.S_IMODE(minion.path.stat().st_mode) == SOCKET_MODE
    with as_nobody(), pytest.raises(PermissionError):
        minion.connect()
    minion.path.chmod(0o666)
    with as_nobody():
        sock = minion.connect()
    with sock:
        sock.sendall(frame())
        minion.look()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert minion.told == []


@pytest.mark.parametrize(
    "raw",
    [
        frame(t="file_request"),
        frame(t="ret"),
        frame(tag=5),
        frame(data="x"),
        frame(t="refresh"),
        frame(t="refresh", what="everything"),
        frame(t="refresh", what=["pillar"]),
        frame(t="refresh", what="pillar", n="x"),
        b"\0\0\0\1\xc1",
        b"\0\0\0\1\x00",
        b"\xff" * 64,
    ],
)
def test_what_is_no_event_goes_nowhere_and_the_next_caller_is_served(minion: Minion, raw: bytes) -> None:
    with minion.connect() as sock:
        sock.sendall(raw)
        minion.look()
    with minion.connect() as sock:
        sock.sendall(frame(tag="app/next"))
        minion.look()
    assert [told["tag"] for told in minion.told] == ["app/next"]


def test_so_many_callers_are_served_at_once_and_the_next_when_one_has_gone(minion: Minion) -> None:
    callers: list[socket.socket] = [minion.connect() for _ in range(CALLERS_MAX)]
    minion.look()
    with minion.connect() as late:
        late.sendall(frame())
        minion.look()
        assert minion.told == []
        callers.pop().close()
        minion.look()
        assert len(minion.told) == 1
    for one in callers:
        one.close()


def test_events_of_callers_that_gave_up_are_not_sent_when_the_master_is_back(minion: Minion) -> None:
    for number in range(10):
        with minion.connect() as sock:
            sock.sendall(frame(tag=f"app/{number}"))
            minion.look()
    minion.look()
    with minion.connect() as sock:
        sock.sendall(frame(tag="app/now"))
        minion.look()
        minion.told.clear()
        minion.asks.connected()
    assert [told["tag"] for told in minion.told] == ["app/now"]
