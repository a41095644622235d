"""Files of HTTP servers: `cp` and what fetches files through it, against servers of loopback."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _downloads
from tests.support.api import answering, loopback_certificate
from tests.support.files import Served

INDEX = build_index(search_layers({}))
BODY = "from the web\n"
SHA256 = hashlib.sha256(BODY.encode()).hexdigest()


class Caller:
    """Calls functions as a job does; the master has the file `a`."""

    def __init__(self, folder: Path, **opts: Any) -> None:
        self.served = Served(folder)
        self.served.put("a", "a")
        self._opts = {"cachedir": str(self.served.cache), **opts}

    def run(self, fun: str, *args: Any, **kwargs: Any) -> Outcome:
        loader = Loader(INDEX, self._opts, {}, {}, more={"__file_client__": self.served.client})
        return call(loader, fun, args, kwargs)

    def __call__(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        outcome = self.run(fun, *args, **kwargs)
        assert outcome.retcode == 0, outcome.value
        return outcome.value

    def place(self, address: str, path: str) -> str:
        return f"{self.served.cache}/extrn_files/base/{address.partition('://')[2]}/{path}"


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    return Caller(tmp_path)


def test_a_file_of_a_server_is_cached_where_salt_has_it(caller: Caller) -> None:
    with answering([{"request": "GET /d/app.conf", "body": BODY}]) as server:
        url = f"{server.address}/d/app.conf"
        place = caller.place(server.address, "d/app.conf")
        assert (caller("cp.is_cached", url), caller("cp.cache_dest", url)) == ("", place)
        assert caller("cp.cache_file", url) == place
        assert Path(place).read_text() == BODY
        assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
        assert caller("cp.is_cached", url) == place


def test_get_url_puts_it_where_it_is_wanted(caller: Caller, tmp_path: Path) -> None:
    with answering([{"body": BODY}] * 5) as server:
        url = f"{server.address}/app.conf"
        assert caller("cp.get_url", url, f"{tmp_path}/dest") == f"{tmp_path}/dest"
        assert (tmp_path / "dest").read_text() == BODY
        assert caller("cp.get_url", url, f"{tmp_path}/") == f"{tmp_path}/app.conf"
        assert caller("cp.get_url", url) == caller.place(server.address, "app.conf")
        assert caller("cp.get_url", url, None) == BODY
        assert caller("cp.hash_file", url) == {"hsum": SHA256, "hash_type": "sha256"}
        refused = caller.run("cp.get_url", "ftp://127.0.0.1/x")
        assert "neither salt://path, a URL of HTTP, nor a path" in refused.value


def test_a_known_digest_saves_the_download_and_another_is_an_error_that_changes_nothing(caller: Caller) -> None:
    answers = [{"body": BODY}, {"body": "changed"}, {"body": f"{SHA256}  app.conf\n"}]
    with answering(answers) as server:
        url = f"{server.address}/app.conf"
        place = caller("cp.cache_file", url, source_hash=SHA256)
        assert caller("cp.cache_file", url, source_hash=f"sha256={SHA256.upper()}") == place
        assert server.lines == ["GET /app.conf"]
        failed = caller.run("cp.cache_file", url, source_hash="0" * 64)
        assert "does not match actual checksum" in failed.value
        assert Path(place).read_text() == BODY
        assert caller("cp.cache_file", url, source_hash=f"{server.address}/SHA256SUMS") == place


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"status": 404, "body": "no"}, "HTTP 404: Not Found"),
        ({"hang_up": True}, "The server hung up without an answer."),
        ({"body": "four", "headers": {"Content-Length": 10, "Connection": "close"}}, "broke off after 4 of 10 bytes"),
        ({"body": "x", "headers": {"Content-Length": 2**60}}, "are the limit"),
    ],
)
def test_what_does_not_come_whole_is_an_error_that_changes_nothing(
    caller: Caller, answer: dict[str, Any], reason: str
) -> None:
    with answering([{"body": BODY}, answer]) as server:
        url = f"{server.address}/app.conf?key=sesame"
        place = caller("cp.cache_file", url)
        failed = caller.run("cp.cache_file", url)
        assert (failed.retcode, reason in failed.value, "sesame" in failed.value) == (1, True, False), failed.value
        assert Path(place).read_text() == BODY
        assert os.listdir(os.path.dirname(place)) == [os.path.basename(place)]


def test_the_limit_of_a_file_holds_without_a_length_too(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_downloads, "BYTES_MAX", 5)
    with answering([{"body": BODY}]) as server:
        assert "13 bytes, and 5 are the limit" in caller.run("cp.cache_file", f"{server.address}/x").value


def test_an_etag_keeps_a_copy_that_has_not_changed(caller: Caller) -> None:
    first = {"body": BODY, "headers": {"ETag": '"one"'}}
    with answering([first, {"status": 304}, {"body": "two", "headers": {"ETag": '"two"'}}]) as server:
        url = f"{server.address}/x"
        for expected in (BODY, BODY, "two"):
            assert Path(caller("cp.cache_file", url, use_etag=True)).read_text() == expected
        assert [asked.headers.get("If-None-Match") for asked in server.asked] == [None, '"one"', '"one"']


def test_a_login_reaches_its_server_and_no_path_and_no_message(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with answering([{"body": BODY}, {"status": 403}]) as server:
        url = server.address.replace("://", "://ann:ses%40me@") + "/x"
        place = caller("cp.cache_file", url)
        assert place == caller.place(server.address, "x")
        assert server.asked[0].headers["Authorization"] == f"Basic {base64.b64encode(b'ann:ses@me').decode()}"
        failed = caller.run("cp.cache_file", url)
        assert "HTTP 403" in failed.value
        assert not any(word in failed.value + caplog.text for word in ("ses@me", "ses%40me"))


@pytest.mark.parametrize("path", ["../../../etc/passwd", "a/../../b", "%2e%2e/x", "x" * 5000, "a\x01b", "."])
def test_no_url_leads_out_of_the_cache(caller: Caller, path: str) -> None:
    place = caller("cp.cache_dest", f"http://host.example/{path}")
    assert os.path.normpath(place).startswith(f"{caller.served.cache}/extrn_files/base/host.example/")


@pytest.mark.parametrize("url", ["http://", "https:///x", "http://host:port/x", "http://[::1/x"])
def test_an_invalid_url_is_refused(caller: Caller, url: str) -> None:
    refused = caller.run("cp.cache_file", url)
    assert (refused.retcode, "is not a valid URL" in refused.value) == (1, True), refused.value


def test_an_unknown_certificate_is_refused_unless_told_otherwise(caller: Caller, tmp_path: Path) -> None:
    pem = loopback_certificate(tmp_path)
    with answering([{"body": BODY}], pem) as server:
        url = f"{server.address}/x"
        refusal = caller.run("cp.cache_file", url).value
        assert "certificate of the server is not accepted" in refusal
        assert "SSL: CERTIFICATE_VERIFY_FAILED" in refusal  # what scripts for Salt look for
        assert Path(caller("cp.get_url", url, verify_ssl=False)).read_text() == BODY


def test_the_proxy_of_the_minion_is_asked(tmp_path: Path) -> None:
    with answering([{"body": BODY}, {"body": BODY}]) as proxy:
        host, port = proxy.address.removeprefix("http://").split(":")
        caller = Caller(tmp_path, proxy_host=host, proxy_port=int(port), no_proxy=["127.0.0.2"])
        assert Path(caller("cp.cache_file", "http://files.example/x")).read_text() == BODY
        assert caller("http.query", "http://files.example/y")["body"] == BODY
        assert proxy.lines == ["GET http://files.example/x", "GET http://files.example/y"]
        assert caller.run("cp.cache_file", "http://127.0.0.2:9/x").retcode == 1


def test_a_managed_file_comes_from_a_server_with_its_digest(caller: Caller, tmp_path: Path) -> None:
    name = str(tmp_path / "conf")

    def managed(source: str, source_hash: str | None, template: str | None = None, **kwargs: Any) -> Any:
        return caller(
            "file.get_managed", name, template, source, source_hash, None, None, None, None, None, "base", None, None,
            **kwargs,
        )  # fmt: skip

    with answering([{"body": BODY}, {"body": "{{ 6 * 7 }}"}, {"body": "other"}]) as server:
        url = f"{server.address}/conf"
        assert "please set source_hash or set skip_verify" in managed(url, None)[2]
        sfn, digest, comment = managed(url, SHA256)
        assert (sfn, digest, comment) == (
            caller.place(server.address, "conf"), {"hsum": SHA256, "hash_type": "sha256"}, ""
        )  # fmt: skip
        done = caller("file.manage_file", name, sfn, None, url, digest, None, None, None, None, "base", None)
        assert (done["result"], Path(name).read_text()) == (True, BODY)
        rendered = managed(url, None, "jinja", skip_verify=True)
        assert Path(rendered[0]).read_text() == "42"
        os.unlink(rendered[0])
        assert "does not match actual checksum" in managed(url, SHA256)[2]


def test_the_first_source_that_a_server_has_is_chosen(caller: Caller) -> None:
    assert caller("file.source_list", ["http://127.0.0.1:9/x", "salt://a"], "", "base")[0] == "salt://a"
    with answering([{"request": "HEAD /no", "status": 404}, {"request": "HEAD /x", "body": BODY}]) as server:
        sources = [f"{server.address}/no", {f"{server.address}/x": "abc"}, "salt://a"]
        assert list(caller("file.source_list", sources, "", "base")) == [f"{server.address}/x", "abc"]


def test_a_check_of_a_managed_file_accepts_a_certificate_as_it_is_told_to(caller: Caller, tmp_path: Path) -> None:
    pem = loopback_certificate(tmp_path)
    target = tmp_path / "target"
    target.write_text("old\n")
    words = [str(target), None, None, None, None, None, None, None, None, None, None, "base"]
    answers = [{"body": f"{SHA256}  x\n"}, {"body": BODY}]
    with answering(answers, pem) as server:
        words[1:3] = [f"{server.address}/x", f"{server.address}/x.sha256"]
        assert caller.run("file.check_managed_changes", *words).value[0] is False
        assert set(caller("file.check_managed_changes", *words, verify_ssl=False)) == {"diff"}
