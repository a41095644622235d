"""What a minion sends as a return may be anything: it is shown or refused, and spoils no other minion's return."""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest

from saltlite.cli import output
from saltlite.client.connection import CONTAINERS_MAX, decode_value
from saltlite.client.follower import UNREADABLE_CODE
from saltlite.errors import RemoteProtocolError
from saltlite.model.plain import DEPTH_MAX
from tests.unit.test_client_follower import progress


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


HOSTILE = {
    "no msgpack": b"\xc1",
    "cut off": b"\xd9\xffabc",
    "bytes behind the value": b"\xc0\xc0",
    "a list as a key": b"\x81\x90\x01",
    "an extension": msgpack.packb(msgpack.ExtType(7, b"x")),
    "a broken timestamp": b"\xc7\x03\xffabc",
    "too deep": nested(DEPTH_MAX + 1),
    "so deep that msgpack gives up": nested(5000),
    "too many containers": b"\xdd" + (CONTAINERS_MAX + 1).to_bytes(4, "big") + b"\x90" * (CONTAINERS_MAX + 1),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_value_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_value(body)


@pytest.mark.parametrize("out", output.SHIPPED)
@pytest.mark.parametrize(
    "body", [nested(DEPTH_MAX), msgpack.packb(msgpack.Timestamp(1, 2)), msgpack.packb({1: "a", "b": None, b"c": 2.5})]
)
def test_every_outputter_can_show_what_is_let_through(out: str, body: bytes) -> None:
    assert isinstance(output.render(out, {"web1": decode_value(body)}), str)


def test_an_unreadable_return_is_a_failure_of_its_minion_and_the_others_are_shown() -> None:
    job = progress("bad1", "web1")
    rows = [
        {"id": "bad1", "state": "returned", "retcode": 0, "body": nested(500)},
        {"id": "web1", "state": "returned", "retcode": 0, "body": msgpack.packb("here")},
    ]
    bad, good = job.apply({"seq": 1, "states": [], "returns": rows, "end": True}, now=1.0).replies
    assert (bad.retcode, bad.failed(), good.value) == (UNREADABLE_CODE, True, "here")
    assert "cannot be read" in bad.value
    assert job.failed() == ["bad1"]
