"""Files fetched from a file server: whole or not at all, going on where a transfer stopped."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from saltlite.errors import CommandExecutionError
from saltlite.files.client import ATTEMPTS, FileAsker
from saltlite.model.files import FileAddress
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message
from tests.support.files import CutOff, Served

A = FileAddress("a", "base")


@pytest.mark.parametrize("size", [0, 1, CHUNK, 3 * CHUNK + 7])
def test_a_file_arrives_with_its_content_and_nothing_is_left_over(tmp_path: Path, size: int) -> None:
    served = Served(tmp_path)
    content = os.urandom(size)
    served.put("a", content)
    assert served.client.fetch(A, str(tmp_path / "dest"))
    assert (tmp_path / "dest").read_bytes() == content
    assert os.listdir(served.cache / "arriving") == []


def test_a_missing_file_changes_nothing(tmp_path: Path) -> None:
    served = Served(tmp_path)
    (tmp_path / "dest").write_text("as it was")
    assert not served.client.fetch(A, str(tmp_path / "dest"))
    assert served.client.cache(A) == ""
    assert (tmp_path / "dest").read_text() == "as it was"


def test_a_replaced_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.put("a", "new")
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    assert served.client.fetch(A, str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o7777 == 0o640


def test_a_file_that_is_the_same_already_is_not_read_again(tmp_path: Path) -> None:
    asked: list[CutOff] = []

    def watched(service: FileAsker) -> FileAsker:
        asked.append(CutOff(service, 1000, AssertionError()))
        return asked[0]

    served = Served(tmp_path, watched)
    served.put("a", "A")
    assert [served.client.cache(A), served.client.cache(A)] == [served.client.cached_path(A)] * 2
    assert [question["operation"] for question in asked[0].asked] == ["find", "read", "find"]


@pytest.mark.parametrize("answers", range(2, 6))
def test_a_transfer_that_was_cut_off_goes_on_where_it_stopped(tmp_path: Path, answers: int) -> None:
    content = os.urandom(5 * CHUNK)
    broken = Served(tmp_path, lambda service: CutOff(service, answers, CommandExecutionError("cut off")))
    broken.put("a", content)
    with pytest.raises(CommandExecutionError, match="cut off"):
        broken.client.fetch(A, str(tmp_path / "dest"))
    assert not (tmp_path / "dest").exists()
    asked: list[CutOff] = []

    def watched(service: FileAsker) -> FileAsker:
        asked.append(CutOff(service, 1000, AssertionError()))
        return asked[0]

    assert Served(tmp_path, watched).client.fetch(A, str(tmp_path / "dest"))
    assert (tmp_path / "dest").read_bytes() == content
    offsets = [question["offset"] for question in asked[0].asked if question["operation"] == "read"]
    assert offsets == list(range((answers - 1) * CHUNK, 5 * CHUNK, CHUNK))


def test_a_part_that_was_damaged_is_fetched_anew(tmp_path: Path) -> None:
    served = Served(tmp_path)
    content = os.urandom(2 * CHUNK)
    served.put("a", content)
    (served.cache / "arriving").mkdir(parents=True)
    (served.cache / "arriving" / hashlib.sha256(content).hexdigest()).write_bytes(b"x" * CHUNK)
    assert served.client.fetch(A, str(tmp_path / "dest"))
    assert (tmp_path / "dest").read_bytes() == content


class Changing:
    """A file that is another one each time that it was found."""

    def __init__(self, service: FileAsker, path: Path, changes: int) -> None:
        self._service = service
        self._path = path
        self._changes = changes

    def ask(self, questions: Iterable[Message]) -> Iterator[Message]:
        for question in questions:
            yield from self._service.ask([question])
            if question["operation"] == "find" and self._changes:
                self._changes -= 1
                self._path.write_bytes(os.urandom(100))


def test_a_file_that_changes_meanwhile_is_fetched_again_and_never_mixed(tmp_path: Path) -> None:
    served = Served(tmp_path, lambda service: Changing(service, tmp_path / "root" / "a", ATTEMPTS - 1))
    path = served.put("a", "first")
    assert served.client.fetch(A, str(tmp_path / "dest"))
    assert (tmp_path / "dest").read_bytes() == path.read_bytes()


def test_a_file_that_never_rests_is_given_up_with_a_sentence(tmp_path: Path) -> None:
    served = Served(tmp_path, lambda service: Changing(service, tmp_path / "root" / "a", 100))
    served.put("a", "first")
    with pytest.raises(CommandExecutionError, match="changes on the master"):
        served.client.fetch(A, str(tmp_path / "dest"))
    assert not (tmp_path / "dest").exists()


def test_two_transfers_of_the_same_content_do_not_write_into_each_other(tmp_path: Path) -> None:
    served = Served(tmp_path)
    content = os.urandom(3 * CHUNK)
    served.put("a", content)
    (served.cache / "arriving").mkdir(parents=True)
    with (served.cache / "arriving" / hashlib.sha256(content).hexdigest()).open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert served.client.fetch(A, str(tmp_path / "dest"))
        assert other.tell() == 0
    assert (tmp_path / "dest").read_bytes() == content


def test_a_cached_file_may_become_a_folder_and_a_folder_a_file(tmp_path: Path) -> None:
    served = Served(tmp_path)
    path = served.put("a", "file")
    assert served.client.cache(A)
    path.unlink()
    served.put("a/b", "deeper")
    deeper = served.client.cache(FileAddress("a/b", "base"))
    assert Path(deeper).read_text() == "deeper"
    (served.root / "a/b").unlink()
    (served.root / "a").rmdir()
    served.put("a", "file again")
    assert Path(served.client.cache(A)).read_text() == "file again"


def test_a_mirror_is_the_same_as_the_environment_and_nothing_else(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.put("one/a.sls", "A")
    served.put("b", "B")
    (served.root / "one/a.sls").chmod(0o750)
    root = Path(served.client.mirror("base"))
    assert (root / "one/a.sls").read_text() == "A"
    assert (root / "one/a.sls").stat().st_mode & 0o777 == 0o750
    # A file becomes a folder, a folder a file, one is gone, and strangers came.
    (served.root / "b").unlink()
    served.put("b/c", "C")
    (served.root / "one/a.sls").unlink()
    (served.root / "one").rmdir()
    served.put("one", "now a file")
    (root / "gone").mkdir()
    (root / "gone/x").touch()
    (root / "link").symlink_to("/etc")
    served.client.mirror("base")
    found = {str(path.relative_to(root)) for path in root.rglob("*")}
    assert found == {"b", "b/c", "one"}
    assert (root / "one").read_text() == "now a file"


def test_a_mirror_that_is_there_already_reads_no_file(tmp_path: Path) -> None:
    asked: list[CutOff] = []

    def watched(service: FileAsker) -> FileAsker:
        asked.append(CutOff(service, 1000, AssertionError()))
        return asked[0]

    served = Served(tmp_path, watched)
    for name in ("a", "b/c"):
        served.put(name, name)
    served.client.mirror("base")
    before = len(asked[0].asked)
    served.client.mirror("base")
    assert [question["operation"] for question in asked[0].asked[before:]] == ["files", "find", "find", "folders"]
