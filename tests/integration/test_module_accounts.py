"""`user`, `group` and `shadow` with the machine's own programs: on files below a root, and on this machine itself."""

from __future__ import annotations

import contextlib
import ctypes
import grp
import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.grains.collect import collect
from saltlite.plugins.modules import _programs

INDEX = build_index(search_layers({}))
GRAINS = collect({})
HASH = "$6$abc$MtSdWSZbhct2oe.SOqOUM2M/GA/uj5.vyVtJgRHgKi9uqXuWuJqOYE7H/YlsYGVg/YYzDV0xt3fEIwYt580.5."
"""Of `pw`, with the salt `abc`."""
NASTY = ["-rf", "", "a:b", "a\nb", "a\0b", "../etc", "a,b", "\x1b[2J"]
ODD = ["a b", "a;id", "a'b", '"', "$(id)", "a|b", "#", "ü"]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users"),
    pytest.mark.skipif(shutil.which("useradd") is None, reason="the shadow suite is not installed (package passwd)"),
]


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {"smi_returns": "strict"}, GRAINS, {}), fun, args, kwargs)


def done(fun: str, *args: Any, **kwargs: Any) -> None:
    outcome = run(fun, *args, **kwargs)
    assert (outcome.value, outcome.retcode) == (True, 0)


