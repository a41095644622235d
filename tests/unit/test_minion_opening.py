"""When jobs may start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from saltlite.minion.sync import MASTER_WAIT_S, PILLAR_WAIT_S, JobGate


class Timers:
    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.waiting.append((seconds, callback))


def opening() -> tuple[JobGate, Timers, list[str]]:
    timers, opened = Timers(), list[str]()
    return JobGate(timers, lambda: opened.append("open"), lambda: opened.append("kept pillar")), timers, opened


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
    gate.connected()
    gate.connected()
    assert [seconds for seconds, _callback in timers.waiting] == [MASTER_WAIT_S, PILLAR_WAIT_S]
    timers.waiting[0][1]()
    assert opened == []
    timers.waiting[1][1]()
    assert opened == ["open"]
    assert "jobs start without a pillar" in caplog.text


def test_a_pillar_that_came_in_time_is_not_complained_about(caplog: pytest.LogCaptureFixture) -> None:
    gate, timers, opened = opening()
    gate.grains_found()
    gate.connected()
    gate.pillar_came()
    for _seconds, callback in timers.waiting:
        callback()
    assert opened == ["open"]
    assert caplog.text == ""


def test_without_a_master_jobs_start_with_the_kept_pillar_after_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    gate, timers, opened = opening()
    gate.grains_found()
    timers.waiting[0][1]()
    assert opened == ["kept pillar", "open"]
    assert "jobs start without a master: none has answered for 60 s" in caplog.text
    gate.connected()
    gate.pillar_came()
    assert opened == ["kept pillar", "open"]
