"""`ssh` against the real programs of OpenSSH, in homes of the test's own that may be hostile."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _safe_files

INDEX = build_index(search_layers({}))
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root has anything to fear of users")

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIG1VbaXtkl7oqpKBYjLNJeEAAMI4nBLI3B2SE9CmuXnK"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIKQGvSjJqPAUzTqyELG5U8sNGzgRqjPUdzGp9Pm7GMbG"
PRINTED = subprocess.run(
    ["ssh-keygen", "-lf", "-"], input=f"ssh-ed25519 {KEY} x\n", capture_output=True, text=True, check=True
).stdout.split()[1]


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {"kernel": "Linux"}, {}), f"ssh.{fun}", args, kwargs)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the user `sltuser`, who is nobody when the test runs as root."""
    folder = tmp_path / "home of; x"
    folder.mkdir()
    uid = 65534 if os.geteuid() == 0 else os.geteuid()
    os.chown(folder, uid, -1)
    entry = pwd.struct_passwd(("sltuser", "x", uid, os.stat(folder).st_gid, "", str(folder), "/bin/sh"))
    known = pwd.getpwnam

    def getpwnam(name: str) -> pwd.struct_passwd:
        return entry if name == "sltuser" else known(name)

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    monkeypatch.setattr(pwd, "getpwall", lambda: [entry])
    return folder


def keys_of(home: Path) -> str:
    return (home / ".ssh/authorized_keys").read_text()


def test_a_key_is_added_changed_found_and_removed(home: Path) -> None:
    assert run("auth_keys", "sltuser") == Outcome({}, 0)
    assert run("check_key", "sltuser", KEY, "ed25519", "me", []).value == "add"
    assert run("set_auth_key", "sltuser", KEY, "ed25519", "me  too") == Outcome("new", 0)
    assert keys_of(home) == f"ssh-ed25519 {KEY} me too\n"
    made = (home / ".ssh", home / ".ssh/authorized_keys")
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o600]
    assert {path.stat().st_uid for path in made} == {home.stat().st_uid}
    assert run("set_auth_key", "sltuser", KEY, "ssh-ed25519", "me too").value == "no change"
    options = ['command="echo \\"a, b\\" c"', "no-pty"]
    assert run("check_key", "sltuser", KEY, "ed25519", "me too", options).value == "update"
    assert run("set_auth_key", "sltuser", KEY, "ed25519", "me too", options).value == "replace"
    found = run("auth_keys", "sltuser").value
    raw = subprocess.run(["ssh-keygen", "-lf", str(made[1])], capture_output=True, text=True, check=True).stdout
    assert raw.split()[1] == PRINTED
    assert found[KEY]["options"] == options
    assert (found[KEY]["enc"], found[KEY]["comment"]) == ("ssh-ed25519", "me too")
    assert run("auth_keys").value == {"sltuser": found}
    assert run("set_auth_key", "sltuser", OTHER, "ed25519").value == "new"
    assert run("rm_auth_key", "sltuser", KEY).value == "Key removed"
    assert run("rm_auth_key", "sltuser", KEY).value == "Key not present"
    assert keys_of(home) == f"ssh-ed25519 {OTHER}\n"


def test_other_lines_and_the_mode_of_the_file_stay(home: Path) -> None:
    (home / ".ssh").mkdir()
    path = home / ".ssh/authorized_keys"
    text = f'# mine é\nfrom="10.0.0.1,ssh-rsa x" ssh-ed25519 {OTHER} other key\nnonsense'
    path.write_text(text)
    path.chmod(0o644)
    run("set_auth_key", "sltuser", KEY, "ed25519")
    assert keys_of(home) == f"{text}\nssh-ed25519 {KEY}\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert run("auth_keys", "sltuser").value[OTHER]["options"] == ['from="10.0.0.1,ssh-rsa x"']


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((f"ssh-ed25519 {KEY}",), {}, "invalid"),
        (("no?key",), {}, "Invalid public key"),
        ((KEY, "md5"), {}, "ERROR: Incorrect encryption key type 'md5'."),
        ((KEY, "rsa", f"x\nssh-ed25519 {OTHER}"), {}, "one line"),
        ((KEY, "rsa", "x", [f"no-pty x\nssh-ed25519 {OTHER}"]), {}, "one line"),
        ((KEY, "rsa"), {"config": "%x"}, "unknown token character '%x'"),
        ((KEY, "rsa"), {"config": "%"}, "escape character"),
        ((KEY, "rsa"), {"config": "../../x"}, "is not an absolute path"),
    ],
)
def test_what_is_no_key_is_not_written(home: Path, args: Any, kwargs: Any, said: str) -> None:
    assert said in run("set_auth_key", "sltuser", *args, **kwargs).value
    assert list(home.iterdir()) == []


