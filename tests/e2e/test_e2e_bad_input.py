"""What an operator mistypes: one sentence, its exit code, and nothing published."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

import pytest

from saltlite.errors import NoTargetError, UsageError
from tests.support.fleet import Fleet

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a", "test.pign"), "saltlite: none of the targeted minions has 'test.pign'; did you mean test.ping?"),
        (("[ab]", "zzz.qqq"), "saltlite: none of the targeted minions has 'zzz.qqq'. Nothing was published."),
        (("a", "test"), "saltlite: 'test' is not a function"),
        (("a", "test.ping.pong"), "saltlite: 'test.ping.pong' is not a function"),
        (("a", "../../etc.passwd"), "saltlite: '../../etc.passwd' is not a function"),
        (("a",), "saltlite: 'a' is not a command, and a target needs a function"),
        (("-E", "(", "test.ping"), "saltlite: '(' is not a regular expression: missing )"),
        (("-E", "-L", "a", "test.ping"), "saltlite: --pcre and --list exclude each other"),
        (("-t", "soon", "a", "test.ping"), "saltlite: --timeout: 'soon' is not a duration"),
        (("--out", "xml", "a", "test.ping"), "saltlite: there is no outputter 'xml'"),
        (("--lsit", "a", "test.ping"), "saltlite: there is no option --lsit"),
        (("a", "test.arg", "x=1", "x=2"), "saltlite: the keyword 'x' is given twice"),
        (("a", "test.arg", "x" * 66_000), "saltlite: the arguments of test.arg cannot travel in a job"),
        (("a", "test.arg", "[" * 18 + "]" * 18), "saltlite: the arguments of test.arg cannot travel in a job"),
        (("a", "test.ping", "--deliver-by", "31d"), "saltlite: --deliver-by takes at most 30 days"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2_and_publishes_nothing(
    shared: Fleet, words: tuple[str, ...], sentence: str
) -> None:
    before = shared.jobs_published()
    said = shared.cli(*words)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.startswith(sentence)
    assert "defect" not in said.err
    assert len(said.err.splitlines()) == 1
    assert shared.jobs_published() == before


REQUEST = {"request_id": "0" * 32, "tgt": "a", "tgt_type": "glob", "fun": "test.ping", "arg": [], "kwarg": {}}
ODD: list[Any] = [None, -1, 2**63, 2**64 - 1, 1.5, float("nan"), "", "x" * 5000, "\x00", b"\xff", [[]], {"a": {}}, True]


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("publish", REQUEST),
        ("publish", REQUEST | {"deliver_ms": 1000, "run_ms": 1000, "follow": False}),
        ("follow", {"jid": "2" * 20, "after": 0}),
        ("job_kill", {"jid": "2" * 20}),
        ("key_list", {}),
        ("key_change", {"action": "reject", "fingerprints": ["A" * 40]}),
        ("key_preaccept", {"id": "zz", "fingerprint": "A" * 40}),
        ("key_rename", {"id": "zy", "new_id": "zz"}),
        ("key_finger", {}),
        ("token_create", {"uses": 1, "expires_s": 60, "id_glob": "*"}),
        ("minions", {}),
        ("no_such_verb", {}),
    ],
)
def test_no_request_of_a_client_ends_an_mworker(shared: Fleet, verb: str, fields: dict[str, Any]) -> None:
    before = shared.daemons["master"].children("MWorker")
    if "jid" in fields:
        fields = fields | {"jid": shared.publish("a", "test.ping")}
    for name in [*fields, "surplus"]:
        for odd in ODD:
            fresh = {"request_id": os.urandom(16).hex()} if "request_id" in fields else {}
            with shared.client() as client, contextlib.suppress(UsageError, NoTargetError):
                client.call(verb, **(fields | fresh | {name: odd}))
    assert shared.cli("a", "test.ping").code == 0
    assert shared.daemons["master"].children("MWorker") == before


@pytest.mark.parametrize(
    "raw",
    [b"\x00\x00\x00\x01\xc1", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\xc0", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00"],
)
def test_noise_on_the_socket_of_the_clients_costs_only_that_connection(shared: Fleet, raw: bytes) -> None:
    before = shared.daemons["master"].children("MWorker")
    with socket.socket(socket.AF_UNIX) as noisy:
        noisy.connect(shared.socket_path())
        noisy.sendall(raw)
        noisy.shutdown(socket.SHUT_WR)
        noisy.settimeout(60)
        while noisy.recv(65536):
            pass
    assert shared.cli("a", "test.ping").code == 0
    assert shared.daemons["master"].children("MWorker") == before
