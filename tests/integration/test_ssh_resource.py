"""The resource type `ssh` against a real sshd: logging in, host keys, time limits, kept connections, commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.resources.types.ssh._client import OUTPUT_BYTES_MAX
from tests.support import sshd
from tests.support.fleet import free_port, wait_until
from tests.support.modules import TypeHere
from tests.support.sshd import PASSWORD, USER, Sshd, make_key, start_sshd

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="there is no sshd: install openssh-server")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users need an sshd that was started by root")

Hosts = Callable[..., TypeHere]
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with tempfile.TemporaryDirectory(prefix="sshd-") as folder:
        Path(folder).chmod(0o711)
        running = start_sshd(Path(folder) / "sshd")
        yield running
        running.stop()


@pytest.fixture
def hosts(server: Sshd, tmp_path: Path) -> Iterator[Hosts]:
    """What makes the type with one host, `web-1`, which has these settings beside those that work."""
    made = []

    def make(**more: Any) -> TypeHere:
        made.append(TypeHere("ssh", tmp_path, {"hosts": {"web-1": server.pillar(**more)}}))
        return made[-1]

    yield make
    for each in made:
        each.type.shutdown()


@pytest.fixture(scope="module")
def on(server: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """What calls a function on a host that works, over one connection."""
    made = TypeHere("ssh", tmp_path_factory.mktemp("minion"), {"hosts": {"web-1": server.pillar()}})
    yield made.on("web-1")
    made.type.shutdown()


def with_password(**more: Any) -> dict[str, Any]:
    return {"user": USER, "priv": None, "identities_only": False, **more}


def sentence(type_: TypeHere) -> str:
    """Why a ping fails."""
    with pytest.raises(CommandExecutionError) as caught:
        type_.on("web-1")("test.ping")
    return str(caught.value)


def answers(type_: TypeHere) -> bool:
    """Whether a ping comes back within the time limit of the host."""
    with contextlib.suppress(CommandExecutionError):
        return bool(type_.on("web-1")("test.ping"))
    return False


# -- logging in


def test_a_host_with_a_key_is_pinged(hosts: Hosts) -> None:
    assert hosts().on("web-1")("test.ping") is True


@needs_root
def test_a_password_logs_in(hosts: Hosts) -> None:
    assert hosts(**with_password(passwd=PASSWORD)).on("web-1")("cmd.run", "id -un") == USER


@needs_root
def test_a_wrong_password_is_said_to_be_refused(hosts: Hosts) -> None:
    said = sentence(hosts(**with_password(passwd="wrong one")))
    assert said.startswith(f"web-1: permission denied: {USER}@127.0.0.1")
    assert "wrong one" not in said


def test_a_key_with_a_passphrase_logs_in_and_with_a_wrong_one_it_does_not(
    hosts: Hosts, server: Sshd, tmp_path: Path
) -> None:
    key = make_key(tmp_path / "locked", "open sesame ' \" $x")
    with (server.folder / "authorized_keys").open("a") as stream:
        stream.write((tmp_path / "locked.pub").read_text())
    assert hosts(priv=str(key), priv_passwd="open sesame ' \" $x").on("web-1")("test.ping") is True
    assert "permission denied" in sentence(hosts(priv=str(key), priv_passwd="no"))
    assert "permission denied" in sentence(hosts(priv=str(key)))


@needs_root
def test_a_secret_is_in_no_argument_environment_file_or_log(
    hosts: Hosts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    type_ = hosts(**with_password(passwd=PASSWORD))
    caplog.set_level("DEBUG")
    # The login is the minion's own machine: it sees every process, the ssh that brought it here included.
    seen = type_.on("web-1")("cmd.run", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert "saltlite-ssh-" in seen
    assert PASSWORD not in seen
    for process in Path("/proc").glob("[0-9]*"):
        try:
            argv, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        assert not (argv.startswith(b"ssh") and PASSWORD.encode() in argv + environment)
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert texts
    assert not any(PASSWORD.encode() in text for text in texts)
    assert PASSWORD not in caplog.text


# -- host keys


def test_an_unknown_host_key_is_refused(hosts: Hosts, tmp_path: Path) -> None:
    said = sentence(hosts(known_hosts_file=str(tmp_path / "none")))
    assert said.startswith("web-1: host key not known: ")
    assert "accept_new_host_keys" in said


def test_an_unknown_host_key_is_accepted_once_where_the_pillar_names_that(
    hosts: Hosts, server: Sshd, tmp_path: Path
) -> None:
    known = tmp_path / "known of mine"
    assert hosts(known_hosts_file=str(known), accept_new_host_keys=True).on("web-1")("test.ping") is True
    assert known.read_text().split()[2] == (server.folder / "host_key.pub").read_text().split()[1]


@pytest.mark.parametrize("checks", [{}, {"accept_new_host_keys": True}])
def test_a_changed_host_key_is_refused(hosts: Hosts, server: Sshd, tmp_path: Path, checks: dict[str, bool]) -> None:
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text()
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.port} {other}")
    assert sentence(hosts(known_hosts_file=str(known), **checks)).startswith("web-1: host key changed: ")


@pytest.mark.parametrize("check", ["ignore_host_keys", "no_host_keys"])
def test_any_host_key_is_taken_where_the_pillar_names_that(hosts: Hosts, tmp_path: Path, check: str) -> None:
    settings: dict[str, Any] = {check: True, "known_hosts_file": str(tmp_path / "known")}
    assert hosts(**settings).on("web-1")("test.ping") is True


# -- what goes wrong on the way


def test_a_port_where_nobody_listens_is_said_to_refuse(hosts: Hosts) -> None:
    assert "connection refused" in sentence(hosts(port=free_port()))


def test_a_name_without_an_address_is_named(hosts: Hosts) -> None:
    assert "name not found: nowhere.invalid" in sentence(hosts(host="nowhere.invalid"))


def test_an_option_that_ssh_does_not_know_is_named(hosts: Hosts) -> None:
    assert "nosuchoption" in sentence(hosts(ssh_options=["NoSuchOption=1"])).lower()


@pytest.mark.parametrize("kept", [False, True])
def test_a_host_that_hangs_costs_its_time_limit_and_is_reached_again_afterwards(tmp_path: Path, kept: bool) -> None:
    server = start_sshd(tmp_path / "sshd")
    type_ = TypeHere("ssh", tmp_path, {"hosts": {"web-1": server.pillar(timeout=1)}})
    try:
        if kept:
            wait_until(lambda: answers(type_), "the host answers")
        server.signal_all(signal.SIGSTOP)
        said = sentence(type_)
        assert "timed out after 1 s" in said
        server.signal_all(signal.SIGCONT)
        wait_until(lambda: answers(type_), "the host is reached again")
    finally:
        type_.type.shutdown()
        server.stop()


def test_a_command_that_takes_too_long_is_given_up(on: Call) -> None:
    began = time.monotonic()
    with pytest.raises(CommandExecutionError, match=r"web-1: timed out after 0\.3 s"):
        on("cmd.run", "sleep 600", timeout=0.3)
    assert time.monotonic() - began < 120


def test_a_connection_that_is_cut_is_no_return_code(tmp_path: Path) -> None:
    server = start_sshd(tmp_path / "sshd")
    type_ = TypeHere("ssh", tmp_path, {"hosts": {"web-1": server.pillar()}})
    try:
        with pytest.raises(CommandExecutionError, match="connection lost"):
            # The parent of the command's shell is the sshd of this connection.
            type_.on("web-1")("cmd.run", "kill -9 $(ps -o ppid= -p $PPID); sleep 5")
    finally:
        type_.type.shutdown()
        server.stop()


# -- kept connections


def test_the_second_call_uses_the_connection_of_the_first_and_is_faster(hosts: Hosts, server: Sshd) -> None:
    call, before = hosts().on("web-1"), server.logins()
    times = []
    for _ in range(6):
        began = time.monotonic()
        call("test.ping")
        times.append(time.monotonic() - began)
    assert server.logins() == before + 1
    assert min(times[1:]) < times[0] / 2


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which private folders are made; other tests use another one."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        monkeypatch.setattr("saltlite.resources.types.ssh._client.SOCKETS_IN", folder)
        yield Path(folder)


def test_shutdown_ends_the_connections_and_leaves_no_socket(hosts: Hosts, sockets: Path) -> None:
    type_ = hosts()
    type_.on("web-1")("test.ping")
    (own,) = sockets.iterdir()
    assert [path.is_socket() for path in own.iterdir()] == [True]
    assert own.stat().st_mode & 0o777 == 0o700
    type_.type.shutdown()
    assert list(sockets.iterdir()) == []


def test_a_folder_of_sockets_that_was_tidied_away_is_made_again(hosts: Hosts, sockets: Path) -> None:
    type_ = hosts()
    type_.on("web-1")("test.ping")
    shutil.rmtree(next(sockets.iterdir()))
    assert type_.on("web-1")("test.ping") is True


def test_folders_that_killed_processes_left_are_removed_and_those_in_use_are_not(hosts: Hosts, sockets: Path) -> None:
    left, used = (sockets / f"saltlite-ssh-{name}" for name in ("left", "used"))
    left.mkdir()
    used.mkdir()
    (used / "log").touch()
    hosts()
    assert list(sockets.iterdir()) == [used]


# -- commands


def test_output_errors_and_return_code_are_told_apart(on: Call) -> None:
    assert on("cmd.run_all", "echo out; echo err >&2; exit 3") == {"retcode": 3, "stdout": "out", "stderr": "err"}
    assert on("cmd.run", "echo out; echo err >&2") == "out\nerr"
    assert on("cmd.run_stdout", "echo out; echo err >&2") == "out"
    assert on("cmd.run_stderr", "echo out; echo err >&2") == "err"
    assert on("cmd.retcode", "kill -9 $$") == 137


@pytest.mark.parametrize("code", [254, 255])
def test_a_return_code_that_ssh_uses_itself_is_the_commands_when_the_command_has_it(on: Call, code: int) -> None:
    assert on("cmd.run_all", f"echo err >&2; exit {code}") == {"retcode": code, "stdout": "", "stderr": "err"}


HOSTILE = [
    "; rm -rf /",
    "$(id)",
    "`id`",
    "a\nb",
    "'",
    '"',
    "\\",
    "-n",
    "--",
    "*",
    "~",
    "!x",
    "a b  c",
    "%h",
    "ä€😀",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_words_of_a_list_reach_the_program_as_they_are(on: Call, text: str) -> None:
    assert on("cmd.run_stdout", ["printf", "<%s>", text, "end"]) == f"<{text}><end>"


@pytest.mark.parametrize("text", HOSTILE)
def test_variables_input_and_folder_are_not_read_by_the_shell(on: Call, tmp_path: Path, text: str) -> None:
    folder = tmp_path / f"x{text}".replace("/", "_")
    folder.mkdir()
    done = on("cmd.run_all", 'pwd; printf "%s|" "$A"; cat', cwd=str(folder), env={"A": text}, stdin=text)
    assert done["stdout"] == f"{folder}\n{text}|{text}".rstrip()


@pytest.mark.parametrize("command", ["-x", "+x", "--help"])
def test_a_command_that_looks_like_an_option_is_a_command(on: Call, command: str) -> None:
    assert on("cmd.retcode", command) == 127


def test_a_folder_that_is_not_there_fails_the_command_before_it_runs(on: Call) -> None:
    done = on("cmd.run_all", "echo ran", cwd="/does/not/exist")
    assert done["retcode"] != 0
    assert done["stdout"] == ""


@pytest.mark.parametrize("env", [{"A;id": "x"}, {"": "x"}, "A=x"])
def test_what_is_no_variable_is_refused(on: Call, env: Any) -> None:
    with pytest.raises(SaltInvocationError, match=r"variable|env"):
        on("cmd.run", "true", env=env)


def test_another_shell_runs_the_command(on: Call) -> None:
    given = {"shell": "/bin/bash"}
    assert on("cmd.shell", "echo $((2**10))", **given) == "1024"
    given["shell"] = "bash; id"
    with pytest.raises(SaltInvocationError, match="shell"):
        on("cmd.shell", "true", **given)


def test_output_beyond_the_bound_is_dropped_and_counted(on: Call) -> None:
    done = on("cmd.run_all", "head -c 9000000 /dev/zero | tr '\\0' x; echo end >&2", timeout=30)
    kept = len(done["stdout"])
    assert OUTPUT_BYTES_MAX - 100 < kept <= OUTPUT_BYTES_MAX
    assert done["stderr"] == f"end\n[{9_000_000 - kept} bytes of output were dropped]"


def test_a_command_that_is_too_long_for_an_argument_is_refused_with_the_way_out(on: Call) -> None:
    assert on("cmd.run", "true " + "x" * 99_000) == ""
    with pytest.raises(SaltInvocationError, match="stdin"):
        on("cmd.run", "true " + "x" * 100_001)


def test_input_that_nobody_reads_does_not_block(on: Call) -> None:
    assert on("cmd.run", "echo done", stdin="x" * 3_000_000) == "done"


def test_no_locale_and_no_variable_of_the_minion_travels(on: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALTLITE_TEST_SECRET", "x")
    assert "SALTLITE_TEST_SECRET" not in on("cmd.run", "env")


@pytest.mark.parametrize(
    ("more", "fun", "kwargs", "limit"),
    [
        ({}, "cmd.run", {}, None),
        ({"timeout": 5}, "cmd.run", {}, None),
        ({"timeout": 300}, "cmd.run", {}, 600),
        ({}, "cmd.run", {"timeout": 90}, 180),
        ({}, "pkg.install", {}, 1200),
        ({}, "pkg.install", {"timeout": 60}, 120),
        ({"timeout": 300}, "grains", {}, 600),
        ({"timeout": -1}, "cmd.run", {}, None),
    ],
)
def test_a_call_may_take_twice_what_its_longest_command_may(
    tmp_path: Path, more: dict[str, Any], fun: str, kwargs: dict[str, Any], limit: float | None
) -> None:
    made = TypeHere("ssh", tmp_path, {"hosts": {"web-1": {"host": "192.0.2.1", **more}}}).type
    with made.entered("web-1", {}):
        assert made.timeout(fun, [], kwargs) == limit
    made.shutdown()


@pytest.fixture
def told_to_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[str], list[str]]]:
    """What ssh makes of a call: its settings as it prints them, and the names of its variables."""
    real = shutil.which("ssh")
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n{real} -G "$@" > {tmp_path}/settings\nenv > {tmp_path}/env\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere")

    def told(**more: Any) -> tuple[list[str], list[str]]:
        made = TypeHere("ssh", tmp_path, {"hosts": {"web-1": {"host": "192.0.2.1", **more}}})
        sentence(made)
        made.type.shutdown()
        names = [line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()]
        return (tmp_path / "settings").read_text().splitlines(), names

    return told


def test_nothing_is_forwarded_and_no_local_command_runs_whatever_the_pillar_says(
    told_to_ssh: Callable[..., tuple[list[str], list[str]]],
) -> None:
    names = ("ForwardAgent", "PermitLocalCommand", "GSSAPIDelegateCredentials", "ForwardX11")
    settings, _ = told_to_ssh(ssh_options=[f"{name}=yes" for name in names])
    assert {f"{name.lower()} no" for name in names} <= set(settings)


@pytest.mark.parametrize(
    ("more", "offered"),
    [({}, False), ({"use_auth_sock": True}, True), ({"use_auth_sock": True, "identities_only": True}, False)],
)
def test_the_agent_of_the_minion_is_used_only_where_the_pillar_names_it(
    told_to_ssh: Callable[..., tuple[list[str], list[str]]], more: dict[str, bool], offered: bool
) -> None:
    _, names = told_to_ssh(**more)
    assert ("SSH_AUTH_SOCK" in names) is offered


@pytest.mark.parametrize(
    ("forced", "retcode"),
    [('echo noise; echo noise >&2; eval "$SSH_ORIGINAL_COMMAND"', 0), ("echo This account is closed.; exit 1", None)],
)
def test_what_a_login_prints_is_no_output_and_a_login_that_runs_something_else_is_an_error(
    tmp_path: Path, forced: str, retcode: int | None
) -> None:
    server = start_sshd(tmp_path / "sshd", settings=f"ForceCommand {forced}")
    type_ = TypeHere("ssh", tmp_path, {"hosts": {"web-1": server.pillar()}})
    try:
        if retcode is None:
            assert "something else than the command that it is given: This account is closed." in sentence(type_)
        else:
            assert type_.on("web-1")("test.ping") is True
            assert type_.on("web-1")("cmd.run_stdout", "echo a; echo b") == "a\nb"
            assert type_.refresh("web-1")["kernel"] == os.uname().sysname
    finally:
        type_.type.shutdown()
        server.stop()


def test_hosts_are_reached_from_several_threads_at_once(server: Sshd, tmp_path: Path) -> None:
    ids = [f"web-{number}" for number in range(6)]
    type_ = TypeHere("ssh", tmp_path, {"hosts": dict.fromkeys(ids, server.pillar(timeout=20))})
    try:
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda own_id: type_.on(own_id)("cmd.run", f"sleep 0.1; echo {own_id}"), ids * 3))
    finally:
        type_.type.shutdown()
    assert found == ids * 3


def test_beyond_the_number_of_kept_connections_hosts_are_reached_anew(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saltlite.resources.types.ssh._client.CONNECTIONS_KEPT_MAX", 1)
    type_ = TypeHere("ssh", tmp_path, {"hosts": {"web-1": server.pillar(), "web-2": server.pillar()}})
    try:
        before = server.logins()
        answers = [type_.on(own_id)("test.ping") for own_id in ("web-1", "web-2", "web-1", "web-2")]
    finally:
        type_.type.shutdown()
    assert answers == [True] * 4
    assert server.logins() == before + 3


# -- as somebody else


@needs_root
def test_runas_runs_as_that_user(hosts: Hosts) -> None:
    type_ = hosts()
    assert type_.on("web-1")("cmd.run", 'id -un; echo "$A"', runas="daemon", env={"A": "x y"}) == "daemon\nx y"
    assert hosts(user=USER).on("web-1")("cmd.run", "id -un", runas="daemon") == "daemon"


@needs_root
def test_sudo_of_the_pillar_runs_everything_as_root(hosts: Hosts) -> None:
    assert hosts(user=USER).on("web-1")("cmd.run", "id -un") == USER
    assert hosts(user=USER, sudo=True).on("web-1")("cmd.run", "id -un") == "root"
    assert hosts(user=USER, sudo=True, tty=True).on("web-1")("cmd.run", "id -un; tty >/dev/null && echo tty") == (
        "root\ntty"
    )


@needs_root
def test_sudo_that_wants_a_password_is_explained(hosts: Hosts) -> None:
    with pytest.raises(CommandExecutionError, match="NOPASSWD"):
        hosts(user=USER).on("web-1")("cmd.run", "id", runas="games")


@pytest.mark.parametrize("user", ["-i", "a b", "x;id", "$(id)", "root\n", ""])
def test_what_is_no_user_is_refused(on: Call, user: str) -> None:
    with pytest.raises(CommandExecutionError, match="not the name of a user"):
        on("cmd.run", "id", runas=user)


# -- ids and pillar


def test_hosts_of_the_pillar_are_discovered_and_a_wrong_one_says_so_when_it_is_called(
    server: Sshd, tmp_path: Path
) -> None:
    pillar = {"hosts": {"web-1": server.pillar(), "web-2": {"hots": "x"}, 3: {"host": "-oProxyCommand=touch"}}}
    type_ = TypeHere("ssh", tmp_path, pillar)
    assert type_.ids() == ["web-1", "web-2", "3"]
    with pytest.raises(CommandExecutionError, match="'hots' is not known"):
        type_.on("web-2")("test.ping")
    with pytest.raises(CommandExecutionError, match="neither a host name nor an address"):
        type_.on("3")("test.ping")
    with pytest.raises(CommandExecutionError, match="no ssh host 'web-9'"):
        type_.on("web-9")("test.ping")


def test_grains_are_those_of_the_host(hosts: Hosts) -> None:
    type_ = hosts()
    found = type_.refresh("web-1")
    system = os.uname()
    assert (found["kernelrelease"], found["cpuarch"]) == (system.release, system.machine)
    assert found["num_cpus"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert (found["resource_type"], found["resource_id"], found["host"]) == ("ssh", "web-1", "127.0.0.1")
    assert "127.0.0.1" in found["ipv4"]
    assert type_.on("web-1")("grains.item", "os", "resource_id") == {"os": found["os"], "resource_id": "web-1"}


def test_grains_of_a_host_that_is_not_reached_are_an_error(hosts: Hosts) -> None:
    with pytest.raises(CommandExecutionError, match="connection refused"):
        hosts(port=free_port()).refresh("web-1")
