"""What init scripts write: -d, --pid-file, -l and -u of the daemons."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from saltlite.cli.daemon import _outcome, line_of
from saltlite.config.master import MasterConfig
from saltlite.errors import UsageError
from tests.support.fleet import BIN, ME, free_port


def start(folder: Path, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    given = {
        "root_dir": folder / "root", "interface": "127.0.0.1", "port": free_port(), "user": ME, "link_user": ME,
        "worker_threads": 1, **options,
    }  # fmt: skip
    (folder / "master").write_text("".join(f"{name}: {value}\n" for name, value in given.items()))
    return subprocess.run(
        [BIN / "saltlite-master", "-c", folder, *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_daemon_in_the_background_is_ready_when_its_command_ends(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    # The pipes of this call are at their end, so the daemon has closed them.
    done = start(tmp_path / "m", "-d", "--pid-file", str(pid_file), "-l", "info")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    pid = int(pid_file.read_text())
    try:
        assert os.getsid(pid) == pid
        listed = subprocess.run(
            [BIN / "saltlite", "-c", tmp_path / "m", "key", "list"], capture_output=True, text=True, check=False
        )
        assert listed.returncode == 0, listed.stderr
        assert " INFO " in (tmp_path / "m/root/var/log/saltlite/master").read_text()
    finally:
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + 60
    while pid_file.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not pid_file.exists()


@pytest.mark.parametrize(
    ("words", "options", "code", "sentence"),
    [
        (["-d"], {"worker_threads": "many"}, 2, "'worker_threads' takes"),
        (["-d"], {"log_file": "''"}, 2, "a process in the background needs a log"),
        (["-d", "-u", "no-such-user"], {}, None, "no-such-user"),
        (["--pid-file", "/nonexistent/pid"], {}, 2, "the file /nonexistent/pid for the pid cannot be written"),
        (["--pid-file", "pid"], {}, 2, "takes an absolute path"),
        (["-l", "loud"], {}, 2, "invalid choice: 'loud'"),
    ],
)
def test_a_start_that_failed_says_why_with_its_exit_code(
    tmp_path: Path, words: list[str], options: dict[str, str], code: int | None, sentence: str
) -> None:
    done = start(tmp_path, *words, **options)
    assert done.returncode != 0
    assert code in (None, done.returncode)
    assert sentence in done.stderr


def test_options_of_the_line_override_those_of_the_configuration() -> None:
    line = line_of("saltlite-master", "", ["-l", "debug", "-u", "web", "--log-file", "/x", "-c", "/etc/here"])
    given = MasterConfig()
    config = line.applied(given)
    assert (line.config_dir, config.log_level, config.user, config.log_file) == ("/etc/here", "debug", "web", "/x")
    assert (given.log_level, config.port) == ("warning", given.port)


def test_a_line_without_options_changes_nothing() -> None:
    given = MasterConfig()
    assert line_of("saltlite-master", "", []).applied(given) is given
    with pytest.raises(UsageError):
        line_of("saltlite-master", "", ["-d"]).applied(MasterConfig(log_file=""))


def test_all_daemons_have_the_options() -> None:
    for program in ("saltlite-master", "saltlite-minion", "saltlite-api"):
        text = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=False).stdout
        assert all(name in text for name in ("-d, --daemon", "--pid-file", "-l LEVEL", "-u NAME")), program


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_tell_that_the_daemon_is_ready() -> None:
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    heard.bind("")

    def child(said: bytes, uid: int, code: int) -> int:
        pid = os.fork()
        if not pid:
            os.setuid(uid)
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(said, heard.getsockname())
            os._exit(code)
        return pid

    for said in (b"READY=1", b"STATUS=failed: forged"):
        os.waitpid(child(said, 65534, 0), 0)
    assert _outcome(heard, child(b"STATUS=failed: no\x1b[2J\nport", 0, 3)) == (3, "no[2Jport")
    assert _outcome(heard, child(b"READY=1", 0, 0)) == (0, "")
    heard.close()