def test_who_does_not_exist_gets_no_key(home: Path) -> None:
    assert run("set_auth_key", "sltnosuch", KEY).value == "fail"
    assert "does not exist" in run("rm_auth_key", "sltnosuch", KEY).value


def test_the_place_of_the_file_may_be_configured_as_in_sshd(home: Path, tmp_path: Path) -> None:
    assert run("set_auth_key", "sltuser", KEY, "ed25519", config=f"{tmp_path}/%u.keys").value == "new"
    assert (tmp_path / "sltuser.keys").read_text() == f"ssh-ed25519 {KEY}\n"
    assert run("set_auth_key", "sltuser", KEY, "ed25519", config="%h/a/b").value == "new"
    assert (home / "a/b").exists()


def test_keys_of_a_file_are_set_checked_and_removed(home: Path, tmp_path: Path) -> None:
    source = tmp_path / "team.pub"
    source.write_text(f"# team\nssh-ed25519 {KEY} a\nno-pty ssh-ed25519 {OTHER} b\n")
    assert run("check_key_file", "sltuser", str(source)).value == {KEY: "add", OTHER: "add"}
    assert run("set_auth_key_from_file", "sltuser", str(source)).value == "new"
    assert run("check_key_file", "sltuser", str(source)).value == {KEY: "exists", OTHER: "exists"}
    assert run("set_auth_key_from_file", "sltuser", str(source)).value == "no change"
    assert run("rm_auth_key_from_file", "sltuser", str(source)).value == "Key removed"
    assert keys_of(home) == ""
    source.write_text("nothing")
    assert run("set_auth_key_from_file", "sltuser", str(source)).value == "fail"
    assert "Failed to pull" in run("set_auth_key_from_file", "sltuser", str(tmp_path / "no")).value


@ROOT_ONLY
@pytest.mark.parametrize("trap", ["folder", "file", "fifo"])
def test_a_trap_in_a_home_leads_root_nowhere(home: Path, tmp_path: Path, trap: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "authorized_keys").write_text(f"ssh-ed25519 {OTHER} root's\n")
    if trap == "folder":
        (home / ".ssh").symlink_to(victim)
    else:
        (home / ".ssh").mkdir()
        path = home / ".ssh/authorized_keys"
        path.symlink_to(victim / "authorized_keys") if trap == "file" else os.mkfifo(path)
    for fun, args in (
        ("set_auth_key", (KEY, "ed25519")), ("auth_keys", ()), ("rm_auth_key", (OTHER,)), ("set_known_host", ()),
    ):  # fmt: skip
        if fun == "set_known_host" and trap != "folder":
            continue
        kwargs = {"hostname": "x", "key": KEY} if fun == "set_known_host" else {}
        outcome = run(fun, "sltuser", *args, **kwargs)
        assert outcome.retcode == 1, fun
        assert "not followed" in outcome.value or "not a regular file" in outcome.value
    assert run("user_keys", "sltuser", pubfile="authorized_keys").value == {}
    assert (victim / "authorized_keys").read_text() == f"ssh-ed25519 {OTHER} root's\n"
    assert [path.name for path in victim.iterdir()] == ["authorized_keys"]


