"""May this job run here at all, and now? Signature, audience and age, checked on the side that has the rights.

The network process of the minion is not believed: what counts is what the master's job key signed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from saltlite.errors import RemoteProtocolError
from saltlite.minion.protocol.effects import Delivery, Remembered
from saltlite.minion.protocol.journal_rules import CLOCK_SLACK_S
from saltlite.minion.protocol.slots import QUEUE_MAX
from saltlite.model.job import TargetState, split_part
from saltlite.wire.job_body import JobBody, decode_body, verify
from saltlite.wire.merkle import admits, member


class TrustedKeys:
    """The job keys of masters whose certificates were verified. Times are wall-clock seconds."""

    def __init__(self, minion: str) -> None:
        self._minion = minion
        self._until: dict[bytes, float] = {}

    def trust(self, job_key: bytes, until_s: float, now_s: float) -> None:
        """Believe that key up to its certificate's last second; forget those whose time is over."""
        self._until = {key: until for key, until in self._until.items() if now_s <= until}
        self._until[job_key] = max(until_s, self._until.get(job_key, 0.0))

    def valid(self, now_s: float) -> list[bytes]:
        """The keys that are believed now."""
        return [key for key, until in self._until.items() if now_s <= until]

    def check(self, parcel: Delivery, now_s: float) -> tuple[JobBody, bytes]:
        """The job and the key that signed it, if that is a trusted one, for this minion and not long ago.

        A part for resources is signed for exactly these. Raises RemoteProtocolError with the reason
        `bad-job-signature`, `wrong-jid`, `bad-part`, `not-in-audience`, `too-old`, or one of `decode_body`.
        """
        signer = next((key for key in self.valid(now_s) if _signed(key, parcel)), None)
        if signer is None:
            raise RemoteProtocolError("bad-job-signature", "no master that this minion trusts signed it")
        body = decode_body(parcel.body)
        jid, number = split_part(parcel.jid)
        if body.jid != jid:
            raise RemoteProtocolError("wrong-jid", "another job was signed")
        if bool(number) != bool(parcel.srns):
            raise RemoteProtocolError("bad-part", "the first part of a job is for the minion, the others for resources")
        if not admits(body.audience, member(self._minion, number, parcel.srns), parcel.proof):
            raise RemoteProtocolError("not-in-audience", "it was signed for other minions")
        if now_s > _ordered_at(body) + body.deliver_ms / 1000 + CLOCK_SLACK_S:
            raise RemoteProtocolError("too-old", "compare the clocks of master and minion")
        return body, signer


def body_of(job: Remembered) -> JobBody | None:
    """The body as it was received, None when it was not kept or cannot be read any more."""
    try:
        return decode_body(job.body) if job.body else None
    except RemoteProtocolError:
        return None


@dataclass(frozen=True, slots=True)
class Standing:
    """How this minion stands when a job arrives: what it has forgotten, and whether it can take more."""

    floor: str
    has_room: bool
    """In its spool."""
    is_crowded: bool
    """So many wait already that no further one may."""


def refused_at_once(jid: str, deliver_ms: int, standing: Standing) -> tuple[TargetState, str] | None:
    """Why a job that may run here does not, None when it does. `deliver_ms` is what is left of its delivery time."""
    if jid <= standing.floor:
        return TargetState.REFUSED, "the job is older than this minion's journal"
    if deliver_ms <= 0:
        return TargetState.EXPIRED, "it could not be delivered in time"
    if not standing.has_room:
        return TargetState.REFUSED, "the minion's spool of unsent results is full"
    if standing.is_crowded:
        return TargetState.REFUSED, f"{QUEUE_MAX} jobs wait on the minion already"
    return None


def refused_after_restart(job: Remembered, waited_ms: int, *, is_readable: bool) -> tuple[TargetState, str] | None:
    """Why a job that had not started is not started now; None when it is."""
    if not 0 <= waited_ms <= job.deliver_ms:
        # A clock that was set back or far forward counts as expired: not running it is the safe side.
        return TargetState.EXPIRED, "the minion was down past its delivery time"
    if not is_readable:
        return TargetState.REFUSED, "this version of the minion cannot read the job"
    return None


def _signed(key: bytes, parcel: Delivery) -> bool:
    try:
        verify(key, parcel.body, parcel.signature)
    except RemoteProtocolError:
        return False
    return True


def _ordered_at(body: JobBody) -> float:
    """When the job was made, by the master's clock, as its jid says."""
    try:
        return datetime.strptime(body.jid, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise RemoteProtocolError("bad-job", "its jid is no time") from None
