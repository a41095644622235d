"""The reactor on real descriptors, real timers and real signals."""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from saltlite.errors import LocalProtocolError
from saltlite.platform.process import watch_exit
from saltlite.platform.reactor import CANCELLED_TIMERS_KEPT, Reactor, Timer, TimerQueue


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    made = Reactor()
    # Nothing here takes long; a test that hangs ends as a failure of its own assertion.
    made.call_later(10, made.stop)
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    with left, right:
        yield left, right


def test_a_reader_is_called_when_bytes_are_there(reactor: Reactor, pair: tuple[socket.socket, socket.socket]) -> None:
    got: list[bytes] = []

    def read() -> None:
        got.append(pair[0].recv(100))
        reactor.stop()

    reactor.add_reader(pair[0].fileno(), read)
    pair[1].send(b"hello")
    reactor.run()
    assert got == [b"hello"]


def test_a_reader_learns_that_the_other_side_hung_up(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    got: list[bytes] = []

    def read() -> None:
        got.append(pair[0].recv(100))
        reactor.stop()

    reactor.add_reader(pair[0].fileno(), read)
    pair[1].close()
    reactor.run()
    assert got == [b""]


def test_reader_and_writer_of_one_descriptor_are_independent(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    calls: list[str] = []
    fd = pair[0].fileno()

    def write() -> None:
        calls.append("write")
        reactor.remove_writer(fd)
        pair[1].send(b"x")

    def read() -> None:
        calls.append("read")
        reactor.stop()

    reactor.add_reader(fd, read)
    reactor.add_writer(fd, write)
    reactor.run()
    assert calls == ["write", "read"]


def test_a_removed_reader_is_not_called_even_for_an_event_of_the_same_turn(reactor: Reactor) -> None:
    calls: list[int] = []
    first, first_peer = socket.socketpair()
    second, second_peer = socket.socketpair()
    with first, first_peer, second, second_peer:

        def call(mine: socket.socket, other: socket.socket) -> None:
            calls.append(mine.fileno())
            reactor.remove_reader(other.fileno())
            reactor.remove_reader(mine.fileno())
            reactor.call_later(0.01, reactor.stop)

        reactor.add_reader(first.fileno(), lambda: call(first, second))
        reactor.add_reader(second.fileno(), lambda: call(second, first))
        first_peer.send(b"x")
        second_peer.send(b"x")
        reactor.run()
    assert len(calls) == 1


def test_removing_what_is_not_watched_does_nothing(reactor: Reactor) -> None:
    reactor.remove_reader(99)
    reactor.remove_writer(99)
    reactor.call_soon(reactor.stop)
    reactor.run()


def test_a_watched_descriptor_cannot_become_a_listener(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    reactor.add_reader(pair[0].fileno(), reactor.stop)
    with pytest.raises(LocalProtocolError, match="watched already"):
        reactor.add_listener(pair[0].fileno(), reactor.stop)


def test_timers_run_in_order_of_time_and_then_of_creation(reactor: Reactor) -> None:
    calls: list[str] = []
    now = reactor.now()
    reactor.call_at(now + 0.02, lambda: calls.append("late"))
    reactor.call_at(now + 0.01, lambda: calls.append("early"))
    reactor.call_at(now + 0.01, lambda: calls.append("early, made later"))
    reactor.call_at(now + 0.03, reactor.stop)
    reactor.run()
    assert calls == ["early", "early, made later", "late"]
    assert reactor.now() >= now + 0.03


def test_a_timer_cancelled_by_one_of_the_same_time_does_not_run(reactor: Reactor) -> None:
    calls: list[str] = []
    timers: list[Timer] = []
    when = reactor.now() + 0.01

    def cancel_the_other() -> None:
        timers[0].cancel()

    reactor.call_at(when, cancel_the_other)
    timers.append(reactor.call_at(when, lambda: calls.append("second")))
    reactor.call_at(when + 0.01, reactor.stop)
    reactor.run()
    assert calls == []


def test_a_timer_that_is_always_due_does_not_lock_out_descriptors(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    def again() -> None:
        reactor.call_at(reactor.now() - 1, again)

    reactor.add_reader(pair[0].fileno(), reactor.stop)
    again()
    pair[1].send(b"x")
    started = time.monotonic()
    reactor.run()
    assert time.monotonic() - started < 60


def test_call_soon_runs_in_order_and_what_it_adds_waits_for_the_next_turn(reactor: Reactor) -> None:
    calls: list[str] = []

    def first() -> None:
        calls.append("first")
        reactor.call_soon(lambda: calls.append("third"))
        reactor.call_soon(reactor.stop)

    reactor.call_soon(first)
    reactor.call_soon(lambda: calls.append("second"))
    reactor.run()
    assert calls == ["first", "second", "third"]


def test_stop_before_run_makes_run_return_at_once_and_only_once(reactor: Reactor) -> None:
    calls: list[str] = []
    reactor.stop()
    reactor.run()
    reactor.call_soon(lambda: calls.append("ran"))
    reactor.call_soon(reactor.stop)
    reactor.run()
    assert calls == ["ran"]


def test_an_exception_of_a_callback_leaves_run(reactor: Reactor) -> None:
    def fail() -> None:
        raise ValueError("broken callback")

    reactor.call_soon(fail)
    with pytest.raises(ValueError, match="broken callback"):
        reactor.run()


def test_with_on_error_the_loop_goes_on_after_an_exception() -> None:
    errors: list[Exception] = []
    reactor = Reactor(on_error=errors.append)

    def fail() -> None:
        raise ValueError("broken callback")

    reactor.call_soon(fail)
    reactor.call_later(0.01, reactor.stop)
    reactor.run()
    reactor.close()
    assert [str(error) for error in errors] == ["broken callback"]


def test_a_signal_wakes_the_sleeping_loop_and_runs_its_callback(reactor: Reactor) -> None:
    calls: list[str] = []

    def on_usr1() -> None:
        calls.append("usr1")
        reactor.stop()

    reactor.on_signal(signal.SIGUSR1, on_usr1)
    sender = threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    sender.start()
    started = time.monotonic()
    reactor.run()
    sender.join()
    assert calls == ["usr1"]
    assert time.monotonic() - started < 60


def test_close_gives_the_signal_back_to_its_former_handler() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda signum, _frame: seen.append(signum))
    try:
        reactor = Reactor()
        reactor.on_signal(signal.SIGUSR1, lambda: None)
        reactor.close()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_idle_reactor_does_not_wake_up() -> None:
    reactor = Reactor()
    left, right = socket.socketpair()
    with left, right:
        reactor.add_reader(left.fileno(), lambda: None)
        reactor.call_later(0.3, reactor.stop)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        reactor.run()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before <= 3
    reactor.close()


@pytest.mark.parametrize(("end", "status"), [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", -9)])
def test_the_end_of_a_child_is_reported_with_its_status(reactor: Reactor, end: str, status: int) -> None:
    pid = os.fork()
    if pid == 0:
        exec(end)  # noqa: S102 - one of the two texts above, in the child
    seen: list[int | None] = []

    def over(status: int | None) -> None:
        seen.append(status)
        reactor.stop()

    watch_exit(reactor, pid, over)
    reactor.run()
    assert seen == [status]


def test_the_end_of_a_process_that_is_not_our_child_is_reported_without_status(reactor: Reactor) -> None:
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        child = os.fork()
        if child == 0:
            signal.pause()
        os.write(writing, child.to_bytes(4, "big"))
        os._exit(0)
    os.waitpid(parent, 0)
    pid = int.from_bytes(os.read(reading, 4), "big")
    os.close(reading)
    os.close(writing)
    seen: list[int | None] = []

    def over(status: int | None) -> None:
        seen.append(status)
        reactor.stop()

    child_watch = watch_exit(reactor, pid, over)
    assert child_watch.signal(signal.SIGKILL)
    reactor.run()
    assert seen == [None]
    assert not child_watch.signal(signal.SIGKILL)


def test_a_process_that_is_gone_already_is_reported_and_not_mistaken_for_another(reactor: Reactor) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    seen: list[int | None] = []
    watch = watch_exit(reactor, pid, seen.append)
    assert seen == []
    assert not watch.signal(signal.SIGTERM)
    reactor.call_later(0.01, reactor.stop)
    reactor.run()
    assert seen == [None]


def test_a_closed_watch_reports_nothing(reactor: Reactor) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    seen: list[int | None] = []
    watch_exit(reactor, pid, seen.append).close()
    reactor.call_later(0.02, reactor.stop)
    reactor.run()
    assert seen == []
    os.waitpid(pid, 0)


def test_cancelled_timers_do_not_pile_up_in_the_queue() -> None:
    queue = TimerQueue()
    kept = queue.add(1.0, lambda: None)
    for number in range(10_000):
        queue.add(100.0 + number, lambda: None).cancel()
        assert len(queue) <= 2 * (CANCELLED_TIMERS_KEPT + 2)
    assert queue.pop_due(1.0) is kept
    assert queue.next_when() is None
