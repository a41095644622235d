"""Checks a master as a minion would: the master proves its identity in a handshake.

The handshake stops before this side would have to identify itself. The master has sent its certificate and its clock by
then, and forgets the peer when the connection ends.
"""

from __future__ import annotations

import os
import time

from saltlite.errors import LinkError, RemoteProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import Fingerprint, fingerprint, fingerprint_bytes, unspell_fingerprint
from saltlite.platform.reactor import Reactor
from saltlite.platform.zmq_link import DealerLink
from saltlite.wire import codec, frames
from saltlite.wire.certificates import MasterCertificate, successors
from saltlite.wire.messages import REPLY_FIELDS, check_payload
from saltlite.wire.noise import Handshake, Role, private_key


@dataclass(frozen=True, slots=True)
class MasterProof:
    """The proven identity of a master. Times are seconds since 1970.

    `ahead_s` is how far this machine's clock is ahead of the master's (negative: behind), to about a second. `former`
    is the requested fleet, if the master proved that its fleet is a successor of it.
    """

    fleet: Fingerprint
    name: str
    not_before: int
    not_after: int
    ahead_s: float
    former: Fingerprint | None = None


BUSY = "busy"
"""The reason of a master that is there and takes no new sessions: it drains, or has too many at once."""


def probe_master(address: str, timeout_s: float, pinned: Fingerprint | None = None) -> MasterProof:
    """Connect to `host:port` and let the master prove itself; with `pinned`, as that fleet or a successor.

    Raises LinkError if there is no master, RemoteProtocolError for an invalid proof.
    """
    reactor = Reactor()
    probe = _Probe(reactor, pinned)
    link = DealerLink(reactor, probe.up, probe.frame, probe.down)
    probe.link = link
    try:
        link.open(address)
        reactor.call_later(timeout_s, lambda: probe.down(f"{address} did not answer in {timeout_s:g} s"))
        reactor.run()
    finally:
        link.close()
        reactor.close()
    if probe.problem is not None:
        raise probe.problem
    if probe.proof is None:
        raise LinkError(f"the handshake with {address} was not completed")
    return probe.proof


class _Probe:
    """The steps QUERY, FLEET, HELLO and REPLY."""

    def __init__(self, reactor: Reactor, pinned: Fingerprint | None) -> None:
        self._pinned = pinned
        self.link: DealerLink | None = None
        self.proof: MasterProof | None = None
        self.problem: LinkError | RemoteProtocolError | None = None
        self._reactor = reactor
        self._handshake: Handshake | None = None
        self._fleet = b""

    def up(self) -> None:
        self._send(frames.query())

    def frame(self, raw: bytes) -> None:
        try:
            self._step(frames.parse(raw))
        except RemoteProtocolError as error:
            self._end(error)

    def down(self, reason: str) -> None:
        self._end(LinkError(reason))

    def _step(self, frame: frames.Frame) -> None:
        if isinstance(frame, frames.FleetFrame) and self._handshake is None:
            self._fleet = unspell_fingerprint(self._pinned) if self._pinned else fingerprint_bytes(frame.public)
            # An ephemeral key, which is never used again.
            self._handshake = Handshake(
                Role.INITIATOR, private_key(os.urandom(32)), frames.prologue(self._fleet), os.urandom(32)
            )
            self._send(frames.hello(self._handshake.write(b""), self._fleet))
        elif isinstance(frame, frames.ReplyFrame) and self._handshake is not None:
            self._read(self._handshake.read(frame.message), self._handshake.remote_static)
        elif isinstance(frame, frames.BusyFrame):
            raise RemoteProtocolError(BUSY, f"the master asks to come again in {frame.retry_ms / 1000:g} s")
        else:
            raise RemoteProtocolError("unexpected-frame", type(frame).__name__)

    def _read(self, payload: bytes, static: bytes) -> None:
        reply = check_payload(codec.decode(payload), REPLY_FIELDS)
        certificate = MasterCertificate.decode(reply["cert"])
        if certificate.static_public != static:
            raise RemoteProtocolError("wrong-certificate", "it names another key than the handshake proved")
        # By the master's clock, because this machine's clock may be wrong.
        way = (self._fleet, *successors(self._fleet, certificate.fleet_public, reply["chain"]))
        certificate.verify(way[-1], max(certificate.not_before, min(reply["now"], certificate.not_after)))
        self.proof = MasterProof(
            fingerprint(certificate.fleet_public),
            certificate.name,
            certificate.not_before,
            certificate.not_after,
            time.time() - reply["now"] - 0.5,  # which is in whole seconds, rounded down
            self._pinned if len(way) > 1 else None,
        )
        self._reactor.stop()

    def _send(self, frame: bytes) -> None:
        if self.link is not None:
            self.link.send(frame)

    def _end(self, problem: LinkError | RemoteProtocolError) -> None:
        if self.proof is None and self.problem is None:
            self.problem = problem
        self._reactor.stop()
