"""Segments: some results of the resources of one part of a job, as they are spooled and sent.

A segment is a msgpack array of arrays `[srn, state, retcode, body, start_ms, dur_ms, reason]`. A body is the encoded
return value of one function, empty if there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saltlite.errors import RemoteProtocolError
from saltlite.model.ids import TargetId
from saltlite.model.job import PART_RESOURCES, TargetState
from saltlite.wire import codec
from saltlite.wire.limits import RETURN_MAX, SEGMENT_MAX
from saltlite.wire.messages import REASON_MAX, WALL_MAX_MS, is_srn

SEGMENT = codec.Limits(
    depth=2,
    map=0,
    array=PART_RESOURCES,
    string=4 * REASON_MAX,
    binary=RETURN_MAX,
    containers=PART_RESOURCES + 1,
    total=SEGMENT_MAX,
)
"""The limits of a segment."""

STATES = frozenset(
    {
        TargetState.RETURNED,
        TargetState.TIMED_OUT,
        TargetState.INTERRUPTED,
        TargetState.CANCELLED,
        TargetState.REFUSED,
    }
)
"""The states that a minion reports for a resource."""


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """The result of one resource: times are milliseconds, `start_ms` since 1970 by the minion's clock."""

    srn: TargetId
    state: TargetState
    retcode: int
    body: bytes
    start_ms: int
    dur_ms: int
    reason: str = ""


def encode_segment(rows: Sequence[SegmentRow]) -> bytes:
    """The encoded segment. Raises LocalProtocolError when it has more than SEGMENT_MAX bytes."""
    packed = [[row.srn, row.state, row.retcode, row.body, row.start_ms, row.dur_ms, row.reason] for row in rows]
    return codec.encode(packed, SEGMENT)


def decode_segment(data: bytes) -> list[SegmentRow]:
    """The rows of a segment, one for each resource. Raises RemoteProtocolError with the reason `bad-segment`, or one of
    `codec.decode`."""
    rows = codec.decode(data, SEGMENT)
    if type(rows) is not list:
        raise RemoteProtocolError("bad-segment", "it is no list")
    found = [_row(row) for row in rows]
    if len({row.srn for row in found}) != len(found):
        raise RemoteProtocolError("bad-segment", "a resource is there twice")
    return found


def _row(row: object) -> SegmentRow:
    match row:
        case [
            str() as srn,
            str() as state,
            int() as retcode,
            bytes() as body,
            int() as start_ms,
            int() as dur_ms,
            str() as reason,
        ] if state in STATES and is_srn(srn) and _fits(retcode, start_ms, dur_ms, reason):
            return SegmentRow(srn, TargetState(state), retcode, body, start_ms, dur_ms, reason)
    raise RemoteProtocolError("bad-segment", "a row is not that of a resource")


def _fits(retcode: int, start_ms: int, dur_ms: int, reason: str) -> bool:
    whole = type(retcode) is int and type(start_ms) is int and type(dur_ms) is int
    in_range = -(2**31) <= retcode <= 2**31 and 0 <= start_ms <= WALL_MAX_MS and 0 <= dur_ms <= 2**53
    return whole and in_range and len(reason) <= REASON_MAX
