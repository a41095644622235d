"""States of jobs that are soon overtaken: that a job runs is told a moment later, when it still does."""

from __future__ import annotations

from collections.abc import Callable

from saltlite.minion.processes import ipc_messages as inside
from saltlite.model.job import TargetState
from saltlite.platform.reactor import Reactor
from saltlite.wire.framing import IpcMessage

RUNNING_S = 0.03
"""That a job runs is told, and noted for `saltutil.running`, after so long; most jobs have returned by then, and their
return says it all."""


class Passing:
    """`tell` hands a message to the network process; `note` is called with the jid of a job that is told to run."""

    def __init__(self, reactor: Reactor, tell: Callable[[IpcMessage], None], note: Callable[[str], None]) -> None:
        self._reactor = reactor
        self._tell = tell
        self._note = note
        self._starting: dict[str, IpcMessage] = {}

    def state(self, jid: str, state: TargetState, reason: str) -> None:
        """Tell that state; of a job that runs, in a moment."""
        message = inside.state(jid, str(state), reason)
        if state is not TargetState.RUNNING:
            self.overtaken(jid)
            self._tell(message)
            return
        if not self._starting:
            self._reactor.call_later(RUNNING_S, self._tell_running)
        self._starting[jid] = message

    def overtaken(self, jid: str) -> None:
        """What is said next of that job says more than that it runs."""
        self._starting.pop(jid, None)

    def _tell_running(self) -> None:
        starting, self._starting = self._starting, {}
        for jid, message in starting.items():
            self._tell(message)
            self._note(jid)
