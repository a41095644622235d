"""The threads that call devices: as many as are needed, one call each, and a new one for each that was given up.

Calls that take no time are best made by one thread, and those that wait for their device by many. So there is one
thread at first, and twice as many whenever all of them have been at the same call for STUCK_S.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from saltlite.minion.resources.device_queue import DeviceQueue, GivenUp, Turn
from saltlite.model.ids import PartId, TargetId

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

STUCK_S = 0.002
"""A call that lasts longer waits for its device."""


class Calls(Generic[Answer]):
    """`run` makes one call, and never raises; `answered` gets what it returns, unless the call was given up.

    `failed` says of an answer whether the device may be dead. `given_up` hears of every call that gets no answer. All
    are called from several threads at once. `now` is a monotonic clock, seconds: that of `devices`.
    """

    def __init__(
        self,
        devices: DeviceQueue,
        run: Callable[[Turn], Answer],
        answered: Callable[[Turn, Answer], None],
        given_up: Callable[[GivenUp], None],
        *,
        failed: Callable[[Answer], bool],
        now: Callable[[], float],
    ) -> None:
        self._devices = devices
        self._run = run
        self._answered = answered
        self._given_up = given_up
        self._failed = failed
        self._now = now
        self._changed = threading.Condition()
        self._threads = 0
        """Those that are in no call which was given up."""
        self._resting = 0
        """Those of them that wait to be told of a call."""
        self._paused = False

    def add(self, part: PartId, devices: Iterable[TargetId]) -> None:
        """Make one call of that part for each of these devices."""
        with self._changed:
            given_up = self._devices.add(part, devices)
            if not self._devices.running:
                self._more(1)
        self._tell(given_up)

    def cancel(self, part: PartId) -> None:
        """Make no more calls of that part, and give up those that run."""
        with self._changed:
            before = self._devices.hung
            self._devices.cancel(part)
            self._threads -= self._devices.hung - before
        self.tick()

    def limit(self, turn: Turn, limit_s: float) -> None:
        """That call, which runs, may take so many seconds from its beginning; 0: as long as it wants.

        Whoever waits for the next `tick` has to make it at once.
        """
        with self._changed:
            self._devices.limit(turn, limit_s)

    def pause(self, *, begin_nothing: bool) -> None:
        """Begin nothing, until it is said again that it may."""
        with self._changed:
            self._paused = begin_nothing
            if not begin_nothing:
                self._more(1)

    def tick(self) -> float:
        """Look at what takes long; when to look again, by the clock: infinite when nothing can happen by itself."""
        with self._changed:
            now = self._now()
            before = self._devices.hung
            given_up = self._devices.overdue(now)
            self._threads -= self._devices.hung - before
            again = self._devices.deadline()
            if self._devices.queued and self._devices.places > 0 and not self._paused:
                if now - self._devices.latest >= STUCK_S:
                    self._more(max(1, self._devices.running))
                again = min(again, now + STUCK_S)
        self._tell(given_up)
        return again

    @property
    def idle(self) -> bool:
        """Whether no call runs or waits; calls that were given up do not count."""
        with self._changed:
            return self._devices.idle

    @property
    def hung(self) -> int:
        """Calls that were given up and have not ended."""
        with self._changed:
            return self._devices.hung

    def _more(self, threads: int) -> None:
        """Let so many threads more look for a call, as far as there are places, unless some are about to."""
        if self._threads > self._devices.running + self._resting:
            return
        threads = min(threads, self._devices.places)
        woken = min(threads, self._resting)
        self._resting -= woken
        self._changed.notify(woken)
        for _ in range(threads - woken):
            try:
                threading.Thread(target=self._live, daemon=True).start()
            except RuntimeError:
                log.warning("no more than %d threads can be started; raise TasksMax", self._threads)
                return
            self._threads += 1

    def _live(self) -> None:
        turn: Turn | None = None
        while True:
            if turn is None:
                turn = self._wait()
            answer = self._run(turn)
            failed = self._failed(answer)
            with self._changed:
                counts = self._devices.ended(turn, self._now(), failed=failed)
                following = self._begin() if counts else None
            if not counts:
                # Another thread has taken its place.
                return
            self._answered(turn, answer)
            turn = following

    def _begin(self) -> Turn | None:
        return None if self._paused else self._devices.take(self._now())

    def _wait(self) -> Turn:
        with self._changed:
            while (turn := self._begin()) is None:
                self._resting += 1
                # Whoever wakes a thread counts it as one that does not rest.
                self._changed.wait()
            return turn

    def _tell(self, given_up: Iterable[GivenUp]) -> None:
        for one in given_up:
            self._given_up(one)
