"""Owner, mode and attributes of files, as root with numbers that nobody has, and as an ordinary user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.modules import done, refusal, run

UID, GID = 54321, 54322
NOBODY = 65534

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def owner(path: Path | str) -> tuple[int, int]:
    found = os.lstat(path)
    return (found.st_uid, found.st_gid)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture
def ordinary() -> Iterator[Path]:
    """A folder that an ordinary user can enter, and the rights of one until the end of the test."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        (Path(folder) / "roots").write_text("root's")
        os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("given", ["0640", "640", 640, "0o640", "'0640'"])
def test_a_mode_is_octal_digits(tmp_path: Path, given: Any) -> None:
    path = tmp_path / "a"
    path.touch()
    assert (done("set_mode", str(path), given), mode(path)) == ("0640", 0o640)


@pytest.mark.parametrize("given", ["888", "u+x", "12345", "-1", ""])
def test_what_is_no_mode_changes_nothing(tmp_path: Path, given: str) -> None:
    path = tmp_path / "a"
    path.touch(mode=0o640)
    if given:
        assert f"Invalid Mode {given}" in refusal("set_mode", str(path), given)
        assert mode(path) == 0o640
    else:
        assert done("set_mode", str(path), given) == "0000"


def test_the_mode_of_a_missing_file_is_not_set(tmp_path: Path) -> None:
    assert refusal("set_mode", f"{tmp_path}/no", "644") == f"ERROR: {tmp_path}/no: File not found"


@ROOT_ONLY
def test_chown_follows_a_link_and_lchown_does_not(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to("a")
    assert done("lchown", f"{tmp_path}/link", UID, GID) is None
    assert (owner(tmp_path / "link"), owner(tmp_path / "a")) == ((UID, GID), (0, 0))
    assert done("chown", f"{tmp_path}/link", 0, GID) is None
    assert (owner(tmp_path / "link"), owner(tmp_path / "a")) == ((UID, GID), (0, GID))


@ROOT_ONLY
def test_a_link_without_a_target_is_given_away_itself(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("no")
    done("chown", f"{tmp_path}/link", UID, GID)
    assert owner(tmp_path / "link") == (UID, GID)


@ROOT_ONLY
def test_chgrp_and_empty_names_leave_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.chown(tmp_path / "a", UID, 0)
    done("chgrp", f"{tmp_path}/a", GID)
    done("chown", f"{tmp_path}/a", "", "")
    assert owner(tmp_path / "a") == (UID, GID)


@ROOT_ONLY
def test_a_tree_is_given_away_without_what_its_links_point_to(tmp_path: Path) -> None:
    (tmp_path / "tree/deep").mkdir(parents=True)
    (tmp_path / "tree/deep/a\nb").touch()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    (tmp_path / "tree/out").symlink_to("../outside")
    (tmp_path / "tree/file").symlink_to("../outside/kept")
    done("chown", f"{tmp_path}/tree", UID, GID, recurse=True)
    given = [tmp_path / "tree", *(tmp_path / "tree").rglob("*")]
    assert {owner(each) for each in given} == {(UID, GID)}
    assert {owner(tmp_path / name) for name in ("outside", "outside/kept")} == {(0, 0)}


@ROOT_ONLY
def test_a_tree_behind_a_link_is_not_given_away(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").touch()
    (tmp_path / "link").symlink_to("tree")
    done("chown", f"{tmp_path}/link", UID, GID, recurse=True)
    assert (owner(tmp_path / "link"), owner(tmp_path / "tree"), owner(tmp_path / "tree/a")) == (
        (UID, GID),
        (0, 0),
        (0, 0),
    )


@pytest.mark.parametrize("function", ["chown", "lchown"])
def test_what_is_not_there_is_named_and_nothing_is_changed(tmp_path: Path, function: str) -> None:
    (tmp_path / "a").touch()
    before = owner(tmp_path / "a")
    assert done(function, f"{tmp_path}/a", "sltnosuch", "root") == "User does not exist\n"
    assert done(function, f"{tmp_path}/a", "root", "slt; no") == "Group does not exist\n"
    assert done(function, f"{tmp_path}/no", "root", "root") == "File not found"
    assert owner(tmp_path / "a") == before


def test_a_number_beyond_all_users_is_refused(tmp_path: Path) -> None:
    assert "There can be no user" in refusal("chown", str(tmp_path), 2**40, 0)


def test_dry_runs_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch(mode=0o640)
    before = (owner(path), mode(path))
    assert done("chown", str(path), UID, GID, test=True) is None
    assert done("chown", str(path), "sltnosuch", GID, test=True) == "User does not exist\n"
    assert done("set_mode", str(path), "600", test=True) == "0600"
    found, _ = done("check_perms", str(path), None, UID, GID, "600", test=True)
    assert found["changes"] == {"user": UID, "group": GID, "mode": "0600"}
    assert (owner(path), mode(path)) == before


# --- check_perms


@ROOT_ONLY
def test_check_perms_tells_what_it_changed_and_how_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    path.chmod(0o4755)
    found, before = done("check_perms", str(path), None, UID, "root", None)
    assert found == {"name": str(path), "changes": {"user": UID}, "comment": "", "result": True}
    assert before == {"luser": 0, "lgroup": "root", "lmode": "4755", "cuser": UID}
    assert (owner(path), mode(path)) == ((UID, 0), 0o4755)


def test_check_perms_does_nothing_where_all_is_well(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    path.chmod(0o600)
    found, _ = done("check_perms", str(path), {}, os.geteuid(), os.getegid(), "0600")
    assert (found["changes"], found["result"]) == ({}, True)


def test_check_perms_adds_to_the_result_that_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch(mode=0o600)
    told = {"name": "x", "changes": {"diff": "y"}, "comment": "before", "result": True}
    found, _ = done("check_perms", str(path), told, "sltnosuch", None, "640")
    assert found["changes"] == {"diff": "y", "mode": "0640"}
    assert found["result"] is False
    assert found["comment"].split("\n") == ["before", "User does not exist", "Failed to change user to sltnosuch"]


@ROOT_ONLY
def test_check_perms_of_a_link_leaves_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "a").touch(mode=0o600)
    (tmp_path / "link").symlink_to("a")
    found, _ = done("check_perms", f"{tmp_path}/link", None, UID, GID, "777")
    assert found["changes"] == {"user": UID, "group": GID}
    assert (owner(tmp_path / "a"), mode(tmp_path / "a")) == ((0, 0), 0o600)
    done("check_perms", f"{tmp_path}/link", None, UID, None, "640", follow_symlinks=True)
    assert (owner(tmp_path / "a"), mode(tmp_path / "a")) == ((UID, 0), 0o640)


# --- an ordinary user


@ROOT_ONLY
@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("chown", (UID, GID)),
        ("set_mode", ("777",)),
        ("remove", ()),
        ("rename", ("/tmp/slt-never",)),
        ("move", ("/tmp/slt-never",)),
        ("copy", ("{folder}/copy",)),
        ("link", ("{folder}/link",)),
    ],
)
def test_an_ordinary_user_gets_a_sentence_and_the_file_stays(
    ordinary: Path, function: str, args: tuple[Any, ...]
) -> None:
    more = [each.replace("{folder}", str(ordinary)) if isinstance(each, str) else each for each in args]
    said = refusal(function, str(ordinary / "roots"), *more)
    assert "Permission denied" in said or "Operation not permitted" in said
    assert "Traceback" not in said
    assert not os.path.lexists(ordinary / "copy")
    assert owner(ordinary / "roots") == (0, 0)


@ROOT_ONLY
@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("mkdir", ()),
        ("makedirs", ()),
        ("makedirs_perms", ()),
        ("symlink", ()),
        ("mknod_fifo", ()),
        ("mknod_chrdev", (1, 3)),
    ],
)
def test_an_ordinary_user_makes_nothing_in_the_folders_of_others(
    ordinary: Path, function: str, args: tuple[Any, ...]
) -> None:
    before = ["/etc/hosts"] if function == "symlink" else []
    end = "/" if function == "makedirs" else ""
    said = refusal(function, *before, f"{ordinary}/new{end}", *args)
    assert "Permission denied" in said or "Operation not permitted" in said
    assert not os.path.lexists(ordinary / "new")


