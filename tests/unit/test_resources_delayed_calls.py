"""Calls of resources that wait first, as executors want it: by a clock of the test's own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from saltlite.minion.resources.calls import AT_ONCE, DelayedCalls, Timing, chain_timing


class Begun:
    """What was begun: (part, resources)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self.waiting = DelayedCalls(self.begin)

    def begin(self, part: str, srns: Sequence[str]) -> None:
        self.calls.append((part, list(srns)))


class OddChain:
    """A chain whose executors cannot say how long."""

    problem = ""

    def delay(self, _target: str) -> float:
        raise ValueError("no time")

    def limit(self) -> float:
        return 0.0


def test_each_begins_when_it_has_waited_and_the_others_at_once() -> None:
    it = Begun()
    it.waiting.add("p", ["a", "b", "c"], Timing({"a": 5.0, "b": 2.0}), 100.0)
    assert it.calls == [("p", ["c"])]
    assert it.waiting.tick(101.9) == 102.0
    assert it.waiting.tick(102.0) == 105.0
    assert it.waiting.tick(200.0) == math.inf
    assert it.calls == [("p", ["c"]), ("p", ["b"]), ("p", ["a"])]
    assert it.waiting.idle


def test_what_is_cancelled_never_begins() -> None:
    it = Begun()
    it.waiting.add("p", ["a"], Timing({"a": 5.0}), 0.0)
    it.waiting.add("q", ["a"], Timing({"a": 6.0}), 0.0)
    it.waiting.cancel("p")
    assert it.waiting.tick(10.0) == math.inf
    assert it.calls == [("q", ["a"])]


def test_without_executors_nothing_waits() -> None:
    it = Begun()
    it.waiting.add("p", ["a", "b"], chain_timing(None, ["a", "b"]), 0.0)
    assert it.calls == [("p", ["a", "b"])]
    assert chain_timing(None, ["a"]) is AT_ONCE


def test_an_executor_that_cannot_say_how_long_is_the_answer_of_every_resource() -> None:
    timing = chain_timing(OddChain(), ["a"])  # type: ignore[arg-type]  # of a chain it has what is asked
    assert timing.problem == "an executor cannot be used: no time"
    assert timing.delays == {}
