"""The HTTP API as its callers see it: logins, lowstates, rights, formats, events, and what strangers try."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.bench.measure import family
from tests.support.api import PASSWORD, Api, user_file
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

GRANTED: dict[str, Any] = {
    "file": {
        "admin": [".*", "@runner", "@wheel", "@jobs", "@event", "@executor", "@hook"],
        "fred": [{"a": ["test.*"]}],
    }
}
"""`fred` may run test functions on `a` only."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API."""
    fleet = Fleet(tmp_path_factory.mktemp("api"))
    try:
        users = user_file(fleet.folder / "users", "admin", "fred", "eve")
        fleet.start_master(auth_file=users, external_auth=GRANTED)
        fleet.join("a", "b")
        yield fleet, fleet.start_api(logins_per_address=1000, request_timeout="1s")
    finally:
        fleet.close()


@pytest.fixture(scope="module")
def admin(served: tuple[Fleet, str]) -> Api:
    """The API on behalf of somebody who may everything."""
    return Api(served[1]).log_in("admin")


@pytest.fixture(scope="module")
def fred(served: tuple[Fleet, str]) -> Api:
    """The API on behalf of somebody who may little."""
    return Api(served[1]).log_in("fred")


def returned(api: Api, **lowstate: Any) -> Any:
    """What one lowstate returned."""
    said = api.low(**lowstate)
    assert said.status == 200, said
    return said.json()["return"]


def test_local_returns_what_each_minion_returned(admin: Api) -> None:
    assert returned(admin, client="local", tgt="*", fun="test.ping") == [{"a": True, "b": True}]


def test_full_return_has_retcodes_and_the_jid(admin: Api) -> None:
    [rows] = returned(admin, client="local", tgt="a", fun="test.ping", full_return=True)
    assert {**rows["a"], "jid": ""} == {"ret": True, "retcode": 0, "success": True, "jid": ""}


def test_local_async_names_the_job_and_its_minions(admin: Api) -> None:
    [published] = returned(admin, client="local_async", tgt="*", fun="test.ping")
    assert published["minions"] == ["a", "b"]
    wait_until(
        lambda: admin.get(f"/jobs/{published['jid']}").json()["return"] == [{"a": True, "b": True}],
        "the job is shown with its returns",
    )


def test_local_batch_returns_one_entry_a_minion(admin: Api) -> None:
    rows = returned(admin, client="local_batch", tgt="*", fun="test.ping", batch="50%")
    assert sorted(rows, key=str) == [{"a": True}, {"b": True}]


def test_local_subset_asks_so_many(admin: Api) -> None:
    [rows] = returned(admin, client="local_subset", tgt="*", fun="test.ping", subset=1)
    assert len(rows) == 1


def test_a_target_that_nobody_is_returns_nothing(admin: Api) -> None:
    assert returned(admin, client="local", tgt="nobody*", fun="test.ping") == [{}]


def test_several_lowstates_have_their_returns_in_order(admin: Api) -> None:
    low = [{"client": "local", "tgt": one, "fun": "test.ping"} for one in ("b", "a")]
    assert admin.post("/", low).json() == {"return": [{"b": True}, {"a": True}]}


def test_a_runner_returns_its_value(admin: Api) -> None:
    assert returned(admin, client="runner", fun="manage.up") == [["a", "b"]]


def test_the_next_runner_of_a_login_needs_no_new_process(served: tuple[Fleet, str]) -> None:
    fleet, url = served
    api = next(daemon for name, daemon in fleet.daemons.items() if name.startswith("api"))
    admin, other = Api(url).log_in("admin"), Api(url).log_in("admin")

    def processes() -> set[int]:
        return set(family(api.pid)[1:])

    before = processes()
    assert returned(admin, client="runner", fun="manage.up") == [["a", "b"]]
    [mine] = processes() - before
    assert [returned(admin, client="runner", fun="manage.up") for _ in range(3)] == [[["a", "b"]]] * 3
    assert processes() - before == {mine}
    assert returned(other, client="runner", fun="manage.up") == [["a", "b"]]
    assert len(processes() - before) == 2


