"""A job's process that asks for files: over its socket, through the job server's table of questions."""

from __future__ import annotations

import hashlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.files.client import FileClient
from saltlite.files.roots import FileRoots
from saltlite.files.server import FileService
from saltlite.loader.encode import decode_return
from saltlite.loader.index import build_index
from saltlite.loader.search_path import search_layers
from saltlite.minion.jobs.job_process import WRITTEN, JobContext, JobProcess, JobSpec, fork_waiting
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.rpc_server import RpcServer
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.model.files import SyncRules
from saltlite.platform.files import PosixFolder
from saltlite.platform.reactor import Reactor
from saltlite.wire.framing import IpcMessage, pack
from saltlite.wire.limits import CHUNK, FILE_ASKS_MAX
from tests.support.keys import answer_check, signed_answer

JID = "20270115080000000001"


class Minion:
    """The job server's part, with one process; `told` is what went to the network process and was not answered."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.service = FileService(FileRoots({"base": [str(self.root)]}))
        self.told: list[Any] = []
        self.refreshed: list[str] = []
        self.most = 0
        self.reactor = Reactor()
        self.asks = RpcServer(self.reactor, self._tell, self._refresh, answer_check())
        self.connected = True
        self.spool = str(folder / "spool")
        opts = {"cachedir": str(folder / "cache"), "extension_modules": str(folder / "ext")}
        index = build_index(search_layers(opts))
        returns = Returns("web1", 1 << 24, str(folder / "kept"), 1 << 20)
        around = JobContext(opts, {}, lambda: index, self.spool, returns, lambda *_: None)
        self.process: JobProcess = fork_waiting(around)
        self.process.on_ask = lambda raw: self.asks.on_request(self.process, raw)

    def _tell(self, message: IpcMessage) -> None:
        assert message["t"] == "ask"
        self.told.append(message["message"])
        self.most = max(self.most, len(self.told))

    def _refresh(self, what: str, done: Callable[[IpcMessage], None]) -> None:
        self.refreshed.append(what)
        done({"types": {}, "looked_at": "", "withheld": []})

    def answer(self) -> None:
        """As the master does, unless it is away."""
        asked, self.told = self.told, []
        for question in asked if self.connected else []:
            (said,) = self.service.ask([question])
            self.asks.on_response(signed_answer(question, said))

    def run(self, fun: str, *args: object, each_turn: Callable[[], None] = lambda: None) -> Any:
        """What the function returned."""
        self.process.go(JobSpec(JID, [(fun, args, {})], "root"))
        said: list[bytes] = []

        def readable() -> None:
            heard = self.process.receive()
            if heard is not None:
                said.append(heard)
                self.reactor.stop()
                return
            each_turn()
            self.answer()

        self.reactor.add_reader(self.process.socket.fileno(), readable)
        self.reactor.run()
        assert said == [WRITTEN]
        return decode_return(DiskSpool(PosixFolder(self.spool)).read(JID).body, limit=1 << 24)

    def close(self) -> None:
        self.process.close()
        os.waitpid(self.process.pid, 0)
        self.reactor.close()


@pytest.fixture
def minion(tmp_path: Path) -> Iterator[Minion]:
    minion = Minion(tmp_path)
    yield minion
    minion.close()


def test_a_file_comes_through_with_a_few_questions_at_a_time(minion: Minion, tmp_path: Path) -> None:
    content = os.urandom(20 * CHUNK + 3)
    (minion.root / "f").write_bytes(content)
    assert minion.run("cp.get_file", "salt://f", str(tmp_path / "dest")) == str(tmp_path / "dest")
    assert (tmp_path / "dest").read_bytes() == content
    assert 1 <= minion.most <= FILE_ASKS_MAX


def test_questions_that_a_session_took_with_it_are_asked_again_in_the_next(minion: Minion, tmp_path: Path) -> None:
    content = os.urandom(20 * CHUNK)
    (minion.root / "f").write_bytes(content)
    turns = 0

    def break_and_mend() -> None:
        nonlocal turns
        turns += 1
        if turns in (2, 5, 9):
            minion.told.clear()
            minion.asks.connected()

    assert minion.run("cp.get_file", "salt://f", str(tmp_path / "dest"), each_turn=break_and_mend)
    assert (tmp_path / "dest").read_bytes() == content


def test_a_process_that_is_gone_has_its_questions_forgotten_and_others_their_turn(minion: Minion) -> None:
    question = {
        "t": "file_request",
        "n": 1,
        "operation": "envs",
        "env": "",
        "path": "",
        "after": "",
        "offset": 0,
        "nonce": b"",
    }
    for n in range(FILE_ASKS_MAX + 2):
        minion.asks.on_request(minion.process, pack({**question, "n": n}))
    assert len(minion.told) == FILE_ASKS_MAX
    minion.asks.ended(minion.process)
    minion.asks.connected()
    assert len(minion.told) == FILE_ASKS_MAX
    minion.asks.on_request(minion.process, pack(question))
    assert len(minion.told) == FILE_ASKS_MAX + 1


@pytest.mark.parametrize(
    "nonsense", [b"junk", b"\x80", pack({"t": "bye", "n": 1, "reason": ""}), pack({"t": "file_request", "n": 1})]
)
def test_what_a_process_must_not_ask_reaches_nobody(minion: Minion, nonsense: bytes) -> None:
    minion.asks.on_request(minion.process, nonsense)
    assert minion.told == []


def test_answers_that_a_process_does_not_read_wait_and_keep_nobody_else_waiting(minion: Minion) -> None:
    question = {
        "t": "file_request",
        "operation": "read",
        "env": "base",
        "path": "f",
        "after": "",
        "offset": 0,
        "nonce": b"",
    }
    (minion.root / "f").write_bytes(b"d" * CHUNK)
    os.kill(minion.process.pid, signal.SIGSTOP)
    for n in range(32):
        minion.asks.on_request(minion.process, pack({**question, "n": n}))
    while minion.told:
        minion.answer()
    minion.reactor.call_later(0.0, minion.reactor.stop)
    minion.reactor.run()
    minion.asks.ended(minion.process)
    assert select.select([], [minion.process.socket], [], 0)[1] == []
    os.kill(minion.process.pid, signal.SIGKILL)


def test_a_refresh_is_passed_on_and_waited_for(minion: Minion) -> None:
    assert minion.run("saltutil.refresh_grains") is True
    assert minion.refreshed == ["grains", "pillar"]


def test_a_look_for_resources_is_passed_on_and_waited_for(minion: Minion) -> None:
    assert minion.run("saltutil.refresh_resources") == {"types": {}, "withheld": []}
    assert minion.refreshed == ["resources"]


def test_resource_types_that_were_synced_are_looked_for_at_once(minion: Minion) -> None:
    (minion.root / "_resources/mine/modules").mkdir(parents=True)
    for path in ("__init__.py", "modules/test.py"):
        (minion.root / "_resources/mine" / path).write_text("X = 1\n")
    assert minion.run("saltutil.sync_resources") == ["resources.mine.__init__", "resources.mine.modules.test"]
    assert minion.refreshed == ["modules", "resources"]


def test_a_sync_of_resource_types_looks_for_resources_also_if_no_file_has_changed(minion: Minion) -> None:
    assert minion.run("saltutil.sync_resources") == []
    assert minion.refreshed == ["modules", "resources"]


class LyingMinion(Minion):
    """A minion whose network process, or whose master's link process, was taken over: it sends any message."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lie: Callable[[dict[str, Any]], dict[str, Any]] = lambda said: said

    def answer(self) -> None:
        asked, self.told = self.told, []
        for question in asked:
            (said,) = self.service.ask([question])
            self.asks.on_response(self.lie(dict(signed_answer(question, said))))


