"""Signed job bodies: a minion runs what the master's job key signed, and only if every field is in order."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from saltlite.errors import LocalProtocolError, RemoteProtocolError, UsageError
from saltlite.model.ids import Jid
from saltlite.wire import codec, merkle
from saltlite.wire.job_body import (
    CALLS_MAX,
    DURATION_MAX_MS,
    FUNCTION_MAX,
    USER_MAX,
    FunctionCall,
    JobBody,
    decode_body,
    encode_body,
    sign,
    verify,
)
from saltlite.wire.limits import JOB_BODY_MAX, MESSAGE_DEPTH

SEED = hashlib.sha256(b"job key").digest()
PUBLIC = Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()

BODY = JobBody(
    jid=Jid("20260131235959123456"),
    calls=(FunctionCall("pkg.install", ["nginx", 3, None, {"deep": [True, 1.5, b"raw"]}], {"refresh": True}),),
    user="root",
    audience=merkle.root(["web1", "web2"]),
    run_ms=0,
    deliver_ms=60_000,
)


def fields(**changes: object) -> bytes:
    """An encoded body with some fields as a hostile sender would put them."""
    message = codec.decode(encode_body(BODY), dataclasses.replace(codec.PROTOCOL, depth=20))
    return codec.encode({**message, **changes})


def calling(argument: object) -> JobBody:
    """BODY with one argument."""
    return dataclasses.replace(BODY, calls=(FunctionCall("pkg.install", [argument]),))


def refusal(data: bytes) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_body(data)
    return caught.value.reason


def test_a_body_reads_back_as_it_was() -> None:
    assert decode_body(encode_body(BODY)) == BODY


def test_metadata_read_back_and_cost_nothing_where_there_are_none() -> None:
    noted = dataclasses.replace(BODY, metadata={"ticket": [5, "x"]})
    assert decode_body(encode_body(noted)) == noted
    assert encode_body(dataclasses.replace(noted, metadata={})) == encode_body(BODY)


@pytest.mark.parametrize("wrong", [None, [], "text", {5: "x"}])
def test_metadata_that_are_no_map_of_names_are_refused(wrong: object) -> None:
    assert refusal(fields(m=wrong)) == "bad-job"


def test_the_same_job_has_the_same_bytes() -> None:
    assert encode_body(BODY) == encode_body(dataclasses.replace(BODY))


def test_a_signed_body_verifies() -> None:
    data = encode_body(BODY)
    verify(PUBLIC, data, sign(SEED, data))


def test_a_changed_byte_of_body_or_signature_is_refused() -> None:
    data = encode_body(BODY)
    signature = sign(SEED, data)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(RemoteProtocolError) as caught:
            verify(PUBLIC, bytes(damaged), signature)
        assert caught.value.reason == "bad-job-signature"
    for position in range(len(signature)):
        damaged = bytearray(signature)
        damaged[position] ^= 1
        with pytest.raises(RemoteProtocolError):
            verify(PUBLIC, data, bytes(damaged))


@pytest.mark.parametrize("signature", [b"", bytes(63), bytes(64), bytes(65)])
def test_a_signature_that_is_none_is_refused(signature: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="bad-job-signature"):
        verify(PUBLIC, encode_body(BODY), signature)


def test_a_signature_of_another_key_is_refused() -> None:
    data = encode_body(BODY)
    with pytest.raises(RemoteProtocolError, match="bad-job-signature"):
        verify(PUBLIC, data, sign(hashlib.sha256(b"another").digest(), data))


def test_a_signature_for_another_purpose_is_refused() -> None:
    data = encode_body(BODY)
    with pytest.raises(RemoteProtocolError, match="bad-job-signature"):
        verify(PUBLIC, data, Ed25519PrivateKey.from_private_bytes(SEED).sign(data))


def test_keys_of_the_wrong_size_are_refused() -> None:
    data = encode_body(BODY)
    with pytest.raises(LocalProtocolError, match="seed"):
        sign(SEED[:-1], data)
    with pytest.raises(RemoteProtocolError, match="bad-job-signature"):
        verify(PUBLIC[:-1], data, sign(SEED, data))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("v", 2),
        ("j", "2026"),
        ("j", 2026),
        ("c", [["ping", [], {}]]),
        ("c", [["test.ping; rm", [], {}]]),
        ("c", [["test.__class__.ünicode", [], {}]]),
        ("c", [["test.ping\n", [], {}]]),
        ("c", [["m." + "f" * FUNCTION_MAX, [], {}]]),
        ("c", [[None, [], {}]]),
        ("c", [["test.ping", {}, {}]]),
        ("c", [["test.ping", "nginx", {}]]),
        ("c", [["test.ping", [], []]]),
        ("c", [["test.ping", [], {1: "one"}]]),
        ("c", [["test.ping", []]]),
        ("c", [["test.ping", [], {}], "test.ping"]),
        ("c", {"test.ping": []}),
        ("c", []),
        ("c", [["test.ping", [], {}]] * (CALLS_MAX + 1)),
        ("u", ""),
        ("u", "u" * (USER_MAX + 1)),
        ("u", "ro\x1bot"),
        ("u", 0),
        ("t", bytes(31)),
        ("t", "x" * 32),
        ("r", -1),
        ("r", True),
        ("r", 1.5),
        ("r", DURATION_MAX_MS + 1),
        ("d", -1),
        ("d", "60000"),
        ("d", DURATION_MAX_MS + 1),
        ("x", "an unknown field"),
        ("x", "splay"),
        ("x", [5]),
        ("x", ["a.b"]),
        ("x", ["splay"] * 17),
        ("o", []),
        ("o", {"": 1}),
        ("o", {f"o{n}": n for n in range(33)}),
    ],
)
def test_a_field_that_is_wrong_is_refused(field: str, value: object) -> None:
    assert refusal(fields(**{field: value})) == "bad-job"


@pytest.mark.parametrize("field", "vjcutrdxo")
def test_a_field_that_is_missing_is_refused(field: str) -> None:
    message = codec.decode(encode_body(BODY))
    del message[field]
    assert refusal(codec.encode(message)) == "bad-job"


@pytest.mark.parametrize("message", [None, [], "job", 5])
def test_a_body_that_is_no_map_is_refused(message: object) -> None:
    assert refusal(codec.encode(message)) == "bad-job"


def test_executors_and_their_options_travel() -> None:
    body = dataclasses.replace(BODY, executors=["splay", "direct_call"], executor_opts={"splaytime": 30, "l": [1, {}]})
    assert decode_body(encode_body(body)) == body


@pytest.mark.parametrize(
    "wrong", [{"executors": ["../x"]}, {"executors": [""]}, {"executor_opts": {f"o{n}": n for n in range(33)}}], ids=str
)
def test_executors_that_are_none_are_refused_at_publish(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="cannot be published"):
        encode_body(dataclasses.replace(BODY, **wrong))


def test_which_arguments_are_hidden_travels_and_only_where_there_are_any() -> None:
    call = BODY.calls[0]
    body = dataclasses.replace(BODY, calls=(dataclasses.replace(call, hidden=[0, 3]),))
    assert decode_body(encode_body(body)) == body
    assert [len(one) for one in codec.decode(encode_body(BODY))["c"]] == [3]


@pytest.mark.parametrize("hidden", [[4], [-1], ["0"], [True], {"0": 0}, None], ids=repr)
def test_what_is_hidden_and_no_argument_is_refused(hidden: Any) -> None:
    calls = [[call.fun, call.args, call.kwargs, hidden] for call in BODY.calls]
    assert refusal(fields(c=calls)) == "bad-job"


def test_the_largest_values_are_taken() -> None:
    body = dataclasses.replace(
        BODY,
        calls=(FunctionCall("m." + "f" * (FUNCTION_MAX - 2)),) * CALLS_MAX,
        user="u" * USER_MAX,
        run_ms=DURATION_MAX_MS,
        deliver_ms=DURATION_MAX_MS,
    )
    assert decode_body(encode_body(body)) == body


def test_a_body_above_the_limit_is_refused_with_a_way_out() -> None:
    room = JOB_BODY_MAX - len(encode_body(calling(""))) - 2
    fits = calling("x" * room)
    assert len(encode_body(fits)) == JOB_BODY_MAX
    with pytest.raises(UsageError, match=r"arguments of pkg\.install.*send less"):
        encode_body(calling("x" * (room + 1)))
    assert refusal(encode_body(fits) + b"x") == "oversize"


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def test_arguments_are_as_deep_as_a_message_may_be() -> None:
    body = calling(nested(MESSAGE_DEPTH))
    assert decode_body(encode_body(body)) == body
    with pytest.raises(UsageError, match="levels"):
        encode_body(calling(nested(MESSAGE_DEPTH + 1)))


@pytest.mark.parametrize("argument", [{1.5: "x"}, {"a"}, 2**70], ids=str)
def test_an_argument_that_cannot_travel_is_refused_at_publish(argument: object) -> None:
    with pytest.raises(UsageError, match="cannot travel"):
        encode_body(calling(argument))


def test_a_function_name_that_is_none_is_refused_at_publish() -> None:
    with pytest.raises(UsageError, match=r"module\.function"):
        encode_body(dataclasses.replace(BODY, calls=(FunctionCall("ping"),)))
