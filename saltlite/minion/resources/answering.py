"""One call on one resource: whatever the type does, there is a row of a segment."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.loader.call import ERROR_OUTPUTTER, Call, Outcome, call_each
from saltlite.loader.encode import encode_return
from saltlite.loader.executors import Chain
from saltlite.loader.resource_types import ResourceType
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.resources.timing import AT_ONCE, Timing
from saltlite.model.ids import TargetId
from saltlite.model.job import TargetState
from saltlite.platform.logs import log_context
from saltlite.wire.messages import REASON_MAX
from saltlite.wire.segment import SegmentRow

log = logging.getLogger(__name__)

GRAINS_BYTES_MAX = 64 * 1024
"""Bytes of the grains of one resource."""

RETCODE_MAX = 2**31 - 1


class GrainsError(Exception):
    """The grains of a resource could not be collected; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a resource has answered. `raised`: a function did not return, as when the device is not reached; one that
    returns a code which is not 0 was there."""

    row: SegmentRow
    raised: bool


@dataclass(frozen=True, slots=True)
class Work:
    """What a part asks of its resources."""

    jid: str
    calls: Sequence[Call]
    user: str
    chain: Chain | None = None
    """The executors that its calls go through; None for none."""
    timing: Timing = AT_ONCE


def unavailable(kind: str, why: str) -> str:
    """What a resource answers whose type did not load."""
    return f"No resource loader available for type '{kind}'" + (f": {why}" if why else "")


def answer(loaded: ResourceType, srn: TargetId, work: Work, grains: Mapping[str, Any], *, returns: Returns) -> Answer:
    """Call the functions on that resource; never raises."""
    start_ms, began = int(time.time() * 1000), time.monotonic()
    bare_id = srn.partition(":")[2]
    with log_context(jid=work.jid, srn=srn), loaded.entered(bare_id, grains):
        outcome = _ready(loaded) or _called(loaded, srn, work)
        sealed = returns.seal(work.jid, outcome.value)
    row = SegmentRow(
        srn=srn,
        state=TargetState.RETURNED,
        retcode=max(-RETCODE_MAX, min(RETCODE_MAX, outcome.retcode)),
        body=sealed.body,
        start_ms=start_ms,
        dur_ms=int((time.monotonic() - began) * 1000),
        reason=" ".join([sealed.note, *outcome.warnings]).strip()[:REASON_MAX],
    )
    # Of several functions it is not known which one the code is of.
    raised = outcome.retcode != 0 and (outcome.out == ERROR_OUTPUTTER or len(work.calls) > 1)
    return Answer(row, raised)


def limit_of(
    loaded: ResourceType, srn: TargetId, calls: Sequence[Call], grains: Mapping[str, Any], default_s: float
) -> float:
    """Seconds that these calls may take on that resource; 0 is no limit. The type may name one for each call: those
    are added up, and one without has `default_s`."""
    if not loaded.names_limits:
        return default_s
    with log_context(srn=srn), loaded.entered(srn.partition(":")[2], grains):
        try:
            named = [loaded.timeout(*call) for call in calls]
            limits = [default_s if one is None else float(one) for one in named]
        except BaseException as error:  # noqa: BLE001 - supervision point: it is the type's own code
            log.warning("timeout() raised %s: %s; %g s are the limit", type(error).__name__, error, default_s)
            return default_s
    if all(one is None for one in named) or not all(0 < one < math.inf for one in limits):
        return default_s if 0 not in limits else 0.0
    return sum(limits)


def _called(loaded: ResourceType, srn: TargetId, work: Work) -> Outcome:
    if work.timing.problem:
        return Outcome(work.timing.problem, 1)
    if work.chain is None:
        return call_each(loaded.slots, work.calls, jid=work.jid, user=work.user)
    about = {"id": srn, "resource_type": loaded.name, "resource_id": srn.partition(":")[2]}
    outcome = call_each(loaded.slots, work.calls, jid=work.jid, user=work.user, chain=work.chain, **about)
    delay_s = work.timing.delays.get(srn)
    note = f"the call was delayed by {delay_s:.1f} s" if delay_s else ""
    return replace(outcome, warnings=(*filter(None, [note]), *outcome.warnings))


def said(srn: TargetId, text: str) -> SegmentRow:
    """The answer of a resource that cannot be asked: a text, as from a function that failed."""
    return SegmentRow(srn, TargetState.RETURNED, 1, encode_return(text), int(time.time() * 1000), 0)


def too_late(limit_s: float) -> str:
    """Why there is no answer of a call that was given up."""
    return f"it did not answer within {limit_s:g} s"


def late(srn: TargetId, reason: str, dur_s: float) -> SegmentRow:
    """The row of a resource that has not answered in time."""
    dur_ms = int(dur_s * 1000)
    return SegmentRow(srn, TargetState.TIMED_OUT, 1, b"", int(time.time() * 1000) - dur_ms, dur_ms, reason)


def grains_of(loaded: ResourceType, srn: TargetId, before: Mapping[str, Any]) -> dict[str, Any]:
    """The grains of that resource, as plain data. Raises GrainsError."""
    with log_context(srn=srn), loaded.entered(srn.partition(":")[2], before):
        try:
            found = loaded.grains()
            is_map = isinstance(found, Mapping)
            packed: bytes = msgpack.packb(dict(found) if is_map else None, default=str)
        except BaseException as error:
            raise GrainsError(f"{type(error).__name__}: {error}") from error
    if not is_map:
        raise GrainsError(f"grains() returned {type(found).__name__}, and not a dict")
    if len(packed) > GRAINS_BYTES_MAX:
        raise GrainsError(f"they have {len(packed)} bytes, the limit is {GRAINS_BYTES_MAX}")
    grains: dict[str, Any] = msgpack.unpackb(packed, strict_map_key=False)
    return grains


def _ready(loaded: ResourceType) -> Outcome | None:
    """Why the type cannot be called; None when it can."""
    try:
        ready, why = loaded.initialized(), "initialized() says no"
    except BaseException as error:  # noqa: BLE001 - supervision point: it is the type's own code
        ready, why = False, f"initialized() raised {type(error).__name__}: {error}"
    return None if ready else Outcome(f"Resource type '{loaded.name}' is not initialised: {why}", 1)
