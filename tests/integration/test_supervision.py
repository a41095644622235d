"""A defect costs the request that met it: the process goes on, the caller is told so, and the log has the traceback."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest

from saltlite.client.connection import Connection
from saltlite.master.handlers.fields import (
    TOKEN,
    Field,
)
from saltlite.master.handlers.operator_verbs import VERBS, OperatorVerb
from saltlite.master.processes.context import Answer, Master
from saltlite.platform import logs
from saltlite.platform.logs import DEFECT, supervised
from saltlite.testing.disk import MemoryDisk as MinionDisk
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire.framing import pack
from tests.integration.test_mworker_streams import serving
from tests.support.jobs import Minion
from tests.support.keys import NOW
from tests.unit.test_master_denied import GOOD
from tests.unit.test_master_fields import ANYTHING, _right

REQUEST = {"v": 1, "verb": "broken"}


@pytest.fixture(autouse=True)
def nothing_was_logged() -> Iterator[None]:
    logs._logged.clear()
    yield
    logs._logged.clear()


def _half_done(master: Master, _principal: object, _request: Mapping[str, Any]) -> NoReturn:
    with master.store.write() as store:
        store.put_event("app/half", {}, NOW)
        raise OverflowError("the secret is sesame")


def _unsendable(_master: Master, _principal: object, _request: Mapping[str, Any]) -> Answer:
    return Answer({"value": object()})


def asked(connection: Connection, **request: Any) -> dict[str, Any]:
    connection.send(request)
    answer = connection.receive(10.0)
    assert answer is not None, "the MWorker has gone"
    return answer


@pytest.mark.parametrize("handler", [_half_done, _unsendable])
def test_a_handler_that_raises_is_answered_and_costs_nobody_else(
    handler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(VERBS, "broken", OperatorVerb(handler, authorizes=True))
    disk = MemoryStoreDisk()
    with serving(tmp_path, disk) as path:
        connection, other = Connection(path), Connection(path)
        for _ in range(3):
            assert asked(connection, **REQUEST) == {"ok": False, "exit": 1, "error": DEFECT}
        assert asked(connection, v=1, verb="key_list")["ok"], "the same connection goes on"
        assert asked(other, v=1, verb="key_list")["ok"]
        connection.close()
        other.close()
    assert MemoryStore(disk).events() == [], "what was begun is undone"
    logged = [record for record in caplog.records if "defect" in record.getMessage()]
    assert len(logged) == 1, "the traceback is logged once"
    assert logged[0].exc_info or logged[0].exc_text


def test_the_traceback_comes_again_after_a_while_with_the_number_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RecursionError

    for _ in range(4):
        assert not supervised("a test", fail)
    monkeypatch.setattr(logs, "TRACEBACK_EVERY_S", 0.0)
    assert not supervised("a test", fail)
    assert [record.getMessage() for record in caplog.records] == [
        "a test met a defect of saltlite: please report this",
        "a test met a defect of saltlite: please report this (and 3 times more since it was last logged)",
    ]


def test_so_many_places_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PLACES_MAX", 2)
    for kind in (ValueError, KeyError, TypeError):
        assert not supervised("a test", _raising(kind))
    assert len(logs._logged) == 1


def _raising(kind: type[Exception]) -> Callable[[], None]:
    def fail() -> None:
        raise kind

    return fail


def _encoded(value: object) -> bytes | None:
    """The value as any program may write it; None of what msgpack has no form for."""
    try:
        packed: bytes = msgpack.packb(value, unicode_errors="surrogatepass")
    except (ValueError, OverflowError, TypeError):
        return None
    return packed


def _wrong(kind: Field) -> list[bytes]:
    names = ANYTHING.keys() - _right(kind) - {"many", "a long text"}
    return [packed for name in sorted(names) if (packed := _encoded(ANYTHING[name])) is not None]


def test_each_wrong_value_of_each_field_of_each_verb_is_the_callers_error_on_the_socket(tmp_path: Path) -> None:
    count = 0
    with serving(tmp_path, MemoryStoreDisk()) as path:
        connection = Connection(path)
        for verb, row in VERBS.items():
            for field, kind in {**row.needs, **row.takes, "token": TOKEN}.items():
                for wrong in _wrong(kind):
                    good = {"v": 1, "verb": verb, **{name: GOOD.get(name, "x") for name in row.needs if name != field}}
                    items = [_encoded(key) + _encoded(value) for key, value in good.items()]  # type: ignore[operator]
                    body = bytes([0x80 + len(items) + 1]) + b"".join(items) + _encoded(field) + wrong  # type: ignore[operator]
                    connection._socket.sendall(struct.pack(">I", len(body)) + body)
                    answer = connection.receive(10.0)
                    assert answer is not None, f"{verb} {field} {wrong[:40]!r} ended the MWorker"
                    assert (answer["ok"], answer["exit"]) == (False, 2), (verb, field, wrong[:40], answer)
                    count += 1
        assert asked(connection, v=1, verb="key_list")["ok"]
        connection.close()
    assert count > 1000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        pack({"v": 1}),
        pack({"v": True, "verb": "status"}),
        pack({"v": 1, "verb": ["status"]}),
        msgpack.packb([1, 2]),
        msgpack.packb({1: 2, "v": 1, "verb": "status"}),
        msgpack.packb({"v": 1, "verb": "status", "x" * 1_000_000: 1}),
        b"\x91" * 100_000 + b"\xc0",
        pack({"v": 1, "verb": "status", "token": 7}),
    ],
)
def test_what_is_no_request_is_the_callers_error(tmp_path: Path, body: bytes) -> None:
    with serving(tmp_path, MemoryStoreDisk()) as path:
        connection = Connection(path)
        connection._socket.sendall(struct.pack(">I", len(body)) + body)
        answer = connection.receive(10.0)
        assert answer is not None
        assert (answer["ok"], answer["exit"]) == (False, 2)
        assert len(answer["error"]) < 400
        assert asked(connection, v=1, verb="key_list")["ok"]
        connection.close()


def test_a_message_that_the_job_server_cannot_handle_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    minion = Minion(tmp_path, MinionDisk())
    try:
        monkeypatch.setattr(minion.server, "_trust", lambda _raw, _chain: [].pop())
        minion.says({"t": "trust", "cert": b"", "chain": b""})
        assert "a message of the network process met a defect" in caplog.text
    finally:
        minion.close()
