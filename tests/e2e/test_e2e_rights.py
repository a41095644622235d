"""Who runs as whom, who may ask, and what nobody may read."""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import ORDINARY_COMMAND, WAIT_S, Fleet, Said, alive, children_of, title, uid_of, wait_until

pytestmark = pytest.mark.e2e

NOBODY = pwd.getpwnam("nobody")
DAEMON = pwd.getpwnam("daemon")
"""Any other user that every machine has: in the place of `saltlite-link`."""
STRANGER = 54321
"""A uid without a user."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def open_fleet() -> Iterator[Fleet]:
    """A fleet in a folder that other users can reach; what they may do there is the daemons' own doing."""
    folder = Path(tempfile.mkdtemp(prefix="saltlite-e2e-"))
    folder.chmod(0o755)
    fleet = Fleet(folder)
    try:
        yield fleet
    finally:
        fleet.close()
        shutil.rmtree(folder)


def cli_as(fleet: Fleet, uid: int, *words: str) -> Said:
    """`saltlite -c … words` as another user, who may read the configuration."""
    (fleet.folder / "master/master").chmod(0o644)
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    done = subprocess.run(
        [*become, ORDINARY_COMMAND, "-c", fleet.folder / "master", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=fleet.environment(),
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@needs_root
def test_what_reads_the_network_has_given_up_root_and_jobs_have_not(open_fleet: Fleet) -> None:
    master = open_fleet.start_master(user="nobody", link_user="daemon")
    open_fleet.join("a", user="nobody")
    minion = open_fleet.daemons["a"]
    users = {title(pid): uid_of(pid) for pid in children_of(master.pid)}
    assert set(users) == {"master link", "MWorker-0", "MWorker-1", "maintenance"}
    assert users.pop("master link") == DAEMON.pw_uid
    assert set(users.values()) == {NOBODY.pw_uid}
    assert uid_of(minion.child("minion link")) == NOBODY.pw_uid
    assert open_fleet.cli("a", "cmd.run", "id -u", "--out", "json").json() == {"a": "0"}


@needs_root
def test_a_process_that_gave_up_root_cannot_get_anything_back(open_fleet: Fleet) -> None:
    master = open_fleet.start_master(user="nobody", link_user="daemon")
    open_fleet.join("a", user="nobody")
    for pid in [*children_of(master.pid), open_fleet.daemons["a"].child("minion link")]:
        status = Path(f"/proc/{pid}/status").read_text()
        rights = {name: set(re.findall(rf"^{name}:\t(.*)$", status, re.M)[0].split()) for name in ("Uid", "Gid")}
        user = DAEMON if title(pid) == "master link" else NOBODY
        assert rights == {"Uid": {str(user.pw_uid)}, "Gid": {str(user.pw_gid)}}
        assert re.search(r"^CapEff:\t0+$", status, re.M)
        assert re.search(r"^CapPrm:\t0+$", status, re.M)
        assert re.search(r"^NoNewPrivs:\t1$", status, re.M)


@needs_root
def test_a_pillar_that_comes_later_is_compiled_by_a_process_that_has_given_up_root(open_fleet: Fleet) -> None:
    """Also where this user can read neither Python's folders nor ours, as those of a Python below /root."""
    pillar = open_fleet.folder / "pillar"
    pillar.mkdir()
    master = open_fleet.start_master(
        user="nobody", link_user="daemon", pillar_roots={"base": [str(pillar)]}, publisher_acl={"me": ["test.ping"]}
    )
    open_fleet.join("a", user="nobody")
    assert master.children("evaluators") == []
    (pillar / "role.sls").write_text("role: {{ salt['grains.get']('id') }}\nport: {{ none }\n")
    (pillar / "more.sls").write_text("role: {{ salt['grains.get']('id') }}\n")
    (pillar / "top.sls").write_text("base:\n  '*': [role, more]\n")
    assert open_fleet.cli("a", "saltutil.refresh_pillar", "--out", "json").json() == {"a": True}
    found = open_fleet.cli("a", "pillar.items", "--out", "json").json()["a"]
    assert found["role"] == "a"
    assert "role.sls:2: Jinja: unexpected '}'" in found["_errors"][0]
    (evaluators,) = master.children("evaluators")
    assert uid_of(evaluators) == NOBODY.pw_uid


@needs_root
def test_a_fleet_with_an_unprivileged_user_survives_restarts_of_every_kind(open_fleet: Fleet) -> None:
    master = open_fleet.start_master(user="nobody", link_user="daemon")
    open_fleet.join("a", user="nobody")
    old = {name: master.child(name) for name in ("MWorker-0", "maintenance", "master link")}
    for pid in old.values():
        os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: {title(pid) for pid in children_of(master.pid) if pid not in old.values()} >= set(old),
        "all three have been started again",
    )
    open_fleet.wait_up("a")
    assert master.stop() == 0
    assert open_fleet.daemons["a"].stop() == 0
    open_fleet.restart_master()
    open_fleet.restart_minion("a")
    open_fleet.wait_up("a")
    assert open_fleet.cli("a", "test.ping", "--out", "json").json() == {"a": True}


@needs_root
def test_the_users_that_the_processes_of_the_master_run_as_may_not_publish(open_fleet: Fleet) -> None:
    open_fleet.start_master(user="nobody", link_user="daemon")
    open_fleet.join("a", user="nobody")
    before = open_fleet.jobs_published()
    Path(open_fleet.socket_path()).chmod(0o666)
    for words, uid in itertools.product(
        (("a", "test.ping"), ("key", "list"), ("key", "token", "create")), (NOBODY.pw_uid, DAEMON.pw_uid)
    ):
        said = cli_as(open_fleet, uid, *words)
        assert (said.code, said.out) == (6, ""), words
        assert f"uid {uid}" in said.err
        assert "the master's own processes run as this user" in said.err
    assert open_fleet.jobs_published() == before


@needs_root
def test_other_users_are_refused_with_code_6(open_fleet: Fleet) -> None:
    open_fleet.start_master(user="nobody", link_user="daemon")
    for words in (("a", "test.ping"), ("key", "list"), ("key", "token", "create")):
        said = cli_as(open_fleet, STRANGER, *words)
        assert (said.code, said.out) == (6, ""), words
        assert "run this as root, or as the user who started saltlite-master" in said.err
        assert len(said.err.splitlines()) == 1


@needs_root
def test_whoever_gets_past_the_mode_of_the_socket_is_refused_by_who_they_are(open_fleet: Fleet) -> None:
    open_fleet.start_master()
    open_fleet.join("a")
    Path(open_fleet.socket_path()).chmod(0o666)
    before = open_fleet.jobs_published()
    for words in (("a", "test.ping"), ("key", "list"), ("key", "token", "create"), ("job", "kill", "2" * 20)):
        said = cli_as(open_fleet, STRANGER, *words)
        assert (said.code, said.out) == (6, ""), (words, said)
        assert f"uid {STRANGER}" in said.err
    assert open_fleet.jobs_published() == before


@needs_root
def test_a_user_that_does_not_exist_is_one_sentence(open_fleet: Fleet) -> None:
    with pytest.raises(AssertionError, match="there is no user 'nobody-has-this-name'"):
        open_fleet.start_master(user="nobody-has-this-name")
    assert open_fleet.daemons["master"].ended() == 2
    assert len(open_fleet.daemons["master"].log().splitlines()) == 1


def test_keys_store_journal_and_sockets_are_closed_to_others(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    assert fleet.cli("a", "test.ping").code == 0
    modes = {
        str(path.relative_to(fleet.folder)): stat.S_IMODE(path.stat().st_mode)
        for name in ("master", "a")
        for path in fleet.root(name).rglob("*")
        if not path.is_dir()
    }
    logs = {name: mode for name, mode in modes.items() if "/var/log/" in name}
    secret = {name: mode for name, mode in modes.items() if name not in logs}
    assert set(logs.values()) == {0o640}
    assert set(secret.values()) == {0o600}, {name: oct(mode) for name, mode in secret.items() if mode != 0o600}
    assert {Path(name).name for name in secret} >= {
        "fleet.key", "master.key", "job.key", "minion.key", "fleet.pin", "store.sqlite", "master.ipc", "journal",
    }  # fmt: skip
    for name in ("master/root/etc/saltlite/pki/master", "a/root/etc/saltlite/pki/minion"):
        assert stat.S_IMODE((fleet.folder / name).stat().st_mode) == 0o700


def test_no_secret_is_in_a_log_an_event_or_a_command_line(fleet: Fleet) -> None:
    fleet.start_master(log_level="debug")
    token = fleet.token("--uses", "2")
    fleet.start_minion("a", join_token=token, log_level="debug")
    fleet.wait_up("a")
    fleet.cli("*", "test.ping")
    fleet.cli("*", "config.get", "join_token")
    fleet.daemons["a"].stop()
    fleet.restart_minion("a")
    fleet.wait_up("a")
    keys = [path.read_bytes() for name in ("master", "a") for path in fleet.root(name).rglob("*.key")]
    assert len(keys) == 4
    secrets = [fleet.secrets[0].encode()]
    secrets += [form for key in keys for form in (key, key.hex().encode(), repr(key).encode())]
    said = fleet.cli("a", "cmd.run", "cat /proc/*/cmdline | tr '\\0' ' '", "--out", "json")
    with fleet.store() as store:
        events = repr(store.events(0, 10_000)).encode()
    files = [fleet.root(name) / "var/log/saltlite" / kind for name, kind in (("master", "master"), ("a", "minion"))]
    logs = [path.read_bytes() for path in (*files, *(daemon.output for daemon in fleet.daemons.values()))]
    everything = b"".join([*logs, events, said.out.encode()])
    assert b"is ready" in logs[0]
    assert b"connection: ready" in logs[1]
    assert b"saltlite-minion" in said.out.encode()
    assert [secret for secret in secrets if secret in everything] == []
    kept = (fleet.root("master") / "var/lib/saltlite/master/store.sqlite").read_bytes()
    wal = (fleet.root("master") / "var/lib/saltlite/master/store.sqlite-wal").read_bytes()
    assert fleet.secrets[0].encode() not in kept + wal


def test_modules_are_not_shown_the_join_token(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    for words in (("config.get", "join_token"), ("config.option", "join_token"), ("test.get_opts",)):
        said = fleet.cli("a", *words)
        assert said.code == 0, said
        assert fleet.secrets[0] not in said.out


def test_after_sigterm_no_process_and_no_socket_is_left(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    jid = fleet.publish("a", "test.sleep", "30")
    fleet.wait_state(jid, "a", "running")
    pids = fleet.processes()
    assert fleet.daemons["a"].stop() == 0
    assert fleet.daemons["master"].stop() == 0
    # A job outlives its minion on purpose: the next one adopts it.
    left = [pid for pid in pids if alive(pid)]
    assert [title(pid) for pid in left] == ["saltlite-job"]
    assert [path for path in fleet.root("master").rglob("*") if path.is_socket()] == []


@needs_root
def test_nobody_but_the_processes_of_the_master_is_heard_by_the_link_process(open_fleet: Fleet) -> None:
    open_fleet.start_master(user="nobody", link_user="daemon")
    (path,) = open_fleet.folder.rglob("link.ipc")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(WAIT_S)
        sock.connect(str(path))  # root may, whatever the mode of the socket says
        assert sock.recv(1) == b""
    open_fleet.wait_log(
        "master", "user 0 connected to the link process, which serves processes of the master only: refused"
    )
