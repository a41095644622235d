"""`saltutil` against real processes and the folder of running jobs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.model.job import header
from tests.support.fleet import WAIT_S

INDEX = build_index(search_layers({}))
JID = "20260131235959123456"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running job: a process that leads its group, and its record."""
    process = subprocess.Popen(["sleep", "300"], process_group=0)
    record(tmp_path, JID, process.pid)
    yield process
    process.kill()
    process.wait()


def record(data_dir: Path, jid: str, pid: int, fun: str = "test.sleep") -> None:
    folder = data_dir / "running"
    folder.mkdir(exist_ok=True)
    row = {"jid": jid, "fun": fun, "user": "root", "pid": pid, "started": 1.5}
    (folder / jid).write_text(json.dumps(row))


def run(data_dir: Path, fun: str, *args: Any) -> Outcome:
    return call(Loader(INDEX, {"data_dir": str(data_dir)}, {}, {}), fun, args, {})


def test_a_running_job_is_listed_and_found(tmp_path: Path, job: subprocess.Popen[bytes]) -> None:
    row = {"jid": JID, "fun": "test.sleep", "user": "root", "pid": job.pid, "started": 1.5}
    assert run(tmp_path, "saltutil.running").value == [row]
    assert run(tmp_path, "saltutil.find_job", JID).value == row
    assert run(tmp_path, "saltutil.find_job", int(JID)).value == row
    assert run(tmp_path, "saltutil.is_running", "test.*").value == [row]


def test_other_functions_and_jobs_are_not_running(tmp_path: Path, job: subprocess.Popen[bytes]) -> None:
    assert run(tmp_path, "saltutil.is_running", "pkg.*").value == []
    assert run(tmp_path, "saltutil.find_job", "20260131235959999999").value == {}


def test_a_record_whose_process_is_gone_or_another_one_is_not_running(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with subprocess.Popen(["sleep", "300"]) as no_leader:
        record(tmp_path, "20260131235959000001", gone.pid)
        record(tmp_path, "20260131235959000002", no_leader.pid)
        found = run(tmp_path, "saltutil.running").value
        no_leader.kill()
    assert found == []


def test_the_job_that_asks_does_not_list_itself(tmp_path: Path) -> None:
    record(tmp_path, JID, os.getpid())
    assert run(tmp_path, "saltutil.running").value == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x"}', '{"pid": 99}', "\x00\xff"])
def test_files_that_are_no_records_are_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "running").mkdir()
    (tmp_path / "running/odd").write_text(text)
    assert run(tmp_path, "saltutil.running") == Outcome([], 0)


def test_no_folder_means_no_running_job(tmp_path: Path) -> None:
    assert run(tmp_path, "saltutil.running") == Outcome([], 0)


@pytest.mark.parametrize(
    ("fun", "args", "number"),
    [
        ("saltutil.term_job", (JID,), 15),
        ("saltutil.kill_job", (JID,), 9),
        ("saltutil.signal_job", (JID, 10), 10),
        ("saltutil.signal_job", (JID, "USR2"), 12),
    ],
)
def test_a_signal_reaches_the_job(
    tmp_path: Path, job: subprocess.Popen[bytes], fun: str, args: tuple[Any, ...], number: int
) -> None:
    outcome = run(tmp_path, fun, *args)
    assert outcome == Outcome(f"Signal {number} sent to job {JID} at pid {job.pid}", 0)
    assert job.wait(60) == -number


def test_a_signal_reaches_the_children_of_the_job(tmp_path: Path) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 300; true"], process_group=0, stdout=subprocess.PIPE) as process:
        record(tmp_path, JID, process.pid)
        run(tmp_path, "saltutil.kill_job", JID)
        assert process.stdout is not None
        assert process.stdout.read() == b""  # ends only when the child, too, has let go of the pipe


def test_a_signal_reaches_children_that_left_the_group_of_the_job(tmp_path: Path) -> None:
    code = "setsid sleep 300 & sleep 300"
    with subprocess.Popen(["sh", "-c", code], process_group=0, stdout=subprocess.PIPE) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + WAIT_S
        while len({os.getpgid(int(pid)) for pid in children.read_text().split()} | {process.pid}) < 2:
            assert time.monotonic() < deadline
        record(tmp_path, JID, process.pid)
        run(tmp_path, "saltutil.kill_job", JID)
        assert process.stdout is not None
        assert process.stdout.read() == b""  # ends only when both children have let go of the pipe


