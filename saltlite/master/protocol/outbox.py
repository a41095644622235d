"""The parts of jobs on their way to one minion: sent, sent again until acknowledged, and bounded in bytes and number.

Policy of this queue: at most SEND_WINDOW bytes and DELIVERIES_MAX deliveries; what does not fit stays QUEUED in
the store and is asked for again (`starved`) as soon as there is room. Nothing is dropped that was not
acknowledged, because the store still has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from saltlite.model.job import split_part
from saltlite.wire.limits import SEND_WINDOW
from saltlite.wire.messages import Message

DELIVERIES_MAX = 64
"""As many as the link takes at once for one peer: more would only be sealed to be refused."""
RESEND_MIN_S = 2.0
RESEND_MAX_S = 60.0


@dataclass(slots=True)
class Delivery:
    """One part of a job for one minion; `jid` is the id of the part. Deadlines are monotonic seconds."""

    jid: str
    body: bytes
    signature: bytes
    proof: Sequence[bytes]
    deliver_until: float
    srns: Sequence[str] = ()
    resend_at: float = 0.0
    tries: int = 0

    @property
    def size(self) -> int:
        """The bytes that it is counted as."""
        return len(self.body) + sum(map(len, self.srns))

    def message(self, now: float) -> Message:
        """The `job` message; an expired job says so with 0 ms, which settles whether it ever arrived."""
        remaining_ms = max(0, int((self.deliver_until - now) * 1000))
        return {
            "t": "job",
            "jid": self.jid,
            "resources": self.srns,
            "body": self.body,
            "sig": self.signature,
            "proof": self.proof,
            "deliver_ms": remaining_ms,
        }


class Outbox:
    """The deliveries of one session."""

    __slots__ = ("_bytes", "_deliveries", "rest", "starved")

    def __init__(self) -> None:
        self._deliveries: dict[str, Delivery] = {}
        self._bytes = 0
        self.starved = False
        self.rest = ""
        """The first job that a fresh pull has left to be asked about when there is room, "" for none."""

    def __len__(self) -> int:
        return len(self._deliveries)

    def put(self, delivery: Delivery) -> bool:
        """Take a delivery in; False when it is already there, or when there is no room (then `starved` is set).

        A body larger than the window goes alone.
        """
        if delivery.jid in self._deliveries:
            return False
        full = len(self._deliveries) >= DELIVERIES_MAX or self._bytes + delivery.size > SEND_WINDOW
        if self._deliveries and full:
            self.starved = True
            return False
        self._deliveries[delivery.jid] = delivery
        self._bytes += delivery.size
        return True

    def refill(self, deliveries: Iterable[Delivery], *, starved: bool, rest: str | None) -> None:
        """Take in what was pulled, by jid and part. `starved`: the store has more; `rest`: where a fresh pull
        left off, "" when it did not, None for one that was not fresh."""
        for delivery in deliveries:
            if not self.put(delivery) and delivery.jid not in self._deliveries and rest is not None:
                rest = min(rest or delivery.jid, delivery.jid, key=split_part)
        self.starved = self.starved or starved
        if rest is not None:
            self.rest = rest

    def settle(self, jid: str) -> bool:
        """The minion acknowledged the job; True when that made room for jobs left in the store."""
        delivery = self._deliveries.pop(jid, None)
        if delivery is None:
            return False
        self._bytes -= delivery.size
        room = len(self._deliveries) <= DELIVERIES_MAX // 2 and self._bytes <= SEND_WINDOW // 2
        if self.starved and room:
            self.starved = False
            return True
        return False

    def due(self, now: float) -> Iterator[Delivery]:
        """Parcels to send now; each is set to be sent again after 2, 4, 8 … 60 s without an
        acknowledgement."""
        for delivery in self._deliveries.values():
            if now >= delivery.resend_at:
                delivery.resend_at = now + min(RESEND_MAX_S, RESEND_MIN_S * 2 ** min(delivery.tries, 10))
                delivery.tries += 1
                yield delivery
            elif delivery.tries == 0:
                # The link had no room for it: those behind it wait too, for jobs leave in their order.
                return

    def blocked(self, jid: str, until: float) -> None:
        """The link had no room for that delivery: it was not sent, try again at `until`."""
        delivery = self._deliveries.get(jid)
        if delivery is not None:
            delivery.resend_at = until
            delivery.tries = max(0, delivery.tries - 1)
