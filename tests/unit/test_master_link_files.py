"""Requests for files between session manager and MWorkers: which MWorker gets one, and what a dead one leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.link import LinkProcess
from saltlite.platform.link import SendResult
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.messages import response_message
from tests.support.memory_fleet import MESSAGES, Peer, SessionRig


class Reactor:
    """Does what is due soon when it is told to."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def now(self) -> float:
        return 0.0

    def call_soon(self, work: Callable[[], None]) -> None:
        self.soon.append(work)

    def call_later(self, _seconds: float, _work: Callable[[], None]) -> None: ...

    def turn(self) -> None:
        while self.soon:
            self.soon.pop(0)()


class MWorker:
    """One MWorker as the link process sees it; `got` is what it was sent."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.got: list[Any] = []
        link.process.add_mworker(self._channel, lambda: None)
        self.say({"t": "hello", "role": ipc.MWORKER, "watch": False})

    def _channel(self, on_batch: Callable[[list[bytes]], None], on_close: Callable[[str], None]) -> Any:
        self._on_batch, self._on_close = on_batch, on_close
        return self

    def die(self) -> None:
        self._on_close("it died")

    def send(self, payload: bytes) -> None:
        message = unpack(payload)
        if message["t"] == "request":
            self.got.append((message["id"], message["session"], message["message"]["n"]))

    def say(self, message: IpcMessage) -> None:
        self._on_batch([pack(message)])


class Link:
    """A link process with a real manager; `sent` counts the frames that left."""

    def __init__(self) -> None:
        self.reactor, self.rig = Reactor(), SessionRig()
        self.sent = 0
        self.process = LinkProcess(cast("Any", self.reactor), self.rig.manager, lambda _owner: cast("Any", self))

    def send(self, _route: bytes, _frame: bytes) -> SendResult:
        self.sent += 1
        return SendResult.OK

    def join(self, name: str) -> Peer:
        peer = self.rig.join(name)
        self.rig.take()
        return peer

    def ask(self, peer: Peer, n: int, path: str = "a") -> None:
        frame = peer.seal({"t": "file_request", **MESSAGES["file_request"], "n": n, "path": path})
        self.process.on_frame(peer.route, -1, "", frame)
        self.reactor.turn()


def test_all_questions_about_one_file_go_to_the_same_mworker_and_others_elsewhere() -> None:
    link = Link()
    mworkers = [MWorker(link) for _ in range(4)]
    peers = [link.join(f"web{number}") for number in range(20)]
    for peer in peers:
        link.ask(peer, 1)
    assert sorted(len(mworker.got) for mworker in mworkers) == [0, 0, 0, 20]
    for number, peer in enumerate(peers):
        link.ask(peer, 2, f"file{number}")
    assert all(mworker.got for mworker in mworkers)


def test_the_answer_leaves_once_and_a_second_one_does_not() -> None:
    link = Link()
    mworker, peer = MWorker(link), link.join("web1")
    link.ask(peer, 1)
    ((_id, session, number),) = mworker.got
    before = link.sent
    for _ in range(2):
        mworker.say({"t": "response", "session": session, "message": response_message(number, "ok")})
        link.reactor.turn()
    assert link.sent == before + 1


def test_what_a_dead_mworker_did_not_answer_is_asked_of_another_or_of_the_next_one() -> None:
    link = Link()
    first, peer = MWorker(link), link.join("web1")
    link.ask(peer, 1)
    link.ask(peer, 2)
    first.say({"t": "response", "session": first.got[0][1], "message": response_message(1, "ok")})
    link.reactor.turn()
    first.die()
    second = MWorker(link)
    assert [n for _id, _session, n in second.got] == [2]