@ROOT_ONLY
def test_an_ordinary_user_hears_of_what_check_perms_cannot_do(ordinary: Path) -> None:
    outcome = run("check_perms", str(ordinary / "roots"), None, NOBODY, None, "0777")
    found, _ = outcome.value
    assert (found["result"], found["changes"]) == (False, {})
    assert "Failed to change user" in found["comment"]
    assert "Operation not permitted" in found["comment"]


@ROOT_ONLY
def test_an_ordinary_user_copies_what_it_can_read(ordinary: Path) -> None:
    os.seteuid(0)
    (ordinary / "own").mkdir()
    os.chown(ordinary / "own", NOBODY, -1)
    os.seteuid(NOBODY)
    assert done("copy", str(ordinary / "roots"), f"{ordinary}/own/copy") is True
    assert ((ordinary / "own/copy").read_text(), owner(ordinary / "own/copy")[0]) == ("root's", NOBODY)


@ROOT_ONLY
def test_an_ordinary_user_hears_which_part_of_a_tree_stays(ordinary: Path) -> None:
    os.seteuid(0)
    (ordinary / "own/deep").mkdir(parents=True)
    (ordinary / "own/deep/roots").touch()
    os.chown(ordinary / "own", NOBODY, -1)
    os.seteuid(NOBODY)
    said = refusal("remove", str(ordinary / "own"))
    assert said.startswith(f"ERROR: Could not remove '{ordinary}/own': Permission denied (")
    assert said.endswith("roots).")
