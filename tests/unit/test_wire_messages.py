"""The table of messages: what is described passes, everything else is refused."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import RemoteProtocolError
from saltlite.master.protocol.sessions import Delivery
from saltlite.model.files import ENV_MAX, PATH_BYTES_MAX
from saltlite.model.job import PART_BYTES, PART_RESOURCES, resource_parts
from saltlite.wire.codec import decode, encode
from saltlite.wire.limits import (
    CHUNK,
    DIRECTORY_BYTES,
    DOC_MAX,
    EVENT_DATA_MAX,
    EVENT_TAG_MAX,
    FILE_NAMES,
    FRAME_MAX,
    JOB_BODY_MAX,
    KIB,
    MASTER_NAME_MAX,
    SEGMENT_MAX,
)
from saltlite.wire.merkle import HASH_BYTES, PROOF_MAX
from saltlite.wire.messages import (
    AUTH_FIELDS,
    DIGEST_DIGITS,
    FUNCTIONS_BYTES_MAX,
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
    functions_message,
)

JID = "20270115080000000000"
GOOD: dict[str, dict[str, Any]] = {
    "welcome": {"state": "pending", "heartbeat_ms": 15_000},
    "state": {"state": "revoked"},
    "heartbeat_ack": {},
    "probe": {},
    "job": {"jid": JID, "resources": [], "body": b"b", "sig": b"s" * 64, "proof": [b"p" * 32], "deliver_ms": 0},
    "cancel": {"jid": JID},
    "return_ack": {"jids": [JID]},
    "grant": {"jid": JID},
    "fetch": {"what": "grains"},
    "reconnect": {"spread_ms": 0},
    "directory": {"content": b"\x90", "sig": b"s" * 64},
    "move": {"to": "", "spread_ms": 0},
    "heartbeat": {"running": [JID], "spool": 0},
    "job_state": {"jid": JID, "state": "refused", "reason": "x"},
    "return": {
        "jid": JID,
        "state": "timed_out",
        "code": -1,
        "body": b"",
        "size": 0,
        "start_ms": 0,
        "dur_ms": 0,
        "reason": "",
    },
    "functions": {"digest": "d" * 32, "functions": ["test.ping()"], "whole": False},
    "return_chunk": {"jid": JID, "offset": 0, "data": b"x"},
    "digest": {"grains": "d" * 32, "resources": ""},
    "doc_put": {"n": 1, "kind": "grains", "size": 1, "sha256": b"h" * 32, "offset": 0, "data": b"x"},
    "doc_get": {"n": 1, "kind": "pillar", "sha256": b"", "offset": 0, "nonce": b""},
    "file_request": {"n": 1, "operation": "read", "env": "base", "path": "a/b", "after": "", "offset": 0, "nonce": b""},
    "file_put": {"n": 1, "path": "a/b", "size": 1, "sha256": b"h" * 32, "offset": 0, "data": b"x"},
    "ask": {"n": 1, "what": "publish", "data": b"x", "sha256": b"", "offset": 0, "nonce": b""},
    "event": {"n": 1, "tag": "app/deployed", "data": b"\x80", "jid": JID},
    "response": {
        "n": 1,
        "state": "ok",
        "size": 1,
        "sha256": b"",
        "mode": 0,
        "mtime": 0,
        "data": b"x",
        "names": ["a"],
        "more": False,
        "sig": b"",
    },
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
    assert before == {"heartbeat", "bye"}


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


@pytest.mark.parametrize("message", [None, 1, "heartbeat", [], {}, {"t": 1}, {"t": None}, {"t": ["heartbeat"]}])
def test_what_is_no_message_is_refused(message: object) -> None:
    assert reason(message, Sender.MINION) in {"bad-message", "unknown-verb"}


LIMITS: list[tuple[str, str, Any, Any]] = [
    ("welcome", "heartbeat_ms", 3_600_000, 3_600_001),
    ("welcome", "heartbeat_ms", 100, 99),
    ("job", "body", b"b" * JOB_BODY_MAX, b"b" * (JOB_BODY_MAX + 1)),
    ("job", "proof", [b"p" * 32] * PROOF_MAX, [b"p" * 32] * (PROOF_MAX + 1)),
    ("job", "proof", [b"p" * 32], [b"p" * 31]),
    ("job", "resources", ["dummy:a"] * PART_RESOURCES, ["dummy:a"] * (PART_RESOURCES + 1)),
    ("job", "resources", ["dummy:10.0.0.1:22"], ["dummy"]),
    ("job", "resources", ["dummy:a"], ["dummy:../a"]),
    ("job", "jid", f"{JID}-999999", f"{JID}-0"),
    ("cancel", "jid", f"{JID}-1", f"{JID}-1.0"),
    ("grant", "jid", f"{JID}-1.0", f"{JID}.0"),
    ("fetch", "what", "resources", "pillar"),
    ("job", "sig", b"s" * 64, b"s" * 63),
    ("job", "deliver_ms", 0, -1),
    ("return_ack", "jids", [JID] * JIDS_MAX, [JID] * (JIDS_MAX + 1)),
    ("reconnect", "spread_ms", SPREAD_MAX_MS, SPREAD_MAX_MS + 1),
    ("move", "spread_ms", SPREAD_MAX_MS, SPREAD_MAX_MS + 1),
    ("move", "to", "n" * MASTER_NAME_MAX, "n" * (MASTER_NAME_MAX + 1)),
    ("directory", "content", b"c" * DIRECTORY_BYTES, b"c" * (DIRECTORY_BYTES + 1)),
    ("directory", "sig", b"s" * 64, b"s" * 63),
    ("heartbeat", "running", [JID] * JIDS_MAX, [JID] * (JIDS_MAX + 1)),
    ("heartbeat", "spool", 2**31, True),
    ("job_state", "reason", "x" * REASON_MAX, "x" * (REASON_MAX + 1)),
    ("job_state", "state", "expired", "returned"),
    ("job_state", "jid", JID, JID + "0"),
    ("job_state", "jid", JID, "²" * 20),
    ("return", "state", "returned", "revoked"),
    ("return", "body", b"b" * CHUNK, b"b" * (CHUNK + 1)),
    ("return", "size", SEGMENT_MAX, SEGMENT_MAX + 1),
    ("return", "start_ms", WALL_MAX_MS, WALL_MAX_MS + 1),
    ("return", "code", 2**31, 2**31 + 1),
    ("functions", "functions", ["x.y"] * FUNCTIONS_MAX, ["x.y"] * (FUNCTIONS_MAX + 1)),
    ("functions", "functions", ["x.y(z:str)!r"], ["x.y(z:str)!r "]),
    ("functions", "functions", ["x.y(z)"], [["x.y(z)"]]),
    ("functions", "functions", ["x.y"], ["x.y\n"]),
    ("functions", "whole", True, 1),
    ("return_chunk", "data", b"d" * CHUNK, b""),
    ("return_chunk", "offset", SEGMENT_MAX, SEGMENT_MAX + 1),
    ("return", "jid", f"{JID}-1.999999", f"{JID}-1.1000000"),
    ("job_state", "jid", f"{JID}-7", f"{JID}-7.1"),
    ("digest", "grains", "d" * DIGEST_DIGITS, "d" * (DIGEST_DIGITS + 1)),
    ("doc_put", "size", DOC_MAX, DOC_MAX + 1),
    ("doc_put", "data", b"d" * CHUNK, b"d" * (CHUNK + 1)),
    ("doc_put", "kind", "resources", "pillar"),
    ("doc_get", "kind", "pillar", "grains"),
    ("event", "tag", "t" * EVENT_TAG_MAX, "t" * (EVENT_TAG_MAX + 1)),
    ("event", "tag", "a/b", "a\nb"),
    ("event", "data", b"d" * EVENT_DATA_MAX, b"d" * (EVENT_DATA_MAX + 1)),
    ("event", "jid", "", "x"),
    ("doc_get", "offset", DOC_MAX, -1),
    ("file_request", "operation", "find", "remove"),
    ("file_request", "path", "p" * PATH_BYTES_MAX, "p" * (PATH_BYTES_MAX + 1)),
    ("file_request", "env", "e" * ENV_MAX, "e" * (ENV_MAX + 1)),
    ("file_put", "data", b"d" * CHUNK, b"d" * (CHUNK + 1)),
    ("file_put", "sha256", b"h" * 32, b"h" * 31),
    ("response", "data", b"d" * CHUNK, b"d" * (CHUNK + 1)),
    ("response", "names", ["n"] * FILE_NAMES, ["n"] * (FILE_NAMES + 1)),
    ("response", "mode", 0o7777, 0o10000),
    ("response", "sig", b"s" * 64, b"s" * 65),
    ("response", "state", "busy", "forged"),
    ("file_request", "nonce", b"n" * 16, b"n" * 17),
    ("doc_get", "nonce", b"n" * 16, b"n" * 17),
]


@pytest.mark.parametrize(("verb", "field", "last", "beyond"), LIMITS)
def test_each_limit_holds_at_its_value(verb: str, field: str, last: Any, beyond: Any) -> None:
    sender = VERBS[verb].sender
    assert reason({"t": verb, **GOOD[verb], field: last}, sender) == ""
    assert reason({"t": verb, **GOOD[verb], field: beyond}, sender) == "bad-message"


def test_the_largest_part_fits_into_a_frame() -> None:
    # The longest SRNs that a part may have are as many as its bytes allow.
    longest = "t" * 64 + ":" + "i" * 255
    srns = next(iter(resource_parts(sorted(f"{longest[:-3]}{number:03}" for number in range(500)))))[1]
    delivery = Delivery(f"{JID}-1", b"b" * JOB_BODY_MAX, b"s" * 64, [b"p" * HASH_BYTES] * PROOF_MAX, 0.0, srns)
    message = delivery.message(0.0)
    assert sum(map(len, srns)) > PART_BYTES - len(longest)
    assert len(encode(message)) < FRAME_MAX - KIB
    assert reason(decode(encode(message)), Sender.MASTER) == ""


@pytest.mark.parametrize(("cert", "fits"), [(b"c" * 320, True), (b"", False), (b"c" * 321, False), ("c", False)])
def test_a_job_may_carry_the_certificate_of_another_master(cert: Any, fits: bool) -> None:
    job = Delivery(JID, b"b", b"s" * 64, [], 0.0, []).message(0.0)
    assert reason(job, Sender.MASTER) == ""
    assert (reason({**job, "cert": cert}, Sender.MASTER) == "") is fits
    assert reason({**job, "certs": cert}, Sender.MASTER) != ""


AUTH = {
    "id": "web1",
    "boot": "b",
    "incarnation": "i",
    "version": "1.0",
    "token": b"",
    "functions": "",
    "order": [1, 1],
    "moves": True,
}


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
        {"order": [1]},
        {"order": [1, -1]},
        {"order": [1, 2**53 + 1]},
        {"more": 1},
    ],
)
def test_auth_is_checked_field_by_field(changed: dict[str, Any]) -> None:
    check_payload(AUTH, AUTH_FIELDS)
    with pytest.raises(RemoteProtocolError, match="bad-message"):
        check_payload({**AUTH, **changed}, AUTH_FIELDS)


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {"cert": b""},
        {"cert": b"c", "now": 1},
        {"cert": b"c", "chain": b"", "now": -1},
        {"cert": "c", "chain": b"", "now": 1},
        {"cert": b"c", "chain": "", "now": 1},
    ],
)
def test_reply_is_checked_field_by_field(payload: object) -> None:
    check_payload({"cert": b"c", "chain": b"", "now": 1}, REPLY_FIELDS)
    with pytest.raises(RemoteProtocolError, match="bad-message"):
        check_payload(payload, REPLY_FIELDS)


def test_a_digest_stands_for_a_set_of_texts_in_any_order() -> None:
    digest = functions_digest(["b.c", "a.b"], whole=True)
    assert digest == functions_digest(["a.b", "b.c"], whole=True)
    assert len(digest) == 32


@pytest.mark.parametrize(("texts", "whole"), [(["a.b"], True), (["a.b", "b.c()"], True), (["a.b", "b.c"], False)])
def test_a_digest_changes_with_all_that_the_message_says(texts: list[str], *, whole: bool) -> None:
    assert functions_digest(texts, whole=whole) != functions_digest(["a.b", "b.c"], whole=True)


def many(count: int, text: str) -> list[str]:
    return [f"m{number}.f{text}" for number in range(count)]


def test_functions_that_fit_travel_as_they_are() -> None:
    texts = many(200, "(name:str|None=None,**kwargs)!remove")
    message = functions_message(texts, whole=True)
    assert (message["functions"], message["whole"]) == (texts, True)
    assert message["digest"] == functions_digest(texts, whole=True)


def test_what_does_not_fit_loses_the_longest_signatures_and_no_name_and_no_risk() -> None:
    long = [f"long.f{number}({'x' * 900})!remove" for number in range(120)]
    message = functions_message([*long, *many(1000, "(a,b=1)")], whole=True)
    kept = message["functions"]
    assert (len(kept), message["whole"]) == (1120, True)
    assert kept[-1000:] == many(1000, "(a,b=1)")
    assert set(kept[:120]) <= {*long, *(f"long.f{number}!remove" for number in range(120))}
    assert FUNCTIONS_BYTES_MAX - 1000 < sum(map(len, kept)) <= FUNCTIONS_BYTES_MAX


def test_more_texts_than_an_honest_minion_sends_are_refused() -> None:
    assert FUNCTIONS_BYTES_MAX == 112 * 1024
    most = [f"m{number}.f({'x' * 1000})" for number in range(FUNCTIONS_BYTES_MAX // 1024)]
    message = {"t": "functions", "digest": "0" * 32, "functions": most, "whole": True}
    check(message, Sender.MINION, accepted=True)
    for texts in ([*most, *most[:5]], ["m.f"] * (FUNCTIONS_MAX + 1), ["m.f", 1]):
        with pytest.raises(RemoteProtocolError, match="bad-message"):
            check({**message, "functions": texts}, Sender.MINION, accepted=True)


@pytest.mark.parametrize("texts", [many(FUNCTIONS_MAX + 1, ""), many(FUNCTIONS_MAX, "o" * 100)])
def test_names_that_do_not_fit_are_left_out_and_the_message_says_so(texts: list[str]) -> None:
    message = functions_message(texts, whole=True)
    assert message["whole"] is False
    assert 800 < len(message["functions"]) <= FUNCTIONS_MAX
    assert len(encode(message)) < FRAME_MAX - 1024
    check(message, Sender.MINION, accepted=True)


def test_a_function_that_no_job_could_name_is_not_reported() -> None:
    message = functions_message(["a.b()", "a.b-c()", "a.\u00fc()", f"a.{'b' * 127}()"], whole=True)
    assert (message["functions"], message["whole"]) == (["a.b()"], True)
