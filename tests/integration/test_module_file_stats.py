"""What `file` tells of paths: stats, links, devices, digests, who has files open."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.modules import done, refusal, run

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do this")
NAMES = ("a b", 'it\'s "so"', "x; touch owned", "-rf", "a\nb", "größe-漢字", "caf\udce9", "a[*]?")
DIGEST = hashlib.sha256(b"alpha").hexdigest()

ON_A_FILE: dict[str, tuple[tuple[Any, ...], Any]] = {
    "access": (("r",), True),
    "check_hash": ((DIGEST,), True),
    "directory_exists": ((), False),
    "diskusage": ((), 5),
    "file_exists": ((), True),
    "get_devmm": ((), (0, 0)),
    "get_hash": ((), DIGEST),
    "get_mode": ((), "0640"),
    "get_sum": (("md5",), hashlib.md5(b"alpha", usedforsecurity=False).hexdigest()),
    "is_blkdev": ((), False),
    "is_chrdev": ((), False),
    "is_fifo": ((), False),
    "is_hardlink": ((), False),
    "is_link": ((), False),
    "set_mode": (("0600",), "0600"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_is_looked_at(tmp_path: Path, name: str) -> None:
    path = os.path.join(tmp_path, name)
    with open(path, "w") as stream:
        stream.write("alpha")
    os.chmod(path, 0o640)
    assert {fun: done(fun, path, *args) for fun, (args, _) in ON_A_FILE.items()} == {
        fun: value for fun, (_, value) in ON_A_FILE.items()
    }


@pytest.mark.parametrize("function", ON_A_FILE)
@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_can_be_no_path_is_refused_in_a_sentence(function: str, path: str) -> None:
    more = ON_A_FILE[function][0]
    assert "is not the path of a file" in refusal(function, path, *more)


def test_stats_have_salt_s_keys(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("alpha")
    path.chmod(0o4755)
    found = done("stats", str(path), "md5")
    assert sorted(found) == [
        "atime", "ctime", "gid", "group", "inode", "mode", "mtime", "size", "sum", "target", "type", "uid", "user",
    ]  # fmt: skip
    assert (found["mode"], found["size"], found["type"], found["target"]) == ("4755", 5, "file", str(path))
    assert (found["uid"], found["inode"]) == (os.geteuid(), path.stat().st_ino)


def test_each_kind_of_path_has_its_type(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("dir")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        types = {
            name: done("stats", f"{tmp_path}/{name}", follow_symlinks=False)["type"] for name in os.listdir(tmp_path)
        }
    assert types == {"pipe": "pipe", "dir": "dir", "link": "link", "socket": "socket"}
    assert done("stats", "/dev/null")["type"] == "char"


def test_a_link_tells_of_its_target_or_of_itself(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("alpha")
    link = tmp_path / "link"
    link.symlink_to("a")
    followed, itself = (done("stats", str(link), follow_symlinks=follow) for follow in (True, False))
    assert (followed["type"], followed["target"]) == ("file", str(tmp_path / "a"))
    assert (itself["type"], itself["target"], itself["mode"]) == ("link", str(link), "0777")


def test_a_link_without_a_target_tells_of_itself(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert done("stats", f"{tmp_path}/link")["type"] == "link"
    assert done("file_exists", f"{tmp_path}/link") is False
    assert done("is_link", f"{tmp_path}/link") is True


@pytest.mark.parametrize("function", ["stats", "get_mode", "get_user", "get_uid", "get_group", "get_gid"])
def test_a_missing_path_is_said_to_be_missing(function: str, tmp_path: Path) -> None:
    assert refusal(function, f"{tmp_path}/no") == f"ERROR: Path not found: {tmp_path}/no"
    (tmp_path / "a").touch()
    assert refusal(function, f"{tmp_path}/a/b") == f"ERROR: Path not found: {tmp_path}/a/b"


def test_lstat_and_statvfs_give_the_numbers_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("no")
    found = done("lstat", f"{tmp_path}/link")
    assert (found["st_size"], found["st_nlink"], len(found)) == (2, 1, 8)
    assert done("lstat", f"{tmp_path}/no") == {}
    assert done("statvfs", str(tmp_path))["f_namemax"] == os.statvfs(tmp_path).f_namemax
    assert "Could not statvfs" in refusal("statvfs", f"{tmp_path}/no")


@pytest.mark.parametrize("function", ["lstat", "statvfs", "readdir", "readlink"])
def test_relative_paths_are_refused_where_salt_refuses_them(function: str) -> None:
    assert "must be absolute" in refusal(function, "etc")


def test_readlink_gives_the_text_of_the_link_or_where_it_ends(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "c").symlink_to("b")
    assert done("readlink", f"{tmp_path}/c") == "b"
    assert done("readlink", f"{tmp_path}/c", canonicalize=True) == f"{tmp_path}/a"
    assert "A valid link was not specified" in refusal("readlink", f"{tmp_path}/a")


def test_is_link_can_read_the_folder_above_instead(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").symlink_to("a")
    assert [done("is_link", f"{tmp_path}/{name}", nostat=True) for name in ("a", "b", "no", "no/no")] == [
        False, True, False, False,
    ]  # fmt: skip


def test_readdir_gives_the_dots_too(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    assert done("readdir", str(tmp_path)) == [".", "..", "a", "b"]
    assert "A valid directory was not specified" in refusal("readdir", f"{tmp_path}/a")


def test_devices_and_pipes_are_told_apart(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert [done(f"is_{kind}", "/dev/null") for kind in ("chrdev", "blkdev", "fifo")] == [True, False, False]
    assert done("is_fifo", f"{tmp_path}/pipe") is True
    assert done("is_fifo", f"{tmp_path}/no") is False
    assert done("get_devmm", "/dev/null") == (1, 3)


def test_a_second_name_makes_a_hard_link(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.link(tmp_path / "a", tmp_path / "b")
    assert done("is_hardlink", f"{tmp_path}/a") is True
    assert done("is_hardlink", f"{tmp_path}/no") is False


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("uid_to_user", 0, "root"),
        ("uid_to_user", 4_000_000, 4_000_000),
        ("user_to_uid", "root", 0),
        ("user_to_uid", 7, 7),
        ("user_to_uid", "sltnosuch", ""),
        ("user_to_uid", "a\0b", ""),
        ("gid_to_group", 0, "root"),
        ("gid_to_group", "root", "root"),
        ("gid_to_group", "sltnosuch", ""),
        ("gid_to_group", 4_000_000, 4_000_000),
        ("group_to_gid", "root", 0),
        ("group_to_gid", "sltnosuch", ""),
        ("group_to_gid", None, ""),
        ("normpath", "a/b//c/..", "a/b"),
        ("basename", "test/test.config", "test.config"),
        ("dirname", "test/path/filename.config", "test/path"),
    ],
)
def test_names_and_numbers_become_each_other(function: str, value: Any, expected: Any) -> None:
    assert done(function, value) == expected


def test_paths_are_joined() -> None:
    assert (done("join", "/", "usr", "local", "bin"), done("join"), done("pardir")) == ("/usr/local/bin", "", "..")


@pytest.mark.parametrize(("mode", "expected"), [("f", True), ("r", True), ("x", False), (os.F_OK, True)])
def test_access_is_that_of_the_minion(tmp_path: Path, mode: Any, expected: bool) -> None:
    (tmp_path / "a").touch(mode=0o644)
    assert done("access", f"{tmp_path}/a", mode) is expected


def test_an_unknown_kind_of_access_is_refused(tmp_path: Path) -> None:
    assert "Invalid mode specified" in refusal("access", str(tmp_path), "z")


def test_a_glob_is_found_or_not(tmp_path: Path) -> None:
    (tmp_path / "abc").touch()
    assert [done("path_exists_glob", f"{tmp_path}/{text}") for text in ("a*", "[ab]bc", "z*")] == [True, True, False]


def test_open_files_tell_who_has_them_open(tmp_path: Path) -> None:
    path = tmp_path / "open"
    with path.open("w"):
        assert os.getpid() in done("open_files")[str(path)]
        assert str(path) in done("open_files", by_pid=True)[os.getpid()]
    assert str(path) not in done("open_files")


def test_a_file_with_two_names_takes_its_room_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a").write_text("alpha")
    os.link(tmp_path / "deep/a", tmp_path / "b")
    (tmp_path / "c").write_text("abc")
    (tmp_path / "dangling").symlink_to("no")
    assert done("diskusage", str(tmp_path)) == 8


# --- digests


@pytest.mark.parametrize("form", ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"])
def test_digests_are_those_of_the_system_s_programs(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(256)) * 1000)
    printed = subprocess.run([f"{form}sum", path], capture_output=True, text=True, check=True).stdout.split()[0]
    assert done("get_hash", str(path), form, chunk_size=1000) == printed
    assert done("check_hash", str(path), f"{form}={printed.upper()}") is True
    assert done("check_hash", str(path), printed) is True


def test_a_digest_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "Invalid hash type: md6" in refusal("get_hash", str(tmp_path), "md6")
    assert "could not be matched to a supported hash type" in refusal("check_hash", str(tmp_path), "abc")
    assert done("get_sum", f"{tmp_path}/no") == "File not found"
    assert refusal("get_hash", f"{tmp_path}/no") == f"ERROR: There is no file {tmp_path}/no."
    assert "Is a directory" in refusal("get_hash", str(tmp_path))


SUMS = f"""\
{"1" * 64}  other.tar.gz
{"2" * 64} *dir/app.tar.gz
{"3" * 32}  app.tar.gz
SHA256 (named) = {"4" * 64}
"""


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"file_name": "/srv/app.tar.gz"}, "2" * 64),
        ({"file_name": "/srv/app.tar.gz", "hash_type": "md5"}, "3" * 32),
        ({"source": "salt://x/other.tar.gz"}, "1" * 64),
        ({"file_name": "/srv/none", "source": "salt://x/app.tar.gz"}, "2" * 64),
        ({"file_name": "/srv/none", "source": "https://x.example/y/app.tar.gz?key=v&o=z"}, "2" * 64),
        ({"file_name": "/srv/app.tar.gz", "source_hash_name": "other.tar.gz"}, "1" * 64),
        ({"file_name": "/srv/none"}, "1" * 64),
        ({"hash_type": "sha1"}, None),
    ],
)
def test_a_digest_is_found_in_a_file_of_digests(tmp_path: Path, kwargs: dict[str, str], expected: str | None) -> None:
    (tmp_path / "sums").write_text(SUMS)
    found = done("extract_hash", f"{tmp_path}/sums", **kwargs)
    assert (found and found["hsum"]) == expected


def test_a_source_hash_is_digits_or_an_expression_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "sums").write_text(SUMS)
    expected = {"hash_type": "md5", "hsum": "a" * 32}
    assert done("get_source_sum", source_hash="A" * 32) == expected
    assert done("get_source_sum", source_hash=f"md5 = {'A' * 32}") == expected
    assert done("get_source_sum", "/srv/app.tar.gz", source_hash=f"{tmp_path}/sums")["hsum"] == "2" * 64
    assert done("get_source_sum", "/srv/app.tar.gz", source_hash=f"file://{tmp_path}/sums")["hsum"] == "2" * 64


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("xyz", "format is invalid"),
        ("", "format is invalid"),
        ("foo://x", "format is invalid"),
        ("md5=xyz", "format is invalid"),
        (f"md6={'a' * 32}", "Invalid hash type 'md6'"),
        (f"md5={'a' * 40}", "Invalid length (40) for hash type 'md5'"),
    ],
)
def test_a_source_hash_that_is_none_is_refused(told: str, said: str) -> None:
    assert said in refusal("get_source_sum", source_hash=told)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "named pipe" in refusal("get_hash", f"{tmp_path}/pipe")


def test_attributes_are_none_where_the_file_system_keeps_none() -> None:
    assert run("lsattr", "/proc/version").value == {}
    assert "does not exist" in refusal("lsattr", "/no/such")
    assert "keeps no attributes" in refusal("chattr", "/proc/version", operator="add", attributes="i")


@pytest.mark.parametrize(
    "kwargs", [{}, {"operator": "set"}, {"operator": "add"}, {"operator": "add", "attributes": "z"}]
)
def test_attributes_need_an_operator_and_letters(kwargs: dict[str, str]) -> None:
    assert refusal("chattr", "/etc/hostname", **kwargs).startswith("ERROR executing 'file.chattr': Need a")


@ROOT_ONLY
def test_attributes_are_set_as_chattr_sets_them(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    if not done("lsattr", str(path)):
        pytest.skip("the file system of this folder keeps no attributes")
    done("chattr", str(path), operator="add", attributes="a", test=True)
    before = done("lsattr", str(path))[str(path)]
    done("chattr", str(path), operator="add", attributes="d")
    printed = subprocess.run(["lsattr", path], capture_output=True, text=True, check=True).stdout.split()[0]
    assert (before.count("a"), "d" in printed, "d" in done("lsattr", str(tmp_path))[str(path)]) == (0, True, True)
    done("chattr", str(path), operator="remove", attributes="d")
    assert done("lsattr", str(path))[str(path)] == before
