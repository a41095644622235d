"""Users with less than everything, from the outside: local ones, and those who log in with a password or a token."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import BIN, ORDINARY_COMMAND, Fleet, Said, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else, and ask PAM about others"),
]

PAM_USER = "slt-pam-user"
PASSWORD = "correct horse"
EXTERNAL = {
    "file": {"fred": ["test.*", {"web*": ["sys.*"]}], "dev%": [{"db*": ["grains.*"]}], "runner": ["@runner"]},
    "pam": {PAM_USER: ["test.ping"]},
    "sharedsecret": {"robot": ["test.ping"]},
}
NOBODY, DAEMON, BACKUP = (pwd.getpwnam(name) for name in ("nobody", "daemon", "backup"))


TRAP = """
import socket, sys
trap = socket.socket(socket.AF_UNIX)
trap.bind(sys.argv[1])
trap.listen()
print("up", flush=True)
print(trap.accept()[0].recv(4096), flush=True)
"""
"""Waits for somebody to send it something."""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="saltlite-e2e-"))
    folder.chmod(0o755)
    fleet = Fleet(folder)
    entries = folder / "entries"
    entries.touch(mode=0o600)
    shared = folder / "sharedsecret"
    shared.touch(mode=0o600)
    shared.write_text("open sesame\n")
    for words in (["fred"], ["gina", "--group", "dev"], ["runner"], ["zoe"]):
        entries.write_text(entries.read_text() + said(fleet, "auth", "entry", *words, "--password-fd", "0").out)
    try:
        fleet.start_master(
            user="nobody",
            external_auth=EXTERNAL,
            auth_file=str(entries),
            sharedsecret_file=str(shared),
            publisher_acl={"daemon": [{"web1": ["test.ping"]}], "nobody": [".*", "@runner", "@wheel"]},
        )
        (folder / "master/master").chmod(0o644)
        fleet.join("web1", "db1")
        yield fleet
    finally:
        fleet.close()
        shutil.rmtree(folder)


def said(fleet: Fleet, *words: str, password: str = PASSWORD, uid: int = 0, home: str = "") -> Said:
    """`saltlite words`, with the password on its standard input."""
    become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
    done = subprocess.run(
        [*become, ORDINARY_COMMAND, *words],
        input=f"{password}\n",
        capture_output=True,
        text=True,
        env=fleet.environment() | ({"HOME": home} if home else {}),
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def as_user(fleet: Fleet, user: str, *words: str, backend: str = "file", password: str = PASSWORD) -> Said:
    login = ["-c", str(fleet.folder / "master"), "-a", backend, "--username", user, "--password-fd", "0"]
    return said(fleet, *login, *words, password=password)


def as_user_begun(fleet: Fleet, user: str, *words: str) -> subprocess.Popen[str]:
    """`saltlite -a file … words`, which waits for the password on its standard input."""
    login = ["-c", str(fleet.folder / "master"), "-a", "file", "--username", user, "--password-fd", "0"]
    return subprocess.Popen(
        [BIN / "saltlite", *login, "db1", "grains.get", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=fleet.environment(),
    )


def test_a_login_may_what_its_rules_grant_and_nothing_else(fleet: Fleet) -> None:
    assert as_user(fleet, "fred", "*", "test.ping", "--out", "json").json() == {"web1": True, "db1": True}
    assert as_user(fleet, "fred", "web*", "sys.list_modules", "--out", "json").code == 0
    for words in (
        ["*", "sys.list_modules"],
        ["*", "cmd.run", "id"],
        ["*", "test.ping,cmd.run", ",", "id"],
        ["key", "list"],
    ):
        refused = as_user(fleet, "fred", *words)
        assert (refused.code, refused.out) == (6, ""), words
        assert "file:fred may not" in refused.err
    assert as_user(fleet, "gina", "db1", "grains.get", "id", "--out", "json").json() == {"db1": "db1"}
    assert as_user(fleet, "gina", "db1", "test.ping").code == 6


@pytest.mark.parametrize(
    ("user", "backend", "password"),
    [
        ("fred", "file", "wrong"),
        ("fred", "file", ""),
        ("nobody-there", "file", PASSWORD),
        ("zoe", "file", PASSWORD),
        ("fred", "pam", PASSWORD),
        ("robot", "sharedsecret", "open"),
        ("fred", "nothing", PASSWORD),
    ],
)
def test_a_wrong_login_is_refused_and_runs_nothing(fleet: Fleet, user: str, backend: str, password: str) -> None:
    before = fleet.jobs_published()
    refused = as_user(fleet, user, "*", "test.ping", backend=backend, password=password)
    assert (refused.code, refused.out) == (6, "")
    assert fleet.jobs_published() == before


def test_the_shared_secret_lets_in_whoever_the_rules_name(fleet: Fleet) -> None:
    one = as_user(fleet, "robot", "web1", "test.ping", "--out", "json", backend="sharedsecret", password="open sesame")
    assert one.json() == {"web1": True}
    other = as_user(fleet, "fred", "web1", "test.ping", backend="sharedsecret", password="open sesame")
    assert other.code == 6


@pytest.fixture
def system_user() -> Iterator[str]:
    """A real user of this machine with a password."""
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", PAM_USER], check=True)
    try:
        subprocess.run(["chpasswd"], input=f"{PAM_USER}:{PASSWORD}", text=True, check=True)
        yield PAM_USER
    finally:
        subprocess.run(["userdel", PAM_USER], check=True)


def test_pam_lets_in_a_real_user_with_his_password_until_the_account_expires(fleet: Fleet, system_user: str) -> None:
    assert as_user(fleet, system_user, "web1", "test.ping", "--out", "json", backend="pam").json() == {"web1": True}
    assert as_user(fleet, system_user, "web1", "test.version", backend="pam").code == 6
    assert as_user(fleet, system_user, "web1", "test.ping", backend="pam", password="wrong").code == 6
    subprocess.run(["chage", "--expiredate", "1", system_user], check=True)
    assert as_user(fleet, system_user, "web1", "test.ping", backend="pam").code == 6


def test_a_kept_login_is_used_again_and_ends_when_it_is_revoked(fleet: Fleet, tmp_path: Path) -> None:
    config = ["-c", str(fleet.folder / "master")]
    login = [*config, "-T", "-a", "file", "--username", "fred", "--password-fd", "0"]
    assert said(fleet, *login, "web1", "test.ping", home=str(tmp_path)).code == 0
    kept = tmp_path / ".saltlite_token"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert said(fleet, *config, "-T", "web1", "test.ping", "--out", "json", home=str(tmp_path)).json() == {"web1": True}
    assert said(fleet, *config, "-T", "web1", "cmd.run", "id", home=str(tmp_path)).code == 6
    jobs = said(fleet, *config, "-T", "job", "list", "--out", "json", home=str(tmp_path)).json()["jobs"]
    assert {job["user"] for job in jobs} == {"file:fred"}
    rows = fleet.cli("auth", "token", "list", "--out", "json").json()["tokens"]
    assert fleet.cli("auth", "token", "revoke", *(row["id"] for row in rows)).code == 0
    refused = said(fleet, *config, "-T", "web1", "test.ping", home=str(tmp_path))
    assert (refused.code, refused.out) == (6, "")
    assert "log in again" in refused.err


def test_a_stream_ends_soon_after_its_login_was_revoked(fleet: Fleet) -> None:
    with fleet.client() as client:
        client.log_in("file", "fred", PASSWORD, keep=True)
        client.call("events", pattern="*")
        with fleet.client() as operator:
            ids = [row["id"] for row in operator.call("auth_token_list")["tokens"]]
            operator.call("auth_token_revoke", ids=ids)
        end = wait_until(lambda: client.receive(1.0), "the stream says that it has ended") or {}
    assert (end["ok"], end["login"]) == (False, True)


def test_local_users_may_what_publisher_acl_says_and_the_masters_own_user_nothing(fleet: Fleet) -> None:
    config = ["-c", str(fleet.folder / "master")]
    own = said(fleet, *config, "web1", "test.ping", "--out", "json", uid=DAEMON.pw_uid)
    assert own.json() == {"web1": True}
    for words in (["*", "test.ping"], ["web1", "test.version"], ["key", "list"], ["status"]):
        assert said(fleet, *config, *words, uid=DAEMON.pw_uid).code == 6, words
    assert said(fleet, *config, "web1", "test.ping", uid=BACKUP.pw_uid).code == 6
    for words in (["web1", "test.ping"], ["key", "list"]):
        refused = said(fleet, *config, *words, uid=NOBODY.pw_uid)
        assert refused.code == 6
        assert "may ask nothing" in refused.err
    login = ["-a", "file", "--username", "fred", "--password-fd", "0"]
    assert said(fleet, *config, *login, "web1", "test.ping", uid=NOBODY.pw_uid).code == 6
    assert said(fleet, *config, *login, "web1", "test.ping", uid=BACKUP.pw_uid).code == 0


def test_a_password_is_sent_to_no_socket_of_somebody_else(fleet: Fleet, reachable: Path) -> None:
    """The folder of the socket is the master's user's: a process of his that was broken into can replace it."""
    sock_dir = reachable / "run"
    sock_dir.mkdir(mode=0o777)
    sock_dir.chmod(0o777)
    config = reachable / "conf"
    config.mkdir()
    (config / "master").write_text(f"sock_dir: {sock_dir}\n")
    path = str(sock_dir / "master.ipc")
    become = ["setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups"]
    with subprocess.Popen([*become, sys.executable, "-c", TRAP, path], stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline() == "up\n"
        Path(path).chmod(0o777)
        login = ["-c", str(config), "-a", "file", "--username", "fred", "--password-fd", "0"]
        refused = said(fleet, *login, "*", "test.ping")
        assert refused.code == 6
        assert "nothing was sent there" in refused.err
        assert listening.communicate(timeout=60)[0] == "b''\n"


def test_a_runner_is_for_whoever_has_a_right_to_it(fleet: Fleet) -> None:
    up = as_user(fleet, "runner", "runner", "manage.up", "--out", "json")
    assert sorted(up.json()) == ["db1", "web1"], up
    refused = as_user(fleet, "fred", "runner", "manage.up")
    assert (refused.code, refused.out) == (6, "")
    # A runner that publishes has the rights of whoever runs it.
    assert as_user(fleet, "runner", "runner", "salt.execute", "*", "cmd.run", "id").code != 0


def test_explain_says_yes_or_no_and_why(fleet: Fleet) -> None:
    yes = fleet.cli("acl", "explain", "file:fred", "web*", "sys.doc")
    assert (yes.code, "external_auth.file.fred: sys.* on web*" in yes.out) == (0, True)
    no = fleet.cli("acl", "explain", "file:fred", "*", "sys.doc", "--out", "json")
    assert (no.code, no.json()["refused"]) == (6, ["db1"])
    assert fleet.cli("acl", "explain", "daemon", "web1", "test.ping").code == 0
    assert fleet.cli("acl", "explain", "root", "*", "cmd.run", "id").code == 0


def test_the_process_that_checks_passwords_comes_back_and_no_password_is_in_any_log(fleet: Fleet) -> None:
    master = fleet.daemons["master"]
    pid = master.child("auth")
    os.kill(pid, 9)
    wait_until(lambda: master.child("auth") != pid, "it is started again")
    wait_until(lambda: as_user(fleet, "fred", "web1", "test.ping").code == 0, "logins work again")
    logs = fleet.logs() + "".join(
        path.read_text(errors="replace") for path in fleet.folder.glob("*/*/var/log/**/*") if path.is_file()
    )
    assert PASSWORD not in logs
    assert "open sesame" not in logs
    with fleet.store() as store:
        assert PASSWORD not in repr(store.events(0, 10**6))


def test_many_wrong_passwords_make_the_name_wait_also_with_the_right_one(fleet: Fleet) -> None:
    # At once, for one more wrong one is let through every few seconds; a busy machine needs more than one round.
    for _ in range(5):
        guesses = [as_user_begun(fleet, "gina", "id") for _ in range(14)]
        for guess in guesses:
            guess.communicate("wrong\n", timeout=60)
        refused = as_user(fleet, "gina", "db1", "grains.get", "id")
        if refused.code == 6:
            break
    assert refused.code == 6
    assert "too many wrong passwords" in refused.err
    assert as_user(fleet, "fred", "web1", "test.ping").code == 0
