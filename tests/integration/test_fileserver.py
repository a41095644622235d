"""The file server of an MWorker: a large file keeps nobody waiting, and takes its turn with others."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from saltlite.files.roots import FileRoots
from saltlite.files.server import SLICE, FileServer, FileService, Uploads
from saltlite.model.ids import MinionId
from saltlite.platform.reactor import Reactor
from saltlite.wire.messages import Message
from tests.support.files import no_files

WEB1 = MinionId("web1")


def find(path: str, n: int = 1) -> Message:
    return {
        "t": "file_request",
        "n": n,
        "operation": "find",
        "env": "base",
        "path": path,
        "after": "",
        "offset": 0,
        "nonce": b"",
    }


def piece(content: bytes) -> Message:
    digest = hashlib.sha256(content).digest()
    return {"t": "file_put", "n": 1, "path": "f", "size": len(content), "sha256": digest, "offset": 0, "data": content}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, slices in (("big", 6), ("big2", 3)):
        (tmp_path / name).write_bytes(b"b" * (slices * SLICE))
    (tmp_path / "small").write_bytes(b"s")
    return tmp_path


def test_other_work_is_done_between_the_slices_and_small_files_do_not_wait_for_large_ones(root: Path) -> None:
    reactor, said, turns = Reactor(), list[Message](), list[int]()
    server = FileServer(reactor, FileService(FileRoots({"base": [str(root)]})), None)

    def turn() -> None:
        turns.append(len(said))
        if len(said) < 3:
            reactor.call_soon(turn)
        else:
            reactor.stop()

    for n, path in enumerate(("big", "big2", "small")):
        server.ask(WEB1, find(path, n), said.append)
    turn()
    reactor.run()
    assert [message["n"] for message in said] == [2, 1, 0]
    assert [message["state"] for message in said] == ["ok"] * 3
    assert len(turns) >= 6
    reactor.close()


def test_pieces_are_refused_where_minions_may_send_none(tmp_path: Path) -> None:
    reactor, said = Reactor(), list[Message]()
    no_files(reactor).ask(WEB1, piece(b"content"), said.append)
    assert [message["state"] for message in said] == ["refused"]
    reactor.close()


def test_pieces_are_kept_where_minions_may_send_them(tmp_path: Path) -> None:
    reactor, said = Reactor(), list[Message]()
    server = FileServer(reactor, FileService(FileRoots({})), Uploads(str(tmp_path), 100))
    server.ask(WEB1, piece(b"content"), said.append)
    assert [message["state"] for message in said] == ["ok"]
    assert (tmp_path / "web1/files/f").read_bytes() == b"content"
    reactor.close()