def test_a_runner_that_is_not_there_says_so(admin: Api) -> None:
    [text] = returned(admin, client="runner", fun="no.such")
    assert "no.such" in text


def test_runner_async_is_told_of_by_events(admin: Api) -> None:
    tags = []
    with admin.events() as stream:
        [begun] = returned(admin, client="runner_async", fun="manage.up")
        for event in stream:
            tags.append(event["tag"])
            if event["tag"] == f"{begun['tag']}/ret":
                break
    assert f"{begun['tag']}/new" in tags


def test_wheel_lists_keys_as_salt_does(admin: Api) -> None:
    [said] = returned(admin, client="wheel", fun="key.list_all")
    assert (said["data"]["return"]["minions"], said["data"]["success"]) == (["a", "b"], True)
    assert admin.get("/keys").json()["return"]["minions"] == ["a", "b"]
    assert list(admin.get("/keys/a").json()["return"]["minions"]) == ["a"]


def test_minions_answer_their_grains(admin: Api) -> None:
    assert admin.get("/minions/a").json()["return"][0]["a"]["id"] == "a"


def test_a_job_that_is_posted_to_minions_has_a_link(admin: Api) -> None:
    said = admin.post("/minions", {"tgt": "a", "fun": "test.ping"})
    jid = said.json()["return"][0]["jid"]
    assert (said.status, said.json()["_links"]) == (202, {"jobs": [{"href": f"/jobs/{jid}"}]})
    assert jid in admin.get("/jobs").json()["return"][0]


def test_answers_are_yaml_where_that_is_asked_for(admin: Api) -> None:
    said = admin.post("/", {"client": "local", "tgt": "a", "fun": "test.ping"}, Accept="application/x-yaml")
    assert (said.body, said.headers["Content-Type"]) == ("return:\n- a: true\n", "application/x-yaml")


def test_a_form_is_a_lowstate(admin: Api) -> None:
    form = urllib.parse.urlencode([("client", "local"), ("tgt", "a"), ("fun", "test.echo"), ("arg", "text=hello")])
    said = admin.ask("POST", "/", form.encode(), Content_Type="application/x-www-form-urlencoded")
    assert said.json() == {"return": [{"a": "hello"}]}


@pytest.mark.parametrize(
    "lowstate",
    [
        {"client": "local", "tgt": "b", "fun": "test.ping"},
        {"client": "local", "tgt": "*", "fun": "test.ping"},
        {"client": "local", "tgt": ["a", "b"], "fun": "test.ping"},
        {"client": "local", "tgt": "a", "fun": "cmd.run", "arg": ["id"]},
        {"client": "local", "tgt": "a", "fun": ["test.ping", "cmd.run"], "arg": [[], ["id"]]},
        {"client": "local", "tgt": "a", "fun": "test.ping,cmd.run", "arg": [[], ["id"]]},
        {"client": "local_async", "tgt": "b", "fun": "test.ping"},
        {"client": "local_batch", "tgt": "*", "fun": "test.ping", "batch": 1},
        {"client": "local_subset", "tgt": "b", "fun": "test.ping"},
        {"client": "local", "tgt": "a or b", "tgt_type": "compound", "fun": "test.ping"},
        {"client": "runner", "fun": "manage.up"},
        {"client": "runner_async", "fun": "manage.up"},
        {"client": "runner", "fun": "salt.execute", "arg": ["b", "test.ping"]},
        {"client": "wheel", "fun": "key.list_all"},
        {"client": "wheel", "fun": "key.delete", "match": "b"},
    ],
)
def test_no_client_widens_what_its_caller_may(fred: Api, lowstate: dict[str, Any]) -> None:
    assert fred.post("/", lowstate).status == 403


