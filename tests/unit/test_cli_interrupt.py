"""Ctrl-C cuts short what waits, and nothing that is being printed."""

from __future__ import annotations

import signal

import pytest

from saltlite.cli.following import HeldInterrupts


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_ends_what_runs() -> None:
    with HeldInterrupts() as held, pytest.raises(KeyboardInterrupt):
        held.run(interrupt)


def test_an_interrupt_at_another_time_waits_for_the_next_step_and_that_does_not_begin() -> None:
    begun: list[int] = []
    with HeldInterrupts() as held:
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            held.run(lambda: begun.append(1))
        held.run(lambda: begun.append(2))
    assert begun == [2]


def test_several_interrupts_at_another_time_are_one() -> None:
    with HeldInterrupts() as held:
        interrupt()
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            held.run(lambda: None)
        assert held.run(lambda: "on") == "on"


def test_afterwards_an_interrupt_is_what_it_was() -> None:
    with HeldInterrupts():
        pass
    with pytest.raises(KeyboardInterrupt):
        interrupt()
