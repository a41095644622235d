"""The machine of a minion's jobs, with a test in the place of disk and processes."""

from __future__ import annotations

from typing import Any

from saltlite.minion.protocol.effects import Effect, Fork, Go, JournalStep, ReceivedPart, Tell, Write
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.model.ids import jid_at
from saltlite.model.job import TargetState
from saltlite.platform.daemon import ManualClock
from saltlite.wire import merkle
from tests.support.keys import DAY, JOB_PUBLIC, NOW, signed

PID, TICKS = 4321, 99
PID, TICKS = 4321, 99
UNTIL = NOW + 30 * DAY


def jid(number: int = 0) -> str:
    return jid_at(int(NOW * 1_000_000) + number)


class Server:
    """The machine, and a driver that lets the test answer for the processes."""

    def __init__(self, *, limit: int = 2, longest_s: float = 0.0, opened: bool = True) -> None:
        self.clock = ManualClock(seed=1, wall=NOW)
        self.jobs = JobMachine("web1", self.clock, limit=limit, longest_s=longest_s)
        self.jobs.trust(JOB_PUBLIC, UNTIL)
        if opened:
            self.jobs.open()

    def take(self) -> list[Effect]:
        return self.jobs.take()

    def receive(self, number: int = 0, **changed: Any) -> list[Effect]:
        self.jobs.received(parcel(number, **changed))
        return self.take()

    def start(self, number: int = 0, **changed: Any) -> list[Effect]:
        """Receive a job and make its process."""
        self.receive(number, **changed)
        self.jobs.forked(jid(number), PID + number, TICKS)
        return self.take()

    def end(self, number: int = 0, *, left_result: bool = True) -> list[Effect]:
        self.jobs.exited(jid(number), left_result=left_result, how="exit status 1")
        return self.take()

    def wait(self, seconds: float) -> list[Effect]:
        self.clock.advance(seconds)
        self.jobs.tick()
        return self.take()


def parcel(
    number: int = 0,
    *,
    minions: tuple[str, ...] = ("web1",),
    deliver_ms: int = 60_000,
    run_ms: int = 0,
    left_ms: int | None = None,
) -> ReceivedPart:
    body, signature = signed(jid(number), minions, deliver_ms=deliver_ms, run_ms=run_ms)
    proof = merkle.proofs(list(minions)).get("web1", [])
    return ReceivedPart(jid(number), body, signature, proof, deliver_ms if left_ms is None else left_ms)


def refusal(effects: list[Effect]) -> tuple[TargetState, str]:
    """State and reason, where that is all that was told and nothing was begun."""
    assert not [effect for effect in effects if isinstance(effect, Fork | Go)]
    (tell,) = [effect for effect in effects if isinstance(effect, Tell)]
    return tell.state, tell.reason


def writes(effects: list[Effect]) -> list[JournalStep]:
    return [effect.step for effect in effects if isinstance(effect, Write)]
