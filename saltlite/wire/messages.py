"""The messages in DATA frames: a table of verbs with their sender, the states that allow them, and their fields.

A message is a msgpack map `{"t": verb, field: value, …}`. Both sides call `check()` for incoming messages. A message
that does not match the table exactly is refused. No message has a sender field, because the session identifies the
sender, and there are no operator verbs (R1, R2).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from saltlite.errors import RemoteProtocolError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.files import ENV_MAX, PATH_BYTES_MAX
from saltlite.model.ids import TargetId, check_resource_id, check_resource_type, parse_minion_id
from saltlite.model.job import PART_RESOURCES, TargetState, is_segment_id, parse_part_id
from saltlite.model.sha256 import sha256
from saltlite.model.signature import (
    format_signature,
    function_of,
    is_absent,
    is_function_name,
    outputter_of,
    parse_signature,
)
from saltlite.wire import codec
from saltlite.wire.limits import (
    CHUNK,
    DIRECTORY_BYTES,
    DOC_MAX,
    EVENT_DATA_MAX,
    EVENT_TAG_MAX,
    FILE_NAMES,
    FLEET_CHAIN_BYTES,
    JOB_BODY_MAX,
    KIB,
    MASTER_NAME_MAX,
    PROOF_BYTES,
    RETURN_MAX,
    SEGMENT_MAX,
)
from saltlite.wire.merkle import HASH_BYTES, PROOF_MAX

Message = Mapping[str, Any]
Check = Callable[[object], bool]

REASON_MAX = 512
JIDS_MAX = 256
CERTIFICATE_BYTES = 320
FUNCTIONS_MAX = 4096
FUNCTIONS_BYTES_MAX = 112 * KIB
"""Bytes of all texts of one `functions` message, so that it fits into a frame: each may need three more."""
DIGEST_DIGITS = 32
NONCE_BYTES = 16
"""Bytes of the nonce of a request with a signed answer (`saltlite.wire.signatures`); others carry none."""
SPREAD_MAX_MS = 3_600_000
HEARTBEAT_MAX_MS = 3_600_000
WALL_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: a later one cannot be shown as a date."""


ASKS = ("mine_put", "mine_delete", "mine_get", "own_job", "publish", "publish_returns", "run", "ext_pillar")
"""The kinds of `ask`, a request of a minion to its master. Its data and the answer are documents. The answer comes in
pieces; later pieces are requested by `sha256`, without data, as with `doc_get`."""


class Sender(StrEnum):
    """Which end of the link sends a verb."""

    MASTER = "master"
    MINION = "minion"


PARTS_REMEMBERED = 256
"""Ids of parts whose validity is cached: thousands of minions return the same one."""
_PART_LENGTH = 64
"""Longer texts are not cached. No id is that long."""


def _part(value: object) -> bool:
    """The id of a part of a job; for the minion itself it is the jid."""
    return isinstance(value, str) and len(value) <= _PART_LENGTH and _is_part(value)


@functools.lru_cache(PARTS_REMEMBERED)
def _is_part(text: str) -> bool:
    try:
        parse_part_id(text)
    except UsageError:
        return False
    return True


def _job(value: object) -> bool:
    """The jid that a function runs under; "" for none."""
    return value == "" or _part(value)


def _result(value: object) -> bool:
    """The key of a result: its part, or a segment of a part for resources."""
    return _part(value) or is_segment_id(value)


def is_srn(value: object) -> bool:
    """Whether this is the SRN of a resource, `type:id`."""
    try:
        kind, _, bare_id = value.partition(":") if isinstance(value, str) else ("", "", "")
        check_resource_type(kind)
        check_resource_id(bare_id)
    except UsageError:
        return False
    return True


def _minion_id(value: object) -> bool:
    try:
        parse_minion_id(value)
    except UsageError:
        return False
    return True


