"""What parts for resources have answered: their segments, and the endings that wait for them.

A segment is offered as soon as it is made. How a part ended that not all of its resources answered is kept and offered
when the master has committed every segment: it holds for all that have not returned.
"""

from __future__ import annotations

from collections.abc import Callable

from saltlite.minion.protocol.effects import Effect, Forget, Write
from saltlite.minion.protocol.endings import SEGMENT_UNREADABLE, read_spelled, spelled, without_result
from saltlite.minion.protocol.entry import Entry
from saltlite.minion.protocol.offers import Offers
from saltlite.minion.protocol.ports import Step
from saltlite.model.clock import Clock
from saltlite.model.ids import PartId
from saltlite.model.job import part_of_segment


class Segments:
    """Segments in the spool, by part. `entry` below is what is known of the part."""

    def __init__(self, clock: Clock, offers: Offers, do: Callable[[Effect], None]) -> None:
        self._clock = clock
        self._offers = offers
        self._do = do
        self._of: dict[PartId, set[str]] = {}

    def found(self, segment: str) -> bool:
        """It is in the spool; whether that is news."""
        known = self._of.setdefault(part_of_segment(segment), set())
        is_new = segment not in known
        known.add(segment)
        return is_new

    def gone(self, segment: str) -> bool:
        """It is not in the spool any more; whether it was."""
        self._offers.drop(segment)
        part = part_of_segment(segment)
        known = self._of.get(part, set())
        was_there = segment in known
        known.discard(segment)
        if not known:
            self._of.pop(part, None)
        return was_there

    def of(self, part: PartId) -> list[str]:
        """Those of that part, in the order in which they were made."""
        return sorted(self._of.get(part, ()), key=lambda segment: int(segment.rpartition(".")[2]))

    def any_offered(self, part: PartId) -> bool:
        """Whether anything of that part is on its way to the master."""
        return any(result in self._offers for result in (part, *self._of.get(part, ())))

    def acknowledged(self, segment: str, entry: Entry | None) -> None:
        """The master has committed it."""
        if self.gone(segment):
            self._do(Forget(segment))
            if entry is not None:
                self.settle(entry)

    def owe(self, entry: Entry, why: str) -> None:
        """Note how a part ends that not all answered; the first reason stands."""
        kept = entry.keep(why, int(self._clock.wall() * 1000))
        entry.owed = entry.owed or spelled(kept.state, kept.reason)
        for segment in self.of(entry.jid):
            self._offers.hurry(segment)

    def ended(self, entry: Entry, how: str) -> None:
        """The part is over: all have answered, or `how` it ended before is a phrase such as "killed by SIGKILL"."""
        if how:
            self.owe(entry, without_result(how))
        entry.step = Step.DONE
        # With the reason, so that the next job server knows that not all have answered.
        self._do(Write(Step.DONE, entry.jid, {"reason": entry.owed} if entry.owed else {}, lazy=True))
        self.settle(entry)

    def unreadable(self, segment: str, entry: Entry | None) -> None:
        """The disk has lost it."""
        if self.gone(segment) and entry is not None:
            self.owe(entry, SEGMENT_UNREADABLE)
            self.settle(entry)

    def settle(self, entry: Entry) -> None:
        """Say what is left to be said of a part that has ended, when the master has every segment of it."""
        if entry.step is not Step.DONE or self._of.get(entry.jid) or entry.jid in self._offers:
            return
        if entry.owed:
            entry.ending, why = read_spelled(entry.owed)
            entry.owed = ""
            self._do(entry.keep(why, int(self._clock.wall() * 1000)))
            self._offers.offer(entry.jid, entry)
        else:
            entry.step = Step.ACKED
            self._do(Write(Step.ACKED, entry.jid, lazy=True))
