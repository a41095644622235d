"""`saltlite job fetch`: parts are put together, compared with their checksum, and written as they were returned."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.verbs import job
from saltlite.errors import SaltliteError, UsageError
from saltlite.loader.encode import encode_return
from tests.integration.fakemaster import FakeMaster, fixed
from tests.support.terminal import Terminal

JID = "20260131235959123456"
PART = 1000


class Minion:
    """In the place of the jobs that bring parts."""

    def __init__(self, value: Any) -> None:
        self.whole = encode_return(value)
        self.size = len(self.whole)
        self.asked: list[int] = []

    def part(self, _client: object, jid: str, minion: str, offset: int) -> dict[str, Any]:
        assert (jid, minion) == (JID, "web1")
        self.asked.append(offset)
        digest = hashlib.sha256(encode_return("x" * 2500)).hexdigest()
        return {"size": self.size, "sha256": digest, "data": self.whole[offset : offset + PART]}


@pytest.fixture
def minion(monkeypatch: pytest.MonkeyPatch) -> Minion:
    there = Minion("x" * 2500)
    monkeypatch.setattr(job, "_part", there.part)
    return there


def fetch(folder: Path, *words: str) -> str:
    """What the command writes to stdout."""
    (folder / "master").touch()
    out = io.StringIO()
    assert job.run_fetch(["-c", str(folder), JID, "web1", *words], Console(None, out, None)) == 0
    return out.getvalue()


def test_parts_are_asked_for_until_all_is_there_and_a_text_is_written_as_it_is(tmp_path: Path, minion: Minion) -> None:
    assert fetch(tmp_path) == "x" * 2500
    assert minion.asked == [0, PART, 2 * PART]


def test_json_is_one_object_by_minion(tmp_path: Path, minion: Minion) -> None:
    assert json.loads(fetch(tmp_path, "--out", "json")) == {"web1": "x" * 2500}


def test_a_file_gets_all_of_it_and_stdout_nothing(tmp_path: Path, minion: Minion) -> None:
    assert fetch(tmp_path, "--out-file", str(tmp_path / "whole")) == ""
    assert (tmp_path / "whole").read_text() == "x" * 2500


def test_a_return_that_came_damaged_is_not_written(tmp_path: Path, minion: Minion) -> None:
    minion.whole = encode_return("x" * 2499 + "y")
    with pytest.raises(SaltliteError, match="arrived damaged from web1"):
        fetch(tmp_path, "--out-file", str(tmp_path / "whole"))
    assert not (tmp_path / "whole").exists()


def test_a_return_that_came_short_is_not_written(tmp_path: Path, minion: Minion) -> None:
    minion.size += 1
    with pytest.raises(SaltliteError, match="arrived damaged"):
        fetch(tmp_path)


def test_without_a_jid_there_is_nothing_to_fetch() -> None:
    with pytest.raises(UsageError, match="job fetch JID MINION"):
        job.run_fetch([], Console(None, None, None))


def test_a_terminal_does_not_obey_what_a_minion_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encode_return("one\n\x1b]0;title\x07two")
    part = {"size": len(whole), "sha256": hashlib.sha256(whole).hexdigest(), "data": whole}
    monkeypatch.setattr(job, "_part", lambda *_where: part)
    (tmp_path / "master").touch()
    out = Terminal()
    job.run_fetch(["-c", str(tmp_path), JID, "web1"], Console(None, out, None))
    assert out.getvalue() == "one\n?]0;title?two"


def test_a_minion_that_sends_crumbs_is_not_asked_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def part(_client: object, _jid: str, _minion: str, offset: int) -> dict[str, Any]:
        asked.append(offset)
        return {"size": job.WHOLE_MAX, "sha256": "", "data": b"xx" if offset == 0 else b"x"}

    monkeypatch.setattr(job, "_part", part)
    with pytest.raises(SaltliteError, match="arrived damaged"):
        fetch(tmp_path)
    assert len(asked) == 2


def test_a_return_that_fits_into_no_memory_is_not_fetched(tmp_path: Path, minion: Minion) -> None:
    minion.size = job.WHOLE_MAX + 1
    with pytest.raises(SaltliteError, match="at most"):
        fetch(tmp_path)
    assert minion.asked == [0]


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        ([{"id": "web1"}, {"id": "ssh:x", "minion": "web1"}], "ran on 2 targets: 1 minion, 1 resource: say which"),
        ([{"id": "ssh:x", "minion": "web1"}], "ssh:x is a resource, and whole returns of resources are not stored"),
    ],
)
def test_without_a_minion_the_job_has_to_have_run_on_one_only(
    targets: list[dict[str, str]], sentence: str, tmp_path: Path
) -> None:
    script = fixed({"ok": True, "job": {"jid": JID, "targets": targets}})
    with FakeMaster(tmp_path, script) as master, pytest.raises(UsageError, match=sentence):
        job.run_fetch([JID, "-c", master.config_dir], Console(None, None, None))
