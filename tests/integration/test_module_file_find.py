"""`file.find`: what it finds in one folder, one case a file in tests/data/file_find, and what it does with that.

options    of the call
found      paths in the folder, "" for the folder itself
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml

from tests.support.modules import done, refusal, run

CASES = sorted((Path(__file__).parents[1] / "data" / "file_find").glob("*.yaml"))
AS_ROOT = ("owner_number", "group_number")
DAY_S = 86400


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "deep/er").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "a.txt").write_text("alpha")
    (top / "b.log").write_text("beta\n")
    (top / "deep/er/c.txt").write_text("alpha")
    (top / "big.bin").write_bytes(bytes(2100))
    (top / "link").symlink_to("deep")
    os.mkfifo(top / "pipe")
    if os.geteuid() == 0:
        os.chown(top / "b.log", 12345, 54321)
    then = time.time() - 40 * DAY_S
    os.utime(top / "b.log", (then, then))
    return top


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_what_is_found_fulfils_all_criteria(tree: Path, case: Path) -> None:
    if case.stem in AS_ROOT and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    wanted = yaml.safe_load(case.read_text())
    expected = sorted(f"{tree}/{each}" if each else str(tree) for each in wanted["found"])
    assert done("find", str(tree), **wanted["options"]) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nosuch": 1}, "nosuch"),
        ({"name": ""}, "missing value for 'name' option"),
        ({"regex": "("}, "invalid regular expression"),
        ({"grep": "["}, "invalid regular expression"),
        ({"type": "x"}, 'invalid file type "x"'),
        ({"owner": "sltnosuch"}, 'no such user or group: "sltnosuch"'),
        ({"size": "lots"}, 'invalid size: "lots"'),
        ({"mtime": "3y"}, "invalid time interval"),
        ({"print": "colour"}, 'invalid print option "colour"'),
        ({"maxdepth": "x"}, "maxdepth is a number of folders"),
        ({"exec": "'open"}, "cannot be split"),
    ],
)
def test_a_criterion_that_makes_no_sense_is_refused(tree: Path, options: dict[str, object], said: str) -> None:
    assert said in refusal("find", str(tree), **options)


def test_a_relative_path_is_refused() -> None:
    assert "must be absolute" in refusal("find", "etc", name="x")


def test_columns_are_printed_in_the_order_asked_for(tree: Path) -> None:
    (found,) = done("find", str(tree), name="a.txt", print="name,size type mode md5")
    assert found == ["a.txt", 5, "f", (tree / "a.txt").stat().st_mode & 0o777, "2c1743a391305fbf367df8e4f069f9f9"]
    assert done("find", str(tree), "print", name="a.txt") == [f"{tree}/a.txt"]


def test_a_glob_of_folders_is_searched(tree: Path) -> None:
    assert done("find", f"{tree}/d*", type="f") == [f"{tree}/deep/er/c.txt"]


def test_the_folder_behind_a_link_is_searched_under_the_link_s_name(tree: Path) -> None:
    assert done("find", f"{tree}/link", type="f") == [f"{tree}/link/er/c.txt"]


def test_delete_removes_files_only_and_names_them(tree: Path) -> None:
    assert done("find", str(tree), "delete", name="{a.txt,empty,link}") == [f"{tree}/a.txt"]
    assert [(tree / name).exists() for name in ("a.txt", "empty", "link")] == [False, True, True]


def test_delete_of_folders_and_links_leaves_what_links_point_to(tree: Path) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (tree / "deep/out").symlink_to(outside)
    assert done("find", str(tree), delete="dl", mindepth=1) == [f"{tree}/{name}" for name in ("deep", "empty", "link")]
    assert (outside / "kept").exists()


def test_with_test_nothing_is_removed_or_run(tree: Path) -> None:
    before = sorted(tree.rglob("*"))
    assert done("find", str(tree), delete="a", mindepth=1, test=True) == [str(each) for each in before]
    assert done("find", str(tree), exec="rm {}", type="f", maxdepth=1, name="a*", test=True) == [f"{tree}/a.txt"]
    assert sorted(tree.rglob("*")) == before


def test_the_root_folder_is_not_removed() -> None:
    assert "root folder is not removed" in refusal("find", "/", delete="d", maxdepth=0)


def test_a_command_gets_the_path_as_one_argument_whatever_is_in_it(tree: Path) -> None:
    nasty = tree / "x; touch owned $(touch owned)"
    nasty.touch()
    (printed,) = done("find", str(tree), name="x;*", exec="printf '<%s>' {} end")
    assert printed.endswith(f":\n<{nasty}><end>\n")
    assert not (tree / "owned").exists()


def test_a_command_that_fails_says_so_for_its_path(tree: Path) -> None:
    outcome = run("find", str(tree), name="a.txt", exec="false")
    assert (outcome.value, outcome.retcode) == ([f"{tree}/a.txt: Failed"], 0)


@pytest.mark.parametrize("name", ["a\nb", "-rf", "größe 漢字", "caf\udce9", "a'\"b"])
def test_any_name_is_found_and_removed(tmp_path: Path, name: str) -> None:
    path = os.path.join(tmp_path, name)
    open(path, "w").close()
    assert done("find", str(tmp_path), "delete", type="f") == [path]
    assert os.listdir(tmp_path) == []