def test_who_may_little_may_that(fred: Api) -> None:
    assert returned(fred, client="local", tgt="a", fun="test.ping") == [{"a": True}]


def test_a_wrong_password_and_an_unknown_user_are_told_the_same(served: tuple[Fleet, str]) -> None:
    said = [
        Api(served[1]).post("/login", {"eauth": "file", "username": user, "password": word})
        for user, word in (("admin", "wrong"), ("nobody-of-this-name", "wrong"), ("eve", PASSWORD))
    ]
    assert {one.status for one in said} == {401}
    assert len({one.body for one in said}) == 1


@pytest.mark.parametrize("token", ["", "0" * 64, "x", "'; drop table", "0" * 5000])
def test_no_token_and_a_wrong_one_are_401(served: tuple[Fleet, str], token: str) -> None:
    said = Api(served[1], token).low(client="local", tgt="*", fun="test.ping")
    assert (said.status, said.json()["status"]) == (401, 401)


def test_a_token_is_dead_everywhere_after_logout(served: tuple[Fleet, str]) -> None:
    api = Api(served[1]).log_in("admin")
    with api.events() as stream:
        assert api.ask("POST", "/logout", b"").json() == {"return": "Your token has been cleared"}
        assert api.low(client="local", tgt="*", fun="test.ping").status == 401
        list(stream)  # it ends, or the test does not


def test_run_takes_credentials_and_leaves_no_token(served: tuple[Fleet, str], admin: Api) -> None:
    low = {"client": "local", "tgt": "a", "fun": "test.ping", "eauth": "file", "username": "fred"}
    assert Api(served[1]).post("/run", [{**low, "password": PASSWORD}]).json() == {"return": [{"a": True}]}
    assert Api(served[1]).post("/run", [{**low, "password": "wrong"}]).status == 401


def test_run_takes_tokens_of_token(served: tuple[Fleet, str]) -> None:
    [made] = Api(served[1]).post("/token", {"eauth": "file", "username": "fred", "password": PASSWORD}).json()
    low = {"client": "local", "tgt": "a", "fun": "test.ping", "token": made["token"]}
    assert Api(served[1]).post("/run", low).json() == {"return": [{"a": True}]}
    assert made["name"] == "fred"


def test_a_login_makes_a_new_token_whatever_the_caller_brought(served: tuple[Fleet, str], fred: Api) -> None:
    login = {"eauth": "file", "username": "fred", "password": PASSWORD}
    said = fred.post("/login", login, Cookie=f"session_id={fred.token}")
    assert said.json()["return"][0]["token"] != fred.token


def test_a_cookie_changes_nothing(served: tuple[Fleet, str], admin: Api) -> None:
    page = Api(served[1])
    cookie = f"session_id={admin.token}"
    body = json.dumps({"client": "local", "tgt": "*", "fun": "test.ping"}).encode()
    assert page.ask("POST", "/", body, Cookie=cookie, Content_Type="text/plain").status == 401
    assert page.get("/stats", Cookie=cookie).status == 200


def test_the_cookie_of_a_login_is_for_no_script_and_no_other_site(served: tuple[Fleet, str]) -> None:
    said = Api(served[1]).post("/login", {"eauth": "file", "username": "fred", "password": PASSWORD})
    cookie = said.headers["Set-Cookie"]
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=Strict"))


@pytest.mark.parametrize("path", ["/events?token=x", "/?token=x", "/stats?x", "/ws/0123"])
def test_a_token_in_the_url_is_refused(admin: Api, path: str) -> None:
    assert admin.get(path).status == 400


