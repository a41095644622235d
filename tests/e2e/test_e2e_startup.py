"""Daemons that cannot start: one sentence with the way out, an exit code, no traceback, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.cli.main import main
from saltlite.cli.verbs import demo_masters
from tests.support.fleet import ME, WAIT_S, Fleet, Said, free_port, run_daemon, write_config
from tests.support.postgres import program

pytestmark = pytest.mark.e2e

USERS = {"user": ME, "link_user": "daemon" if os.geteuid() == 0 else ME}
"""Two users, so that the master has nothing to warn of."""
DAEMONS = ("saltlite-master", "saltlite-minion")
JSON = {"Content-Type": "application/json", "Accept": "application/json"}


def kind_of(program: str) -> str:
    """The name of its configuration file."""
    return program.removeprefix("saltlite-")


def sentence(said: Said, program: str) -> str:
    """What it said when that was one line, and nothing on stdout."""
    assert said.out == ""
    assert len(said.err.splitlines()) == 1, said.err
    assert said.err.startswith(f"{program}: ")
    return said.err


@pytest.mark.parametrize("program", DAEMONS)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("log_levle: info", "log_level"),
        ("port: many", "port"),
        ("port: 0", "port"),
        ("log_level: loud", "log_level"),
        ("root_dir: relative/path", "root_dir"),
        ("user: [a, b]", "user"),
        ("port: 1\nport: 2", "port"),
    ],
)
def test_a_mistake_in_the_configuration_stops_it_with_its_place(
    tmp_path: Path, program: str, line: str, expected: str
) -> None:
    file = tmp_path / kind_of(program)
    file.write_text(f"# a comment\nroot_dir: {tmp_path}/root\n{line}\n" if "root_dir" not in line else f"{line}\n")
    said = run_daemon(program, tmp_path)
    assert said.code == 2
    assert re.search(rf"^{program}: {re.escape(str(file))}:\d+:\d+: .*{expected}", sentence(said, program)), said.err
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("program", DAEMONS)
@pytest.mark.parametrize("text", ["root_dir: [", "- a list", "\tport: 1", "root_dir: &a [*a]", "\x00"])
def test_a_file_that_is_no_configuration_stops_it_with_its_place(tmp_path: Path, program: str, text: str) -> None:
    (tmp_path / kind_of(program)).write_text(text)
    said = run_daemon(program, tmp_path)
    assert said.code == 2
    assert f"{tmp_path / kind_of(program)}:" in sentence(said, program)


@pytest.mark.parametrize("program", DAEMONS)
def test_a_missing_configuration_stops_it_with_the_path_that_was_looked_for(tmp_path: Path, program: str) -> None:
    said = run_daemon(program, tmp_path / "nowhere")
    assert said.code == 2
    assert str(tmp_path / "nowhere") in sentence(said, program)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        options = {
            "root_dir": str(tmp_path / "root"),
            "interface": "127.0.0.1",
            "port": port,
            **USERS,
        }
        write_config(tmp_path, "master", options)
        said = run_daemon("saltlite-master", tmp_path)
    assert said.code == 1
    assert str(port) in sentence(said, "saltlite-master")
    assert list((tmp_path / "root").rglob("*.ipc")) == []


def test_an_interface_that_this_machine_does_not_have_is_named(tmp_path: Path) -> None:
    options = {
        "root_dir": str(tmp_path / "root"),
        "interface": "192.0.2.1",
        "port": free_port(),
        **USERS,
    }
    write_config(tmp_path, "master", options)
    said = run_daemon("saltlite-master", tmp_path)
    assert said.code == 1
    assert "192.0.2.1" in sentence(said, "saltlite-master")


def test_a_second_master_on_the_same_root_dir_ends_and_the_first_goes_on(shared: Fleet) -> None:
    folder = shared.folder / "second"
    options = {
        "root_dir": str(shared.root("master")),
        "interface": "127.0.0.1",
        "port": free_port(),
        **USERS,
    }
    write_config(folder, "master", options)
    said = run_daemon("saltlite-master", folder)
    assert said.code == 1
    assert f"another saltlite-master (pid {shared.daemons['master'].pid}) already runs" in sentence(
        said, "saltlite-master"
    )
    assert shared.cli("a", "test.ping", "--out", "json").json() == {"a": True}


def test_a_second_minion_on_the_same_root_dir_ends_and_the_first_goes_on(shared: Fleet) -> None:
    said = run_daemon("saltlite-minion", shared.folder / "a")
    assert said.code == 1
    assert f"another saltlite-minion (pid {shared.daemons['a'].pid}) already runs" in sentence(said, "saltlite-minion")
    assert shared.cli("a", "test.ping", "--out", "json").json() == {"a": True}


@pytest.mark.parametrize("program", DAEMONS)
@pytest.mark.parametrize("name", ["pki/{kind}/{key}", "data"])
def test_state_that_is_damaged_or_open_to_others_is_named_and_left_alone(fleet: Fleet, program: str, name: str) -> None:
    fleet.start_master()
    fleet.join("a")
    which = "master" if program == "saltlite-master" else "a"
    fleet.daemons[which].stop()
    kind = kind_of(program)
    if name == "data":
        path = fleet.root(which) / "var/lib/saltlite" / kind / ("store.sqlite" if kind == "master" else "journal")
        damaged = b"this was never written by saltlite " * 300
        path.write_bytes(damaged)
    else:
        key = "fleet.key" if kind == "master" else "minion.key"
        path = fleet.root(which) / "etc/saltlite" / name.format(kind=kind, key=key)
        damaged = path.read_bytes()
        path.chmod(0o644)
    said = run_daemon(program, fleet.folder / which)
    assert said.code == 1
    assert str(path) in sentence(said, program)
    assert path.read_bytes() == damaged


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that only root may write to, on a path that everybody can walk."""
    folder = Path(tempfile.mkdtemp(prefix="saltlite-e2e-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("program", DAEMONS)
def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(closed_folder: Path, program: str) -> None:
    options = {"root_dir": str(closed_folder / "root")}
    write_config(closed_folder, kind_of(program), options)
    (closed_folder / kind_of(program)).chmod(0o644)
    said = run_daemon(program, closed_folder, command=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    assert said.code == 1
    assert "run as root or set `root_dir`" in sentence(said, program)


def test_a_minion_whose_master_is_not_there_stays_and_says_so(fleet: Fleet) -> None:
    fleet.start_minion("a", fleet="ABCDE-FGHIJ-KLMNO-PQRST-UVWXY-Z2345-67ABC-DEFGH")
    fleet.wait_log("a", "is saltlite-master running there?")
    assert fleet.daemons["a"].process.poll() is None


def test_both_daemons_stop_with_code_0_at_sigterm_and_start_again(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    for name in ("a", "master"):
        assert fleet.daemons[name].stop() == 0
        assert "Traceback" not in fleet.daemons[name].log()
        assert "ERROR" not in fleet.daemons[name].log()
    fleet.restart_master()
    fleet.restart_minion("a")
    fleet.wait_up("a")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_a_script_started_in_the_background_stops_at_a_signal(signum: signal.Signals) -> None:
    # `saltlite demo &` in a script: the shell has SIGINT ignored.
    folder = tempfile.mkdtemp(prefix="d")  # short, because sockets are in it
    script = 'trap "" INT; exec "$0" -m saltlite demo'
    with subprocess.Popen(
        ["/bin/sh", "-c", script, sys.executable],
        env={**os.environ, "TMPDIR": folder},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if "Ctrl-C stops the fleet" in line:
                break
        assert len(os.listdir(folder)) == 1
        demo.send_signal(signum)
        assert demo.wait(WAIT_S) == 0
    os.rmdir(folder)  # nothing is left in it


def test_a_demo_of_several_masters_kills_one_and_loses_nothing() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")
    if program("initdb") is None:
        pytest.skip("no PostgreSQL server is installed (Debian: postgresql)")
    folder = tempfile.mkdtemp(prefix="d")
    Path(folder).chmod(0o711)  # the user of the database goes through it
    words = [sys.executable, "-m", "saltlite", "demo", "--masters", "2", "--minions", "2"]
    env = {**os.environ, "TMPDIR": folder}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as demo:
        assert demo.stderr is not None
        said = ""
        for line in demo.stderr:
            said += line
            if "Ctrl-C stops the fleet" in line:
                break
        assert "Each master has a part of the minions: master-1 1, master-2 1." in said
        assert "master-2, which has 1 of them, is killed while they work (SIGKILL).\n2 of 2 returned " in said
        assert "master-1 has 2 results of that job, and 2 of 2 minions answer it now." in said
        demo.send_signal(signal.SIGINT)
        assert demo.wait(WAIT_S) == 0
    os.rmdir(folder)  # nothing is left in it, nor of the database


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--masters", "1"], "'1' is not a whole number from 2 to 5"),
        (
            ["--masters", "3", "--dir", "d" * 100],
            "is too long for a Unix socket in it: name a shorter folder with --dir",
        ),
    ],
)
def test_a_demo_of_several_masters_that_cannot_be_is_refused(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_demo_of_several_masters_needs_a_server_of_postgresql(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_masters, "FOLDERS", ())
    monkeypatch.setenv("PATH", "/nowhere")
    before = signal.getsignal(signal.SIGTERM)
    assert main(["demo", "--masters", "3"]) == 2
    assert signal.getsignal(signal.SIGTERM) is before
    assert "install the package postgresql (Debian) or postgresql-server (RPM)" in capsys.readouterr().err


def test_a_demo_in_a_folder_has_as_many_minions_as_asked_for_and_a_console_to_log_in_to(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    words = [sys.executable, "-m", "saltlite", "demo", "--dir", str(folder), "--minions", "1", "--console"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as demo:
        assert demo.stderr is not None
        said = ""
        for line in demo.stderr:
            said += line
            if "Ctrl-C stops the fleet" in line:
                break
        assert "a master and 1 minion in" in said
        assert sorted(os.listdir(folder)) == ["demo-1", "master"]
        found = re.search(r"The console: (http://127\.0\.0\.1:\d+/)\n.* as (\w+), with the password (\S+)\n", said)
        assert found, said
        url, user, password = found.groups()
        login = json.dumps({"eauth": "file", "username": user, "password": password}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}login", login, JSON), timeout=WAIT_S) as answer:
            token = json.load(answer)["return"][0]["token"]
        ping = json.dumps([{"client": "local", "tgt": "*", "fun": "test.ping"}]).encode()
        request = urllib.request.Request(url, ping, {**JSON, "X-Auth-Token": token})
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            assert json.load(answer)["return"] == [{"demo-1": True}]
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(WAIT_S) == 0
    assert not folder.exists()
