"""What the minion's jobs want done: effects, carried out by the job server in order, and what it hands in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from saltlite.minion.protocol.ports import Step
from saltlite.model.job import TargetState
from saltlite.wire.job_body import JobBody


@dataclass(frozen=True, slots=True)
class Write:
    """Append to the journal. Neighbouring ones may share one sync; `lazy` ones need none."""

    step: Step
    jid: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Fork:
    """Make the job's process, which waits; answer with `forked()` or `not_forked()`.

    A part for resources has their SRNs, and waits where these are run.
    """

    jid: str
    body: JobBody
    srns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Go:
    """Let the waiting process enter the function."""

    jid: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Signal the job's whole process group; it is no error that it is gone.

    One may follow `exited()`, for what the job left behind: reap the process after that, not before, or its
    pid may belong to somebody else by then.
    """

    jid: str
    pid: int
    signal: int


@dataclass(frozen=True, slots=True)
class EndPart:
    """Have the part for resources ended: an operator wants it, or with `late` its run time limit has passed."""

    jid: str
    late: bool


@dataclass(frozen=True, slots=True)
class Keep:
    """Put a result in the spool for a job that left none itself, or for what of a part for resources has none."""

    jid: str
    state: TargetState
    code: int
    reason: str
    start_ms: int
    dur_ms: int


@dataclass(frozen=True, slots=True)
class Forget:
    """The master has the result: remove it from the spool."""

    jid: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Report a state to the master. While there is no READY session it is dropped: the next one asks anew."""

    jid: str
    state: TargetState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """The result or the segment is in the spool, for the master to have; dropped while no session is READY."""

    jid: str


Effect = Write | Fork | Go | Kill | EndPart | Keep | Forget | Tell | Offer


@dataclass(frozen=True, slots=True)
class Delivery:
    """A part of a job as it arrived: the signed body, its signature, the proof that the part is in its audience."""

    jid: str
    body: bytes
    signature: bytes
    proof: Sequence[bytes]
    deliver_ms: int
    srns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Remembered:
    """One part of a job as the journal remembers it after a restart. `alive`: its process still runs."""

    jid: str
    step: Step
    body: bytes = b""
    issuer: bytes = b""
    received_wall_ms: int = 0
    deliver_ms: int = 0
    pid: int = 0
    started_wall_ms: int = 0
    reason: str = ""
    srns: tuple[str, ...] = ()
    alive: bool = False


def received(parcel: Delivery, issuer: bytes, deliver_ms: int, *, wall_ms: int) -> Write:
    """The record of a job that was taken in at `wall_ms`, signed with the job key `issuer`."""
    fields: dict[str, Any] = {
        "body": parcel.body,
        "sig": parcel.signature,
        "proof": list(parcel.proof),
        "issuer": issuer,
        "deliver_ms": deliver_ms,
        "wall_ms": wall_ms,
    }
    if parcel.srns:
        fields["srns"] = list(parcel.srns)
    return Write(Step.RECEIVED, parcel.jid, fields)
