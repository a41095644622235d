"""Files that minions send: in pieces, into their own folder, within the limits."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from saltlite.files import server
from saltlite.files.server import ARRIVING_MAX, Arrival, Uploads
from saltlite.model.ids import MinionId
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message, Sender, check

WEB1 = MinionId("web1")
LARGEST = 10 * CHUNK


def put(to: Uploads, content: bytes, offset: int = 0, **changed: Any) -> Message:
    """The answer to one piece."""
    message = {
        "t": "file_put",
        "n": 1,
        "path": "a/b",
        "size": len(content),
        "sha256": hashlib.sha256(content).digest(),
        "offset": offset,
        "data": content[offset : offset + CHUNK],
        **changed,
    }
    answer = to.put(WEB1, check(message, Sender.MINION, accepted=True))
    while isinstance(answer, Arrival):
        answer = answer.step() or answer
    return check(answer, Sender.MASTER, accepted=True)


def arrived(folder: Path) -> dict[str, bytes]:
    files = folder / "web1" / "files"
    return {str(path.relative_to(files)): path.read_bytes() for path in files.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", [0, 1, CHUNK, 2 * CHUNK + 5])
def test_a_file_that_came_whole_is_in_its_place(tmp_path: Path, size: int) -> None:
    content, to = os.urandom(size), Uploads(str(tmp_path), LARGEST)
    answers = [put(to, content, offset) for offset in range(0, size, CHUNK)] or [put(to, content)]
    assert answers[-1]["sha256"] == hashlib.sha256(content).digest()
    assert arrived(tmp_path) == {"a/b": content}
    assert os.listdir(tmp_path / "web1" / "arriving") == []


def test_until_then_nothing_is_and_the_answer_says_where_to_go_on(tmp_path: Path) -> None:
    content = os.urandom(3 * CHUNK)
    put(Uploads(str(tmp_path), LARGEST), content)
    assert arrived(tmp_path) == {}
    again = Uploads(str(tmp_path), LARGEST)
    assert put(again, content)["size"] == CHUNK
    assert put(again, content, 2 * CHUNK)["size"] == CHUNK
    assert put(again, content, CHUNK)["size"] == 2 * CHUNK
    assert put(again, content, 2 * CHUNK)["sha256"]
    assert arrived(tmp_path) == {"a/b": content}


def test_a_file_that_is_not_what_was_announced_is_dropped(tmp_path: Path) -> None:
    to = Uploads(str(tmp_path), LARGEST)
    said = put(to, b"content", sha256=b"h" * 32)
    assert (said["state"], said["size"], said["sha256"]) == ("ok", 0, b"")
    assert arrived(tmp_path) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"path": "../x"},
        {"path": "/x"},
        {"path": "a/../../x"},
        {"path": ""},
        {"path": "x\0"},
        {"size": LARGEST + 1},
        {"size": 3},
        {"offset": 2**40},
    ],
)
def test_what_leads_elsewhere_or_is_too_large_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    to = Uploads(str(tmp_path / "minions"), LARGEST)
    assert put(to, b"content", **changed)["state"] == "refused"
    assert not (tmp_path / "minions").exists()


def test_a_link_that_lies_in_the_folder_is_not_followed_out(tmp_path: Path) -> None:
    (tmp_path / "minions/web1/files").mkdir(parents=True)
    (tmp_path / "minions/web1/files/a").symlink_to(tmp_path)
    assert put(Uploads(str(tmp_path / "minions"), LARGEST), b"content")["state"] == "refused"
    assert not (tmp_path / "b").exists()


def test_a_minion_has_so_many_files_on_their_way_and_no_more(tmp_path: Path) -> None:
    to = Uploads(str(tmp_path), LARGEST)
    for number in range(ARRIVING_MAX + 3):
        put(to, bytes([number]) * 2 * CHUNK)
    assert len(os.listdir(tmp_path / "web1" / "arriving")) == ARRIVING_MAX


def test_nothing_is_taken_when_the_disk_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FREE_LEAST", 2**62)
    assert put(Uploads(str(tmp_path), LARGEST), b"content")["state"] == "refused"
    assert arrived(tmp_path) == {}
