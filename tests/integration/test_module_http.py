"""`http` against servers of the test's own, honest ones and others."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.api import answering, loopback_certificate

INDEX = build_index(search_layers({}))
SECRET = "sesame-http"
XML = '<a xmlns="urn:x"><b>1</b><c><d>2</d><d>3</d></c></a>'


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, {}), f"http.{fun}", args, kwargs)


@contextlib.contextmanager
def raw_server(*pieces: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A server that sends these bytes to everybody, whatever is asked, and hangs up."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = server.accept()
                with sock, contextlib.suppress(OSError):
                    sock.recv(65536)
                    for piece in pieces:
                        sock.sendall(piece)
                        time.sleep(pause_s)  # the server is slow on purpose

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}/"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(60)


def test_an_answer_has_what_was_asked_for() -> None:
    plan = [{"body": {"a": 1}, "headers": {"X-A": "b"}, "again": True}]
    with answering(plan) as server:
        assert run("query", server.address) == Outcome({"body": '{"a": 1}'}, 0)
        said = run("query", server.address, status=True, headers=True, text=True, decode=True).value
        assert (said["status"], said["headers"]["x-a"], said["text"], said["dict"]) == (200, "b", '{"a": 1}', {"a": 1})
        assert run("query", server.address, decode_body=False).value == {"body": b'{"a": 1}'}


@pytest.mark.parametrize("charset", ["zlib", "hex", "rot13", "undefined", "idna", "punycode", "nosuch", "a%00b"])
def test_a_charset_that_is_none_of_texts_is_read_as_utf_8(charset: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset={charset}\r\nConnection: close\r\n\r\n"
    with raw_server(head.encode() + "caf\u00e9 -\u00ff".encode() + b"\xff") as address:
        assert run("query", address) == Outcome({"body": "caf\u00e9 -\u00ff\ufffd"}, 0)


def test_a_request_has_parameters_headers_data_and_a_login(tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_text("from a file")
    lines = tmp_path / "headers"
    lines.write_text("X-File: 1\n")
    with answering([{"body": "", "again": True}]) as server:
        run("query", server.address + "/a?x=1#f", "POST", params={"y": "a b", "z": [1, 2]}, data={"k": "v&"})
        run("query", server.address, "PUT", data="text", header_dict={"X-A": "1"}, header_list=["X-B: 2:3", "odd"])
        run("query", server.address, "POST", data_file=str(body), header_file=str(lines), agent="me")
        run("query", server.address, username="me", password=SECRET)
        run(
            "query", server.address, "POST", data="content", formdata=True, formdata_fieldname="f",
            formdata_filename="a.txt",
        )  # fmt: skip
        first, second, third, fourth, fifth = server.asked
    assert (first.line, first.body) == ("POST /a?x=1&y=a+b&z=1&z=2", "k=v%26")
    assert (second.line, second.body, second.headers["X-B"]) == ("PUT /", "text", "2:3")
    assert (third.body, third.headers["X-File"], third.headers["User-Agent"]) == ("from a file", "1", "me")
    assert fourth.headers["Authorization"].startswith("Basic ")
    assert 'name="f"; filename="a.txt"' in fifth.body


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("application/json", "[1]", [1]),
        ("text/xml", XML, [{"b": "1"}, {"d": ["2", {"d": "3"}]}]),
        ("application/yaml", "a: [1]", {"a": [1]}),
    ],
)
def test_an_answer_is_read_as_its_type_says(kind: str, body: str, said: Any) -> None:
    with answering([{"body": body, "headers": {"Content-Type": kind}, "again": True}]) as server:
        assert run("query", server.address, decode=True).value["dict"] == said


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("json", "{", "cannot be read as json"),
        ("json", "[" * 100_000, "cannot be read as json"),
        ("xml", "<a>", "cannot be read as xml"),
        ("xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "entities"),
        ("xml", "<a>" * 3000 + "</a>" * 3000, "cannot be read as xml"),
        ("yaml", "a: &x [1]\nb: [*x, *x]", "aliases"),
        ("yaml", "!!python/object:os.system {}", "cannot be read as yaml"),
        ("html", "", "decode_type is auto or one of"),
    ],
)
def test_what_cannot_be_read_is_an_error(kind: str, body: str, words: str) -> None:
    with answering([{"body": body, "again": True}]) as server:
        outcome = run("query", server.address, decode=True, decode_type=kind)
    assert outcome.retcode == 1
    assert words in outcome.value
    assert "Traceback" not in outcome.value


def test_a_failure_is_told_with_its_status_and_body() -> None:
    with answering([{"status": 404, "body": "nothing", "again": True}]) as server:
        said = run("query", server.address).value
        assert said == {"body": "nothing", "status": 404, "error": "HTTP 404: Not Found"}
        assert run("query", server.address, raise_error=False, status=True).value == {"body": "nothing", "status": 404}


def test_who_is_not_there_is_an_error_and_status_0() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    said = run("query", address, status=True).value
    assert said == {"status": 0, "error": "Connection refused"}


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "/etc/passwd", "http://a b/", "http://127.0.0.1:x/",
     "http://127.0.0.1/\r\nX-A: 1", "-x", "", "http://"],
)  # fmt: skip
def test_what_is_no_url_of_the_web_is_refused(url: str) -> None:
    outcome = run("query", url)
    assert outcome.retcode == 1
    assert "Traceback" not in outcome.value


@pytest.mark.parametrize(
    "options",
    [{"header_dict": {"A": "b\r\nC: d"}}, {"method": "GET /x"}, {"params": 7}, {"nosuch": 1},
     {"formdata": True}, {"data_file": "/nosuch"}, {"opts": {"http_request_timeout": "soon"}}],
)  # fmt: skip
def test_what_is_no_request_is_not_sent(options: dict[str, Any]) -> None:
    with answering([]) as server:
        outcome = run("query", server.address, **options)
        assert server.asked == []
    assert outcome.retcode == 1
    assert "Traceback" not in outcome.value


def test_a_redirect_leads_to_no_file_and_takes_no_password_elsewhere() -> None:
    with answering([{"status": 302, "headers": {"Location": "file:///etc/passwd"}, "again": True}]) as bad:
        said = run("query", bad.address).value
        assert "root:" not in str(said)
        assert said["status"] == 302
    with answering([{"body": "there", "again": True}]) as other:
        plan: list[dict[str, Any]] = [
            {"status": 302, "headers": {"Location": other.address + "/x"}},
            {"status": 302, "headers": {"Location": "/here"}},
            {"body": "here"},
        ]
        with answering(plan) as first:
            login = {
                "username": "me",
                "password": SECRET,
                "header_dict": {"X-Api-Key": "1", "Cookie": "c", "Accept": "text/plain"},
            }
            assert run("query", first.address, **login).value["body"] == "there"
            assert run("query", first.address, **login).value["body"] == "here"
            assert "Authorization" in first.asked[-1].headers
            assert first.asked[-1].headers["X-Api-Key"] == "1"
        assert {"Authorization", "Cookie", "X-Api-Key"} & set(other.asked[0].headers) == set()
        assert other.asked[0].headers["Accept"] == "text/plain"


def test_a_login_in_an_url_reaches_its_server_alone_and_no_error() -> None:
    with answering([{"body": "here", "again": True}]) as server:
        url = server.address.replace("http://", f"http://me:{SECRET}%2Fx@")
        assert run("query", url).value["body"] == "here"
        told = server.asked[0].headers
        assert base64.b64decode(told["Authorization"].removeprefix("Basic ")).decode() == f"me:{SECRET}/x"
        assert SECRET not in told["Host"]
    for wrong in (f"http://me:{SECRET}@", f"http://me:{SECRET}@127.0.0.1:x/", f"http://me:{SECRET} @h/"):
        assert SECRET not in str(run("query", wrong).value)


def test_redirects_come_to_an_end() -> None:
    with answering([{"status": 302, "headers": {"Location": "/x"}, "again": True}]) as server:
        assert run("query", server.address).value["status"] == 302
        assert len(server.asked) < 10


def test_a_certificate_that_nobody_knows_is_refused_unless_told_otherwise(tmp_path: Path) -> None:
    pem = loopback_certificate(tmp_path)
    with answering([{"body": "secret", "again": True}], pem) as server:
        assert "certificate of the server is not accepted" in run("query", server.address).value["error"]
        assert run("query", server.address, ca_bundle=str(pem)).value["body"] == "secret"
        assert "ca_bundle or cert cannot be used" in run("query", server.address, cert="/nosuch").value
        assert run("query", server.address, verify_ssl=False).value["body"] == "secret"
        elsewhere = server.address.replace("127.0.0.1", "localhost")
        assert "not accepted" in run("query", elsewhere, ca_bundle=str(pem)).value["error"]


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ((OK + b"Content-Length: 5000\r\n\r\n",), "5000 bytes, and 1000 are the limit"),
        ((OK + b"\r\n" + b"x" * 1001,), "more than 1000 bytes"),
        ((OK + b"Content-Length: 10\r\n\r\nfour",), "broke off"),
        ((OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(10_000)),), "more than 1000 bytes when"),
        ((OK + b"Content-Encoding: gzip\r\n\r\nno gzip",), "cannot be unpacked"),
        ((b"nonsense\r\n\r\n",), "nonsense"),
        ((b"",), "hung up"),
        ((OK, *[b"X-A: b\r\n"] * 50), "no whole answer within 0.3 s"),
        ((OK + b"\r\n", *[b"x"] * 50), "within 0.3 s"),
    ],
)
def test_an_answer_without_an_end_is_given_up(pieces: tuple[bytes, ...], words: str) -> None:
    limits = {"http_max_body": 1000, "http_request_timeout": 0.3}
    with raw_server(*pieces, pause_s=0.02 if len(pieces) > 1 else 0.0) as address:
        assert words in run("query", address, opts=limits).value["error"]


def test_a_packed_answer_is_unpacked() -> None:
    with raw_server(OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"plain")) as address:
        assert run("query", address).value["body"] == "plain"


def test_an_answer_is_written_to_files_whole(tmp_path: Path) -> None:
    names = ("text_out", "headers_out", "decode_out")
    with answering([{"body": {"a": 1}, "again": True}]) as server:
        run("query", server.address, decode=True, **{name: str(tmp_path / name) for name in names})
        refused = run("query", server.address, text_out=str(tmp_path / "no/such"))
    assert json.loads((tmp_path / "text_out").read_text()) == {"a": 1}
    assert "content-type: application/json" in (tmp_path / "headers_out").read_text()
    assert "cannot be written" in refused.value
    assert {path.name for path in tmp_path.iterdir()} == set(names)


def test_cookies_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    jar = tmp_path / "cookies"
    plan: list[dict[str, Any]] = [{"body": "", "headers": {"Set-Cookie": "a=1; Path=/"}}, {"body": ""}]
    with answering(plan) as server:
        for _ in range(2):
            run("query", server.address, cookies=True, cookie_jar=str(jar))
        assert server.asked[1].headers["Cookie"] == "a=1"
    assert jar.stat().st_mode & 0o777 == 0o600


def test_a_dry_run_asks_nobody_or_somebody_else() -> None:
    with answering([{"request": "GET /test", "body": "t"}]) as server:
        assert run("query", server.address, test=True).value == {}
        assert run("query", server.address, test=True, test_url=server.address + "/test").value == {
            "test": True, "body": "t",
        }  # fmt: skip


def test_a_server_is_waited_for() -> None:
    with answering([{"status": 503}, {"status": 503}, {"body": "up"}, {"status": 503, "again": True}]) as server:
        assert run("wait_for_successful_query", server.address, request_interval=0.01).value == {"body": "up"}
        said = run("wait_for_successful_query", server.address, wait_for=0.05, request_interval=0.01).value
        assert said["status"] == 503


def test_no_password_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with answering([{"body": "", "again": True}]) as server:
        address = server.address.replace("//", f"//me:{SECRET}@")
        said = run("query", address + f"/?token={SECRET}", username="me", password=SECRET).value
    assert SECRET not in caplog.text
    assert SECRET not in str(said)


def test_a_file_that_is_too_large_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(256 * 1024 * 1024 + 1)
    assert "it is not sent" in run("query", "http://127.0.0.1:1/", "POST", data_file=str(path)).value


def test_a_file_that_is_no_text_is_no_cookie_jar(tmp_path: Path) -> None:
    jar = tmp_path / "jar"
    jar.write_bytes(b"\xa8" * 100)
    with answering([{"body": "x", "again": True}]) as server:
        said = run("query", server.address, cookies=True, cookie_jar=str(jar))
    assert (said.retcode, "cannot be used" in str(said.value), "Traceback" in str(said.value)) == (1, True, False), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of other users")
def test_cookies_do_not_go_where_a_link_of_a_user_leads(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    (theirs / "link").symlink_to(ours)
    for each in (theirs, theirs / "link"):
        os.chown(each, 65534, 65534, follow_symlinks=False)
    with answering([{"body": "x", "headers": {"Set-Cookie": "a=b"}, "again": True}]) as server:
        said = run("query", server.address, cookies=True, cookie_jar=f"{theirs}/link/jar")
    assert "to what is not theirs" in str(said.value)
    assert list(ours.iterdir()) == []
