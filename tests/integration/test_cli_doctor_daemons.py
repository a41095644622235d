"""Which daemons `saltlite doctor` looks at: those with a configuration, keys or a process on this machine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.main import main
from saltlite.cli.verbs.doctor.host import running
from saltlite.cli.verbs.doctor.modules import idle_chain
from saltlite.plugins.executors import audit, direct_call, dry, nice, splay, sudo, timeout


@contextlib.contextmanager
def process(folder: Path, program: str, *words: str, cwd: Path | None = None) -> Iterator[int]:
    """A process that looks like a daemon from outside: Python with a program of that name."""
    script = folder / program
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    argv = [sys.executable, str(script), *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=cwd) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        try:
            yield daemon.pid
        finally:
            daemon.kill()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration folder with nothing in it."""
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


def write_master(config: Path) -> None:
    (config / "master").write_text(f"root_dir: {config.parent}/root\ninterface: 127.0.0.1\nport: 1\n")


def doctor(config: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What it answers, without the processes of other folders, which other tests may have."""
    main(["doctor", *words, "-c", str(config), "--out", "json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    answer["not_looked_at"] = {
        name: "another folder" if why.startswith("process ") else why
        for name, why in answer["not_looked_at"].items()
        if not name.startswith("another ")
    }
    return answer


def test_each_sign_of_a_daemon_has_it_looked_at(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_master(config)
    keys = config / "pki/minion"
    keys.mkdir(parents=True)
    (keys / "minion.key").write_text("x")
    with process(tmp_path, "saltlite-api", "-c", str(config)) as pid:
        answer = doctor(config, capsys)
    assert answer["looked_at"] == {"master": "a configuration", "minion": "keys", "api": f"process {pid}"}
    assert answer["not_looked_at"] == {}
    # Two of them have no configuration there, and cannot be started again.
    for daemon in ("minion", "api"):
        assert [row["check"] for row in answer["sides"][daemon]] == ["config"]
        assert f"{config}/{daemon}: there is no such file" in answer["sides"][daemon][0]["sentence"]


def test_what_is_not_looked_at_is_named_with_the_reason(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_master(config)
    (config / "pki/minion").mkdir(parents=True)
    answer = doctor(config, capsys)
    assert list(answer["sides"]) == ["master"]
    nothing = ("no configuration, no keys, no process here", "another folder")
    assert {name: why in nothing for name, why in answer["not_looked_at"].items()} == {"minion": True, "api": True}
    main(["doctor", "-c", str(config)])
    shown = capsys.readouterr().out
    assert "\nlooked at:     master: a configuration\n" in shown
    assert "\nnot looked at: api: " in shown


def test_a_daemon_with_another_folder_is_named_with_its_command(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_master(config)
    with process(tmp_path, "saltlite-minion", "--config-dir=/some/\x1b[2Jthere") as pid:
        assert [one.config_dir for one in running("minion") if one.pid == pid] == ["/some/\x1b[2Jthere"]
        main(["doctor", "-c", str(config)])
    shown = capsys.readouterr().out
    line = next(line for line in shown.splitlines() if line.startswith("not looked at: minion: "))
    assert "has another folder: saltlite doctor minion -c " in line
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ([], "/etc/saltlite"),
        (["-c", "/a/b"], "/a/b"),
        (["-c/a/b"], "/a/b"),
        (["--config-dir", "/a/b"], "/a/b"),
        (["-c", "conf"], "{cwd}/conf"),
    ],
)
def test_the_folder_of_a_process_is_read_as_the_daemon_reads_it(tmp_path: Path, words: list[str], where: str) -> None:
    with process(tmp_path, "saltlite-minion", *words, cwd=tmp_path) as pid:
        found = [one.config_dir for one in running("minion") if one.pid == pid]
    assert found == [where.format(cwd=tmp_path)]


def test_a_daemon_that_runs_as_a_module_is_one(tmp_path: Path) -> None:
    (tmp_path / "saltlite_minion.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    argv = [sys.executable, "-u", "-m", "saltlite_minion", "-c", "/x"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        found = [one.config_dir for one in running("minion") if one.pid == daemon.pid]
        daemon.kill()
    assert found == ["/x"]


def test_a_program_that_only_speaks_of_a_daemon_is_none(tmp_path: Path) -> None:
    with process(tmp_path, "editor", "saltlite-minion", "-c", "/x") as pid:
        assert pid not in [one.pid for one in running("minion")]


def test_a_word_names_what_is_looked_at_whatever_there_is(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = doctor(config, capsys, "api")
    assert answer["looked_at"] == {"api": "asked for"}
    assert answer["not_looked_at"] == {"master": "not asked for", "minion": "not asked for"}
    assert "there is no such file" in answer["sides"]["api"][0]["sentence"]


def test_a_folder_with_nothing_in_it_is_a_mistake_of_the_command(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "-c", str(config)]) == 2
    assert f"{config} has neither a configuration nor keys of a master, a minion or an API" in capsys.readouterr().err
    assert main(["doctor", "-c", str(config), "cloud"]) == 2
    assert "'cloud' is not a daemon: say master, minion, api or all" in capsys.readouterr().err


# --- chains of executors ---


def own(opts: object, data: object, func: object, args: object, kwargs: object) -> None:
    """An executor that forgot to call the function."""


EXECUTORS = {
    "audit": audit.execute,
    "direct_call": direct_call.execute,
    "dry": dry.execute,
    "nice": nice.execute,
    "own": own,
    "splay": splay.execute,
    "sudo": sudo.execute,
    "timeout": timeout.execute,
}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["splay"], "no function is called, because none of splay calls one; put direct_call at the end"),
        (["audit", "nice", "timeout", "splay", "own"], "none of audit, nice, timeout, splay, own calls one"),
        (["direct_call", "audit"], "audit is never reached: direct_call has a result for every call"),
        (["dry", "direct_call"], "direct_call is never reached: dry has a result for every call"),
        (["splay", "sudo", "nice", "audit"], "nice, audit is never reached: sudo has"),
        (["audit", "splay", "direct_call"], ""),
        (["sudo", "sudo"], ""),
        (["dry"], ""),
        (["direct_call"], ""),
        ([], ""),
    ],
)
def test_a_chain_that_cannot_work_is_seen(names: list[str], sentence: str) -> None:
    said = idle_chain([(name, EXECUTORS[name]) for name in names])
    assert (sentence in said) if sentence else said == ""
