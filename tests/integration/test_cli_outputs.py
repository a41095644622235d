"""Where the output of a job goes, and what large, foreign and interrupted output does to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from saltlite.cli import exitcodes
from saltlite.cli.main import main
from saltlite.cli.output import STREAMS
from tests.integration.fakemaster import DROP, JID, FakeMaster, Step, end, fixed, good_job, published, returned, state

ROOT = Path(__file__).resolve().parents[2]
LARGE = 50 * 1024 * 1024

FORMATS = ("nested", "json", "yaml", "txt", "raw", "quiet", *STREAMS)


def command(master: FakeMaster, *words: str) -> list[str]:
    """The command line of a separate process."""
    return [sys.executable, "-m", "saltlite", "-c", master.config_dir, *words]


@pytest.mark.parametrize("out", [one for one in FORMATS if one != "quiet"])
def test_a_reader_that_went_away_ends_the_command_quietly_whatever_the_format(tmp_path: Path, out: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with FakeMaster(tmp_path, good_job) as master:
        line = command(master, "*", "test.ping", "--out", out)
        done = subprocess.run(line, stdout=write_end, stderr=subprocess.PIPE, cwd=ROOT, check=False, timeout=60)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (exitcodes.READER_GONE, b"")


@pytest.mark.parametrize("out", ["nested", "json-full", "jsonl"])
def test_a_return_of_fifty_megabytes_comes_out_whole(tmp_path: Path, out: str) -> None:
    text = "a line of what some command wrote\n" * (LARGE // 34)
    with FakeMaster(tmp_path, fixed(published("a"), returned(1, "a", text), end(1))) as master:
        # Nobody acknowledges the job, and the return takes longer than the usual 5 s on a busy machine.
        line = command(master, "*", "cmd.run", "x", "-t", "60", "--out", out, "--out-file", str(tmp_path / "out"))
        subprocess.run(line, cwd=ROOT, check=True, timeout=60)
    assert (tmp_path / "out").read_text().count("a line of what some command wrote") == LARGE // 34


@pytest.mark.parametrize("out", FORMATS)
def test_text_that_is_no_text_never_ends_in_a_traceback(tmp_path: Path, out: str) -> None:
    body = b"\xa6\xff\xfe caf\xe9"[:7]  # six bytes of msgpack text that are not UTF-8
    row = {"id": "a", "state": "returned", "retcode": 0, "body": body, "reason": "", "duration_ms": 1}
    message = {"seq": 1, "states": [], "returns": [row]}
    with FakeMaster(tmp_path, fixed(published("a"), message, end(1))) as master:
        line = command(master, "*", "cmd.run", "x", "--out", out)
        environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_bytes_in_json_are_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, fixed(published("a"), returned(1, "a", b"\x00\xff"), end(1))) as master:
        assert main(["-c", master.config_dir, "*", "test.ping", "--out", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert records[1]["return"] == {"$bytes": "AP8="}


def test_each_event_is_written_when_it_happens(tmp_path: Path) -> None:
    go_on = threading.Event()
    script = fixed(published("a"), state(1, "a", "running"), go_on, returned(2, "a", 1), end(2))
    with FakeMaster(tmp_path, script) as master:
        line = command(master, "*", "test.ping", "--out", "jsonl")
        with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            first = [json.loads(process.stdout.readline())["type"] for _ in range(2)]
            go_on.set()
            rest = [json.loads(line)["type"] for line in process.stdout]
    assert (first, rest) == (["start", "ack"], ["return", "end"])


def test_a_full_disk_under_the_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        code = main(["-c", master.config_dir, "*", "test.ping", "--out-file", "/dev/full"])
    out, err = capsys.readouterr()
    assert (code, out) == (exitcodes.INTERNAL, "")
    assert err == "saltlite: the output cannot be written: No space left on device\n"


def test_a_file_that_cannot_be_made_is_told_before_anything_is_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        code = main(["-c", master.config_dir, "*", "test.ping", "--out-file", str(tmp_path / "none" / "out")])
    assert (code, master.requests) == (exitcodes.USAGE, [])
    assert "cannot be written" in capsys.readouterr().err


def test_an_interrupted_command_leaves_no_file_that_looks_complete(tmp_path: Path) -> None:
    script = fixed(published("a", "b"), state(1, "b", "running"), returned(2, "a", 1), threading.Event())
    folder = tmp_path / "files"
    folder.mkdir()
    with FakeMaster(tmp_path, script) as master:
        line = command(master, "*", "test.ping", "-v", "--out-file", str(folder / "out"))
        with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            assert JID in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == exitcodes.INTERRUPTED
    assert list(folder.iterdir()) == []


def test_a_master_that_is_gone_leaves_what_has_arrived_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saltlite.client.follower.RESUME_FOR_S", 0.0)
    refused: Step = {"ok": False, "exit": 7, "error": "not now"}
    steps: list[list[Step]] = [[published("a", "b"), returned(1, "a", 1), DROP]]
    with FakeMaster(tmp_path, lambda request: steps.pop() if steps else [refused]) as master:
        code = main(["-c", master.config_dir, "*", "test.ping", "--out", "json"])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)) == (exitcodes.UNREACHABLE, {"a": 1})
    assert "the job goes on" in err


def test_a_silent_minion_is_told_with_when_the_master_heard_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeMaster(tmp_path, fixed(published("a"), threading.Event())) as master:
        master.heard = {"a": 12.3}
        assert main(["-c", master.config_dir, "*", "test.ping", "-t", "0"]) == exitcodes.MISSING
    assert "(last seen 12s ago)" in capsys.readouterr().err


def test_a_minion_that_returned_before_it_went_away_is_not_told_as_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    followed = published("a", "b", away={"a": 1.0, "b": None}) | {"fun": "test.ping", "tgt": "*"}
    with FakeMaster(tmp_path, fixed(followed, returned(1, "a", 1))) as master:
        assert main(["-c", master.config_dir, "job", "watch", JID, "--out", "json"]) == exitcodes.MISSING
    out, err = capsys.readouterr()
    assert json.loads(out) == {"a": 1}
    assert [line.partition(":")[0] for line in err.splitlines()] == ["b", "saltlite"]


def test_minions_that_are_away_are_told_even_where_nothing_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeMaster(tmp_path, fixed(published("a", "b", away={"b": None}), threading.Event())) as master:
        assert main(["-c", master.config_dir, "*", "test.ping", "-t", "0"]) == exitcodes.MISSING
    assert "b: never connected; the job waits for it until" in capsys.readouterr().err