@pytest.fixture
def lying_minion(tmp_path: Path) -> Iterator[LyingMinion]:
    minion = LyingMinion(tmp_path)
    yield minion
    minion.close()


def evil_bytes(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "data": said["data"].upper()}


def evil_digest(said: dict[str, Any]) -> dict[str, Any]:
    return {**evil_bytes(said), "sha256": hashlib.sha256(said["data"].upper()).digest() if said["sha256"] else b""}


def nothing_there(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "state": "absent", "names": [], "sha256": b""}


def set_user_id(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "mode": 0o4755}


@pytest.mark.parametrize("lie", [evil_bytes, evil_digest, nothing_there, set_user_id])
def test_whoever_carries_the_answers_can_change_no_file(
    lying_minion: LyingMinion, tmp_path: Path, lie: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    (lying_minion.root / "f").write_text("true")
    (tmp_path / "dest").write_text("old")
    lying_minion.lie = lie
    said = lying_minion.run("cp.get_file", "salt://f", str(tmp_path / "dest"))
    assert "no master of this minion has signed" in said or "changes on the master while it is fetched" in said
    assert (tmp_path / "dest").read_text() == "old"


@pytest.mark.parametrize("lie", [nothing_there, evil_digest], ids=["empty list", "altered"])
def test_whoever_carries_the_answers_can_remove_and_change_no_synced_plug_in(
    lying_minion: LyingMinion, tmp_path: Path, lie: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    (lying_minion.root / "_modules").mkdir()
    (lying_minion.root / "_modules" / "mine.py").write_text("first = 1\n")
    honest = FileClient(lying_minion.service, str(tmp_path / "cache"), extmods=str(tmp_path / "ext"))
    assert honest.sync("modules", ["base"], SyncRules(True, lambda _name: True)).synced == ["modules.mine"]
    (lying_minion.root / "_modules" / "mine.py").write_text("second = 2\n")
    lying_minion.lie = lie
    assert "no master of this minion has signed" in str(lying_minion.run("saltutil.sync_modules"))
    assert (tmp_path / "ext" / "modules" / "mine.py").read_text() == "first = 1\n"
