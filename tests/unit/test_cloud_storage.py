"""What is kept of machines in files, and what is shown of them on the way."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from saltlite.cloud.program.program import COMPACT_AT, Block, CloudJournal, MachineCache
from saltlite.errors import SaltliteError

FIELDS = {"name": "a", "provider": "l:d", "profile": "p", "minion_id": "a", "minion": True}


def test_what_this_process_does_is_not_unfinished_and_what_a_dead_one_did_is(tmp_path: Path) -> None:
    journal = CloudJournal(str(tmp_path))
    journal.begin("create", "mine", **FIELDS)
    child = os.fork()
    if child == 0:
        CloudJournal(str(tmp_path)).begin("create", "theirs", **{**FIELDS, "name": "b"})
        os._exit(0)
    os.waitpid(child, 0)
    assert [one.name for one in journal.unfinished()] == ["b"]
    assert [(one.name, alive) for one, alive in journal.everything()] == [("a", True), ("b", False)]
    journal.write("theirs", "over")
    assert journal.unfinished() == []


def test_a_line_that_a_crash_cut_is_left_out(tmp_path: Path) -> None:
    journal = CloudJournal(str(tmp_path))
    journal.write("1", "create", **FIELDS)
    with open(journal.path, "a", encoding="utf-8") as file:
        file.write('{"run": "1", "what": "ov')
    assert [one.name for one in CloudJournal(str(tmp_path)).unfinished()] == ["a"]


def test_a_line_behind_one_that_was_cut_counts(tmp_path: Path) -> None:
    journal = CloudJournal(str(tmp_path))
    journal.write("1", "create", **FIELDS)
    with open(journal.path, "a", encoding="utf-8") as file:
        file.write('{"run": "1", "what": "be')
    journal.write("2", "create", **{**FIELDS, "name": "b"})
    assert [one.name for one in journal.unfinished()] == ["a", "b"]


def test_a_line_that_the_disk_takes_only_in_part_is_refused_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = CloudJournal(str(tmp_path))
    journal.write("1", "create", **FIELDS)
    before = Path(journal.path).read_bytes()
    whole = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: whole(fd, data[:10]))
        with pytest.raises(SaltliteError, match="No space left"):
            journal.write("1", "over")
    assert Path(journal.path).read_bytes() == before


def test_a_long_journal_begins_anew_when_nothing_is_unfinished(tmp_path: Path) -> None:
    journal = CloudJournal(str(tmp_path))
    journal.write("1", "create", **FIELDS)
    with open(journal.path, "a", encoding="utf-8") as file:
        file.write(f"{'x' * COMPACT_AT}\n")
    journal.write("2", "create", **FIELDS)
    assert os.path.getsize(journal.path) > COMPACT_AT, "one is unfinished"
    journal.write("1", "over")
    journal.write("2", "over")
    journal.write("3", "create", **FIELDS)
    assert os.path.getsize(journal.path) < 1000
    assert [one.run for one in journal.unfinished()] == ["3"]


def test_a_disk_that_takes_no_line_ends_the_command_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "journal").symlink_to("/dev/full")
    with pytest.raises(SaltliteError, match="nothing more is done"):
        CloudJournal(str(tmp_path)).write("1", "create", **FIELDS)


def test_nobody_else_can_read_what_is_kept(tmp_path: Path) -> None:
    journal, cache = CloudJournal(str(tmp_path / "c")), MachineCache(str(tmp_path / "c"))
    journal.write("1", "create", **FIELDS)
    cache.put("l:d", "a", {"id": "1"})
    for path in (tmp_path / "c").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("name", ["web1", "../../etc/passwd", "a/b", "..", "ü " * 20, "a%2Fb"])
def test_machines_of_any_name_are_kept_in_their_folder(tmp_path: Path, name: str) -> None:
    cache = MachineCache(str(tmp_path))
    cache.put("lab:d", name, {"id": "1"}, minion_id="m")
    assert cache.machines("lab:d") == {name: {"id": "1"}}
    assert cache.own("lab:d", name) == {"minion_id": "m"}
    assert all(str(path.resolve()).startswith(str(tmp_path)) for path in tmp_path.rglob("*"))
    cache.put("lab:d", name, {"id": "2"})
    assert cache.own("lab:d", name) == {"minion_id": "m"}, "a listing knows nothing of minions"
    cache.drop("lab:d", name)
    assert cache.names("lab:d") == []


def test_machines_that_a_whole_listing_lacks_are_forgotten(tmp_path: Path) -> None:
    cache = MachineCache(str(tmp_path))
    cache.put("lab:d", "old", {})
    cache.put("lab:e", "other", {})
    cache.put_all("lab:d", {"new": {"id": "1"}})
    assert (cache.names("lab:d"), cache.names("lab:e")) == (["new"], ["other"])


def test_a_listing_does_not_forget_which_minion_is_on_a_machine(tmp_path: Path) -> None:
    cache = MachineCache(str(tmp_path))
    cache.put("lab:d", "a", {"id": "1"}, minion_id="m")
    cache.put_all("lab:d", {})
    assert (cache.names("lab:d"), cache.own("lab:d", "a")) == ([], {"minion_id": "m"})
    cache.put("lab:d", "a", {"id": "1"})
    assert cache.names("lab:d") == ["a"]


def test_a_file_that_is_damaged_counts_as_not_there(tmp_path: Path) -> None:
    cache = MachineCache(str(tmp_path))
    cache.put("lab:d", "a", {"id": "1"})
    next(tmp_path.rglob("*.json")).write_text("{")
    assert cache.machines("lab:d") == {"a": {}}


def test_progress_on_a_terminal_is_a_line_a_machine_that_is_written_over() -> None:
    stream = io.StringIO()
    block = Block(stream, 40)
    block("a", "gets a join token")
    block("b", "is requested " + "x" * 80)
    block("a", "is made")
    last = stream.getvalue().rpartition("\x1b[2A")[2].strip("\n").split("\n")
    assert [line.removeprefix("\r\x1b[2K")[:12] for line in last] == ["a: is made (", "b: is reques"]
    assert all(len(line.removeprefix("\r\x1b[2K")) < 40 for line in last)
