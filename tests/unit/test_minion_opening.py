"""When jobs may start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from saltlite.minion.sync import PILLAR_WAIT_S, JobGate


class Timers:
    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.waiting.append((seconds, callback))


def opening() -> tuple[JobGate, Timers, list[str]]:
    timers, opened = Timers(), list[str]()
    return JobGate(timers, lambda: opened.append("open")), timers, opened


def test_jobs_wait_for_grains_and_pillar_and_start_once() -> None:
    gate, _timers, opened = opening()
    gate.connected()
    gate.pillar_came()
    assert opened == []
    gate.grains_found()
    gate.grains_found()
    gate.pillar_came()
    assert opened == ["open"]


def test_a_master_that_gives_no_pillar_is_not_waited_for_longer_than_the_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate, timers, opened = opening()
    gate.grains_found()
    assert timers.waiting == []
    gate.connected()
    gate.connected()
    assert [seconds for seconds, _callback in timers.waiting] == [PILLAR_WAIT_S]
    timers.waiting[0][1]()
    assert opened == ["open"]
    assert "jobs start without a pillar" in caplog.text


def test_a_pillar_that_came_in_time_is_not_complained_about(caplog: pytest.LogCaptureFixture) -> None:
    gate, timers, opened = opening()
    gate.grains_found()
    gate.connected()
    gate.pillar_came()
    timers.waiting[0][1]()
    assert opened == ["open"]
    assert caplog.text == ""
