"""The table of messages: what is described passes, everything else is refused."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import RemoteProtocolError
from saltlite.wire.limits import CHUNK, JOB_BODY_MAX, RETURN_MAX
from saltlite.wire.merkle import PROOF_MAX
from saltlite.wire.messages import (
    AUTH_FIELDS,
    FUNCTION_NAME_MAX,
    FUNCTIONS_MAX,
    JIDS_MAX,
    REASON_MAX,
    REPLY_FIELDS,
    SPREAD_MAX_MS,
    VERBS,
    WALL_MAX_MS,
    Sender,
    check,
    check_payload,
    functions_digest,
)

JID = "20270115080000000000"
GOOD: dict[str, dict[str, Any]] = {
    "welcome": {"state": "pending", "hb_ms": 15_000},
    "state": {"state": "revoked"},
    "beat": {},
    "job": {"jid": JID, "body": b"b", "sig": b"s" * 64, "proof": [b"p" * 32], "deliver_ms": 0},
    "cancel": {"jid": JID},
    "ret_ack": {"jids": [JID]},
    "grant": {"jid": JID},
    "want_functions": {},
    "lame": {"spread_ms": 0},
    "hb": {"running": [JID], "spool": 0},
    "job_state": {"jid": JID, "state": "refused", "reason": "x"},
    "ret": {
        "jid": JID,
        "state": "timed_out",
        "code": -1,
        "body": b"",
        "size": 0,
        "start_ms": 0,
        "dur_ms": 0,
        "reason": "",
    },
    "functions": {"digest": "d" * 32, "names": ["test.ping"], "whole": False},
    "part": {"jid": JID, "offset": 0, "data": b"x"},
    "bye": {"reason": ""},
}


def reason(message: object, sender: Sender, *, accepted: bool = True) -> str:
    """Why it was refused, "" if it was not."""
    try:
        check(message, sender, accepted=accepted)
    except RemoteProtocolError as error:
        return error.reason
    return ""


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize("sender", list(Sender))
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_passes_from_its_sender_in_its_state_only(verb: str, sender: Sender, accepted: bool) -> None:
    row = VERBS[verb]
    expected = ""
    if row.sender is not sender:
        expected = "unknown-verb"
    elif not accepted and not row.before_accept:
        expected = "not-accepted"
    assert reason({"t": verb, **GOOD[verb]}, sender, accepted=accepted) == expected


def test_a_pending_minion_can_say_nothing_that_is_stored() -> None:
    before = {name for name, verb in VERBS.items() if verb.before_accept and verb.sender is Sender.MINION}
    assert before == {"hb", "bye"}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_each_field_is_needed_no_other_is_taken_and_none_may_have_any_type(verb: str) -> None:
    sender = VERBS[verb].sender
    message = {"t": verb, **GOOD[verb]}
    assert reason({**message, "id": "web1"}, sender) == "bad-message"
    for name in GOOD[verb]:
        assert reason({key: value for key, value in message.items() if key != name}, sender) == "bad-message"
        assert reason({**{k: v for k, v in message.items() if k != name}, "x": 1}, sender) == "bad-message"
        for wrong in (None, 1.5, object(), {}, [[]], {"a": 1}):
            assert reason({**message, name: wrong}, sender) == "bad-message", (name, wrong)


@pytest.mark.parametrize("message", [None, 1, "hb", [], {}, {"t": 1}, {"t": None}, {"t": ["hb"]}])
def test_what_is_no_message_is_refused(message: object) -> None:
    assert reason(message, Sender.MINION) in {"bad-message", "unknown-verb"}


LIMITS: list[tuple[str, str, Any, Any]] = [
    ("welcome", "hb_ms", 3_600_000, 3_600_001),
    ("welcome", "hb_ms", 100, 99),
    ("job", "body", b"b" * JOB_BODY_MAX, b"b" * (JOB_BODY_MAX + 1)),
    ("job", "proof", [b"p" * 32] * PROOF_MAX, [b"p" * 32] * (PROOF_MAX + 1)),
    ("job", "proof", [b"p" * 32], [b"p" * 31]),
    ("job", "sig", b"s" * 64, b"s" * 63),
    ("job", "deliver_ms", 0, -1),
    ("ret_ack", "jids", [JID] * JIDS_MAX, [JID] * (JIDS_MAX + 1)),
    ("lame", "spread_ms", SPREAD_MAX_MS, SPREAD_MAX_MS + 1),
    ("hb", "running", [JID] * JIDS_MAX, [JID] * (JIDS_MAX + 1)),
    ("hb", "spool", 2**31, True),
    ("job_state", "reason", "x" * REASON_MAX, "x" * (REASON_MAX + 1)),
    ("job_state", "state", "expired", "returned"),
    ("job_state", "jid", JID, JID + "0"),
    ("job_state", "jid", JID, "²" * 20),
    ("ret", "state", "returned", "revoked"),
    ("ret", "body", b"b" * CHUNK, b"b" * (CHUNK + 1)),
    ("ret", "size", RETURN_MAX, RETURN_MAX + 1),
    ("ret", "start_ms", WALL_MAX_MS, WALL_MAX_MS + 1),
    ("ret", "code", 2**31, 2**31 + 1),
    ("functions", "names", ["x"] * FUNCTIONS_MAX, ["x"] * (FUNCTIONS_MAX + 1)),
    ("functions", "names", ["x" * FUNCTION_NAME_MAX], ["x" * (FUNCTION_NAME_MAX + 1)]),
    ("functions", "names", ["x"], ["x\n"]),
    ("functions", "whole", True, 1),
    ("part", "data", b"d" * CHUNK, b""),
    ("part", "offset", RETURN_MAX, RETURN_MAX + 1),
]


@pytest.mark.parametrize(("verb", "field", "last", "beyond"), LIMITS)
def test_each_limit_holds_at_its_value(verb: str, field: str, last: Any, beyond: Any) -> None:
    sender = VERBS[verb].sender
    assert reason({"t": verb, **GOOD[verb], field: last}, sender) == ""
    assert reason({"t": verb, **GOOD[verb], field: beyond}, sender) == "bad-message"


AUTH = {"id": "web1", "boot": "b", "incarnation": "i", "version": "1.0", "token": "", "functions": ""}


@pytest.mark.parametrize(
    "changed",
    [
        {"id": ""},
        {"id": "a/b"},
        {"id": "a" * 129},
        {"id": b"web1"},
        {"boot": "b" * 33},
        {"version": "1\n2"},
        {"token": None},
        {"more": 1},
    ],
)
def test_auth_is_checked_field_by_field(changed: dict[str, Any]) -> None:
    check_payload(AUTH, AUTH_FIELDS)
    with pytest.raises(RemoteProtocolError, match="bad-message"):
        check_payload({**AUTH, **changed}, AUTH_FIELDS)


@pytest.mark.parametrize("payload", [None, [], {"cert": b""}, {"cert": b"c", "now": -1}, {"cert": "c", "now": 1}])
def test_reply_is_checked_field_by_field(payload: object) -> None:
    check_payload({"cert": b"c", "now": 1}, REPLY_FIELDS)
    with pytest.raises(RemoteProtocolError, match="bad-message"):
        check_payload(payload, REPLY_FIELDS)


def test_a_digest_stands_for_a_set_of_names() -> None:
    assert functions_digest(["b.c", "a.b"]) == functions_digest(["a.b", "b.c", "a.b"])
    assert functions_digest(["a.b"]) != functions_digest(["a.b", "b.c"])
    assert len(functions_digest(["a.b"])) == 32
