"""New jobs of one turn of an MWorker: one transaction, an answer each, and an error costs its own request only; and of
which commits of others an MWorker wants to know."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from saltlite.errors import StoreError
from saltlite.master.handlers import publish as publish_handler
from saltlite.master.handlers import results
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes import mworker
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.protocol.effects import MinionReport
from saltlite.master.store.ports import StoreWriter
from saltlite.model.ids import MinionId
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import ManualClock, SystemClock
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel, listen_unix
from saltlite.testing import memory_store
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire.framing import framed, pack, take_frame, unpack
from tests.support.files import no_files
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate
from tests.support.store import job, key, publish

if TYPE_CHECKING:
    from saltlite.master.store.sharing import SharedStore

WEB1 = MinionId("web1")
RETURN = {"t": "return", "state": "returned", "code": 0, "size": 1, "start_ms": 0, "dur_ms": 0, "reason": ""}


class Site:
    """An MWorker in the test's hands, with one minion, and connections of its operator."""

    def __init__(self, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk = MemoryStoreDisk()
        self.store = MemoryStore(self.disk)
        with self.store.write() as tx:
            tx.put_key(key(WEB1))
        self.transactions = 0
        self._stack = stack
        self._path = str(folder / "master.ipc")
        self._reactor = Reactor()
        who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
        terms = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({os.geteuid()}))
        link = stack.enter_context(socket.socket(socket.AF_UNIX))
        link.bind(str(folder / "link.ipc"))
        link.listen()
        self.serves = mworker.MWorker(
            self._reactor,
            lambda to_link: Master(MemoryStore(self.disk), SystemClock(), who, terms, to_link, *inventory()),
            no_files(self._reactor),
            ipc.LinkAddress(str(folder / "link.ipc"), os.geteuid()),
        )
        self._link, _ = link.accept()
        stack.enter_context(self._link)
        listener = stack.enter_context(listen_unix(self._path, 0o600))
        self.serves.serve(listener)
        self.run(mworker.LINK_WAIT_S + 0.1)
        self.told()
        write = MemoryStore.write

        @contextmanager
        def counted(store: MemoryStore, *, appends_only: bool = False) -> Iterator[StoreWriter]:
            self.transactions += 1
            with write(store, appends_only=appends_only) as writer:
                yield writer

        monkeypatch.setattr(MemoryStore, "write", counted)

    def run(self, seconds: float = 0.1) -> None:
        self._reactor.call_later(seconds, self._reactor.stop)
        self._reactor.run()

    def connect(self) -> socket.socket:
        sock = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        sock.connect(self._path)
        sock.settimeout(60.0)
        self.run()
        return sock

    def report(self, jid: str, *others: dict[str, Any]) -> None:
        returned = MinionReport("web1", key(WEB1).fingerprint, RETURN | {"jid": jid}, b"\xc3")
        rows = [MinionReport("web1", key(WEB1).fingerprint, other) for other in others]
        self.link_says(ipc.reports(7, [returned, *rows]))

    def link_says(self, message: dict[str, Any]) -> None:
        self._link.sendall(framed(pack(message)))

    def messages(self) -> list[dict[str, Any]]:
        """What the link process got since the last call."""
        self._link.settimeout(0.2)
        try:
            return list(messages(bytearray(self._link.recv(1 << 20))))
        except TimeoutError:
            return []

    def told(self) -> list[str]:
        """The kinds of messages that the link process got."""
        return [message["t"] for message in self.messages()]

    def watches(self) -> list[bool]:
        """What it was told of the wish to know of all commits."""
        return [message["wanted"] for message in self.messages() if message["t"] == "watch"]


def messages(received: bytearray) -> Iterator[dict[str, Any]]:
    while (payload := take_frame(received)) is not None:
        yield unpack(payload)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with ExitStack() as stack:
        made = Site(tmp_path, stack, monkeypatch)
        yield made
        for client in made.serves._clients:
            client.channel.close()
        assert made.serves._link._channel is not None
        made.serves._link._channel.close()


def asks(sock: socket.socket, number: int, target: str = "web1", **fields: Any) -> None:
    request = {"v": 1, "verb": "publish", "request_id": f"{number:032x}", "tgt": target, "tgt_type": "list"}
    sock.sendall(framed(pack({**request, "calls": [["test.ping", [], {}]], **fields})))


def answers(sock: socket.socket) -> list[dict[str, Any]]:
    return list(messages(bytearray(sock.recv(1 << 16))))


