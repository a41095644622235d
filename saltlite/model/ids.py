"""Identifiers, and the only functions that make them.

An id is not an identity (rule R14): a key fingerprint is. Whatever is stored about a minion is keyed by both.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NewType, TypeAlias

from saltlite.errors import UsageError

TargetId: TypeAlias = str
"""What a job is for: a minion id, or the SRN `type:id` of a resource. A minion id has no colon, so they never meet."""
PartId: TypeAlias = str
"""The part of a job that one delivery has: see `saltlite.model.parts`."""
MinionId = NewType("MinionId", str)
Jid = NewType("Jid", str)
"""A job. It is also the id of that part of it which is for the minion itself."""
RequestId = NewType("RequestId", str)

MINION_ID_MAX = 128
JID_DIGITS = 20

_MINION_ID = re.compile(r"[a-z0-9_][a-z0-9._-]{0,127}", re.ASCII)
_JID = re.compile(r"[0-9]{20}", re.ASCII)
_REQUEST_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


def parse_minion_id(text: object) -> MinionId:
    """The minion id in `text`: 1 to 128 of `a-z 0-9 . _ -`, not starting with a dot or a hyphen.

    Raises UsageError for anything else, upper case included: two ids that differ by case only would be
    two machines to the master and one to a person.
    """
    if isinstance(text, str) and _MINION_ID.fullmatch(text):
        return MinionId(text)
    raise UsageError(
        f"{str(text)[:MINION_ID_MAX]!r} is not a minion id: use 1 to {MINION_ID_MAX} of a-z 0-9 . _ - "
        "and start with a letter, a digit or _"
    )


def parse_jid(text: object) -> Jid:
    """The job id in `text`: Salt's twenty digits (UTC, microseconds). Raises UsageError."""
    if isinstance(text, str) and _JID.fullmatch(text):
        return Jid(text)
    raise UsageError(f"{str(text)[:40]!r} is not a job id: it has {JID_DIGITS} digits, as in 20260131235959123456")


def parse_request_id(text: object) -> RequestId:
    """The client-made request id in `text`: 32 lower-case hexadecimal digits. Raises UsageError."""
    if isinstance(text, str) and _REQUEST_ID.fullmatch(text):
        return RequestId(text)
    raise UsageError("a request id is 32 hexadecimal digits")


def jid_at(wall_us: int) -> Jid:
    """The jid for a wall-clock time in microseconds since 1970, UTC; jids sort as their times do."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=wall_us)
    return Jid(moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond:06d}")


def jid_after(jid: Jid) -> Jid:
    """The next jid, one microsecond later: what the store tries when a jid is taken."""
    moment = datetime.strptime(jid, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC) + timedelta(microseconds=1)
    return Jid(moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond:06d}")
