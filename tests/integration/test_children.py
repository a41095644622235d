"""A daemon's children: when they start, and that they are gone within 5 s of a stop, whatever they do."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import connect_unix, listen_unix
from saltlite.platform.supervision import Children, Spec

WITHIN_S = 30.0
"""SIGKILL comes 3 s after SIGTERM. A child that did not get it would go on for minutes."""


def _spin_in_c(ready: Callable[[], None]) -> None:
    signal.signal(signal.SIGTERM, lambda _signum, _frame: None)
    ready()
    _ = 9 ** (9**9)  # one call of the C library of numbers: no signal handler of Python runs in it


def _sleep(ready: Callable[[], None]) -> None:
    ready()
    time.sleep(600)  # the child that is ended


def test_children_that_spin_or_are_stopped_are_ended() -> None:
    reactor = Reactor()
    failed: list[str] = []
    children = Children(
        reactor,
        [Spec("spins", _spin_in_c, tuple), Spec("stopped", _sleep, tuple)],
        on_ready=reactor.stop,
        on_failed=failed.append,
    )
    children.start()
    reactor.call_later(60.0, reactor.stop)
    reactor.run()
    pids = children.pids()
    os.kill(pids["stopped"], signal.SIGSTOP)
    began = time.monotonic()
    children.stop(reactor.stop)
    reactor.call_later(60.0, reactor.stop)
    reactor.run()
    took_s = time.monotonic() - began
    assert failed == []
    assert children.pids() == {}
    assert took_s < WITHIN_S


def test_a_restart_that_was_asked_for_is_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reactor = Reactor()
    children = Children(reactor, [Spec("one", _sleep, tuple)], on_ready=reactor.stop, on_failed=lambda sentence: None)
    reactor.call_later(60.0, reactor.stop)
    children.start()
    reactor.run()

    def ended_by(end: Callable[[], None]) -> str:
        before = children.pids()
        end()
        _until(reactor, lambda: children.pids() not in ({}, before))
        return caplog.records[-1].levelname

    assert ended_by(lambda: children.restart("one")) == "INFO"
    assert ended_by(lambda: children.signal("one", signal.SIGKILL)) == "ERROR"
    children.stop(reactor.stop)
    reactor.run()


def _until(reactor: Reactor, look: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60.0

    def again() -> None:
        if look() or time.monotonic() > give_up_at:
            reactor.stop()
        else:
            reactor.call_later(0.01, again)

    again()
    reactor.run()
    assert look()


def _greet(listener: socket.socket, ready: Callable[[], None]) -> None:
    ready()
    listener.setblocking(True)
    while True:
        accepted, _address = listener.accept()
        accepted.sendall(b"hello" + accepted.recv(100))


def test_a_child_that_serves_starts_with_the_first_connection_and_is_restarted_afterwards(tmp_path: Path) -> None:
    path = str(tmp_path / "serves.ipc")
    listener = listen_unix(path, 0o600)
    reactor = Reactor()
    children = Children(
        reactor,
        [
            Spec("runs", _sleep, tuple),
            Spec("serves", partial(_greet, listener), lambda: (listener.fileno(),), serves=listener),
        ],
        on_ready=reactor.stop,
        on_failed=lambda sentence: None,
    )
    children.start()
    reactor.call_later(60.0, reactor.stop)
    reactor.run()
    assert set(children.pids()) == {"runs"}, "it is not waited for"

    def answered() -> bytes:
        with connect_unix(path, made_by=os.geteuid()) as client:
            client.send(b" you")
            heard: list[bytes] = []

            def hear() -> None:
                heard.append(client.recv(100))
                reactor.stop()

            reactor.add_reader(client.fileno(), hear)
            give_up = reactor.call_later(60.0, reactor.stop)
            reactor.run()
            give_up.cancel()
            reactor.remove_reader(client.fileno())
            return b"".join(heard)

    assert answered() == b"hello you"
    first = children.pids()["serves"]
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # before that it may take the next connection with it
    assert answered() == b"hello you"
    assert children.pids()["serves"] != first
    children.stop(reactor.stop)
    reactor.run()
    listener.close()
