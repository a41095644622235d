"""Parts for resources, between the jobs machine and the processes that run them.

These processes are the job server's: they end with it, and whatever an earlier job server left of them is ended before
its parts are said to be. What they have put into the spool by then is found there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from saltlite.errors import JournalError
from saltlite.minion.jobs.job_process import JobCall
from saltlite.minion.jobs.results import Results
from saltlite.minion.protocol.effects import EndPart
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.minion.resources.ports import ResourceRuns, Runs
from saltlite.model.ids import PartId, TargetId
from saltlite.platform.reactor import Reactor

NO_RESOURCES = "this minion manages no resources"
RESTARTED = "the minion was restarted while it ran"
"""How a part ended whose process was an earlier job server's."""

MakeRuns = Callable[[Runs], ResourceRuns]


class PartRuns:
    """Until `use` has said what runs them, no part is taken. `changed` is called when the jobs machine wants something
    done; `fail` when the disk fails."""

    def __init__(
        self,
        reactor: Reactor,
        jobs: JobMachine,
        results: Results,
        *,
        changed: Callable[[], None],
        fail: Callable[[str], None],
    ) -> None:
        self._jobs = jobs
        self._results = results
        self._changed = changed
        self._fail = fail
        self._reactor = reactor
        self._runs: ResourceRuns | None = None
        self._begun: set[PartId] = set()

    def use(self, make: MakeRuns) -> None:
        """This minion manages resources: `make` makes what runs functions on them."""
        # In a turn of their own: the jobs machine may be in the middle of what it has ordered.
        call_soon = self._reactor.call_soon
        runs = Runs(
            segment=lambda segment: call_soon(lambda: self._produced(segment)),
            done=lambda part, how: call_soon(lambda: self.ended(part, how)),
        )
        self._runs = make(runs)

    def begin(self, call: JobCall, srns: Sequence[TargetId]) -> None:
        """Have the part wait where it will run, or say why it cannot."""
        if self._runs is None:
            self._jobs.not_forked(call.jid, NO_RESOURCES)
            return
        try:
            pid, ticks = self._runs.begin(call, srns)
        except OSError as error:
            self._jobs.not_forked(call.jid, f"the minion cannot start another process: {error.strerror}")
            return
        self._begun.add(call.jid)
        self._jobs.forked(call.jid, pid, ticks)

    def go(self, part: PartId) -> None:
        """Let it begin."""
        if self._runs is not None:
            self._runs.go(part)

    def end(self, effect: EndPart) -> None:
        """End it early. One of an earlier job server is ended already."""
        if self._runs is not None and effect.jid in self._begun:
            self._runs.cancel(effect.jid, late=effect.late)

    def ended(self, part: PartId, how: str) -> None:
        """The part is over: everybody has answered, or `how` says why not."""
        try:
            if how:
                # Its process may have died before it said what it had written.
                for segment in self._results.segments_of(part):
                    self._notice(segment)
        except JournalError as error:
            self._fail(str(error))
            return
        self._begun.discard(part)
        self._jobs.part_ended(part, how)
        self._changed()

    def _produced(self, segment: str) -> None:
        try:
            self._notice(segment)
        except JournalError as error:
            self._fail(str(error))
            return
        self._changed()

    def _notice(self, segment: str) -> None:
        if self._results.noticed(segment):
            self._jobs.produced(segment)
