"""`file.patch`, `file.get_diff` and `file.touch` on real files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.modules import done, refusal, run

OLD = "".join(f"line {number}\n" for number in range(20))
NEW = OLD.replace("line 3\n", "line three\n").replace("line 17\n", "")


def patched(folder: Path) -> Path:
    """A file `file` and the patch to its new content."""
    (folder / "file").write_text(OLD)
    (folder / "new").write_text(NEW)
    (folder / "patch").write_text(done("get_diff", str(folder / "file"), str(folder / "new")))
    (folder / "new").unlink()
    return folder / "file"


def test_a_patch_is_applied_and_not_a_second_time(tmp_path: Path) -> None:
    file = patched(tmp_path)
    answer = done("patch", str(file), str(tmp_path / "patch"))
    assert sorted(answer) == ["pid", "retcode", "stderr", "stdout"]
    assert (answer["retcode"], file.read_text()) == (0, NEW)
    again = run("patch", str(file), str(tmp_path / "patch"))
    assert (again.retcode, again.value["retcode"], file.read_text()) == (1, 1, NEW)
    assert sorted(os.listdir(tmp_path)) == ["file", "patch"]


@pytest.mark.parametrize("word", ["dry_run", "test"])
def test_a_dry_run_applies_nothing(word: str, tmp_path: Path) -> None:
    file = patched(tmp_path)
    assert done("patch", str(file), str(tmp_path / "patch"), **{word: True})["retcode"] == 0
    assert file.read_text() == OLD


def test_a_patch_of_which_a_part_does_not_fit_is_not_applied_at_all(tmp_path: Path) -> None:
    file = patched(tmp_path)
    changed = OLD.replace("line 15", "other").replace("line 16", "other").replace("line 18", "other")
    file.write_text(changed)
    assert run("patch", str(file), str(tmp_path / "patch")).retcode == 1
    assert file.read_text() == changed
    assert sorted(os.listdir(tmp_path)) == ["file", "patch"]


def test_a_folder_is_patched_with_the_names_of_the_patch(tmp_path: Path) -> None:
    file = patched(tmp_path)
    (tmp_path / "tree").mkdir()
    file.rename(tmp_path / "tree" / "file")
    text = (tmp_path / "patch").read_text().splitlines(keepends=True)
    for options, prefix in (("", ""), ("-p1", "a/")):
        (tmp_path / "tree" / "file").write_text(OLD)
        (tmp_path / "patch").write_text("".join([f"--- {prefix}file\n", f"+++ {prefix}file\n", *text[2:]]))
        assert done("patch", str(tmp_path / "tree"), str(tmp_path / "patch"), options)["retcode"] == 0
        assert (tmp_path / "tree" / "file").read_text() == NEW


@pytest.mark.parametrize("name", ["a b", "-i", "it's", "é\udcff", "x;touch owned"], ids=ascii)
def test_files_and_patches_of_any_name_are_taken(name: str, tmp_path: Path) -> None:
    patched(tmp_path).rename(tmp_path / name)
    (tmp_path / "patch").rename(tmp_path / f"{name}.patch")
    assert done("patch", str(tmp_path / name), str(tmp_path / f"{name}.patch"))["retcode"] == 0
    assert (tmp_path / name).read_text() == NEW
    assert len(os.listdir(tmp_path)) == 2


def test_a_missing_patch_and_options_that_are_none_are_said(tmp_path: Path) -> None:
    file = patched(tmp_path)
    assert refusal("patch", str(file), str(tmp_path / "none")) == f"ERROR: There is no file {tmp_path}/none."
    assert "cannot be split into words" in refusal("patch", str(file), str(tmp_path / "patch"), "it's")


def test_without_the_program_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = patched(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    sentence = refusal("patch", str(file), str(tmp_path / "patch"))
    assert sentence.startswith("Command required for 'file.patch' not found: patch")


def diff_of(folder: Path, old: str | bytes, new: str | bytes, **kwargs: Any) -> Any:
    for name, content in (("old", old), ("new", new)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return done("get_diff", str(folder / "old"), str(folder / "new"), **kwargs)


def test_a_diff_has_the_names_of_both_files_unless_told_not_to(tmp_path: Path) -> None:
    assert diff_of(tmp_path, "a\n", "b\n") == f"--- {tmp_path}/old\n+++ {tmp_path}/new\n@@ -1 +1 @@\n-a\n+b\n"
    assert diff_of(tmp_path, "a\n", "b\n", show_filenames=False) == "--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n"
    assert diff_of(tmp_path, "a\n", "b\n", show_changes=False) == "<show_changes=False>"
    assert diff_of(tmp_path, "a\n", "a\n", show_changes=False) == ""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b"\0", b"\0\0", "Replace binary file"),
        (b"\0", b"a", "Replace binary file with text file"),
        (b"a", b"\0", "Replace text file with binary file"),
        (b"\0", b"\0", ""),
    ],
)
def test_binary_files_are_only_told_apart(old: bytes, new: bytes, told: str, tmp_path: Path) -> None:
    assert diff_of(tmp_path, old, new) == told


@pytest.mark.parametrize(
    ("old", "new", "options", "differ"),
    [
        ("a\nb\n", "b\na\n", {"ignore_ordering": True}, False),
        ("a\nb\n", "b\nc\n", {"ignore_ordering": True}, True),
        ("a\n", "  a \n", {"ignore_whitespace": True}, False),
        ("a\n", "  a \n", {"ignore_ordering": True}, True),
        ("a # 1\n", "a # 2\n", {"ignore_comment_characters": "#"}, False),
        ("a # 1\n", "a ; 2\n", {"ignore_comment_characters": ["#", ";"]}, False),
        ("a # 1\n", "b # 1\n", {"ignore_comment_characters": "#"}, True),
    ],
)
def test_differences_that_do_not_count_are_shown_and_marked(
    old: str, new: str, options: dict[str, Any], differ: bool, tmp_path: Path
) -> None:
    told = diff_of(tmp_path, old, new, **options)
    assert (told[0], "@@" in told[1]) == (differ, True)
    assert diff_of(tmp_path, old, old, **options) == (False, "")


class Copies:
    """In the place of the file client: it has a copy of every file that is asked for, or of none."""

    def __init__(self, place: str) -> None:
        self.place = place

    def cache(self, _address: object) -> str:
        return self.place

    def fetch(self, _address: object, _dest: str) -> bool:
        raise AssertionError("a diff needs a copy, and no file at another place")


def of_master(place: str, file: Path, pillar: dict[str, Any], **kwargs: Any) -> Any:
    """`file.get_diff` of a file here and one of the master, whose copy is at that place."""
    index = build_index(search_layers({}))
    loader = Loader(index, {}, {}, pillar, more={"__file_client__": Copies(place)})
    return call(loader, "file.get_diff", (str(file), "salt://there"), kwargs).value


def test_a_file_of_the_master_is_compared_by_its_copy_here(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("a\n")
    (tmp_path / "copy").write_text("b\n")
    copy = str(tmp_path / "copy")
    assert of_master(copy, tmp_path / "here", {}, show_filenames=False) == "--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n"
    assert of_master("", tmp_path / "here", {}) == "ERROR: File salt://there not found"


def test_differences_of_templates_are_hidden_where_that_is_set(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("a\n")
    (tmp_path / "copy").write_text("b\n")
    hidden = {"obfuscate_templates": True}
    copy = str(tmp_path / "copy")
    assert of_master(copy, tmp_path / "here", hidden, template=True) == "<Obfuscated Template>"
    assert "-a" in of_master(copy, tmp_path / "here", hidden)
    assert "-a" in of_master(copy, tmp_path / "here", {}, template=True)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    assert refusal("get_diff", str(tmp_path / "old"), str(tmp_path / "no")) == f"ERROR: File {tmp_path}/no not found"
    assert "files from the web" in refusal("get_diff", "/a", "/b", source_hash_file1="abc")


def test_touch_makes_a_file_and_sets_its_times(tmp_path: Path) -> None:
    file = tmp_path / "file"
    before = time.time() - 1
    assert done("touch", str(file)) is True
    assert file.read_bytes() == b""
    assert before < file.stat().st_mtime < time.time() + 1
    done("touch", str(file), atime=0, mtime="7.5")
    assert (file.stat().st_atime, file.stat().st_mtime) == (0, 7.5)
    done("touch", str(file), mtime=9)
    assert file.stat().st_mtime == 9
    assert file.stat().st_atime > before
    assert done("touch", str(tmp_path)) is True


def test_touch_says_what_is_no_time_and_where_nothing_can_be_made(tmp_path: Path) -> None:
    assert "atime and mtime must be integers" in refusal("touch", str(tmp_path / "file"), "noon")
    assert refusal("touch", str(tmp_path / "no" / "file")).endswith("cannot be touched: No such file or directory.")