def refused(words: str, fun: str, *args: Any, **kwargs: Any) -> None:
    outcome = run(fun, *args, **kwargs)
    said = outcome.value if outcome.value is not False else outcome.warnings
    assert (words in str(said), outcome.retcode) == (True, 1), outcome


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A system of two users and three groups."""
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "passwd").write_text("root:x:0:0:root:/:/bin/sh\nann:x:1000:1000:Ann A,1,2,3,x,y:/srv/h/ann:/bin/sh\n")
    (etc / "group").write_text("root:x:0:\nann:x:1000:\naudio:x:29:ann\n")
    (etc / "shadow").write_text(f"root:*:19000:0:99999:7:::\nann:{HASH}:19000:0:99999:7:::\n")
    (etc / "gshadow").write_text("root:*::\nann:!::\naudio:*::ann\n")
    (etc / "shadow").chmod(0o640)
    return str(tmp_path)


# --- users


ANN = {
    "name": "ann", "uid": 1000, "gid": 1000, "groups": ["ann", "audio"], "home": "/srv/h/ann", "shell": "/bin/sh",
    "passwd": "x", "fullname": "Ann A", "roomnumber": "1", "workphone": "2", "homephone": "3", "other": "x,y",
}  # fmt: skip


def test_a_user_is_told_of_with_groups_and_the_parts_of_the_comment(root: str) -> None:
    assert run("user.info", "ann", root=root).value == ANN
    assert run("user.info", "sltnone", root=root).value == {}
    assert run("user.list_users", root=root).value == ["ann", "root"]
    assert run("user.list_groups", "ann", root=root).value == ["ann", "audio"]
    assert run("user.getent", root=root).value[1] == ANN


def test_lines_that_cannot_be_read_hide_no_others(root: str) -> None:
    with Path(root, "etc/passwd").open("a") as stream:
        stream.write("\nbroken\nbad:x:one:2:::\n+::::::\nbob:x:7:7::/:/bin/sh\n")
    assert run("user.list_users", root=root).value == ["ann", "bob", "root"]


def test_a_user_is_added_with_everything_at_once(root: str) -> None:
    done(  # noqa: S604 - `shell` is the login shell of the user
        "user.add", "bob", 1500, "audio", groups="ann,root", home="/srv/bob", shell="/bin/dash", fullname="Bob B",
        roomnumber=7, workphone="8", homephone="9", other="a,b", createhome=False, root=root,
    )  # fmt: skip
    assert run("user.info", "bob", root=root).value == {
        "name": "bob", "uid": 1500, "gid": 29, "groups": ["ann", "audio", "root"], "home": "/srv/bob",
        "shell": "/bin/dash", "passwd": "x", "fullname": "Bob B", "roomnumber": "7", "workphone": "8",
        "homephone": "9", "other": "a,b",
    }  # fmt: skip
    assert not Path(root, "srv/bob").exists()


@pytest.mark.parametrize(
    ("fun", "value", "key", "shown"),
    [
        ("chuid", 1234, "uid", 1234),
        ("chuid", "1234", "uid", 1234),
        ("chgid", 29, "gid", 29),
        ("chgid", "audio", "gid", 29),
        ("chshell", "/bin/zsh", "shell", "/bin/zsh"),
        ("chhome", "/srv/ann", "home", "/srv/ann"),
        ("chfullname", "Änn Ö", "fullname", "Änn Ö"),
        ("chfullname", "", "fullname", ""),
        ("chroomnumber", 12, "roomnumber", "12"),
        ("chworkphone", "+49 1", "workphone", "+49 1"),
        ("chhomephone", None, "homephone", ""),
        ("chother", "a, b, c", "other", "a, b, c"),
        ("chgroups", "root", "groups", ["ann", "root"]),
        ("chgroups", ["root", "audio"], "groups", ["ann", "audio", "root"]),
        ("chgroups", [], "groups", ["ann"]),
    ],
)
def test_one_thing_of_a_user_is_changed_and_nothing_else(root: str, fun: str, value: Any, key: str, shown: Any) -> None:
    done(f"user.{fun}", "ann", value, root=root)
    done(f"user.{fun}", "ann", value, root=root)
    found = run("user.info", "ann", root=root).value
    assert found == {**ANN, key: shown} | ({"groups": ["audio"]} if key == "gid" else {})


def test_groups_are_added_to_those_that_are_there(root: str) -> None:
    done("user.chgroups", "ann", "root", append=True, root=root)
    assert run("user.list_groups", "ann", root=root).value == ["ann", "audio", "root"]


def test_a_user_gets_another_name(root: str) -> None:
    done("user.rename", "ann", "eve", root=root)
    assert run("user.list_users", root=root).value == ["eve", "root"]
    refused("User 'root' already exists", "user.rename", "eve", "root", root=root)


@pytest.mark.parametrize(
    ("fun", "args", "words"),
    [
        ("user.add", ["ann"], "user 'ann' already exists"),
        ("user.add", ["bob", 1000], "UID 1000 is not unique"),
        ("user.add", ["bob", None, None, "sltnone"], "group 'sltnone' does not exist"),
        ("user.add", ["bob", "x"], "uid is a number"),
        ("user.delete", ["sltnone"], "user 'sltnone' does not exist"),
        ("user.chuid", ["sltnone", 5], "User 'sltnone' does not exist"),
        ("user.chgid", ["ann", "sltnone"], "group 'sltnone' does not exist"),
        ("user.chhome", ["ann", "relative"], "absolute path"),
        ("user.chfullname", ["ann", "a:b"], "cannot be a fullname"),
        ("user.chfullname", ["ann", "a,b"], "cannot be a fullname"),
        ("user.chother", ["ann", "a\nb"], "cannot be a other"),
        ("group.add", ["ann"], "group 'ann' already exists"),
        ("group.delete", ["ann"], "cannot remove the primary group of user 'ann'"),
        ("group.delete", ["sltnone"], "group 'sltnone' does not exist"),
        ("group.adduser", ["audio", "sltnone"], "user 'sltnone' does not exist"),
        ("group.adduser", ["sltnone", "ann"], "Group 'sltnone' does not exist"),
        ("group.members", ["audio", "ann,sltnone"], "user 'sltnone' does not exist"),
        ("group.chgid", ["audio", 1000], "GID '1000' already exists"),
        ("group.chgid", ["audio", -1], "gid is a number"),
        ("shadow.set_password", ["sltnone", HASH], "User 'sltnone' does not exist"),
        ("shadow.set_maxdays", ["sltnone", 1], "User 'sltnone' does not exist"),
        ("shadow.lock_password", ["sltnone"], "User 'sltnone' does not exist"),
        ("shadow.set_maxdays", ["ann", "soon"], "'soon' is not a number of days"),
        ("shadow.set_maxdays", ["ann", "2030-01-01"], "is not a number of days"),
        ("shadow.set_expire", ["ann", True], "True is not a number of days"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_changes(root: str, fun: str, args: list[Any], words: str) -> None:
    before = {path.name: path.read_text() for path in Path(root, "etc").glob("[!.]*[!-]")}
    refused(words, fun, *args, root=root)
    assert {path.name: path.read_text() for path in Path(root, "etc").glob("[!.]*[!-]")} == before


NAMED = {
    "user": {"add": [], "delete": [], "info": [], "chuid": [5], "rename": ["bob"], "chgroups": ["audio"]},
    "group": {"add": [], "delete": [], "info": [], "chgid": [5], "adduser": ["ann"], "members": ["ann"]},
    "shadow": {"info": [], "set_password": [HASH], "lock_password": [], "set_expire": [1], "del_password": []},
}
CALLS = [(f"{module}.{fun}", args) for module, funs in NAMED.items() for fun, args in funs.items()]


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize(("fun", "args"), CALLS, ids=[fun for fun, _ in CALLS])
def test_what_is_no_name_is_refused_before_anything_runs(root: str, fun: str, args: list[Any], name: str) -> None:
    refused("is not the name of a", fun, name, *args, root=root)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_given_to_nobody(root: str, name: str) -> None:
    refused("is not the name of a user", "user.add", name, createhome=False, root=root)
    refused("is not the name of a user", "user.rename", "ann", name, root=root)
    refused("is not the name of a group", "group.add", name, root=root)


@pytest.mark.parametrize("name", ODD)
def test_who_has_an_odd_name_can_be_removed(root: str, name: str) -> None:
    with Path(root, "etc/passwd").open("a") as passwd, Path(root, "etc/shadow").open("a") as shadow:
        passwd.write(f"{name}:x:77:29::/:/bin/sh\n")
        shadow.write(f"{name}:!:1::::::\n")
    assert run("user.info", name, root=root).value["uid"] == 77
    done("shadow.set_password", name, HASH, root=root)
    done("user.delete", name, root=root)
    assert run("user.list_users", root=root).value == ["ann", "root"]


@pytest.mark.parametrize("other", ["-x", "a\nb", "a:b"])
@pytest.mark.parametrize(
    ("fun", "name"),
    [("user.rename", "ann"), ("user.chgid", "ann"), ("user.chgroups", "ann"), ("group.adduser", "audio")],
)
def test_a_second_name_is_looked_at_too(root: str, fun: str, name: str, other: str) -> None:
    refused("is not the name of a", fun, name, other, root=root)


# --- groups


def test_groups_are_told_of(root: str) -> None:
    audio = {"name": "audio", "passwd": "x", "gid": 29, "members": ["ann"]}
    assert run("group.info", "audio", root=root).value == audio
    assert run("group.info", "sltnone", root=root).value == {}
    assert [one["name"] for one in run("group.getent", root=root).value] == ["root", "ann", "audio"]


def test_a_group_is_added_changed_and_removed(root: str) -> None:
    done("group.add", "web", 3456, root=root)
    done("group.chgid", "web", 29, non_unique=True, root=root)
    assert run("group.info", "web", root=root).value["gid"] == 29
    done("group.delete", "web", root=root)
    assert run("group.info", "web", root=root).value == {}


@pytest.mark.parametrize(
    ("fun", "args", "members"),
    [
        ("adduser", ["root"], ["ann", "root"]),
        ("adduser", ["ann"], ["ann"]),
        ("deluser", ["ann"], []),
        ("deluser", ["root"], ["ann"]),
        ("members", ["root"], ["root"]),
        ("members", ["root,ann"], ["root", "ann"]),
        ("members", [["root", "ann"]], ["root", "ann"]),
        ("members", [""], []),
    ],
)
def test_members_come_and_go(root: str, fun: str, args: list[Any], members: list[str]) -> None:
    done(f"group.{fun}", "audio", *args, root=root)
    assert run("group.info", "audio", root=root).value["members"] == members


# --- passwords


def test_a_password_is_told_of(root: str) -> None:
    assert run("shadow.info", "ann", root=root).value == {
        "name": "ann", "passwd": HASH, "lstchg": 19000, "min": 0, "max": 99999, "warn": 7, "inact": -1, "expire": -1,
    }  # fmt: skip
    assert {*run("shadow.info", "sltnone", root=root).value.values()} == {""}
    assert run("shadow.list_users", root=root).value == ["ann", "root"]


@pytest.mark.parametrize(
    ("fun", "value", "key", "shown"),
    [
        ("set_inactdays", 7, "inact", 7),
        ("set_maxdays", 90, "max", 90),
        ("set_mindays", "3", "min", 3),
        ("set_warndays", 14, "warn", 14),
        ("set_date", 0, "lstchg", 0),
        ("set_date", "2020-01-01", "lstchg", 18262),
        ("set_expire", 20000, "expire", 20000),
        ("set_expire", "2030-01-01", "expire", 21915),
        ("set_expire", -1, "expire", -1),
        ("set_password", "!", "passwd", "!"),
        ("del_password", None, "passwd", ""),
        ("lock_password", None, "passwd", f"!{HASH}"),
        ("unlock_password", None, "passwd", HASH),
    ],
)
def test_one_thing_of_a_password_is_changed(root: str, fun: str, value: Any, key: str, shown: Any) -> None:
    done(f"shadow.{fun}", "ann", *([] if value is None else [value]), root=root)
    assert run("shadow.info", "ann", root=root).value[key] == shown


def test_without_password_a_new_one_is_still_due(root: str) -> None:
    done("shadow.set_date", "ann", 0, root=root)
    done("shadow.del_password", "ann", root=root)
    found = run("shadow.info", "ann", root=root).value
    assert (found["passwd"], found["lstchg"]) == ("", 0)


def test_a_lock_is_taken_away_again(root: str) -> None:
    done("shadow.lock_password", "ann", root=root)
    done("shadow.lock_password", "ann", root=root)
    done("shadow.unlock_password", "ann", root=root)
    assert run("shadow.info", "ann", root=root).value["passwd"] == HASH


def test_an_account_is_not_left_without_password_by_unlocking(root: str) -> None:
    done("shadow.set_password", "ann", "!", root=root)
    refused("The password was not unlocked", "shadow.unlock_password", "ann", root=root)


@pytest.mark.parametrize("text", ["", "a:b", "secret\nroot:x", "a\0b"])
def test_what_would_break_the_file_is_refused_and_not_repeated(root: str, text: str) -> None:
    outcome = run("shadow.set_password", "ann", text, root=root)
    assert outcome.retcode == 1
    assert "The hash was not set" in outcome.value
    assert "secret" not in outcome.value


def test_who_sets_a_password_instead_of_its_hash_is_told(root: str) -> None:
    outcome = run("shadow.set_password", "ann", "secret", root=root)
    assert "make one with shadow.gen_password" in outcome.warnings[0]
    assert run("shadow.set_password", "ann", HASH, root=root).warnings == ()


@pytest.mark.parametrize(
    ("algorithm", "prefix"),
    [("sha512", "$6$"), ("sha256", "$5$"), ("md5", "$1$"), ("blowfish", "$2b$12$"), ("crypt", "")],
)
def test_a_hash_is_that_of_the_system_s_crypt(algorithm: str, prefix: str) -> None:
    made = run("shadow.gen_password", "pässword", algorithm=algorithm).value
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    assert made.startswith(prefix)
    assert library.crypt("pässword".encode(), made.encode()).decode() == made
    assert library.crypt(b"another", made.encode()).decode() != made


def test_a_salt_of_one_s_own_makes_a_known_hash() -> None:
    assert run("shadow.gen_password", "pw", "abc").value == HASH
    assert run("shadow.gen_password", "pw", crypt_salt="rounds=5001$abc").value.startswith("$6$rounds=5001$abc$")
    assert run("shadow.gen_password", "pw").value != run("shadow.gen_password", "pw").value


@pytest.mark.parametrize(
    ("password", "kwargs", "words"),
    [
        ("pw", {"algorithm": "rot13"}, "'rot13' is not an algorithm"),
        ("pw", {"crypt_salt": "a:b"}, "is not a salt"),
        ("pw", {"crypt_salt": "a$b"}, "is not a salt"),
        ("pw", {"crypt_salt": ""}, "is not a salt"),
        ("pw", {"algorithm": "blowfish", "crypt_salt": "short"}, "cannot make a blowfish hash"),
        ("p\0w", {}, "NUL"),
    ],
)
def test_what_makes_no_hash_is_said(password: str, kwargs: dict[str, Any], words: str) -> None:
    refused(words, "shadow.gen_password", password, **kwargs)


def test_no_program_gets_a_hash_as_an_argument(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("chpasswd", "usermod", "chage", "passwd"):
        real = shutil.which(name)
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{seen}\nexec {real} "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for use_usermod in (False, True):
        done("shadow.set_password", "ann", "$6$x$other", use_usermod=use_usermod, root=root)
    done("shadow.del_password", "ann", root=root)
    assert seen.read_text().splitlines() == [f"chpasswd --root {root} -e"] * 2 + [f"usermod --root {root} -p  -- ann"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("kill -9 $$", "useradd failed (return code -9): signal 9 ended it"), ("exit 3", "it gave no reason")],
)
def test_a_program_that_ends_without_a_word_is_named(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    (tmp_path / "useradd").write_text(f"#!/bin/sh\n{text}\n")
    (tmp_path / "useradd").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(words, "user.add", "bob", root=root)


def test_a_program_that_is_not_installed_is_named(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(_programs, "_FOLDERS", ())
    refused("useradd (there is no such program on this minion)", "user.add", "bob", root=root)
    refused("chpasswd (there is no such program on this minion)", "shadow.set_password", "ann", HASH, root=root)
    assert run("user.info", "ann", root=root).value == ANN


# --- this machine


@pytest.fixture
def names() -> Iterator[list[str]]:
    """Names of users and groups that are removed afterwards."""
    made = ["sltbob", "sltrob", "sltweb"]
    try:
        yield made
    finally:
        for name in made[:2]:
            subprocess.run(["userdel", "-f", "-r", name], capture_output=True, check=False)
        for name in made:
            subprocess.run(["groupdel", "-f", name], capture_output=True, check=False)


def test_a_user_lives_on_this_machine(names: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    done("group.add", "sltweb")
    done("user.add", "sltbob", groups=["sltweb"], home=str(home), fullname="Bob B")
    entry = pwd.getpwnam("sltbob")
    found = run("user.info", "sltbob").value
    assert (found["uid"], found["fullname"], found["groups"]) == (entry.pw_uid, "Bob B", ["sltbob", "sltweb"])
    assert (found in run("user.getent").value, home.stat().st_uid) == (True, entry.pw_uid)
    assert run("user.primary_group", "sltbob").value == "sltbob"
    done("shadow.set_password", "sltbob", HASH)
    assert run("shadow.info", "sltbob").value["passwd"] == HASH
    done("user.chhome", "sltbob", f"{home}2", persist=True)
    assert (home.exists(), Path(f"{home}2").is_dir()) == (False, True)
    done("user.rename", "sltbob", "sltrob")
    assert grp.getgrnam("sltweb").gr_mem == ["sltrob"]
    done("user.delete", "sltrob", remove=True)
    assert (run("user.info", "sltrob").value, Path(f"{home}2").exists()) == ({}, False)


def test_a_group_that_is_there_becomes_the_user_s_own(names: list[str]) -> None:
    done("group.add", "sltbob")
    done("user.add", "sltbob", groups="sltbob", createhome=False)
    assert run("user.primary_group", "sltbob").value == "sltbob"


@pytest.mark.parametrize("module", ["user", "group", "shadow"])
def test_all_that_the_interface_wants_is_there(module: str) -> None:
    report = run("smi.conformance", module).value[module]
    assert (report["errors"], report["warnings"], report["counts"].get("not_implemented", 0)) == (0, 0, 0)


def as_nobody(loader: Loader, fun: str, *args: Any) -> tuple[Any, int]:
    """Value and return code of a call that a child of this process makes as an ordinary user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            outcome = call(loader, fun, args, {})
            os.write(writing, json.dumps([outcome.value, outcome.retcode]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        value, retcode = json.loads(stream.read())
    os.waitpid(child, 0)
    return value, retcode


def test_an_ordinary_user_reads_what_everybody_may_and_is_told_of_the_rest() -> None:
    loader = Loader(INDEX, {}, GRAINS, {})
    for module in ("user", "group", "shadow"):
        call(loader, f"{module}.info", ("root",), {})  # loaded while the files can be read by everybody that is root
    assert as_nobody(loader, "user.info", "root")[0]["uid"] == 0
    assert as_nobody(loader, "shadow.info", "root") == (
        "ERROR: Only root can read /etc/shadow, and this minion runs as another user.",
        1,
    )
    value, retcode = as_nobody(loader, "user.add", "sltx")
    assert ("Permission denied" in value, retcode) == (True, 1)
    assert as_nobody(loader, "group.add", "sltx") == (False, 1)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        ("group.add", ["ann"]),
        ("group.delete", ["sltnone"]),
        ("group.adduser", ["audio", "sltnone"]),
        ("group.adduser", ["sltnone", "ann"]),
        ("shadow.set_password", ["sltnone", HASH]),
        ("shadow.del_password", ["sltnone"]),
        ("shadow.lock_password", ["sltnone"]),
        ("shadow.set_date", ["sltnone", 1]),
    ],
)
def test_what_is_false_in_salt_is_false_with_the_reason_as_a_note(root: str, fun: str, args: list[Any]) -> None:
    outcome = run(fun, *args, root=root)
    assert (outcome.value, outcome.retcode, len(outcome.warnings)) == (False, 1, 1)
