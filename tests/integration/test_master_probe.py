"""A look at masters that are none, or lie: the probe says so, in time, and believes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import zmq

from saltlite.errors import LinkError, RemoteProtocolError
from saltlite.platform.master_probe import probe_master
from saltlite.platform.zmq_link import context
from saltlite.wire import frames
from tests.support.keys import FLEET_PUBLIC

Answer = Callable[[bytes], bytes | None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Something on a port that greets as ZeroMQ does, and answers each frame so; its address."""
    router = context().socket(zmq.ROUTER)
    router.setsockopt(zmq.LINGER, 0)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            if router.poll(20):
                route, frame = router.recv_multipart()
                said = answer(frame)
                if said is not None:
                    router.send_multipart([route, said])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        ended.set()
        thread.join()
        router.close()


def _fleet_then(rest: bytes) -> Answer:
    return lambda frame: frames.fleet(FLEET_PUBLIC) if isinstance(frames.parse(frame), frames.QueryFrame) else rest


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _frame: b"nonsense", "version"),
        (lambda _frame: frames.busy(2000), "busy"),
        (_fleet_then(frames.fleet(FLEET_PUBLIC)), "unexpected-frame"),
        (_fleet_then(frames.reply(os.urandom(200))), "bad-handshake"),
    ],
)
def test_a_lie_is_refused(answer: Answer, reason: str) -> None:
    with answering(answer) as address, pytest.raises(RemoteProtocolError) as caught:
        probe_master(address, 10.0)
    assert caught.value.reason == reason


def test_silence_has_an_end() -> None:
    with answering(lambda _frame: None) as address, pytest.raises(LinkError, match=r"did not answer in 0\.2 s"):
        probe_master(address, 0.2)


def test_what_is_asked_says_nothing_of_this_side() -> None:
    asked: list[bytes] = []
    with answering(asked.append) as address, pytest.raises(LinkError):
        probe_master(address, 0.2)
    assert asked == [frames.query()]
