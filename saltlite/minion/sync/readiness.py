"""When jobs may start: once the grains were found and a pillar has come.

A job that ran with neither would do something else than it was meant to. A master that is reached and gives no pillar
is not waited for longer than PILLAR_WAIT_S, because without jobs nobody could look at the minion to find out why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

PILLAR_WAIT_S = 5.0
"""How long jobs wait for the first pillar, from the first session on."""


class Timers(Protocol):
    """What is needed of the reactor."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> object: ...


class Opening:
    """`open_jobs` is called once."""

    def __init__(self, timers: Timers, open_jobs: Callable[[], None]) -> None:
        self._timers = timers
        self._open_jobs = open_jobs
        self._grains = False
        self._pillar = False
        self._connected = False
        self._open = False

    def grains_found(self) -> None:
        """The grains are there."""
        self._grains = True
        self._look()

    def pillar_came(self) -> None:
        """A pillar is there."""
        self._pillar = True
        self._look()

    def connected(self) -> None:
        """A session began: the pillar is on its way."""
        if not self._connected:
            self._connected = True
            self._timers.call_later(PILLAR_WAIT_S, self._without_pillar)

    def _without_pillar(self) -> None:
        if not self._pillar:
            log.warning("jobs start without a pillar: the master gave none within %g s", PILLAR_WAIT_S)
            self.pillar_came()

    def _look(self) -> None:
        if self._grains and self._pillar and not self._open:
            self._open = True
            self._open_jobs()