def _whole(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _text(longest: int) -> Check:
    return lambda value: isinstance(value, str) and len(value) <= longest


def _word(longest: int) -> Check:
    """Text that can be shown in one line."""
    return lambda value: isinstance(value, str) and len(value) <= longest and value.isprintable()


def _function(value: object) -> bool:
    """A valid text of `saltlite.model.signature`."""
    try:
        return isinstance(value, str) and bool(parse_signature(value))
    except RemoteProtocolError:
        return False


def _texts(value: object) -> bool:
    """The texts of one `functions` message."""
    if not isinstance(value, list) or len(value) > FUNCTIONS_MAX or not all(isinstance(text, str) for text in value):
        return False
    return _bytes_of(value) <= FUNCTIONS_BYTES_MAX and all(map(_function, value))


def _bytes_of(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _octets(shortest: int, longest: int) -> Check:
    return lambda value: isinstance(value, bytes) and shortest <= len(value) <= longest


def _list_of(check: Check, longest: int) -> Check:
    return lambda value: isinstance(value, list) and len(value) <= longest and all(map(check, value))


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _one_of(*words: str) -> Check:
    return lambda value: value in words


_MS = _whole(0, 2**53)
_WALL_MS = _whole(0, WALL_MAX_MS)
_WAIT_MS = _whole(0, 10 * 365 * 86_400_000)
_REASON = _text(REASON_MAX)
_PARTS = _list_of(_part, JIDS_MAX)
_RESULTS = _list_of(_result, JIDS_MAX)
_DIGEST = _word(DIGEST_DIGITS)
_NUMBER = _whole(0, 2**31)
_BYTES = _whole(0, 2**53)
_PATH = _text(PATH_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Verb:
    """One row of the table. `before_accept`: allowed in the session of a pending minion. `optional` fields may be
    absent."""

    sender: Sender
    fields: Mapping[str, Check]
    before_accept: bool = False
    optional: Mapping[str, Check] | None = None


VERBS: dict[str, Verb] = {
    # master -> minion
    "welcome": Verb(
        Sender.MASTER,
        {
            "state": _one_of("accepted", "pending", "rejected", "revoked", "conflict", "busy", "duplicate_key"),
            "heartbeat_ms": _whole(100, HEARTBEAT_MAX_MS),
        },
        before_accept=True,
    ),
    "state": Verb(
        Sender.MASTER,
        {"state": _one_of("accepted", "pending", "rejected", "revoked", "conflict", "deleted", "replaced")},
        before_accept=True,
    ),
    "heartbeat_ack": Verb(Sender.MASTER, {}, before_accept=True),
    "probe": Verb(Sender.MASTER, {}),
    "job": Verb(
        Sender.MASTER,
        {
            "jid": _part,
            "resources": _list_of(is_srn, PART_RESOURCES),
            "body": _octets(1, JOB_BODY_MAX),
            "sig": _octets(64, 64),
            "proof": _list_of(_octets(HASH_BYTES, HASH_BYTES), PROOF_MAX),
            "deliver_ms": _WAIT_MS,
        },
        # The certificate of the master that signed the job, if that is another master of the store.
        optional={"cert": _octets(1, CERTIFICATE_BYTES)},
    ),
    "cancel": Verb(Sender.MASTER, {"jid": _part}),
    "return_ack": Verb(Sender.MASTER, {"jids": _RESULTS}),
    "grant": Verb(Sender.MASTER, {"jid": _result}),
    "fetch": Verb(Sender.MASTER, {"what": _one_of("functions", "grains", "resources")}),
    "response": Verb(
        Sender.MASTER,
        {
            "n": _NUMBER,
            "state": _one_of("ok", "absent", "refused", "busy"),
            "size": _BYTES,
            "sha256": _octets(0, 32),
            "mode": _whole(0, 0o7777),
            "mtime": _whole(0, 2**53),
            "data": _octets(0, CHUNK),
            "names": _list_of(_PATH, FILE_NAMES),
            "more": _flag,
            "sig": _octets(0, 64),
        },
    ),
    "reconnect": Verb(Sender.MASTER, {"spread_ms": _whole(0, SPREAD_MAX_MS)}, before_accept=True),
    # These two are sent only to minions that declare in AUTH that they know them.
    "directory": Verb(Sender.MASTER, {"content": _octets(1, DIRECTORY_BYTES), "sig": _octets(64, 64)}),
    "move": Verb(Sender.MASTER, {"to": _word(MASTER_NAME_MAX), "spread_ms": _whole(0, SPREAD_MAX_MS)}),
    # minion -> master
    "heartbeat": Verb(Sender.MINION, {"running": _PARTS, "spool": _whole(0, 2**31)}, before_accept=True),
    "job_state": Verb(
        Sender.MINION,
        {
            "jid": _part,
            "state": _one_of("received", "running", "refused", "expired", "cancelled"),
            "reason": _REASON,
        },
    ),
    "return": Verb(
        Sender.MINION,
        {
            "jid": _result,
            "state": _one_of("returned", "timed_out", "interrupted", "cancelled"),
            "code": _whole(-(2**31), 2**31),
            "body": _octets(0, CHUNK),
            "size": _whole(0, SEGMENT_MAX),
            "start_ms": _WALL_MS,
            "dur_ms": _MS,
            "reason": _REASON,
        },
    ),
    "functions": Verb(
        Sender.MINION,
        {"digest": _DIGEST, "functions": _texts, "whole": _flag},
    ),
    "digest": Verb(Sender.MINION, {"grains": _DIGEST, "resources": _DIGEST}),
    "return_chunk": Verb(Sender.MINION, {"jid": _result, "offset": _whole(0, SEGMENT_MAX), "data": _octets(1, CHUNK)}),
    "file_request": Verb(
        Sender.MINION,
        {
            "n": _NUMBER,
            "operation": _one_of("envs", "files", "folders", "find", "read"),
            "env": _word(ENV_MAX),
            "path": _PATH,
            "after": _PATH,
            "offset": _BYTES,
            "nonce": _octets(0, NONCE_BYTES),
        },
    ),
    "file_put": Verb(
        Sender.MINION,
        {
            "n": _NUMBER,
            "path": _PATH,
            "size": _BYTES,
            "sha256": _octets(32, 32),
            "offset": _BYTES,
            "data": _octets(0, CHUNK),
        },
    ),
    "doc_put": Verb(
        Sender.MINION,
        {
            "n": _NUMBER,
            "kind": _one_of("grains", "resources"),
            "size": _whole(0, DOC_MAX),
            "sha256": _octets(32, 32),
            "offset": _whole(0, DOC_MAX),
            "data": _octets(0, CHUNK),
        },
    ),
    "doc_get": Verb(
        Sender.MINION,
        {
            "n": _NUMBER,
            "kind": _one_of("pillar"),
            "sha256": _octets(0, 32),
            "offset": _whole(0, DOC_MAX),
            "nonce": _octets(0, NONCE_BYTES),
        },
    ),
    "ask": Verb(
        Sender.MINION,
        {
            "n": _NUMBER,
            "what": _one_of(*ASKS),
            "data": _octets(0, CHUNK),
            "sha256": _octets(0, 32),
            "offset": _whole(0, DOC_MAX),
            "nonce": _octets(0, NONCE_BYTES),
        },
    ),
    "event": Verb(
        Sender.MINION,
        {"n": _NUMBER, "tag": _word(EVENT_TAG_MAX), "data": _octets(1, EVENT_DATA_MAX), "jid": _job},
    ),
    "bye": Verb(Sender.MINION, {"reason": _REASON}, before_accept=True),
}

_UUID = _word(32)
RUN_MAX = 2**53
"""The highest number of a minion's run, and of a handshake in a run."""


def _order(value: object) -> bool:
    """The numbers of the run and of the handshake in it."""
    whole = _whole(0, RUN_MAX)
    return isinstance(value, list) and len(value) == 2 and all(map(whole, value))


AUTH_FIELDS: dict[str, Check] = {
    "id": _minion_id,
    "boot": _UUID,
    "incarnation": _UUID,
    "version": _word(32),
    "token": _octets(0, PROOF_BYTES),
    "functions": _DIGEST,
    "order": _order,
    "moves": _flag,
}
"""The payload of AUTH: what a minion reports about itself after the master has authenticated. `order` is its own order
of its sessions: how often its network process was started, and which handshake of that run this is. `moves`: it knows
the messages `directory` and `move`."""
AUTH_DEFAULTS: dict[str, Any] = {"order": [0, 0], "moves": False}
"""The fields that a minion of the previous version does not send."""

REPLY_FIELDS: dict[str, Check] = {
    "cert": _octets(1, CERTIFICATE_BYTES),
    "chain": _octets(0, FLEET_CHAIN_BYTES),
    "now": _whole(0, 2**53),
}
"""The payload of REPLY: the master's certificate, the successions from the fleet key that the minion named to the
present one (`saltlite.wire.certificates`), and its clock in seconds since 1970 (for logs, never trusted)."""


def functions_digest(texts: Iterable[str], *, whole: bool) -> str:
    """The digest of a set of functions in AUTH and in `functions`: 32 hexadecimal digits.

    Minions with the same functions have the same digest, so the master asks only one of them. Its answer counts for
    all, so the digest covers everything in it.
    """
    lines = [*sorted(set(texts)), "" if whole else "..."]
    return sha256("\n".join(lines).encode()).hex()[:DIGEST_DIGITS]


def functions_message(texts: Sequence[str], *, whole: bool) -> Message:
    """The `functions` message for texts of `saltlite.model.signature`, one for each function.

    If they do not fit into a frame, the longest lose their parameters; if the names alone do not fit, the last ones are
    omitted and the message is marked as incomplete. Functions with invalid names are skipped.
    """
    fitting = _shortened([text for text in texts if is_function_name(function_of(text))])
    kept = fitting[:FUNCTIONS_MAX]
    while _bytes_of(kept) > FUNCTIONS_BYTES_MAX:
        kept = kept[: len(kept) * 9 // 10]
    whole = whole and len(kept) == len(fitting)
    return {"t": "functions", "digest": functions_digest(kept, whole=whole), "functions": kept, "whole": whole}


def _shortened(texts: Sequence[str]) -> list[str]:
    """The texts with as many signatures as fit; risks stay, because they protect users."""
    shorter = list(texts)
    excess = _bytes_of(shorter) - FUNCTIONS_BYTES_MAX
    for index in sorted(range(len(shorter)), key=lambda each: len(shorter[each]), reverse=True):
        if excess <= 0:
            break
        if is_absent(shorter[index]):
            continue
        function, _signature, risk = parse_signature(shorter[index])
        name_only = format_signature(function, None, risk, outputter_of(shorter[index]))
        excess -= len(shorter[index].encode()) - len(name_only.encode())
        shorter[index] = name_only
    return shorter


def unfit_field(result: Mapping[str, Any]) -> str:
    """The first number or text of a result that a `return` cannot carry, "" for none."""
    fields = VERBS["return"].fields
    return next(
        (name for name in fields.keys() & result.keys() - {"body", "state"} if not fields[name](result[name])), ""
    )


def check(message: object, sender: Sender, *, accepted: bool) -> Message:
    """`message` if the table allows it, else RemoteProtocolError.

    Reasons: `bad-message` (not a map, or a missing, unknown or invalid field), `unknown-verb` (also for a verb of the
    other side), `not-accepted` (not allowed for a pending minion).
    """
    if not isinstance(message, dict):
        raise RemoteProtocolError("bad-message", "not a map")
    name = message.get("t")
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None or verb.sender is not sender:
        raise RemoteProtocolError("unknown-verb", repr(name)[:40])
    if not accepted and not verb.before_accept:
        raise RemoteProtocolError("not-accepted", str(name))
    fields = verb.fields
    if verb.optional is not None and len(message) > len(fields) + 1:
        fields = {**fields, **{field: fits for field, fits in verb.optional.items() if field in message}}
    _check_fields(message, fields, 1)
    return message


def check_payload(payload: object, fields: Mapping[str, Check]) -> Message:
    """A handshake payload checked against AUTH_FIELDS or REPLY_FIELDS; raises RemoteProtocolError("bad-message")."""
    if not isinstance(payload, dict):
        raise RemoteProtocolError("bad-message", "not a map")
    _check_fields(payload, fields, 0)
    return payload


def _check_fields(message: Mapping[str, Any], fields: Mapping[str, Check], besides: int) -> None:
    if len(message) != len(fields) + besides:
        raise RemoteProtocolError("bad-message", "fields missing or unknown")
    for field, fits in fields.items():
        if field not in message or not fits(message[field]):
            raise RemoteProtocolError("bad-message", field)


def response_message(n: int, state: str, **fields: Any) -> Message:
    """A `response` message; omitted fields are empty."""
    nothing = {"size": 0, "sha256": b"", "mode": 0, "mtime": 0, "data": b"", "names": [], "more": False, "sig": b""}
    return {"t": "response", "n": n, "state": state, **nothing, **fields}


# -- Segments: some results of the resources of one part of a job. A segment is a msgpack array of arrays
# `[srn, state, retcode, body, start_ms, dur_ms, reason]`; a body is the encoded return value of one function, or empty


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
        raise RemoteProtocolError("bad-segment", "it is not a list")
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