def test_an_origin_elsewhere_is_told_nothing(admin: Api) -> None:
    said = admin.ask("OPTIONS", "/", Origin="https://evil.example")
    assert (said.status, said.headers["Access-Control-Allow-Origin"]) == (204, None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("PUT", "/", 405), ("DELETE", "/login", 405), ("GET", "/jobs/x", 400)],
)
def test_what_there_is_not_is_an_error_in_json(admin: Api, method: str, path: str, status: int) -> None:
    said = admin.ask(method, path)
    assert (said.status, said.json()["status"]) == (status, status)


def test_a_page_is_told_errors_as_a_page(served: tuple[Fleet, str]) -> None:
    assert Api(served[1]).get("/nowhere", Accept="text/html").body.startswith("<!doctype html>")


@pytest.mark.parametrize("body", [b"\xff\xfe{", b'{"client": "\\ud800"}', b"[" * 100_000, b"{" * 5000, b"null"])
def test_a_malformed_body_is_400(admin: Api, body: bytes) -> None:
    assert admin.ask("POST", "/", body, Content_Type="application/json").status == 400


def test_a_giant_body_is_not_read(admin: Api) -> None:
    place = urllib.parse.urlsplit(admin.url)
    with raw_connection(admin) as sock:
        head = f"POST / HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 999999999\r\n\r\n"
        sock.sendall(head.encode())
        assert sock.recv(4096)[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 413")


def test_a_request_that_never_ends_is_hung_up_on(admin: Api) -> None:
    with raw_connection(admin) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        sock.settimeout(60)
        assert sock.recv(4096) == b""


@contextlib.contextmanager
def raw_connection(api: Api) -> Iterator[ssl.SSLSocket]:
    """A TLS connection on which nothing was said yet."""
    place = urllib.parse.urlsplit(api.url)
    plain = socket.create_connection((place.hostname or "", place.port or 0), timeout=10)
    with api.tls.wrap_socket(plain) as sock:
        yield sock


def test_events_of_a_job_come_in_their_order(admin: Api) -> None:
    with admin.events() as stream:
        [published] = returned(admin, client="local_async", tgt="a", fun="test.ping")
        jid = published["jid"]
        of_job = (event["tag"] for event in stream if jid in event["tag"])
        assert [next(of_job), next(of_job)] == [f"salt/job/{jid}/new", f"salt/job/{jid}/ret/a"]


def test_a_stream_that_was_cut_goes_on_without_a_gap(admin: Api) -> None:
    with admin.events() as stream:
        returned(admin, client="local", tgt="a", fun="test.ping")
        first = next(stream)["id"]
    returned(admin, client="local", tgt="a", fun="test.ping")
    with admin.events(after=first) as again:
        assert [next(again)["id"] for _ in range(3)] == [first + 1, first + 2, first + 3]


async def listened(api: Api, hello: str, origin: str = "") -> str | bytes | None:
    """The first message of a WebSocket after `hello`, while a job runs; None when it was closed instead."""
    headers = {"X-Auth-Token": api.token, **({"Origin": origin} if origin else {})}
    url = api.url.replace("http", "ws", 1) + "/ws"
    there = await websocket_connect(HTTPRequest(url, headers=headers, ssl_options=api.tls))
    await there.write_message(hello)
    coming = asyncio.ensure_future(there.read_message())
    while not coming.done():
        await asyncio.to_thread(returned, api, client="local", tgt="a", fun="test.ping")
    first = await coming
    there.close()
    # To the end of the connection: the loop must not go before its socket.
    while first is not None and await there.read_message() is not None:
        pass
    await asyncio.sleep(0)
    return first


def test_a_websocket_that_says_it_is_ready_gets_events(admin: Api) -> None:
    message = asyncio.run(listened(admin, "websocket client ready"))
    assert isinstance(message, str)
    assert message.startswith('data: {"tag": "salt/')


def test_a_websocket_that_says_something_else_is_closed(admin: Api) -> None:
    assert asyncio.run(listened(admin, "hello")) is None


@pytest.mark.parametrize(("token", "origin", "status"), [("0" * 64, "", 401), ("", "https://evil.example", 403)])
def test_a_websocket_without_a_token_or_of_another_page_is_refused(
    admin: Api, token: str, origin: str, status: int
) -> None:
    with pytest.raises(HTTPClientError) as refused:
        asyncio.run(listened(Api(admin.url, token or admin.token), "websocket client ready", origin))
    assert refused.value.code == status


@pytest.mark.parametrize("cursor", ["x", "-1", "999999999", "9" * 40])
def test_a_cursor_that_is_none_is_400(admin: Api, cursor: str) -> None:
    assert admin.get("/events", Last_Event_ID=cursor).status == 400


def test_events_show_nobody_what_others_run(admin: Api, fred: Api) -> None:
    with fred.events() as stream:
        [others] = returned(admin, client="local_async", tgt="a", fun="test.ping")
        [own] = returned(fred, client="local_async", tgt="a", fun="test.ping")
        assert next(stream)["tag"] == f"salt/job/{own['jid']}/new"
    assert fred.get(f"/jobs/{others['jid']}").status in (400, 403)


def test_a_hook_is_an_event_without_the_secrets_of_its_headers(admin: Api) -> None:
    with admin.events() as stream:
        said = admin.post("/hook/deploy/done", {"commit": "abc"}, Authorization="a-secret-word")
        event = next(one for one in stream if one["tag"] == "salt/netapi/hook/deploy/done")
    assert (said.json(), event["data"]["body"]) == ({"success": True}, {"commit": "abc"})
    assert "a-secret-word" not in str(event)
    assert admin.token not in str(event)


@pytest.mark.parametrize("path", ["/hook/../auth", "/hook/a//b", "/hook/a%0Ab", "/hook/" + "x" * 300])
def test_a_hook_makes_no_tag_of_another_kind(admin: Api, path: str) -> None:
    assert admin.post(path, {}).status == 400


def test_figures_are_for_who_has_logged_in(served: tuple[Fleet, str], admin: Api) -> None:
    assert Api(served[1]).get("/metrics").status == 401
    assert "saltlite_api_requests_total{" in admin.get("/metrics").body


def test_a_hook_flood_is_slowed_down(served: tuple[Fleet, str]) -> None:
    api = Api(served[0].start_api(webhooks_per_second=1, logins_per_address=2)).log_in("admin")
    said = [api.post("/hook/flood", {}) for _ in range(15)]
    assert {one.status for one in said} == {200, 429}
    assert {one.headers["Retry-After"] for one in said if one.status == 429} == {"1"}


def test_logins_of_one_address_are_slowed_down(served: tuple[Fleet, str]) -> None:
    api = Api(served[0].start_api(logins_per_address=2))
    wrong = {"eauth": "file", "username": "somebody", "password": "wrong"}
    assert [api.post("/login", wrong).status for _ in range(3)] == [401, 401, 429]


def test_a_client_that_is_not_enabled_is_400(served: tuple[Fleet, str]) -> None:
    api = Api(served[0].start_api(netapi_enable_clients=["local"])).log_in("admin")
    said = api.low(client="runner", fun="manage.up")
    assert (said.status, "netapi_enable_clients" in said.body) == (400, True)


def test_a_hook_is_a_right_that_no_other_one_gives(fred: Api) -> None:
    said = fred.post("/hook/deploy/done", {})
    assert (said.status, "that takes @hook with this path" in said.body) == (403, True)


def test_hooks_without_a_token_need_a_right_of_the_apis_user(served: tuple[Fleet, str]) -> None:
    assert Api(served[1]).post("/hook/open", {}).status == 401


def test_without_a_master_the_answer_is_503(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    try:
        url = fleet.start_api("alone", disable_ssl=True)
        began = time.monotonic()
        assert Api(url, "0" * 64).low(client="local", tgt="*", fun="test.ping").status == 503
        assert time.monotonic() - began < 60
    finally:
        fleet.close()
