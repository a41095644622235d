"""Stored bodies of jobs: what is left of their arguments at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from saltlite.errors import RemoteProtocolError
from saltlite.model.ids import jid_at
from saltlite.wire.job_body import (
    FunctionCall,
    JobBody,
    Withheld,
    decode_body,
    decode_record,
    encode_body,
    holds_secrets,
    reduced,
)

PLAIN = FunctionCall("cmd.run", ["ls /root"], {"cwd": "/"})
POSITION = FunctionCall("shadow.set_password", ["fred", "hunter2"], {}, [1])
NAME = FunctionCall("user.add", ["fred"], {"password": "hunter2", "home": "/srv"})
DEEP = FunctionCall("state.x", [], {"data": {"db": [{"api_key": "hunter2"}]}})
BARE = FunctionCall("test.ping")


def body(*calls: FunctionCall, **more: Any) -> JobBody:
    made = JobBody(
        jid=jid_at(1), calls=calls, user="root", audience=bytes(32), run_ms=5, deliver_ms=6, metadata={"ticket": 7}
    )
    return replace(made, **more)


@pytest.mark.parametrize("call", [POSITION, NAME, DEEP])
def test_secrets_go_and_the_rest_stays(call: FunctionCall) -> None:
    data = encode_body(body(PLAIN, call))
    left = reduced(data, keep_arguments=True)
    record = decode_record(left)
    assert record.withheld is Withheld.SECRETS
    assert [one.shown() for one in record.body.calls] == [PLAIN.shown(), call.shown()]
    assert (b"hunter2" in data, b"hunter2" in left, b"ls /root" in left) == (True, False, True)
    assert (record.body.run_ms, record.body.metadata) == (5, {"ticket": 7})
    assert holds_secrets((PLAIN, call), {})


def test_a_body_without_secrets_is_kept_as_it_is() -> None:
    data = encode_body(body(PLAIN, BARE))
    assert reduced(data, keep_arguments=True) is data
    assert decode_record(data).withheld is Withheld.NOTHING
    assert not holds_secrets((PLAIN, BARE), {"splaytime": 3})


def test_without_keeping_all_arguments_go_and_functions_stay() -> None:
    data = encode_body(body(PLAIN, NAME, BARE))
    left = reduced(data, keep_arguments=False)
    record = decode_record(left)
    assert record.withheld is Withheld.ARGUMENTS
    assert [one.shown() for one in record.body.calls] == [
        ["cmd.run", ["***"], {}],
        ["user.add", ["***"], {}],
        ["test.ping", [], {}],
    ]
    assert not any(text in left for text in (b"hunter2", b"fred", b"/root"))


def test_a_job_without_arguments_loses_none() -> None:
    data = encode_body(body(BARE))
    assert reduced(data, keep_arguments=False) is data


@pytest.mark.parametrize("keep", [True, False])
def test_what_is_reduced_already_stays_as_it_is(keep: bool) -> None:
    left = reduced(encode_body(body(NAME)), keep_arguments=keep)
    assert reduced(left, keep_arguments=keep) == left
    bare = reduced(left, keep_arguments=False)
    assert decode_record(bare).withheld is Withheld.ARGUMENTS
    assert reduced(bare, keep_arguments=True) == bare


def test_secrets_among_the_options_of_executors_go_too() -> None:
    data = encode_body(body(PLAIN, executor_opts={"api_token": "hunter2", "splaytime": 3}))
    record = decode_record(reduced(data, keep_arguments=True))
    assert (record.withheld, record.body.executor_opts) == (Withheld.SECRETS, {"api_token": "***", "splaytime": 3})


@pytest.mark.parametrize("keep", [True, False])
def test_a_minion_that_was_sent_a_reduced_body_would_refuse_it(keep: bool) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_body(reduced(encode_body(body(NAME)), keep_arguments=keep))


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x02garbage", b"\x03", b"\x80"])
def test_what_is_no_body_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_record(data)
