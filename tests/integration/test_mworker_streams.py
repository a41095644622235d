"""An MWorker on a real socket: what its clients' streams do when nobody rings, and when a client is slow."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from saltlite.client.connection import Connection
from saltlite.client.events import EventReader
from saltlite.client.follower import Progress, Published, Reply, WaitPolicy
from saltlite.client.local import LocalClient
from saltlite.errors import RefusedError, StoreError
from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes import link_channel as linkchannel
from saltlite.master.processes import local_clients, mworker
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity, Refused, RejectedResults
from saltlite.master.protocol.effects import MinionReport
from saltlite.master.store.ports import RETURNS_SIZE
from saltlite.model.ids import MinionId
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import SystemClock
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import listen_unix
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire import codec
from saltlite.wire.framing import pack, take_frame, unpack
from tests.support.files import no_files
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate
from tests.support.store import commit, job, key, publish, ret

RETURN = {"t": "return", "state": "returned", "code": 0, "size": 1, "start_ms": 0, "dur_ms": 0, "reason": ""}


@contextmanager
def serving(folder: Path, disk: MemoryStoreDisk, rejected: RejectedResults | None = None) -> Iterator[str]:
    """An MWorker on that disk, without a link process; the path of its socket."""
    path = str(folder / "master.ipc")
    listener = listen_unix(path, 0o600)
    started, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=_run, args=(listener, folder, disk, rejected or RejectedResults(), started, stop))
    thread.start()
    try:
        assert started.wait(60)
        yield path
    finally:
        stop.set()
        thread.join(60)
        listener.close()


def _run(
    listener: object,
    folder: Path,
    disk: MemoryStoreDisk,
    rejected: RejectedResults,
    started: threading.Event,
    stop: threading.Event,
) -> None:
    reactor = Reactor()
    who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
    config = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({os.geteuid()}))

    def make(link: linkchannel.LinkChannel) -> Master:
        return Master(MemoryStore(disk), SystemClock(), who, config, link, *inventory(), rejected_results=rejected)

    serves = mworker.MWorker(
        reactor, make, no_files(reactor), linkchannel.LinkAddress(str(folder / "link.ipc"), os.geteuid())
    )
    serves.serve(listener)  # type: ignore[arg-type]  # a thread's arguments are objects

    def look() -> None:
        if stop.is_set():
            reactor.stop()
        else:
            reactor.call_later(0.02, look)

    look()
    started.set()
    reactor.run()
    for client in serves._clients:
        client.channel.close()


def within(seconds: float, look: Callable[[], object]) -> None:
    """Run `look` in a thread of its own; it must end in time."""
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"not within {seconds:g} s"


def test_a_stream_goes_on_though_the_bell_was_lost(tmp_path: Path) -> None:
    disk = MemoryStoreDisk()
    other = MemoryStore(disk)
    seen = []
    with serving(tmp_path, disk) as path, LocalClient(path) as client:
        reader = EventReader(client, "tag/*")
        with other.write() as tx:  # as another MWorker does, whose bell goes through a link that is not there
            tx.put_event("tag/1", {}, NOW)
        within(mworker.LOOK_S + 5.0, lambda: seen.append(next(reader)["tag"]))
    assert seen == ["tag/1"]


@pytest.mark.parametrize("failures", [1, 3])
def test_a_follower_goes_on_when_the_store_is_back(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryStoreDisk()
    store = MemoryStore(disk)
    one = job(1, (MinionId("web1"),))
    publish(store, one)
    monkeypatch.setattr(mworker, "LOOK_S", 0.05)
    read, asked, failed = MemoryStore.news, threading.Event(), list[str]()

    def news(self: MemoryStore, *args: Any, **more: Any) -> Any:
        asked.set()
        if ended.is_set() and len(failed) < failures:
            failed.append("")
            raise StoreError("the database cannot be reached")
        return read(self, *args, **more)

    ended = threading.Event()
    monkeypatch.setattr(MemoryStore, "news", news)
    with serving(tmp_path, disk) as path, LocalClient(path) as client:
        progress = Progress(Published(client.call("follow", jid=one.jid, after=0)), now=time.monotonic())
        assert asked.wait(60)
        commit(store, ret(one, MinionId("web1")))
        ended.set()
        replies: list[Reply] = []
        within(60, lambda: replies.extend(client.watch(progress, WaitPolicy(60.0))))
    assert (len(failed), [reply.name for reply in replies]) == (failures, ["web1"])
    assert len([line for line in caplog.messages if "waits" in line]) == 1, "not one line for each look"


def test_an_error_on_a_stream_ends_it_with_its_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryStoreDisk()
    one = job(1, (MinionId("web1"),))
    publish(MemoryStore(disk), one)

    def refused(_self: MemoryStore, *_args: Any, **_more: Any) -> None:
        raise RefusedError("this login was revoked")

    monkeypatch.setattr(MemoryStore, "news", refused)
    said: list[str] = []

    def follow() -> None:
        progress = Progress(Published(client.call("follow", jid=one.jid, after=0)), now=time.monotonic())
        try:
            list(client.watch(progress, WaitPolicy(60.0)))
        except RefusedError as error:
            said.append(str(error))

    with serving(tmp_path, disk) as path, LocalClient(path) as client:
        within(30, follow)
    assert said == ["this login was revoked"]


def test_a_commit_about_one_job_does_not_read_the_streams_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryStoreDisk()
    store = MemoryStore(disk)
    jobs = [job(number, (MinionId("web1"),)) for number in (1, 2)]
    for one in jobs:
        publish(store, one)
    read: list[str] = []
    news = JobFollower.news

    def noted(self: JobFollower) -> dict[str, Any] | None:
        read.append(self.jid)
        return news(self)

    monkeypatch.setattr(JobFollower, "news", noted)
    monkeypatch.setattr(mworker, "LOOK_S", 60.0)
    with serving(tmp_path, disk) as path, LocalClient(path) as operator:
        followers = []
        for one in jobs:
            followers.append(Connection(path))
            followers[-1].send({"v": 1, "verb": "follow", "jid": one.jid, "after": 0})
            assert followers[-1].receive(10.0)
        operator.call("event_send", tag="tag/1", data={})
        operator.call("job_kill", jid=jobs[0].jid)
        ended = followers[0].receive(10.0)
        for follower in followers:
            follower.close()
    assert ended is not None
    assert ended["end"]
    assert read.count(jobs[1].jid) == 1, "when its stream began"


def test_what_was_left_out_of_results_is_told_though_nothing_more_is_reported(tmp_path: Path) -> None:
    seen: list[object] = []
    rejected = RejectedResults()
    with serving(tmp_path, MemoryStoreDisk(), rejected) as path, LocalClient(path) as client:
        reader = EventReader(client, "resource/refused/*")
        rejected.add(MinionId("web1"), Refused(job(1).jid, "why", 3))
        within(mworker.LOOK_S + 5.0, lambda: seen.append(next(reader)["data"]["count"]))
    assert seen == [3]


def test_a_client_gets_more_than_may_wait_for_it_without_being_cut_off(tmp_path: Path) -> None:
    disk = MemoryStoreDisk()
    store = MemoryStore(disk)
    minions = tuple(MinionId(f"web{n}") for n in range(mworker.CLIENT_BUFFER_MAX // RETURNS_SIZE + 4))
    body = b"x" * RETURNS_SIZE
    made = job(1, minions=minions)
    publish(store, made)
    commit(store, *(ret(made, minion, body=body) for minion in minions))
    seen: list[str] = []
    with serving(tmp_path, disk) as path:
        connection = Connection(path)
        connection.send({"v": 1, "verb": "follow", "jid": made.jid, "after": 0})
        answer = connection.receive(10.0)
        assert answer is not None
        assert answer["ok"]
        while (message := connection.receive(10.0)) and not message.get("end"):
            seen += [row["id"] for row in message["returns"]]
        connection.close()
    assert seen == list(minions)


def test_a_report_that_cannot_be_handled_is_left_out_and_costs_nobody_else(tmp_path: Path) -> None:
    disk = MemoryStoreDisk()
    store = MemoryStore(disk)
    made = job(1, (MinionId("web1"), MinionId("web2")))
    publish(store, made)
    reactor = Reactor()
    who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
    config = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset())
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as link:
        link.bind(str(tmp_path / "link.ipc"))
        link.listen()
        serves = mworker.MWorker(
            reactor,
            lambda to_link: Master(MemoryStore(disk), SystemClock(), who, config, to_link, *inventory()),
            no_files(reactor),
            linkchannel.LinkAddress(str(tmp_path / "link.ipc"), os.geteuid()),
        )
        said, _ = link.accept()
        with said:
            rows = [
                MinionReport("web1", key(MinionId("web1")).fingerprint, {"t": "return", "jid": made.jid}, b"\xc3"),
                MinionReport("web2", key(MinionId("web2")).fingerprint, RETURN | {"jid": made.jid}, b"\xc3"),
            ]
            serves._from_link([pack(ipc.reports(7, rows))])
            reactor.call_later(0.2, reactor.stop)
            reactor.run()
            asked.append(said.recv(65536))
            assert serves._link._channel is not None
            serves._link._channel.close()
    assert [one.id for one in store.returns(made.jid)] == ["web2"]
    assert b"committed" in asked[0]
    assert b"uncommitted" not in asked[0]


def test_commits_of_a_moment_wake_the_others_by_one_message(tmp_path: Path) -> None:
    reactor = Reactor()
    with socket.socket(socket.AF_UNIX) as link:
        link.bind(str(tmp_path / "link.ipc"))
        link.listen()
        address = linkchannel.LinkAddress(str(tmp_path / "link.ipc"), os.geteuid())
        channel = linkchannel.LinkChannel(reactor, address, ipc.MWORKER, lambda _batch: None)
        for jobs in (("2",), (), ("1", "2")):
            channel.wake_up(jobs)
        reactor.call_later(ipc.WAKE_UP_S + 0.2, reactor.stop)
        reactor.run()
        other, _ = link.accept()
        with other:
            received = bytearray(other.recv(65536))
        assert channel._channel is not None
        channel._channel.close()
    sent = []
    while (payload := take_frame(received)) is not None:
        sent.append(unpack(payload))
    assert [message for message in sent if message["t"] == "wake_up"] == [{"t": "wake_up", "jobs": ["1", "2"]}]


def test_a_new_link_process_learns_whether_all_commits_are_wanted(tmp_path: Path) -> None:
    reactor = Reactor()
    hellos = []
    with socket.socket(socket.AF_UNIX) as link:
        link.bind(str(tmp_path / "link.ipc"))
        link.listen()
        address = linkchannel.LinkAddress(str(tmp_path / "link.ipc"), os.geteuid())
        channel = linkchannel.LinkChannel(reactor, address, ipc.MWORKER, lambda _batch: None)
        for _process in range(2):
            run_for(reactor, 0.2)
            other, _ = link.accept()
            with other:
                payload = take_frame(bytearray(other.recv(65536)))
                channel.watch(wanted=True)
            assert payload is not None
            hellos.append(unpack(payload))
        assert channel._channel is not None
        channel._channel.close()
    assert [(hello["t"], hello["watch"]) for hello in hellos] == [("hello", False), ("hello", True)]


@contextmanager
def user_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Reactor, mworker.MWorker, str]]:
    """An MWorker for which this process is an ordinary user, with small limits; its socket."""
    monkeypatch.setattr(mworker, "UNREAD_MAX", 20_000)
    monkeypatch.setattr(local_clients, "UNREAD_MAX", 20_000)
    monkeypatch.setattr(mworker, "USER_UNREAD_MAX", 100_000)
    reactor = Reactor()
    who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
    terms = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset())
    path = str(folder / "master.ipc")
    listener = listen_unix(path, 0o600)
    serves = mworker.MWorker(
        reactor,
        lambda link: Master(MemoryStore(MemoryStoreDisk()), SystemClock(), who, terms, link, *inventory()),
        no_files(reactor),
        linkchannel.LinkAddress(str(folder / "link.ipc"), os.geteuid()),
    )
    serves.serve(listener)
    try:
        yield reactor, serves, path
    finally:
        listener.close()
        for client in serves._clients:
            client.channel.close()


def connected(path: str) -> socket.socket:
    """A client with a small buffer in the kernel, that never waits."""
    sock = socket.socket(socket.AF_UNIX)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(path)
    sock.setblocking(False)
    return sock


def run_for(reactor: Reactor, seconds: float) -> None:
    reactor.call_later(seconds, reactor.stop)
    reactor.run()


def answer_at(sock: socket.socket, reactor: Reactor) -> bytes:
    """What comes next. A user whose requests took much CPU waits for it, and collecting garbage takes long here."""
    for _ in range(600):
        run_for(reactor, 0.05)
        with contextlib.suppress(BlockingIOError):
            return sock.recv(65536)
    raise AssertionError("no answer")


def unread(serves: mworker.MWorker) -> list[int]:
    return [client.channel.buffered for client in serves._clients]


def test_a_user_who_does_not_read_fills_little_memory_and_gets_every_answer_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = pack({"v": 1, "verb": "whoami" * 100})  # its refusal is larger than a kernel buffer holds many of
    frame = len(request).to_bytes(4, "big") + request
    asked, answered, received = 0, 0, b""
    with user_of(tmp_path, monkeypatch) as (reactor, serves, path), connected(path) as sock:
        run_for(reactor, mworker.LINK_WAIT_S + 0.1)
        for _ in range(30):
            with contextlib.suppress(BlockingIOError):
                while asked < 8000:
                    assert sock.send(frame) == len(frame)
                    asked += 1
            run_for(reactor, 0.05)
        assert max(unread(serves)) <= 21_000
        assert max(unread(serves)) > 20_000, "the client was not slow enough to test anything"
        for _ in range(400):
            with contextlib.suppress(BlockingIOError):
                while True:
                    received += sock.recv(65536)
            while len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4], "big"):
                received = received[4 + int.from_bytes(received[:4], "big") :]
                answered += 1
            if answered == asked:
                break
            run_for(reactor, 0.05)
    assert answered == asked


def test_connections_of_one_user_that_are_not_read_are_closed_above_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = pack({"v": 1, "verb": "whoami" * 100})
    frame = len(request).to_bytes(4, "big") + request
    with user_of(tmp_path, monkeypatch) as (reactor, serves, path), contextlib.ExitStack() as stack:
        run_for(reactor, mworker.LINK_WAIT_S + 0.1)
        clients = [stack.enter_context(connected(path)) for _ in range(12)]
        for _ in range(40):
            for sock in clients:
                with contextlib.suppress(BlockingIOError, BrokenPipeError):
                    for _ in range(200):
                        assert sock.send(frame) == len(frame)
            run_for(reactor, 0.05)
            assert sum(unread(serves)) <= 100_000 + 1_000
        assert 0 < len(serves._clients) < len(clients)


def test_a_token_that_is_not_valid_does_not_make_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with user_of(tmp_path, monkeypatch) as (reactor, serves, path), connected(path) as sock:
        run_for(reactor, mworker.LINK_WAIT_S + 0.1)
        request = pack({"v": 1, "verb": "whoami", "token": "ab" * 32})
        sock.send(len(request).to_bytes(4, "big") + request)
        assert b"log in again" in answer_at(sock, reactor)
        (client,) = serves._clients
        assert client.queue is not None
        assert client.queue.user == os.geteuid()


def test_a_request_of_a_user_has_a_limited_number_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with user_of(tmp_path, monkeypatch) as (reactor, _serves, path), connected(path) as sock:
        run_for(reactor, mworker.LINK_WAIT_S + 0.1)
        unread = b"the request could not be read"
        some = codec.USER_VALUES - 3  # three are those of the request itself
        for value, problem in (
            ([1] * some, b"needs"), ([1] * (some + 1), unread), ([[1] * (some // 2), [1] * (some // 2 + 2)], unread),
            ({str(number): 1 for number in range(some + 1)}, unread), ([1] * (codec.USER.array + 1), unread),
        ):  # fmt: skip
            request = pack({"v": 1, "verb": "describe", "funs": value})
            frame = memoryview(len(request).to_bytes(4, "big") + request)
            while frame:
                with contextlib.suppress(BlockingIOError):
                    frame = frame[sock.send(frame) :]
                run_for(reactor, 0.02)
            assert problem in answer_at(sock, reactor)


def test_the_memory_of_a_large_or_costly_request_of_a_user_is_returned_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []
    trimmed: list[int] = []
    with user_of(tmp_path, monkeypatch) as (reactor, _serves, path), connected(path) as sock:
        run_for(reactor, mworker.LINK_WAIT_S + 0.1)
        monkeypatch.setattr(mworker, "gc", SimpleNamespace(collect=lambda: collected.append(1)))
        monkeypatch.setattr(mworker, "trim_heap", lambda: trimmed.append(1))
        large = mworker.USER_COLLECT_ABOVE
        for size, least_cpu_s, collections in ((large // 2, 10.0, 0), (large + 1, 10.0, 1), (1, 0.0, 2)):
            monkeypatch.setattr(mworker, "USER_COLLECT_CPU_S", least_cpu_s)
            request = pack({"v": 1, "verb": "whoami", "more": "x" * size})
            sock.send(len(request).to_bytes(4, "big") + request)
            assert answer_at(sock, reactor)
            run_for(reactor, 0.05)
            assert (len(collected), len(trimmed)) == (collections, collections)