@ROOT_ONLY
def test_a_hard_link_to_a_file_of_root_is_left_alone(home: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("root's\n")
    (home / ".ssh").mkdir()
    (home / ".ssh/authorized_keys").hardlink_to(victim)
    assert "hard link" in run("set_auth_key", "sltuser", KEY, "ed25519").value
    assert victim.read_text() == "root's\n"
    assert victim.stat().st_ino == (home / ".ssh/authorized_keys").stat().st_ino


@ROOT_ONLY
def test_a_file_that_root_keeps_for_a_user_stays_that_of_root(home: Path) -> None:
    run("set_auth_key", "sltuser", OTHER, "ed25519")
    os.chown(home / ".ssh/authorized_keys", 0, 0)
    assert run("set_auth_key", "sltuser", KEY, "ed25519").value == "new"
    assert (home / ".ssh/authorized_keys").stat().st_uid == 0


def test_a_full_disk_leaves_the_old_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("set_auth_key", "sltuser", KEY, "ed25519")

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = run("set_auth_key", "sltuser", OTHER, "ed25519")
    assert (outcome.retcode, "is as it was: No space left" in outcome.value) == (1, True)
    assert [path.name for path in (home / ".ssh").iterdir()] == ["authorized_keys"]
    assert keys_of(home) == f"ssh-ed25519 {KEY}\n"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_safe_files, "FILE_BYTES_MAX", 3)
    (tmp_path / "x").write_text("four")
    with pytest.raises(CommandExecutionError, match="more than 3 bytes"):
        _safe_files.read_user_file(str(tmp_path / "x"), None)


def known(home: Path) -> str:
    return (home / ".ssh/known_hosts").read_text()


def test_a_host_is_known_by_its_key_found_and_forgotten(home: Path) -> None:
    host = {"hostname": "git.example.org", "key": KEY, "hash_known_hosts": False}
    assert run("check_known_host", "sltuser", "git.example.org").value == "add"
    set_ = run("set_known_host", "sltuser", **host).value
    assert (set_["status"], set_["old"], set_["new"][0]["enc"]) == ("updated", None, "ssh-ed25519")
    assert known(home) == f"git.example.org ssh-ed25519 {KEY}\n"
    assert (home / ".ssh/known_hosts").stat().st_mode & 0o777 == 0o600
    (entry,) = run("get_known_host_entries", "sltuser", "git.example.org").value
    assert (entry["hostname"], entry["key"], entry["enc"]) == ("git.example.org", KEY, "ssh-ed25519")
    assert run("set_known_host", "sltuser", **host).value == {"status": "exists", "keys": [KEY]}
    by_print = {"hostname": "git.example.org", "fingerprint": PRINTED}
    assert run("check_known_host", "sltuser", **by_print).value == "exists"
    assert run("set_known_host", "sltuser", **by_print).value == {"status": "exists", "keys": [KEY]}
    assert run("check_known_host", "sltuser", "git.example.org", OTHER).value == "update"
    assert run("set_known_host", "sltuser", **{**host, "key": OTHER}).value["status"] == "updated"
    assert known(home) == f"git.example.org ssh-ed25519 {OTHER}\n"
    removed = run("rm_known_host", "sltuser", "git.example.org").value
    assert (removed["status"], str(home) in removed["comment"]) == ("removed", True)
    assert run("get_known_host_entries", "sltuser", "git.example.org").value is None
    assert [path.name for path in (home / ".ssh").iterdir()] == ["known_hosts"]


def test_names_are_hashed_and_ports_kept(home: Path) -> None:
    run("set_known_host", "sltuser", "a.example.org", key=KEY)
    assert known(home).startswith("|1|")
    run("set_known_host", "sltuser", "b.example.org", key=KEY, port=2222, hash_known_hosts=False)
    assert f"[b.example.org]:2222 ssh-ed25519 {KEY}" in known(home)
    assert run("hash_known_hosts", "sltuser").value["status"] == "updated"
    assert "b.example.org" not in known(home)
    assert len(run("get_known_host_entries", "sltuser", "b.example.org", port=2222).value) == 1
    assert [path.name for path in (home / ".ssh").iterdir()] == ["known_hosts"]


