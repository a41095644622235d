"""A daemon's children are gone within 5 s of a stop, whatever they do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from saltlite.platform.reactor import Reactor
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
