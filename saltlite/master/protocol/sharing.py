"""What a master does that shares its store with others: it acts only while it has a lease, and names the issuers of
jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable

from saltlite.master.protocol.effects import CloseConnection, Effect, Presence, Send
from saltlite.master.protocol.sessions import Delivery
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import JID_DIGITS
from saltlite.wire.certificates import MasterCertificate
from saltlite.wire.job_body import is_signed
from saltlite.wire.limits import RETURN_MEMORY

# -- Who signed a job, where several masters share a store. Each minion verifies that; the certificate of another master
# travels with the job, because a message on its own may be lost.

ISSUERS_KEPT = 10_000
"""Jobs whose issuer is remembered."""


class Issuers:
    """The certificates of the other masters, and which of them signed which job. `own` is the certificate of this
    one."""

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._others: dict[bytes, bytes] = {}
        self._known: OrderedDict[str, bytes] = OrderedDict()

    def others_are(self, certificates: Iterable[bytes]) -> None:
        """These are the certificates of the other masters."""
        others = {MasterCertificate.decode(raw).job_public: raw for raw in certificates}
        if others != self._others:
            self._others = others
            self._known.clear()

    def named(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """The deliveries, each with the certificate of the other master that signed it, if another one did."""
        found = list(deliveries)
        for delivery in found if self._others else ():
            delivery.certificate = self._of(delivery)
        return found

    def _of(self, delivery: Delivery) -> bytes:
        jid = delivery.jid[:JID_DIGITS]
        found = self._known.get(jid)
        if found is None:
            own = MasterCertificate.decode(self._own).job_public
            signed = (key for key in (own, *self._others) if is_signed(key, delivery.body, delivery.signature))
            signer = next(signed, own)
            found = self._known[jid] = self._others.get(signer, b"")
            if len(self._known) > ISSUERS_KEPT:
                self._known.popitem(last=False)
        return found


# -- The lease of a master that shares its store with others: how long it may act on frames of minions, and send any
#
# Without a lease, frames of minions wait unread and effects wait undone, for SUSPEND_S at most: then all sessions end.
# So a key that was revoked on another master has no effect here once that command has returned (S5): it waits until
# this master has applied the change, or until its lease must have ended (`saltlite.master.processes.membership`).


SUSPEND_S = 20.0
"""How long sessions outlive their lease: the database may be restarted meanwhile, and no minion takes its master for
silent before 2.5 heartbeats."""


@dataclass(frozen=True, slots=True)
class WaitingFrame:
    """A frame that was not read yet, as `SessionManager.frame` takes it."""

    route: bytes
    connection: int
    address: str
    raw: bytes


class Lease:
    """Until when this master may act, by the clock that goes on while the machine is suspended; and what waits."""

    def __init__(self, clock: Clock, until: float) -> None:
        self._clock = clock
        self._until = until
        self._frames: list[WaitingFrame] = []
        self._bytes = 0
        self._effects: list[Effect] = []

    @property
    def is_held(self) -> bool:
        """Whether this master may act now."""
        return self._clock.boottime() < self._until

    @property
    def is_lost(self) -> bool:
        """Whether it has been without a lease for so long that its sessions are over."""
        return self._clock.boottime() >= self._until + SUSPEND_S

    def renew(
        self, until: float, effects: list[Effect], sessions: Container[int]
    ) -> tuple[list[Effect], list[WaitingFrame]]:
        """The lease lasts until then. What is to be done now: the effects that have waited for it and these, without
        those of sessions that ended meanwhile; then the frames that have waited, in order."""
        was_held, self._until = self.is_held, until
        if was_held or not self.is_held:
            return effects, []
        held, frames = self._take()
        return [one for one in (*held, *effects) if not isinstance(one, Send) or one.session in sessions], frames

    def end(self) -> None:
        """The sessions are over: what waits is dropped."""
        self._until = float("-inf")
        self._take()

    def wait(self, route: bytes, connection: int, address: str, raw: bytes) -> bool:
        """Keep a frame until there is a lease; False when too much waits."""
        if self._bytes + len(raw) > RETURN_MEMORY:
            return False
        self._bytes += len(raw)
        self._frames.append(WaitingFrame(route, connection, address, raw))
        return True

    def let_through(self, effects: list[Effect]) -> list[Effect]:
        """These effects; without a lease only those that end connections and sessions, while the others wait."""
        if self.is_held:
            return effects
        now: list[Effect] = []
        for effect in effects:
            (now if isinstance(effect, CloseConnection | Presence) else self._effects).append(effect)
        return now

    def _take(self) -> tuple[list[Effect], list[WaitingFrame]]:
        taken = self._effects, self._frames
        self._effects, self._frames, self._bytes = [], [], 0
        return taken


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a session manager needs beside its own state."""

    lease: Lease
    issuers: Issuers


def sharing(clock: Clock, certificate: bytes) -> Sharing:
    """For the master with that encoded certificate, which has no lease yet."""
    return Sharing(Lease(clock, float("-inf")), Issuers(certificate))