def test_a_key_that_was_revoked_is_none_that_is_known(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/known_hosts").write_text(f"@revoked x ssh-ed25519 {KEY}\n")
    assert run("check_known_host", "sltuser", "x", KEY).value == "add"
    run("set_known_host", "sltuser", "x", key=OTHER, hash_known_hosts=False)
    assert known(home) == f"@revoked x ssh-ed25519 {KEY}\nx ssh-ed25519 {OTHER}\n"


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "words"),
    [
        ("set_known_host", (), {}, "hostname argument required"),
        ("check_known_host", (), {}, "hostname argument required"),
        ("rm_known_host", ("sltuser", "x"), {}, "does not exist"),
        ("hash_known_hosts", ("sltnosuch",), {}, "User sltnosuch does not exist"),
        ("set_known_host", ("sltuser", "x"), {"port": 2, "key": KEY}, "can not be used"),
        ("set_known_host", ("sltuser", "x"), {"key": "no key", "hash_known_hosts": False}, "not a public key"),
        ("set_known_host", ("sltuser", "x"), {"key": f"{KEY}\n{OTHER}"}, "one line"),
        ("set_known_host", ("sltuser", "x"), {"key": KEY, "enc": "a b"}, "is not a type of keys"),
        ("get_known_host_entries", (None, "x"), {"config": "relative"}, "Cannot determine absolute path"),
        ("get_known_host_entries", ("sltuser", "-x"), {}, "is not the name of a host"),
        ("rm_known_host", ("sltuser", "a b"), {}, "is not the name of a host"),
        ("recv_known_host_entries", ("-x",), {}, "is not the name of a host"),
        ("recv_known_host_entries", ("x",), {"enc": "-f"}, "is not a type of keys"),
        ("recv_known_host_entries", ("x",), {"port": "-f"}, "whole number"),
        ("host_keys", ("/nosuch",), {}, "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said(home: Path, fun: str, args: Any, kwargs: Any, words: str) -> None:
    said = run(fun, *args, **kwargs).value
    assert words in (said["error"] if isinstance(said, dict) else said)
    assert list(home.iterdir()) == []


def test_a_host_is_asked_for_its_keys(home: Path, tmp_path: Path) -> None:
    scan = tmp_path / "bin/ssh-keyscan"
    scan.parent.mkdir()
    scan.write_text(f'#!/bin/sh\nprintf "%s " "$@" >"$0.said"\necho "# x:22 SSH-2.0"\necho "x ssh-ed25519 {KEY}"\n')
    scan.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{scan.parent}:{os.environ['PATH']}")
        (entry,) = run("recv_known_host_entries", "x", "ed25519", 22, timeout=1).value
        assert (entry["hostname"], entry["key"]) == ("x", KEY)
        assert (tmp_path / "bin/ssh-keyscan.said").read_text() == "-T 1 -p 22 -t ed25519 -H -- x "
        refused = run("set_known_host", "sltuser", "x", "SHA256:" + "A" * 43).value
        assert "none of their fingerprints match" in refused["error"]
        assert run("set_known_host", "sltuser", "x", PRINTED).value["status"] == "updated"
        assert run("set_known_host", "sltuser", "x").value == {"status": "exists", "keys": [KEY]}


def test_a_host_that_is_not_there_is_an_error(home: Path) -> None:
    assert run("recv_known_host_entries", "127.0.0.1", port=1, timeout=1).value is None
    said = run("set_known_host", "sltuser", "127.0.0.1", port=1, timeout=1, hash_known_hosts=False).value
    assert said == {"status": "error", "error": "Unable to receive remote host keys"}


def make_key(path: Path, passphrase: str = "", *options: str) -> None:
    path.parent.mkdir(exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path), *options], check=True)


def test_private_keys_are_shown_when_they_are_asked_for(home: Path, tmp_path: Path) -> None:
    make_key(home / ".ssh/id_ed25519")
    if os.geteuid() == 0:
        for path in (home / ".ssh").iterdir():
            os.chown(path, 65534, -1)
    assert set(run("user_keys", "sltuser").value["sltuser"]) == {"id_ed25519.pub"}
    assert set(run("user_keys").value["sltuser"]) == {"id_ed25519.pub"}
    asked = run("user_keys", ["sltuser"], pubfile=False, prvfile="id_ed25519").value["sltuser"]
    assert asked["id_ed25519"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    make_key(tmp_path / "etc/ssh_host_ed25519_key")
    assert set(run("host_keys", str(tmp_path / "etc")).value) == {"ed25519.pub"}
    assert set(run("host_keys", str(tmp_path / "etc"), private=True).value) == {"ed25519", "ed25519.pub"}


def test_a_key_with_a_passphrase_is_told_from_one_without(tmp_path: Path) -> None:
    make_key(tmp_path / "open")
    make_key(tmp_path / "closed", "sesame")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "rsa", "-b", "1024", "-m", "PEM", "-N", "sesame", "-f", str(tmp_path / "pem")],
        check=True,
    )
    asked = [run("key_is_encrypted", str(tmp_path / name)).value for name in ("open", "closed", "pem", "open.pub", "x")]
    assert asked == [False, True, True, False, False]
