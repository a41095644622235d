"""Results that were offered to the master and not acknowledged: to which master, and when they are offered again.

Once more after OFFER_AGAIN_S: the master could not store it. Segments of a part whose ending waits for them are
offered sooner, for what was lost may have been the acknowledgement, and until it comes nobody is told the ending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from saltlite.minion.protocol.effects import Effect, Offer
from saltlite.minion.protocol.entry import NEVER, Entry
from saltlite.model.clock import Clock
from saltlite.model.ids import jid_at

FOREIGN_S = 7 * 86_400.0
"""A result is kept for the master that asked for it; after so long any master of the fleet may have it."""
OFFER_AGAIN_S = 600.0
"""A result that was not acknowledged for so long is offered again: the master could not store it."""
AWAITED_AGAIN_S = 15.0
"""The same for a segment that the ending of its part waits for."""


class Offers:
    """`do` takes effects; `master` is the job key of the master that results are offered to."""

    def __init__(self, clock: Clock, do: Callable[[Effect], None]) -> None:
        self.master = b""
        self._clock = clock
        self._do = do
        # All of one kind are offered again after the same time, so the first of each is the next.
        self._usual: dict[str, float] = {}
        self._awaited: dict[str, float] = {}

    def __contains__(self, result: str) -> bool:
        return result in self._usual or result in self._awaited

    def offer(self, result: str, entry: Entry | None) -> None:
        """Offer it, if it is for this master; `entry` is what is known of its part."""
        self.drop(result)
        if self._belongs_elsewhere(result, entry):
            return
        if entry is not None and entry.owed:
            self._awaited[result] = self._clock.monotonic() + AWAITED_AGAIN_S
        else:
            self._usual[result] = self._clock.monotonic() + OFFER_AGAIN_S
        self._do(Offer(result))

    def hurry(self, result: str) -> None:
        """Something waits for the acknowledgement from now on."""
        if self._usual.pop(result, None) is not None:
            self._awaited[result] = self._clock.monotonic() + AWAITED_AGAIN_S

    def drop(self, result: str) -> None:
        """It was acknowledged, or is there no more."""
        self._usual.pop(result, None)
        self._awaited.pop(result, None)

    def clear(self) -> None:
        """A new session: nothing is on its way."""
        self._usual.clear()
        self._awaited.clear()

    def next(self) -> float:
        """When the next is offered again, in monotonic seconds; infinity for never."""
        return min((next(iter(kind.values())) for kind in (self._usual, self._awaited) if kind), default=NEVER)

    def due(self) -> Iterator[str]:
        """Those to be offered again now; each must be before the next is asked for."""
        for kind in (self._usual, self._awaited):
            while kind and self._clock.monotonic() >= next(iter(kind.values())):
                yield next(iter(kind))

    def _belongs_elsewhere(self, result: str, entry: Entry | None) -> bool:
        """Another master asked for it, and a master that does not know the job would have it thrown away (G6)."""
        issuer = entry.issuer if entry is not None else b""
        recent = result > jid_at(int((self._clock.wall() - FOREIGN_S) * 1_000_000))
        return issuer not in (b"", self.master) and recent
