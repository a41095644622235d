"""Segments: what resources answered, as it travels and lies in the spool."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.job import PART_RESOURCES, TargetState
from saltlite.wire.limits import RETURN_MAX, SEGMENT_MAX
from saltlite.wire.messages import REASON_MAX, WALL_MAX_MS, SegmentRow, decode_segment, encode_segment

ROW = SegmentRow("dummy:a", TargetState.RETURNED, 0, b"\xc3", 1_800_000_000_000, 12)
RAW = ["dummy:a", "returned", 0, b"\xc3", 1_800_000_000_000, 12, ""]


def reason(data: bytes) -> str:
    """Why it was refused, "" if it was not."""
    try:
        decode_segment(data)
    except RemoteProtocolError as error:
        return error.reason
    return ""


def changed(**at: Any) -> bytes:
    row = [at.get(f"f{place}", value) for place, value in enumerate(RAW)]
    packed: bytes = msgpack.packb([row])
    return packed


def test_a_segment_comes_back_as_it_was() -> None:
    rows = [ROW, SegmentRow("ssh:b:22", TargetState.TIMED_OUT, 124, b"", 5, 6, "too late")]
    assert decode_segment(encode_segment(rows)) == rows
    assert decode_segment(encode_segment([])) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("f0", "dummy"),
        ("f0", "dummy:../x"),
        ("f0", 7),
        ("f1", "running"),
        ("f1", "lost"),
        ("f2", True),
        ("f2", 2**31 + 1),
        ("f3", "text"),
        ("f4", -1),
        ("f4", WALL_MAX_MS + 1),
        ("f5", -1),
        ("f5", 1.5),
        ("f6", b""),
        ("f6", "x" * (REASON_MAX + 1)),
    ],
)
def test_a_field_that_is_not_what_it_must_be_is_refused(place: str, value: object) -> None:
    assert reason(changed()) == ""
    assert reason(changed(**{place: value})) == "bad-segment"


@pytest.mark.parametrize("value", [{}, 7, None, [7], [RAW[:-1]], [[*RAW, ""]], [{"srn": "dummy:a"}], [RAW, RAW]])
def test_what_is_no_list_of_rows_of_different_resources_is_refused(value: object) -> None:
    assert reason(msgpack.packb(value)) in ("bad-segment", "malformed")


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", msgpack.packb([RAW]) + b"\x00", msgpack.packb([[msgpack.ExtType(1, b"x")]])]
)
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    assert reason(data) in ("malformed", "trailing-bytes", "extension")


def test_a_segment_has_the_results_of_one_part_at_most() -> None:
    rows = [SegmentRow(f"dummy:{number}", TargetState.RETURNED, 0, b"", 0, 0) for number in range(PART_RESOURCES + 1)]
    assert len(decode_segment(encode_segment(rows[1:]))) == PART_RESOURCES
    assert reason(encode_segment(rows)) == "malformed"


def test_the_largest_return_fits_into_a_segment_of_its_own_and_not_with_another() -> None:
    largest = SegmentRow("d" * 64 + ":" + "i" * 255, TargetState.RETURNED, 0, b"x" * RETURN_MAX, 0, 0, "r" * REASON_MAX)
    assert len(encode_segment([largest])) <= SEGMENT_MAX
    assert decode_segment(encode_segment([largest])) == [largest]
    with pytest.raises(LocalProtocolError, match="the limit is"):
        encode_segment([largest, SegmentRow("dummy:a", TargetState.RETURNED, 0, b"x" * 20_000, 0, 0)])
