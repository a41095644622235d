"""Parts of a job: what one minion gets of it in one parcel.

A minion that was selected itself gets the part 0, whose id is the jid. The resources that it manages come in parts of
their own, numbered from 1, each for resources of one type: their ids are `jid-1`, `jid-2` ... What a part returns may
come in several segments, as its resources answer; the ids of those are `part.0`, `part.1` ...

    20260131235959123456        the job, and its part for the minion itself
    20260131235959123456-2      a part for resources
    20260131235959123456-2.7    a segment of what that part returns

Which resources are in which part follows from the job alone, so master, store and simulator agree without saying it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from saltlite.errors import UsageError
from saltlite.model.ids import Jid, PartId, TargetId

PART_RESOURCES = 500
"""Resources of one part, at most: enough that a parcel costs nothing, few enough that parts of it end early."""

PART_BYTES = 32 * 1024
"""Bytes of all SRNs of one part, so that a parcel fits into a frame."""

NUMBER_MAX = 1_000_000
"""The highest number of a part or a segment."""

_PART = re.compile(r"[0-9]{20}(-[1-9][0-9]{0,5})?", re.ASCII)
_SEGMENT = re.compile(r"[0-9]{20}-[1-9][0-9]{0,5}\.(0|[1-9][0-9]{0,5})", re.ASCII)


def parse_part_id(text: object) -> PartId:
    """The part id in `text`. Raises UsageError."""
    if isinstance(text, str) and _PART.fullmatch(text):
        return text
    raise UsageError(f"{str(text)[:40]!r} is not the id of a job or of a part of one")


def is_segment_id(text: object) -> bool:
    """Whether `text` is the id of a segment."""
    return isinstance(text, str) and _SEGMENT.fullmatch(text) is not None


def is_resource_part(text: str) -> bool:
    """Whether the id of a job, a part or a segment is that of a part for resources."""
    return "-" in text and not is_segment_id(text)


def part_id(jid: Jid, number: int) -> PartId:
    """The id of that part."""
    return f"{jid}-{number}" if number else jid


def split_part(part: PartId) -> tuple[Jid, int]:
    """The job of a part and the part's number."""
    jid, _, number = part.partition("-")
    return Jid(jid), int(number or 0)


def segment_id(part: PartId, number: int) -> str:
    """The id of a segment of what that part returns."""
    return f"{part}.{number}"


def part_of_segment(segment: str) -> PartId:
    """The part of a segment; of a part itself, that part."""
    return segment.partition(".")[0]


def resource_parts(srns: Sequence[TargetId], most: int = PART_RESOURCES) -> Iterator[tuple[int, tuple[TargetId, ...]]]:
    """(number, SRNs) of the parts for these resources of one minion, which are sorted; `most` resources in each.

    A job that goes through its targets in batches has parts of one resource: each has its own turn.
    """
    number, size = 1, 0
    part: list[TargetId] = []
    for srn in srns:
        length = len(srn.encode())
        other_type = part and part[0].partition(":")[0] != srn.partition(":")[0]
        if part and (other_type or len(part) == most or size + length > PART_BYTES):
            yield number, tuple(part)
            number, part, size = number + 1, [], 0
        part.append(srn)
        size += length
    if part:
        yield number, tuple(part)
