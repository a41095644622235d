"""Identifiers of minions, jobs, requests and resources, and the only functions that make them.

An id is not an identity (rule R14): a key fingerprint is. Stored data about a minion has both in its key. A resource is
identified by its SRN, `type:id`. The first colon splits, so an id may contain others. Several types may use the same
bare id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, NewType, TypeAlias

from saltlite.errors import UsageError

TargetId: TypeAlias = str
"""What a job is for: a minion id, or the SRN `type:id` of a resource. A minion id has no colon, so they never meet."""
PartId: TypeAlias = str
"""The part of a job that one delivery has: see `saltlite.model.job`."""
MinionId = NewType("MinionId", str)
Jid = NewType("Jid", str)
"""A job. It is also the id of that part of it which is for the minion itself."""
RequestId = NewType("RequestId", str)

MINION_ID_MAX = 128
JID_DIGITS = 20

_MINION_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_JID = re.compile(r"[0-9]{20}", re.ASCII)
_REQUEST_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


def parse_minion_id(text: object) -> MinionId:
    """The minion id in `text`: 1 to 128 of `A-Z a-z 0-9 . _ -`, not starting with a dot or a hyphen.

    Two ids that differ by case only are never both accepted: see `saltlite.master.protocol.keyring`.
    Raises UsageError.
    """
    if isinstance(text, str) and _MINION_ID.fullmatch(text):
        return MinionId(text)
    raise UsageError(
        f"{str(text)[:MINION_ID_MAX]!r} is not a minion id: use 1 to {MINION_ID_MAX} of A-Z a-z 0-9 . _ - "
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
    return _jid_of(_EPOCH + timedelta(microseconds=wall_us))


def jid_after(jid: Jid) -> Jid:
    """The next jid, one microsecond later: what the store tries when a jid is taken."""
    return _jid_of(time_of(jid) + timedelta(microseconds=1))


def time_of(jid: Jid) -> datetime:
    """The time in a jid. Raises ValueError if the digits are not a time."""
    # Parsing ISO 8601 is twenty times as fast as `strptime` with a format.
    return datetime.fromisoformat(f"{jid[:8]}T{jid[8:14]}.{jid[14:]}+00:00")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_IN_JIDS = str.maketrans("", "", "-T:.")


def _jid_of(moment: datetime) -> Jid:
    return Jid(moment.replace(tzinfo=None).isoformat(timespec="microseconds").translate(_NOT_IN_JIDS))


# -- SRNs: ids of resources


RESOURCE_TYPE_MAX = 64
"""Characters of a type's name."""

RESOURCE_ID_MAX = 255
"""Bytes of a bare id in UTF-8."""

_TYPE = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{RESOURCE_TYPE_MAX - 1}}}", re.ASCII)
# No space and no comma (lists), no wildcards (globs), no slashes (file names), no half of a surrogate pair (no UTF-8).
_ID = re.compile(rf"[^\s\x00-\x1f\x7f-\x9f/\\,*?\[\]\ud800-\udfff]{{1,{RESOURCE_ID_MAX}}}")
_IDS = re.compile(rf"{_ID.pattern}(?:\n{_ID.pattern})*+")
_WORDS_OF_TARGETS = frozenset({".", "..", "and", "or", "not", "(", ")"})


class Srn(NamedTuple):
    """What a `T@` pattern or an SRN says; a part that it does not say is None."""

    type: str | None
    id: str | None


def parse_srn(pattern: object) -> Srn:
    """Take `type:id` apart: `x` and `x:` are a type, `:y` an id without a type, other values have neither."""
    if not isinstance(pattern, str):
        return Srn(None, None)
    kind, _, bare_id = pattern.partition(":")
    return Srn(kind or None, bare_id or None)


def resource_index_srn_key(resource_type: str, resource_id: str) -> str:
    """The SRN of a resource, which is its key in the registry and in the bank `resource_grains`."""
    return f"{resource_type}:{resource_id}"


def check_resource_type(text: object) -> str:
    """`text`, when it can name a resource type. Raises UsageError."""
    if isinstance(text, str) and _TYPE.fullmatch(text):
        return text
    raise UsageError(
        f"{_shown(text)} is not a resource type: use 1 to {RESOURCE_TYPE_MAX} of A-Z a-z 0-9 _ and start with a letter"
    )


def check_resource_id(text: object) -> str:
    """`text`, when it can be the bare id of a resource. Raises UsageError."""
    looks_right = isinstance(text, str) and _ID.fullmatch(text) and text not in _WORDS_OF_TARGETS
    # What is invisible or turns text around (Cf, Co, Cn, Z) would make one id look like another.
    if isinstance(text, str) and looks_right and text.isprintable() and len(text.encode()) <= RESOURCE_ID_MAX:
        return text
    raise UsageError(
        f"{_shown(text)} is not a resource id: use 1 to {RESOURCE_ID_MAX} bytes without spaces, control and invisible "
        "characters and / \\ , * ? [ ], and none of the words . .. and or not ( )"
    )


def check_resource_ids(texts: Iterable[object]) -> list[str]:
    """`check_resource_id` of many, at once. Raises UsageError that names the first that cannot be one."""
    ids = list(texts)
    try:
        lines = "\n".join(ids)  # type: ignore[arg-type]  # what is not text raises TypeError
    except TypeError:
        lines = ""
    # One match for all: no id has a line break, so as many lines as texts that all look like ids are those texts.
    alone = lines.count("\n") == len(ids) - 1 and lines.isascii()
    if alone and _IDS.fullmatch(lines) and _WORDS_OF_TARGETS.isdisjoint(ids):
        return ids  # type: ignore[return-value]  # they were joined
    return [check_resource_id(text) for text in ids]


def _shown(value: object) -> str:
    return repr(value[:80] if isinstance(value, str) else value)[:100]
