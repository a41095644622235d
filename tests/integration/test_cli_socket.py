"""The `saltlite` command running jobs against a scripted master on a real Unix socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli import exitcodes
from saltlite.cli.main import main
from tests.integration.fakemaster import (
    JID,
    FakeMaster,
    Step,
    end,
    fixed,
    good_job,
    published,
    returned,
    state,
)

ROOT = Path(__file__).resolve().parents[2]


def command(master: FakeMaster, *words: str) -> list[str]:
    """The command line of a separate process."""
    return [sys.executable, "-m", "saltlite", "-c", master.config_dir, *words]


def test_a_job_prints_each_return_and_ends_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        code = main(["-c", master.config_dir, "*", "test.arg", "1", "k=[a]", "--run-timeout", "2m", "--deliver-by=5"])
    out, err = capsys.readouterr()
    assert (code, out, err) == (0, "web2:\n    ----------\n    a:\n        1\nweb1:\n    True\n", "")
    request = master.requests[0]
    assert [request[name] for name in ("calls", "run_ms", "deliver_ms")] == [
        [["test.arg", [1], {"k": ["a"]}]],
        120000,
        5000,
    ]


@pytest.mark.parametrize(("flag", "kind"), [("-E", "pcre"), ("-L", "list"), ("-q", "glob")])
def test_target_options_choose_the_matcher(tmp_path: Path, flag: str, kind: str) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        assert main(["-c", master.config_dir, flag, "web1", "test.ping"]) == 0
    assert master.requests[0]["tgt_type"] == kind


@pytest.mark.parametrize("static", [[], ["--static"]])
def test_json_is_one_object_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str], static: list[str]) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        assert main(["-c", master.config_dir, "--out", "json", *static, "*", "test.ping"]) == 0
    assert json.loads(capsys.readouterr().out) == {"web1": True, "web2": {"a": 1}}


def test_minions_that_did_not_return_are_named_on_stderr_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = fixed(
        published("a", "b", "c", "d", away={"b": None}, deliver_ms=0),
        returned(1, "a", 1),
        state(2, "d", "interrupted", "signal 9"),
        threading.Event(),
    )
    with FakeMaster(tmp_path, script) as master:
        code = main(["-c", master.config_dir, "*", "test.ping", "-t", "0.2", "--out", "json"])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)) == (exitcodes.FAILED, {"a": 1})
    assert err.splitlines() == [
        "b: never connected",
        "c: did not acknowledge the job within 0.2s",
        "d: signal 9",
        f"saltlite: job {JID} stays open for 2 of 4 minions; end it with `saltlite job kill {JID}`",
    ]


def test_quiet_leaves_stderr_empty_and_keeps_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, fixed(published("a"), threading.Event())) as master:
        code = main(["-c", master.config_dir, "-q", "*", "test.ping", "-t", "0"])
    assert (code, capsys.readouterr().err) == (exitcodes.MISSING, "")


def test_a_running_minion_is_waited_for_past_the_timeout(tmp_path: Path) -> None:
    waited = threading.Event()
    script = fixed(published("a"), state(1, "a", "running"), waited, returned(2, "a", 1), end(2))
    with FakeMaster(tmp_path, script) as master:
        timer = threading.Timer(0.5, waited.set)
        timer.start()
        assert main(["-c", master.config_dir, "-q", "*", "test.sleep", "-t", "0.1"]) == exitcodes.OK
        timer.join()


@pytest.mark.parametrize(("words", "colored"), [([], True), (["--no-color"], False)])
def test_a_terminal_gets_colors_unless_they_are_declined(tmp_path: Path, words: list[str], colored: bool) -> None:
    ours, theirs = os.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    with FakeMaster(tmp_path, good_job) as master:
        line = command(master, *words, "*", "test.ping")
        subprocess.run(line, stdout=theirs, env=environ, cwd=ROOT, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    assert (b"web1" in shown, b"\x1b[" in shown) == (True, colored)


def test_a_failed_minion_makes_exit_code_four(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, fixed(published("a"), returned(1, "a", "no", retcode=2), end(1))) as master:
        assert main(["-c", master.config_dir, "*", "cmd.run", "false"]) == exitcodes.FAILED


def test_a_target_without_minions_makes_exit_code_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, fixed(published())) as master:
        assert main(["-c", master.config_dir, "zz*", "test.ping"]) == exitcodes.NOTHING_MATCHED
    assert "nothing matches 'zz*'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("out", "text"),
    [
        ("nested", f"Executed command with job ID: {JID}\n"),
        ("quiet", ""),
    ],
)
def test_async_prints_the_jid_and_does_not_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, text: str
) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        assert main(["-c", master.config_dir, "--async", "--out", out, "*", "test.ping"]) == 0
    assert capsys.readouterr().out == text
    assert master.requests[0]["follow"] is False


def test_a_configuration_that_needs_real_yaml_names_the_socket_too(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        (tmp_path / "master").write_text(f'sock_dir: "{str(tmp_path).replace("/", chr(92) + "x2f")}"\n')
        assert main(["-c", master.config_dir, "*", "test.ping"]) == 0


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (["*", "test.ping"], 7, "is saltlite-master running"),
        (["*", "test.ping", "-L", "-E"], 2, "exclude each other"),
        (["*"], 2, "needs a function"),
        (["-q"], 2, "say what to run where"),
        (["web1", "ping"], 2, "'ping' is not a function"),
        (["key", "accept"], 2, "name the keys"),
    ],
)
def test_an_error_is_one_sentence_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: list[str], code: int, said: str
) -> None:
    (tmp_path / "master").write_text(f"sock_dir: {tmp_path}\n")
    assert main(["-c", str(tmp_path), *line]) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), err.startswith("saltlite: "), said in err) == ("", 1, True, True)


def test_a_command_line_without_words_shows_the_help_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == exitcodes.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("saltlite '*' test.ping"), err.count("\nusage: saltlite")) == ("", 1, 1)


@pytest.mark.parametrize("traceback", [False, True])
def test_a_defect_is_one_sentence_and_a_traceback_only_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, traceback: bool
) -> None:
    monkeypatch.setenv("SALTLITE_TRACEBACK", "1" if traceback else "0")
    with FakeMaster(tmp_path, fixed({"ok": True})) as master:  # an answer without the field that it promises
        assert main(["-c", master.config_dir, "key", "list"]) == exitcodes.INTERNAL
    err = capsys.readouterr().err
    assert "KeyError: 'keys' - this is a defect in saltlite" in err
    assert ("Traceback" in err) is traceback


def test_ctrl_c_while_waiting_leaves_the_job_and_names_it(tmp_path: Path) -> None:
    script = fixed(published("a", "b"), returned(1, "a", 1), state(1, "b", "running"), threading.Event())
    with FakeMaster(tmp_path, script) as master:
        process = subprocess.Popen(
            command(master, "*", "test.sleep", "--out", "txt"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        with process:
            assert process.stdout
            assert process.stderr
            assert process.stdout.readline() == b"a: 1\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == exitcodes.INTERRUPTED
            assert process.stderr.read().decode() == (
                f"saltlite: interrupted: job {JID} goes on; see it with `saltlite job watch {JID}`, "
                f"end it with `saltlite job kill {JID}`\n"
            )


def test_ctrl_c_before_the_answer_says_that_the_job_may_be_published(tmp_path: Path) -> None:
    asked = threading.Event()

    def script(request: dict[str, Any]) -> Iterable[Step]:
        asked.set()
        yield threading.Event()

    with FakeMaster(tmp_path, script) as master:
        with subprocess.Popen(command(master, "*", "test.ping"), stderr=subprocess.PIPE, cwd=ROOT) as process:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            assert process.stderr
            assert b"may have been published" in process.stderr.read()
        assert process.returncode == exitcodes.INTERRUPTED


@pytest.mark.parametrize("words", [["*", "test.ping"], ["--help"]])
def test_a_reader_that_went_away_ends_the_command_without_a_traceback(tmp_path: Path, words: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with FakeMaster(tmp_path, good_job) as master:
        done = subprocess.run(
            command(master, *words),
            stdout=write_end,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
            timeout=60,
        )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (exitcodes.READER_GONE, b"")


def test_a_full_disk_under_stdout_is_one_sentence(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master, open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(master, "*", "test.ping"),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
            timeout=60,
        )
    assert done.stderr == b"saltlite: the output cannot be written: No space left on device\n"
    assert done.returncode == exitcodes.INTERNAL


@pytest.mark.parametrize(("out", "data"), [("json", "\u00e9".encode()), ("txt", b"\\xe9")])
def test_text_that_the_locale_does_not_have_is_written_without_a_traceback(
    tmp_path: Path, out: str, data: bytes
) -> None:
    with FakeMaster(tmp_path, fixed(published("a"), returned(1, "a", "\u00e9"), end(1))) as master:
        done = subprocess.run(
            command(master, "*", "test.ping", "--out", out),
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            cwd=ROOT,
            check=True,
            timeout=60,
        )
    assert data in done.stdout


HEAVY = {
    "argparse", "asyncio", "concurrent", "cryptography", "dataclasses", "inspect", "logging",
    "saltlite.master.processes", "saltlite.minion.processes", "ssl", "tornado", "typing", "yaml", "zmq",
}  # fmt: skip
NOT_FOR_A_PLAIN_JOB = HEAVY | {
    "collections", "contextlib", "datetime", "enum", "functools", "importlib", "msgpack", "re", "selectors", "site",
    "socket", "struct", "types", "warnings",
}  # fmt: skip
"""Each of them takes longer than any part of the command."""
A_JOB_WITH_ARGUMENTS = ["*", "test.arg", "1", "a=b", "--out", "json"]


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], NOT_FOR_A_PLAIN_JOB),
        (["--version"], NOT_FOR_A_PLAIN_JOB),
        (["*", "test.ping"], NOT_FOR_A_PLAIN_JOB),
        (["key", "list"], NOT_FOR_A_PLAIN_JOB),
        (["job", "list"], NOT_FOR_A_PLAIN_JOB),
        (["status"], NOT_FOR_A_PLAIN_JOB),
        (["__complete", "--", "saltlite", "web"], NOT_FOR_A_PLAIN_JOB),
        (A_JOB_WITH_ARGUMENTS, HEAVY),
    ],
)
def test_the_hot_path_imports_nothing_heavy(tmp_path: Path, words: list[str], heavy: set[str]) -> None:
    program = (
        "import sys; sys.path.append(sys.argv.pop(1)); from saltlite.cli.main import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    lists: dict[str, Step] = {"key_list": {"ok": True, "keys": []}, "job_list": {"ok": True, "jobs": [], "more": False}}

    def script(request: dict[str, Any]) -> Iterable[Step]:
        if request["verb"] == "publish":
            return good_job(request)
        return [lists.get(request["verb"], {"ok": False, "exit": 6, "error": "you may not"})]

    with FakeMaster(tmp_path, script) as master:
        options = ["-c", master.config_dir] if words[0] != "__complete" else []
        done = subprocess.run(
            [sys.executable, "-S", "-P", "-c", program, ROOT, *options, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == (6 if words == ["status"] else 0)
    modules = done.stderr.split()
    assert "saltlite.cli.main" in modules
    assert {name for name in modules if name in heavy or name.partition(".")[0] in heavy} == set()
