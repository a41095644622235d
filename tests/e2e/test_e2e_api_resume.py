"""Streams of events that are cut while something happens, and taken up again: nothing is missed or comes twice."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.served import serve
from tests.support.api import Api
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

JOBS = 8
"""Jobs on two minions that run while streams are cut: three events each."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API."""
    with serve(tmp_path_factory.mktemp("resume")) as both:
        yield both


@pytest.fixture(scope="module")
def admin(served: tuple[Fleet, str]) -> Api:
    """The API on behalf of somebody who may everything."""
    return Api(served[1]).log_in("admin")


def publish(api: Api, fun: str = "test.ping", **more: Any) -> str:
    """The jid of a job on both minions that nobody waits for."""
    jid: str = api.low(client="local_async", tgt="*", fun=fun, **more).json()["return"][0]["jid"]
    return jid


def stored(fleet: Fleet, after: int) -> list[tuple[int, str]]:
    """The master's own list of what has happened behind a cursor."""
    with fleet.store() as store:
        return [(event.seq, event.tag) for event in store.events(after, 10**6)]


def returned(fleet: Fleet, jid: str) -> bool:
    """Whether both minions have returned."""
    return set(fleet.states(jid).values()) == {"returned"}


def taken(api: Api, after: int, count: int) -> list[tuple[int, str]]:
    """The first events of a stream that is taken up behind a cursor, and cut after them."""
    with api.events(after=after) as stream:
        return [(event["id"], event["tag"]) for event in itertools.islice(stream, count)]


def test_a_stream_that_is_cut_after_each_event_of_running_jobs_has_no_gap(
    served: tuple[Fleet, str], admin: Api
) -> None:
    fleet, _url = served
    with admin.events() as stream:
        jids = [publish(admin)]
        first = next(stream)
    found = [(first["id"], first["tag"])]
    while len(jids) < JOBS:
        jids.append(publish(admin))
        found += taken(admin, found[-1][0], 1)
    wait_until(lambda: all(returned(fleet, jid) for jid in jids), "all jobs have returned")
    whole = [(first["id"], first["tag"]), *stored(fleet, first["id"])]
    assert len(whole) >= 3 * JOBS
    while len(found) < len(whole):
        found += taken(admin, found[-1][0], 2)
    assert found[: len(whole)] == whole


def test_a_job_whose_watcher_is_cut_off_in_its_middle_is_told_of_to_its_end(
    served: tuple[Fleet, str], admin: Api
) -> None:
    fleet, _url = served
    with admin.events() as stream:
        jid = publish(admin, "test.sleep", arg=[1])
        cut = next(event["id"] for event in stream if event["tag"] == f"salt/job/{jid}/new")
    assert not returned(fleet, jid)
    with admin.events(after=cut) as stream:
        of_job = [event["tag"] for event in itertools.islice((one for one in stream if jid in one["tag"]), 2)]
    assert sorted(of_job) == [f"salt/job/{jid}/ret/a", f"salt/job/{jid}/ret/b"]


def test_what_happened_while_the_api_was_away_is_told_by_the_next_one(served: tuple[Fleet, str], admin: Api) -> None:
    fleet, _url = served
    with admin.events() as stream:
        publish(admin)
        cut = next(stream)["id"]
    jid = publish(admin)
    wait_until(lambda: returned(fleet, jid), "the job has returned")
    whole = stored(fleet, cut)
    another = Api(fleet.start_api(), admin.token)
    assert taken(another, cut, len(whole)) == whole


def test_watchers_of_one_token_and_of_several_are_told_the_same(served: tuple[Fleet, str], admin: Api) -> None:
    fleet, url = served
    second = Api(url).log_in("admin")
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(api.events()) for api in (admin, admin, second)]
        jid = publish(admin)
        wait_until(lambda: returned(fleet, jid), "the job has returned")
        told = [[next(stream)["tag"] for _ in range(3)] for stream in streams]
    assert told[0] == told[1] == told[2]
    assert told[0][0] == f"salt/job/{jid}/new"


def test_a_watcher_that_does_not_read_costs_the_others_nothing(served: tuple[Fleet, str], admin: Api) -> None:
    _fleet, url = served
    port = int(url.rpartition(":")[2])
    plain = socket.create_connection(("127.0.0.1", port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with admin.tls.wrap_socket(plain) as deaf, admin.events() as stream:
        deaf.sendall(f"GET /events HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {admin.token}\r\n\r\n".encode())
        assert isinstance(deaf, ssl.SSLSocket)
        for number in range(20):
            assert admin.post(f"/hook/large/{number}", {"x": "y" * 50_000}).status == 200
            assert next(stream)["tag"] == f"salt/netapi/hook/large/{number}"