def test_a_job_of_several_functions_is_found_by_each_of_them(tmp_path: Path, job: subprocess.Popen[bytes]) -> None:
    record(tmp_path, JID, job.pid, "test.ping,test.sleep")
    for wanted in ("test.ping", "test.sleep", "*.sl*"):
        assert [row["jid"] for row in run(tmp_path, "saltutil.is_running", wanted).value] == [JID]
    assert run(tmp_path, "saltutil.find_job", JID).value["fun"] == "test.ping,test.sleep"
    assert run(tmp_path, "saltutil.term_job", JID).value == f"Signal 15 sent to job {JID} at pid {job.pid}"


WHOLE = bytes(range(256)) * 100


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / f"{JID}.kept").write_bytes(header(hashlib.sha256(WHOLE).digest()) + WHOLE)
    return tmp_path


@pytest.mark.parametrize("size", [1000, 25_600, 10**9])
def test_a_kept_return_comes_back_in_parts_with_its_size_and_checksum(kept: Path, size: int) -> None:
    whole = b""
    while len(whole) < len(WHOLE):
        part = run(kept, "saltutil.kept_return", JID, len(whole), size).value
        assert part["size"] == len(WHOLE)
        assert part["sha256"] == hashlib.sha256(WHOLE).hexdigest()
        assert 0 < len(part["data"]) <= size
        whole += part["data"]
    assert whole == WHOLE


def test_no_part_is_larger_than_may_travel(kept: Path) -> None:
    opts = {"data_dir": str(kept), "return_max": 20_000}
    part = call(Loader(INDEX, opts, {}, {}), "saltutil.kept_return", (JID,), {}).value
    assert len(part["data"]) == 20_000 - 16 * 1024


def test_a_return_that_is_not_kept_says_why_that_may_be(tmp_path: Path) -> None:
    outcome = run(tmp_path, "saltutil.kept_return", JID)
    assert (outcome.retcode, outcome.value.startswith(f"ERROR: This minion keeps no return of job {JID}")) == (1, True)


def test_a_file_that_is_no_kept_return_is_not_given_out(kept: Path) -> None:
    (kept / "kept" / f"{JID}.kept").write_bytes(b"root:x:0:0" * 10)
    assert "does not begin as a kept return does" in run(kept, "saltutil.kept_return", JID).value


@pytest.mark.parametrize("args", [("../journal",), (JID, -1), (JID, 0, 0), (JID, "x")])
def test_a_part_that_cannot_be_is_refused(kept: Path, args: tuple[Any, ...]) -> None:
    assert run(kept, "saltutil.kept_return", *args).value.startswith("ERROR executing")


def test_a_signal_to_a_job_that_does_not_run_has_an_empty_answer(tmp_path: Path) -> None:
    assert run(tmp_path, "saltutil.kill_job", JID) == Outcome("", 0)


@pytest.mark.parametrize(("jid", "sig"), [("../x", 9), (JID, "NOPE"), (JID, 4000)])
def test_what_is_no_jid_or_signal_is_refused(tmp_path: Path, jid: str, sig: Any) -> None:
    assert run(tmp_path, "saltutil.signal_job", jid, sig).value.startswith("ERROR executing")


def test_without_a_minion_there_is_a_sentence() -> None:
    outcome = call(Loader(INDEX, {}, {}, {}), "saltutil.running", (), {})
    assert outcome.value == "ERROR: This call runs without a minion, so there are no running jobs to look at."


def test_all_jobs_are_ended_at_once(tmp_path: Path, job: subprocess.Popen[bytes]) -> None:
    assert run(tmp_path, "saltutil.term_all_jobs").value == [f"Signal 15 sent to job {JID} at pid {job.pid}"]
    assert job.wait(60) == -15
    assert run(tmp_path, "saltutil.kill_all_jobs").value == []
