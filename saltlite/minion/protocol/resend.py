"""The resend policy: which results are offered to which master, and when they are offered again.

A result is offered again after OFFER_AGAIN_S without an acknowledgement. Segments of a part whose ending waits for them
are offered sooner, because the acknowledgement may have been lost, and the ending cannot be sent before it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from saltlite.minion.protocol.effects import (
    NEVER,
    OWN,
    SEGMENT_UNREADABLE,
    Effect,
    Forget,
    JobEntry,
    JournalStep,
    Offer,
    Write,
    decoded_ending,
    encoded_ending,
    without_result,
)
from saltlite.model.clock import Clock
from saltlite.model.ids import PartId, jid_at
from saltlite.model.job import part_of_segment

FOREIGN_S = 7 * 86_400.0
"""Seconds for which a result is reserved for the master that sent the job; later any master of the fleet may get it."""
OFFER_AGAIN_S = 600.0
"""Seconds without an acknowledgement after which a result is offered again."""
AWAITED_AGAIN_S = 15.0
"""The same for a segment that the ending of its part waits for."""


class Offers:
    """Offered results. `do` takes effects; `issuers` are the job keys of the masters whose jobs are in the store of the
    connected one, which gets the offers."""

    def __init__(self, clock: Clock, do: Callable[[Effect], None]) -> None:
        self.issuers: frozenset[bytes] = frozenset()
        self._clock = clock
        self._do = do
        # All of one kind have the same delay, so the first one of each is due first.
        self._usual: dict[str, float] = {}
        self._awaited: dict[str, float] = {}
        self._held: dict[str, None] = {}
        """Results for masters that are not known to share their store with the connected one."""

    def __contains__(self, result: str) -> bool:
        return result in self._usual or result in self._awaited

    def offer(self, result: str, entry: JobEntry | None) -> None:
        """Offer a result if it is for this master; `entry` is the state of its part."""
        self.drop(result)
        if self._belongs_elsewhere(result, entry):
            self._held[result] = None
            return
        if entry is not None and entry.owed:
            self._awaited[result] = self._clock.monotonic() + AWAITED_AGAIN_S
        else:
            self._usual[result] = self._clock.monotonic() + OFFER_AGAIN_S
        self._do(Offer(result))

    def hurry(self, result: str) -> None:
        """Offer it again sooner, because an ending waits for its acknowledgement."""
        if self._usual.pop(result, None) is not None:
            self._awaited[result] = self._clock.monotonic() + AWAITED_AGAIN_S

    def drop(self, result: str) -> None:
        """Remove a result that was acknowledged or is gone."""
        self._usual.pop(result, None)
        self._awaited.pop(result, None)
        self._held.pop(result, None)

    def admit(self, issuer: bytes) -> list[str]:
        """The connected master has the jobs that this key signed, too; the results to offer that may be for it now."""
        if issuer in self.issuers:
            # Jobs of another master come one by one, each with its certificate.
            return []
        self.issuers |= {issuer}
        held = list(self._held)
        self._held.clear()
        return held

    def clear(self) -> None:
        """Start a session: nothing is in flight."""
        self._usual.clear()
        self._awaited.clear()
        self._held.clear()

    def next(self) -> float:
        """When the next offer is due, in monotonic seconds; infinity for never."""
        return min((next(iter(kind.values())) for kind in (self._usual, self._awaited) if kind), default=NEVER)

    def due(self) -> Iterator[str]:
        """The results that are due; offer each before you ask for the next."""
        for kind in (self._usual, self._awaited):
            while kind and self._clock.monotonic() >= next(iter(kind.values())):
                yield next(iter(kind))

    def _belongs_elsewhere(self, result: str, entry: JobEntry | None) -> bool:
        """Whether the result is for another master: one that does not know the job would discard it (G6)."""
        issuer = entry.issuer if entry is not None else b""
        recent = result > jid_at(int((self._clock.wall() - FOREIGN_S) * 1_000_000))
        return not self.knows(issuer) and recent

    def knows(self, issuer: bytes) -> bool:
        """Whether the connected master has the jobs that this key signed."""
        return issuer in (b"", OWN) or issuer in self.issuers


# -- Segments of parts for resources
#
# A segment is offered as soon as it is made. If not all resources answered, the ending of the part is kept until the
# master has committed every segment, because it applies to all resources without a return.


class PartSegments:
    """Segments in the spool, by part. `entry` below is the state of the part."""

    def __init__(self, clock: Clock, offers: Offers, do: Callable[[Effect], None]) -> None:
        self._clock = clock
        self._offers = offers
        self._do = do
        self._of: dict[PartId, set[str]] = {}

    def found(self, segment: str) -> bool:
        """Note a segment in the spool; returns whether it is new."""
        known = self._of.setdefault(part_of_segment(segment), set())
        is_new = segment not in known
        known.add(segment)
        return is_new

    def gone(self, segment: str) -> bool:
        """Note that a segment left the spool; returns whether it was there."""
        self._offers.drop(segment)
        part = part_of_segment(segment)
        known = self._of.get(part, set())
        was_there = segment in known
        known.discard(segment)
        if not known:
            self._of.pop(part, None)
        return was_there

    def of(self, part: PartId) -> list[str]:
        """The segments of that part, in the order of their numbers."""
        return sorted(self._of.get(part, ()), key=lambda segment: int(segment.rpartition(".")[2]))

    def any_offered(self, part: PartId) -> bool:
        """Whether anything of that part is in flight."""
        return any(result in self._offers for result in (part, *self._of.get(part, ())))

    def acknowledged(self, segment: str, entry: JobEntry | None) -> None:
        """Handle the master's commit of a segment."""
        if self.gone(segment):
            self._do(Forget(segment))
            if entry is not None:
                self.settle(entry)

    def owe(self, entry: JobEntry, why: str) -> None:
        """Note the ending of a part that did not get all answers; the first reason counts."""
        kept = entry.keep(why, int(self._clock.wall() * 1000))
        entry.owed = entry.owed or encoded_ending(kept.state, kept.reason)
        for segment in self.of(entry.jid):
            self._offers.hurry(segment)

    def ended(self, entry: JobEntry, how: str) -> None:
        """Handle the end of a part: all resources answered, or `how` is a phrase such as "killed by SIGKILL"."""
        if how:
            self.owe(entry, without_result(how))
        entry.step = JournalStep.DONE
        # With the reason, so that the next job server knows that answers are missing.
        self._do(Write(JournalStep.DONE, entry.jid, {"reason": entry.owed} if entry.owed else {}, lazy=True))
        self.settle(entry)

    def unreadable(self, segment: str, entry: JobEntry | None) -> None:
        """Handle a segment that the disk lost."""
        if self.gone(segment) and entry is not None:
            self.owe(entry, SEGMENT_UNREADABLE)
            self.settle(entry)

    def settle(self, entry: JobEntry) -> None:
        """Send the ending of a part, or close it, when the master has all its segments."""
        if entry.step is not JournalStep.DONE or self._of.get(entry.jid) or entry.jid in self._offers:
            return
        if entry.owed:
            entry.ending, why = decoded_ending(entry.owed)
            entry.owed = ""
            self._do(entry.keep(why, int(self._clock.wall() * 1000)))
            self._offers.offer(entry.jid, entry)
        else:
            entry.step = JournalStep.ACKED
            self._do(Write(JournalStep.ACKED, entry.jid, lazy=True))