def test_jobs_of_several_clients_and_a_return_are_one_transaction(site: Site) -> None:
    earlier = job(1, (WEB1,))
    publish(site.store, earlier)
    first, second = site.connect(), site.connect()
    before = site.transactions
    asks(first, 2)
    asks(second, 3)
    site.report(earlier.jid)
    site.run()
    assert site.transactions - before == 1
    ((one,), (two,)) = answers(first), answers(second)
    assert (one["ok"], two["ok"], one["jid"] != two["jid"]) == (True, True, True)
    assert [ret.id for ret in site.store.returns(earlier.jid)] == ["web1"]
    told = site.told()
    assert (told.count("publish"), told.count("committed")) == (2, 1)


def test_a_request_twice_in_one_transaction_is_one_job(site: Site) -> None:
    first, second = site.connect(), site.connect()
    before = site.transactions
    asks(first, 1)
    asks(second, 1)
    site.run()
    assert site.transactions - before == 1
    ((one,), (two,)) = answers(first), answers(second)
    assert one["jid"] == two["jid"]


def test_a_job_that_cannot_be_stored_is_refused_and_the_others_are_published(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = site.connect(), site.connect(), site.connect()
    begun: list[int] = []
    refuse = Master.refuse_when_full

    def refuses_the_second(master: Master) -> None:
        begun.append(1)
        # Of the transaction of all, and of its own.
        if len(begun) in (2, 4):
            raise ValueError("a defect")
        refuse(master)

    monkeypatch.setattr(Master, "refuse_when_full", refuses_the_second)
    for number, sock in enumerate((first, second, third)):
        asks(sock, number)
    site.run()
    found = [answer for sock in (first, second, third) for answer in answers(sock)]
    assert sorted(answer["ok"] for answer in found) == [False, True, True]
    assert site.told().count("publish") == 2
    assert len({answer["jid"] for answer in found if answer["ok"]}) == 2


def test_a_report_that_fails_after_the_commit_costs_no_other_its_acknowledgement(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_given: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(results, "handle_digests", fails)
    earlier = job(1, (WEB1,))
    publish(site.store, earlier)
    sock = site.connect()
    asks(sock, 2)
    site.report(earlier.jid, {"t": "digest", "resources": "", "grains": "", "pillar": ""})
    site.run()
    assert answers(sock)[0]["ok"]
    (acknowledged,) = [message for message in site.messages() if message["t"] == "committed"]
    assert acknowledged["items"] == [[key(WEB1).fingerprint, [earlier.jid]]]
    assert "a report of web1 cannot be stored and is skipped" in caplog.text


def test_requests_of_one_connection_are_answered_in_order(site: Site) -> None:
    sock = site.connect()
    asks(sock, 1)
    sock.sendall(framed(pack({"v": 1, "verb": "whoami"})))
    asks(sock, 2)
    site.run()
    found = answers(sock)
    assert ["jid" in answer for answer in found] == [True, False, True]
    assert all(answer["ok"] for answer in found)


def test_an_answer_has_the_time_of_a_store_that_masters_share(site: Site) -> None:
    master, sock = site.serves._master, site.connect()

    def asked() -> dict[str, Any]:
        sock.sendall(framed(pack({"v": 1, "verb": "whoami"})))
        site.run()
        (answer,) = answers(sock)
        assert answer["ok"]
        return answer

    class Unknown(SystemClock):
        def wall(self) -> float:
            raise StoreError("it does not answer")

    assert "now" not in asked()
    master.shared = cast("SharedStore", master.store)
    master.clock = ManualClock(wall=NOW)
    assert asked()["now"] == NOW
    master.clock = Unknown()
    assert "now" not in asked(), "and the request is answered"


def test_nothing_is_answered_sent_or_acknowledged_before_the_commit(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = job(1, (WEB1,))
    publish(site.store, earlier)
    first, second = site.connect(), site.connect()
    order: list[str] = []
    ended, send = memory_store._MemoryWriter.end, Channel.send

    def ends(writer: Any) -> Any:
        order.append("commit")
        return ended(writer)

    def sends(channel: Channel, payload: bytes) -> None:
        order.append(unpack(payload).get("t", "answer"))
        send(channel, payload)

    monkeypatch.setattr(memory_store._MemoryWriter, "end", ends)
    monkeypatch.setattr(Channel, "send", sends)
    asks(first, 2)
    asks(second, 3)
    site.report(earlier.jid)
    site.run()
    assert order[0] == "commit"
    assert sorted(order[1:]) == ["answer", "answer", "committed", "publish", "publish", "wake_up"]


@pytest.mark.parametrize("requests", [1, 2])
def test_an_error_after_the_commit_does_not_hide_the_job(
    site: Site, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    socks = [site.connect() for _ in range(requests)]
    found: list[str] = []

    def fails_first(_master: Master, _principal: Any, made: Any, *_known: Any) -> dict[str, str]:
        found.append(made.jid)
        if len(found) == 1:
            raise StoreError("the disk cannot be read")
        return {}

    monkeypatch.setattr(publish_handler, "unknown_names", fails_first)
    for number, sock in enumerate(socks):
        asks(sock, number)
    site.run()
    given = [answer for sock in socks for answer in answers(sock)]
    assert [answer.get("jid") for answer in given] == list(dict.fromkeys(found))
    assert len(found) == requests + 1


def test_a_new_link_process_learns_how_many_minions_may_connect(site: Site) -> None:
    site.link_says(ipc.presence([], record=False, whole=True))
    site.run()
    assert [message for message in site.messages() if message["t"] == "fleet"] == [{"t": "fleet", "accepted_keys": 1}]


def test_who_follows_a_job_that_was_published_here_needs_no_other_commits(site: Site) -> None:
    sock = site.connect()
    asks(sock, 1, follow=True)
    site.run()
    assert answers(sock)[0]["ok"]
    assert site.watches() == []


@pytest.mark.parametrize(
    "request_fields", [{"verb": "events", "pattern": "*"}, {"verb": "follow", "after": 0}, {"verb": "publish"}]
)
def test_any_other_stream_wants_to_know_of_all_commits_until_it_ends(
    site: Site, request_fields: dict[str, Any]
) -> None:
    earlier = job(1, (WEB1,))
    publish(site.store, earlier)
    sock = site.connect()
    match request_fields["verb"]:
        case "publish":
            # Whoever sends a batch to its next targets counts as its publisher.
            batch = {"size": 1, "percent": False, "wait_ms": 0, "failhard": False}
            asks(sock, 2, follow=True, batch=batch)
        case "follow":
            sock.sendall(framed(pack({"v": 1, **request_fields, "jid": earlier.jid})))
        case _:
            sock.sendall(framed(pack({"v": 1, **request_fields})))
    site.run()
    assert answers(sock)[0]["ok"]
    assert site.watches() == [True]
    site.run(mworker.LOOK_S + 0.1)
    assert site.watches() == []
    sock.close()
    site.run(mworker.LOOK_S + 0.1)
    assert site.watches() == [False]


def test_the_last_return_of_a_job_is_shown_without_a_look_into_the_store(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [site.connect() for _ in range(2)]
    sock = site.connect()
    asks(sock, 1, follow=True)
    site.run()
    [published] = answers(sock)
    for other in others:
        other.sendall(framed(pack({"v": 1, "verb": "follow", "jid": published["jid"], "after": 0})))
    site.run()
    looks: list[str] = []
    news = MemoryStore.news

    def counted(store: MemoryStore, jid: Any, *args: Any, **kwargs: Any) -> Any:
        looks.append(jid)
        return news(store, jid, *args, **kwargs)

    monkeypatch.setattr(MemoryStore, "news", counted)
    site.report(published["jid"])
    site.run()
    [stored] = site.store.returns(published["jid"])
    expected = [{"id": "web1", "state": "returned", "body": b"\xc3", "seq": stored.seq}]
    for message in [answers(sock)[-1], *(answers(other)[-1] for other in others)]:
        assert message["end"]
        assert message["seq"] == stored.seq
        assert [{name: row[name] for name in expected[0]} for row in message["returns"]] == expected
    assert looks == []


def test_returns_before_the_last_one_are_read_from_the_store(site: Site) -> None:
    with site.store.write() as tx:
        tx.put_key(key(MinionId("web2")))
    sock = site.connect()
    asks(sock, 1, "web1,web2", follow=True)
    site.run()
    [published] = answers(sock)
    for minion in ("web2", "web1"):
        returned = MinionReport(minion, key(MinionId(minion)).fingerprint, RETURN | {"jid": published["jid"]}, b"\xc3")
        site.link_says(ipc.reports(7, [returned]))
        site.run()
    told = answers(sock)
    assert [[row["id"] for row in message["returns"]] for message in told] == [["web2"], ["web1"]]
    assert [message.get("end") for message in told] == [None, True]
