"""The master's first process: it starts the others, starts them again when they die, and stops them in order."""

from __future__ import annotations

import functools
import logging
import signal
from collections.abc import Callable, Sequence

from saltlite.platform import systemd
from saltlite.platform.children import Children, Spec
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

TURN_S = 0.5
"""Between the restarts of two children: one starts in a fifth of that, so the others serve meanwhile."""


class Supervisor:
    """Keeps the children of a daemon and tells systemd how they are.

    `what` is the daemon's name for people. `run()` returns "" after a planned stop, or the sentence of a child
    that could not start.
    """

    def __init__(
        self,
        reactor: Reactor,
        specs: Sequence[Spec],
        *,
        what: str,
        on_ready: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._what = what
        self._tell_ready = on_ready
        self._problem = ""
        self.children = Children(reactor, specs, on_ready=self._ready, on_failed=self._failed)

    def run(self) -> str:
        """Start, and stay until SIGTERM or SIGINT."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            self._reactor.on_signal(signum, self._stop)
        self.children.start()
        self._reactor.run()
        return self._problem

    def every(self, seconds: float, work: Callable[[], None]) -> None:
        """Do something again and again while the daemon runs."""

        def run() -> None:
            work()
            self._reactor.call_later(seconds, run)

        self._reactor.call_later(seconds, run)

    def restart_in_turn(self, names: Sequence[str]) -> None:
        """Have children end one after the other, as if by a planned stop; each is started again at once."""
        for number, name in enumerate(names):
            self._reactor.call_later(number * TURN_S, functools.partial(self._restart, name))

    def _restart(self, name: str) -> None:
        log.info("%s starts anew", name)
        self.children.signal(name, signal.SIGTERM)

    def _ready(self) -> None:
        log.info("%s is ready", self._what)
        systemd.notify(["READY=1", f"STATUS={len(self.children.pids())} processes run"])
        self._tell_ready()
        systemd.feed_watchdog(self._reactor)

    def _failed(self, sentence: str) -> None:
        self._problem = self._problem or sentence
        self.children.stop(self._reactor.stop)

    def _stop(self) -> None:
        systemd.notify(["STOPPING=1"])
        self.children.stop(self._reactor.stop)
