"""What the file server serves, from folders and from memory: the same for both."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from saltlite.files.roots import FileRoots
from saltlite.files.server import SLICE, FileService, Finding
from saltlite.wire.limits import CHUNK, FILE_NAMES, FILE_NAMES_BYTES
from saltlite.wire.messages import Message, Sender, check
from tests.support.files import MemoryFileRoots

Files = Mapping[str, Mapping[str, bytes]]


class MakeRoots:
    """Makes roots with these files, of either kind."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._folder = folder

    def __call__(self, files: Files) -> FileRoots:
        if self._kind == "memory":
            return MemoryFileRoots(files)
        for env, content in files.items():
            (self._folder / env).mkdir()
            for path, data in content.items():
                place = self._folder / env / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        return FileRoots({env: [str(self._folder / env)] for env in files})


@pytest.fixture(params=["memory", "disk"])
def make_roots(request: pytest.FixtureRequest, tmp_path: Path) -> MakeRoots:
    return MakeRoots(request.param, tmp_path)


def ask(roots: FileRoots, act: str, path: str = "", *, env: str = "base", after: str = "", offset: int = 0) -> Message:
    question = {
        "t": "file_request",
        "n": 7,
        "operation": act,
        "env": env,
        "path": path,
        "after": after,
        "offset": offset,
        "nonce": b"",
    }
    (said,) = FileService(roots).ask([check({**question, "nonce": b""}, Sender.MINION, accepted=True)])
    assert said["n"] == 7
    return check(said, Sender.MASTER, accepted=True)


def test_environments_files_and_folders_are_listed_sorted(make_roots: MakeRoots) -> None:
    roots = make_roots({"dev": {"x": b""}, "base": {"b/c/d": b"", "b/e": b"", "a": b"", "bc": b""}})
    assert ask(roots, "envs")["names"] == ["base", "dev"]
    assert ask(roots, "files")["names"] == ["a", "b/c/d", "b/e", "bc"]
    assert ask(roots, "files", "b")["names"] == ["b/c/d", "b/e"]
    assert ask(roots, "folders")["names"] == ["b", "b/c"]
    assert ask(roots, "folders", "b")["names"] == ["b/c"]


@pytest.mark.parametrize("act", ["find", "read"])
@pytest.mark.parametrize("path", ["no", "b/no", "b", "", "a/b", "../base/a", "/a"])
def test_what_is_no_file_is_absent(make_roots: MakeRoots, act: str, path: str) -> None:
    roots = make_roots({"base": {"a": b"1", "b/c": b"2"}})
    assert ask(roots, act, path)["state"] == "absent"


@pytest.mark.parametrize("env", ["no", "..", "/", ""])
def test_an_environment_that_there_is_not_has_no_files(make_roots: MakeRoots, env: str) -> None:
    roots = make_roots({"base": {"a": b"1"}})
    assert ask(roots, "read", "a", env=env)["state"] == "absent"
    assert ask(roots, "files", env=env)["names"] == []


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, SLICE, SLICE + 1])
def test_a_file_is_found_with_its_size_and_digest_and_read_in_pieces(make_roots: MakeRoots, size: int) -> None:
    content = os.urandom(size)
    roots = make_roots({"base": {"a": content}})
    found = ask(roots, "find", "a")
    assert (found["state"], found["size"], found["sha256"]) == ("ok", size, hashlib.sha256(content).digest())
    pieces = [ask(roots, "read", "a", offset=offset)["data"] for offset in range(0, size + CHUNK, CHUNK)]
    assert b"".join(pieces) == content
    assert ask(roots, "read", "a", offset=size + 5)["data"] == b""


def test_a_long_listing_comes_in_pages_that_hold_every_name_once(make_roots: MakeRoots) -> None:
    names = [f"{number:05}" for number in range(2 * FILE_NAMES + 1)]
    roots = make_roots({"base": dict.fromkeys(names, b"")})
    service, found, after = FileService(roots), [], ""
    while True:
        question = {
            "t": "file_request",
            "n": 1,
            "operation": "files",
            "env": "base",
            "path": "",
            "after": after,
            "offset": 0,
            "nonce": b"",
        }
        (page,) = service.ask([question])
        assert len(page["names"]) <= FILE_NAMES
        found += page["names"]
        if not page["more"]:
            break
        after = found[-1]
    assert found == names


def test_a_page_has_so_many_bytes_of_names_at_most(make_roots: MakeRoots) -> None:
    roots = make_roots({"base": {f"{number:03}" + "n" * 200: b"" for number in range(500)}})
    said = ask(roots, "files")
    assert said["more"]
    assert FILE_NAMES_BYTES - 203 <= sum(map(len, said["names"])) <= FILE_NAMES_BYTES


def test_a_large_file_is_hashed_in_slices_and_remembered(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"b" * (2 * SLICE))
    os.utime(big, (time.time() - 60, time.time() - 60))
    service = FileService(FileRoots({"base": [str(tmp_path)]}))
    question = {
        "t": "file_request",
        "n": 1,
        "operation": "find",
        "env": "base",
        "path": "big",
        "after": "",
        "offset": 0,
        "nonce": b"",
    }
    first = service.begin(question)
    assert isinstance(first, Finding)
    assert [first.step() is None for _ in range(3)] == [True, True, False]
    assert not isinstance(service.begin(question), Finding)
    big.write_bytes(b"c" * (2 * SLICE))
    (said,) = service.ask([question])
    assert said["sha256"] == hashlib.sha256(b"c" * (2 * SLICE)).digest()
