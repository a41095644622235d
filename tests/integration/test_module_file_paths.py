"""Copying, moving, linking, making and removing, with links on the way and disks that are full."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.modules import done, refusal, run

NAMES = ("a b", 'it\'s "so"', "x; touch owned", "-rf", "a\nb", "größe-漢字", "caf\udce9", "a[*]?")
UID, GID = 54321, 54322

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do this")


def tree(top: Path) -> dict[str, str]:
    """Relative path -> content, target or kind."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = path.read_text() if path.is_file() else "special"
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("secret")
    top = tmp_path / "source"
    (top / "deep").mkdir(parents=True)
    (top / "a").write_text("alpha")
    (top / "a").chmod(0o640)
    (top / "deep/b").write_text("beta")
    (top / "out").symlink_to("../outside")
    os.mkfifo(top / "pipe")
    (top / "deep").chmod(0o750)
    return top


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """No file of this process may grow beyond 1000 bytes, as on a full disk; the report of the tests may be one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# --- any name


@pytest.mark.parametrize("name", NAMES)
def test_files_of_any_name_are_copied_moved_linked_and_removed(tmp_path: Path, name: str) -> None:
    first, second, third = (os.path.join(tmp_path, f"{name}{number}") for number in ("", 2, 3))
    with open(first, "w") as stream:
        stream.write("alpha")
    assert done("copy", first, second) is True
    assert done("link", first, third) is True
    assert done("remove", third) is True
    assert done("symlink", second, third) is True
    assert done("move", first, f"{first}9")["result"] is True
    assert done("rename", f"{first}9", first) is True
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"{name}2", f"{name}3"])
    assert [done("remove", each) for each in (first, second, third)] == [True, True, True]
    assert done("mkdir", first) is True
    assert done("mknod_fifo", second)["result"] is True
    assert [done("rmdir", first), done("remove", second), os.listdir(tmp_path)] == [True, True, []]


RELATIVE: list[tuple[str, tuple[str, ...]]] = [
    ("copy", ("a", "/tmp/slt-b")),
    ("move", ("a", "/tmp/slt-b")),
    ("rename", ("a", "/tmp/slt-b")),
    ("link", ("a", "/tmp/slt-b")),
    ("symlink", ("a", "b")),
    ("remove", ("a",)),
    ("rmdir", ("a",)),
    ("mkdir", ("a",)),
    ("makedirs", ("a/",)),
]


@pytest.mark.parametrize(("function", "args"), RELATIVE)
def test_relative_paths_are_refused(function: str, args: tuple[str, ...]) -> None:
    assert "must be absolute" in refusal(function, *args)


# --- copy


def test_a_copy_has_content_and_mode(source: Path, tmp_path: Path) -> None:
    done("copy", f"{source}/a", f"{tmp_path}/copy")
    copy = tmp_path / "copy"
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == ("alpha", 0o640)


@ROOT_ONLY
def test_a_copy_has_the_owner(source: Path, tmp_path: Path) -> None:
    os.chown(source / "deep/b", UID, GID)
    done("copy", str(source), f"{tmp_path}/copy", recurse=True)
    found = (tmp_path / "copy/deep/b").stat()
    assert (found.st_uid, found.st_gid) == (UID, GID)


def test_a_folder_is_copied_with_links_as_links(source: Path, tmp_path: Path) -> None:
    done("copy", str(source), f"{tmp_path}/copy", recurse=True)
    assert tree(tmp_path / "copy") == tree(source)
    assert stat.S_IMODE((tmp_path / "copy/deep").stat().st_mode) == 0o750
    assert (tmp_path / "copy/a").stat().st_mtime_ns == (source / "a").stat().st_mtime_ns


def test_what_is_in_the_folder_already_stays_unless_it_is_to_go(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / "deep").mkdir(parents=True)
    (copy / "deep/mine").write_text("mine")
    (copy / "a").write_text("old")
    done("copy", str(source), str(copy), recurse=True)
    assert tree(copy) == {**tree(source), "deep/mine": "mine"}
    done("copy", str(source), str(copy), recurse=True, remove_existing=True)
    assert tree(copy) == tree(source)
    assert sorted(os.listdir(tmp_path)) == ["copy", "outside", "source"]


def test_a_copy_does_not_write_through_links_in_the_folder(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "a").symlink_to("../outside")
    done("copy", str(source), str(copy), recurse=True)
    assert ((tmp_path / "outside").read_text(), (copy / "a").is_symlink()) == ("secret", False)
    (copy / "deep/b").unlink()
    (copy / "deep").rmdir()
    (copy / "deep").symlink_to("..")
    assert "is not a folder" in refusal("copy", str(source), str(copy), recurse=True)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("dst", "kwargs", "said"),
    [
        ("copy", {}, "without recurse flag"),
        ("source/deep/copy", {"recurse": True}, "cannot be copied into itself"),
        ("source", {"recurse": True}, "are the same"),
        ("no/copy", {"recurse": True}, "Could not copy"),
    ],
)
def test_copies_that_make_no_sense_are_refused(source: Path, dst: str, kwargs: dict[str, Any], said: str) -> None:
    before = tree(source)
    assert said in refusal("copy", str(source), f"{source.parent}/{dst}", **kwargs)
    assert tree(source) == before


def test_a_file_is_not_copied_over_a_folder_or_from_nowhere(source: Path, tmp_path: Path) -> None:
    assert "give the full path of the copy" in refusal("copy", f"{tmp_path}/outside", str(source), recurse=True)
    assert refusal("copy", f"{tmp_path}/no", f"{tmp_path}/copy") == f"ERROR: No such file or directory '{tmp_path}/no'"


@pytest.mark.parametrize("remove_existing", [False, True])
def test_a_disk_that_is_full_leaves_the_old_copy(source: Path, tmp_path: Path, remove_existing: bool) -> None:
    (source / "deep/b").write_bytes(bytes(5000))
    copy = tmp_path / "copy"
    (copy / "deep").mkdir(parents=True)
    (copy / "deep/b").write_text("old")
    with small_files():
        said = refusal("copy", str(source), str(copy), recurse=True, remove_existing=remove_existing)
    assert "File too large" in said
    assert (copy / "deep/b").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["copy", "outside", "source"]


# --- move and rename


def test_a_file_is_moved_into_a_folder_and_not_over_one_that_is_there(source: Path, tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    assert done("move", f"{source}/a", f"{tmp_path}/into") == {
        "result": True, "comment": f"'{source}/a' moved to '{tmp_path}/into'",
    }  # fmt: skip
    assert (tmp_path / "into/a").read_text() == "alpha"
    (source / "a").write_text("new")
    assert "there is already" in refusal("move", f"{source}/a", f"{tmp_path}/into")
    assert "cannot be moved into itself" in refusal("move", str(source), f"{source}/deep/x")


def test_a_link_is_moved_itself_also_with_a_slash_behind_it(source: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("source")
    done("move", f"{tmp_path}/link/", f"{tmp_path}/moved")
    assert (tmp_path / "moved").readlink() == Path("source")
    assert source.is_dir()


@ROOT_ONLY
def test_a_tree_is_moved_to_another_file_system(source: Path, tmp_path: Path) -> None:
    before = tree(source)
    other = Path(f"/dev/shm/slt-move-{os.getpid()}")
    if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("/dev/shm is no file system of its own here")
    try:
        assert "Could not rename" in refusal("rename", str(source), str(other))
        done("move", str(source), str(other))
        assert (tree(other), source.exists()) == (before, False)
    finally:
        run("remove", str(other))


def test_a_missing_source_is_said_to_be_missing(tmp_path: Path) -> None:
    assert "there is no such path" in refusal("move", f"{tmp_path}/no", f"{tmp_path}/a")
    assert "No such file" in refusal("rename", f"{tmp_path}/no", f"{tmp_path}/a")


# --- links


def test_a_link_is_made_once(tmp_path: Path) -> None:
    assert [done("symlink", "/etc/hosts", f"{tmp_path}/link") for _ in range(2)] == [True, True]
    assert refusal("symlink", "/etc/passwd", f"{tmp_path}/link").endswith(f"Found existing symlink: {tmp_path}/link")
    (tmp_path / "file").touch()
    assert "Existing path is not a symlink" in refusal("symlink", "/etc/passwd", f"{tmp_path}/file")


@pytest.mark.parametrize("how", ["force", "atomic"])
def test_a_link_replaces_another_when_it_is_told(tmp_path: Path, how: str) -> None:
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for name in ("link", "file"):
        done("symlink", "/etc/passwd", f"{tmp_path}/{name}", **{how: True})
    assert "Could not create" in refusal("symlink", "/etc/passwd", f"{tmp_path}/folder", **{how: True})
    assert tree(tmp_path) == {"link": "-> /etc/passwd", "file": "-> /etc/passwd", "folder": "folder"}


def test_a_hard_link_of_a_link_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("no")
    done("link", f"{tmp_path}/link", f"{tmp_path}/second")
    assert (tmp_path / "second").is_symlink()
    assert "File exists" in refusal("link", f"{tmp_path}/link", f"{tmp_path}/second")


# --- folders


def test_folders_are_made_with_those_above_them(tmp_path: Path) -> None:
    os.umask(mask := os.umask(0))
    assert done("mkdir", f"{tmp_path}/a/b", mode="0711") is True
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")} == {0o711}
    assert done("mkdir", f"{tmp_path}/plain") is True
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o777 & ~mask
    assert done("mkdir", f"{tmp_path}/a/b", mode="0700") is True
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o711


def test_makedirs_makes_what_a_path_is_in(tmp_path: Path) -> None:
    assert done("makedirs", f"{tmp_path}/a/b") is None
    assert tree(tmp_path) == {"a": "folder"}
    assert done("makedirs", f"{tmp_path}/a/b/") is None
    assert done("makedirs", f"{tmp_path}/a/b") == f"Directory '{tmp_path}/a' already exists"
    (tmp_path / "file").touch()
    assert done("makedirs", f"{tmp_path}/file/x") == f"The path '{tmp_path}/file' already exists and is not a directory"
    assert "File exists" in refusal("makedirs", f"{tmp_path}/file/x/y")


def test_makedirs_perms_makes_a_folder_that_was_not_there(tmp_path: Path) -> None:
    assert done("makedirs_perms", f"{tmp_path}/a/b") is None
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o755
    assert "There is already" in refusal("makedirs_perms", f"{tmp_path}/a/b")


def test_nothing_is_made_for_a_user_who_is_not_there(tmp_path: Path) -> None:
    assert "User does not exist" in refusal("mkdir", f"{tmp_path}/a/b", user="sltnosuch")
    assert os.listdir(tmp_path) == []


# --- remove and rmdir


@pytest.mark.parametrize("path", ["/", "//", "/.", "/..", "/tmp/..", "/tmp/.", "/tmp/../"])
def test_the_root_folder_is_not_removed(path: str) -> None:
    said = refusal("remove", path)
    assert "root folder" in said or "give its own name" in said


def test_an_empty_path_is_not_removed() -> None:
    assert "is not the path of a file" in refusal("remove", "")


def test_a_tree_is_removed_without_what_its_links_point_to(source: Path, tmp_path: Path) -> None:
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep/a").touch()
    (source / "deep/link").symlink_to(tmp_path / "keep")
    assert done("remove", str(source)) is True
    assert tree(tmp_path) == {"keep": "folder", "keep/a": "", "outside": "secret"}
    assert done("remove", str(source)) is False


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_a_link_to_a_folder_is_removed_itself(source: Path, tmp_path: Path, end: str) -> None:
    (tmp_path / "link").symlink_to("source")
    assert done("remove", f"{tmp_path}/link{end}") is True
    assert (source / "a").exists()


def test_only_empty_folders_are_removed_by_rmdir(source: Path, tmp_path: Path) -> None:
    assert run("rmdir", str(source)).value is False
    found = run("rmdir", f"{source}/deep", test=True).value
    assert found["errors"] == [[f"{source}/deep", "it is not empty"]]
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/link").symlink_to("../source")
    found = run("rmdir", f"{tmp_path}/a", recurse=True, verbose=True).value
    assert found["deleted"] == [f"{tmp_path}/a/b/c", f"{tmp_path}/a/b"]
    assert (found["errors"], found["result"]) == ([[f"{tmp_path}/a", "Directory not empty"]], False)
    assert source.is_dir()


def test_rmdir_leaves_what_was_changed_lately(tmp_path: Path) -> None:
    for name in ("top/old", "top/new"):
        (tmp_path / name).mkdir(parents=True)
    os.utime(tmp_path / "top/old", (0, 0))
    assert done("rmdir", f"{tmp_path}/top", recurse=True, older_than=2, test=True)["deleted"] == [f"{tmp_path}/top/old"]
    assert done("rmdir", f"{tmp_path}/top", recurse=True, older_than=2) is True
    assert tree(tmp_path) == {"top": "folder", "top/new": "folder"}
    assert "is a number of days" in refusal("rmdir", f"{tmp_path}/top", older_than="x")


def test_rmdir_says_that_it_left_a_folder_that_is_too_new(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert done("rmdir", f"{tmp_path}/new", older_than=2) is False
    assert (tmp_path / "new").is_dir()
    assert done("rmdir", f"{tmp_path}/new") is True
    assert "A valid directory was not specified" in refusal("rmdir", f"{tmp_path}/no")


# --- devices


def test_a_pipe_is_made_once(tmp_path: Path) -> None:
    path = f"{tmp_path}/new/pipe"
    assert done("mknod", path, "p", mode="0622")["changes"] == {"new": f"Fifo pipe {path} created."}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o622
    again = run("mknod", path, "p")
    assert (again.value["result"], again.value["comment"]) == (False, f"File {path} exists and cannot be overwritten")


@ROOT_ONLY
@pytest.mark.parametrize(("function", "kind"), [("mknod_chrdev", stat.S_ISCHR), ("mknod_blkdev", stat.S_ISBLK)])
def test_a_device_has_its_numbers(tmp_path: Path, function: str, kind: Any) -> None:
    outcome = run(function, f"{tmp_path}/device", 1, 7, user=UID, mode="0600")
    if outcome.retcode and "Operation not permitted" in str(outcome.value):
        pytest.skip("root of this container cannot make devices")
    found = os.stat(tmp_path / "device")
    assert (kind(found.st_mode), found.st_uid) == (True, UID)
    assert done("get_devmm", f"{tmp_path}/device") == (1, 7)


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        ("mknod", ("x",), "Node type unavailable: 'x'"),
        ("mknod_chrdev", ("a", "b"), "are not device numbers"),
        ("mknod_fifo", (None, None, "9"), "Invalid Mode 9"),
    ],
)
def test_devices_that_make_no_sense_are_refused(
    tmp_path: Path, function: str, args: tuple[Any, ...], said: str
) -> None:
    assert said in refusal(function, f"{tmp_path}/x", *args)
    assert os.listdir(tmp_path) == []


# --- dry runs


def test_dry_runs_change_nothing(source: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    new = f"{tmp_path}/new"
    said = [
        done("copy", f"{source}/a", new, test=True),
        done("move", f"{source}/a", new, test=True)["comment"],
        done("move", f"{source}/a", new, disallow_copy_and_unlink=True, test=True)["comment"],
        done("rename", f"{source}/a", new, test=True),
        done("link", f"{source}/a", new, test=True),
        done("symlink", f"{source}/a", new, test=True),
        done("remove", str(source), test=True),
        done("mkdir", new, test=True),
        done("makedirs", f"{new}/", test=True),
        done("makedirs_perms", new, test=True),
    ]
    assert [text for text in said if " would " not in text] == []
    assert done("mknod", f"{new}/x", "p", test=True)["result"] is None
    assert tree(tmp_path) == before
