"""Deliveries to one minion: sent, resent until acknowledged, and limited in bytes and number.

At most SEND_WINDOW bytes and DELIVERIES_MAX deliveries are in an outbox. What does not fit stays QUEUED in the store
and is pulled again (`starved`) when there is room. This file is the whole resend policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from saltlite.model.job import split_part
from saltlite.wire.limits import SEND_WINDOW
from saltlite.wire.messages import Message

DELIVERIES_MAX = 64
"""As many as the link takes at once for one peer."""
RESEND_MIN_S = 2.0
RESEND_MAX_S = 60.0


@dataclass(slots=True)
class Delivery:
    """One part of a job for one minion; `jid` is the id of the part. Times are monotonic seconds."""

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
        """Bytes in the send window."""
        return len(self.body) + sum(map(len, self.srns))

    def message(self, now: float) -> Message:
        """The `job` message. An expired job is sent with 0 ms, and the answer settles whether it ever arrived."""
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
        """The first job that a fresh pull did not return, "" for none."""

    def __len__(self) -> int:
        return len(self._deliveries)

    def put(self, delivery: Delivery) -> bool:
        """Add a delivery; False when it is there already, or does not fit (then `starved` is set).

        A delivery larger than the window is sent alone.
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
        """Add what was pulled. `starved`: the store has more. `rest`: the first job that a fresh pull did not return,
        "" for none; None when the pull was not fresh."""
        for delivery in deliveries:
            if not self.put(delivery) and delivery.jid not in self._deliveries and rest is not None:
                rest = min(rest or delivery.jid, delivery.jid, key=split_part)
        self.starved = self.starved or starved
        if rest is not None:
            self.rest = rest

    def settle(self, jid: str) -> bool:
        """The minion acknowledged the job. True when that made room for jobs in the store."""
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
        """Deliveries to send now; each is due again after 2, 4, 8 … 60 s unless it is acknowledged."""
        for delivery in self._deliveries.values():
            if now >= delivery.resend_at:
                delivery.resend_at = now + min(RESEND_MAX_S, RESEND_MIN_S * 2 ** min(delivery.tries, 10))
                delivery.tries += 1
                yield delivery
            elif delivery.tries == 0:
                # The link had no room for it. Those behind it wait too, because jobs are sent in order.
                return

    def blocked(self, jid: str, until: float) -> None:
        """The link had no room for that delivery: send it at `until`."""
        delivery = self._deliveries.get(jid)
        if delivery is not None:
            delivery.resend_at = until
            delivery.tries = max(0, delivery.tries - 1)
