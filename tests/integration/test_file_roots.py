"""Folders of the file server: what an operator may put there, and what nobody gets out of there."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from saltlite.files.roots import DEPTH_MAX, FileRoots
from saltlite.platform.files import LINKS_MAX, open_beneath


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with some files; beside it, outside, a secret."""
    (tmp_path / "secret").write_text("s3cret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("s3cret")
    root = tmp_path / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "a").write_text("A")
    (root / "sub" / "b").write_text("B")
    return root


def content(root: Path, path: str) -> str | None:
    """What is served under that path, None for nothing."""
    file = FileRoots({"base": [str(root)]}).open("base", path)
    if file is None:
        return None
    try:
        return file.read(0, 1000).decode()
    finally:
        file.close()


@pytest.mark.parametrize(
    ("link", "target", "served"),
    [
        ("in", "a", "A"),
        ("sub/up", "../a", "A"),
        ("sub/deep/far", "../../sub/b", "B"),
        ("absolute", "{root}/sub/b", "B"),
        ("chain", "in2", None),
        ("out", "../secret", None),
        ("sub/out", "../../secret", None),
        ("absout", "{root}/../secret", None),
        ("etc", "/etc/passwd", None),
        ("beside", "{root}x", None),
        ("loop", "loop", None),
    ],
)
def test_a_link_that_stays_inside_is_followed_and_one_that_leaves_is_as_good_as_missing(
    root: Path, link: str, target: str, served: str | None
) -> None:
    (root / link).symlink_to(target.format(root=root))
    assert content(root, link) == served
    assert (link in FileRoots({"base": [str(root)]}).names("base", "", folders=False)) is (served is not None)


def test_a_linked_folder_is_listed_and_served_where_it_stays_inside(root: Path) -> None:
    (root / "again").symlink_to("sub")
    (root / "out").symlink_to("../outside")
    (root / "sub" / "cycle").symlink_to("..")
    roots = FileRoots({"base": [str(root)]})
    assert (content(root, "again/b"), content(root, "out/key")) == ("B", None)
    assert [name for name in roots.names("base", "", folders=False) if "cycle" not in name] == ["a", "again/b", "sub/b"]
    assert len(roots.names("base", "", folders=False)) < 20


def test_links_are_told_where_they_are_served_and_where_the_first_folder_has_them(root: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    (second / "sub").mkdir(parents=True)
    for path, target in (("root/x", "sub/b"), ("root/again", "sub"), ("root/out", "../secret"), ("root/none", "no")):
        (tmp_path / path).symlink_to(target)
    for path, target in (("a", "sub"), ("x", "sub"), ("late", str(second / "sub"))):
        (second / path).symlink_to(target)
    roots = FileRoots({"base": [str(root), str(second)]}, ignore=["ign*"])
    (root / "ignored").symlink_to("a")
    assert roots.links("base") == {"again": "sub", "late": str(second / "sub"), "x": "sub/b"}
    assert roots.links("other") == {}


def test_a_chain_of_links_ends_where_the_kernel_s_would(root: Path) -> None:
    previous = "a"
    for number in range(LINKS_MAX + 1):
        (root / f"l{number}").symlink_to(previous)
        previous = f"l{number}"
    assert content(root, f"l{LINKS_MAX - 1}") == "A"
    assert content(root, f"l{LINKS_MAX}") is None


def test_neither_pipes_nor_sockets_nor_devices_are_served_and_none_makes_anybody_wait(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "null").symlink_to("/dev/null")
    assert [content(root, name) for name in ("pipe", "null", "sub")] == [None, None, None]
    assert FileRoots({"base": [str(root)]}).names("base", "", folders=False) == ["a", "sub/b"]


def test_a_link_that_is_exchanged_all_the_time_never_leads_out(root: Path) -> None:
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            for target in ("sub", "../outside"):
                (root / "next").symlink_to(target)
                os.replace(root / "next", root / "turn")

    (root / "sub" / "key").write_text("inside")
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        seen = {content(root, "turn/key") for _ in range(2000)}
    finally:
        stop.set()
        thread.join()
    assert seen <= {"inside", None}


def test_ignored_files_are_neither_listed_nor_served(root: Path) -> None:
    (root / "sub" / "x.pyc").write_text("")
    roots = FileRoots({"base": [str(root)]}, ignore=["*.pyc", "sub/b"])
    assert roots.names("base", "", folders=False) == ["a"]
    assert [roots.open("base", path) for path in ("sub/x.pyc", "sub/b")] == [None, None]


def test_a_file_over_the_limit_is_not_served(root: Path) -> None:
    (root / "big").write_bytes(b"12345")
    assert FileRoots({"base": [str(root)]}, largest=4).open("base", "big") is None
    exact = FileRoots({"base": [str(root)]}, largest=5).open("base", "big")
    assert exact is not None
    exact.close()


def test_the_first_folder_that_has_a_file_wins(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside" / "a").write_text("second")
    roots = FileRoots({"base": [str(root), str(tmp_path / "outside")]})
    assert roots.names("base", "", folders=False) == ["a", "key", "sub/b"]
    file = roots.open("base", "a")
    assert file is not None
    assert file.read(0, 10) == b"A"
    file.close()


def test_an_area_of_a_copy_is_served_by_its_name_and_in_no_list(root: Path, tmp_path: Path) -> None:
    area = "copy-" + "0" * 32
    (tmp_path / "areas" / area).mkdir(parents=True)
    (tmp_path / "areas" / area / "f").write_text("F")
    roots = FileRoots({"base": [str(root)]}, areas=str(tmp_path / "areas"))
    assert (roots.envs(), roots.names(area, "", folders=False)) == (["base"], ["f"])
    assert roots.names("copy-" + "1" * 32, "", folders=False) == []


def test_names_that_are_no_utf_8_are_left_out_and_deep_folders_end(root: Path) -> None:
    with open(os.fsencode(root) + b"/\xff", "w"):
        pass
    deep = root
    for _ in range(DEPTH_MAX + 5):
        deep = deep / "d"
        deep.mkdir()
        (deep / "f").write_text("")
    names = FileRoots({"base": [str(root)]}).names("base", "", folders=False)
    assert [name for name in names if not name.startswith("d/")] == ["a", "sub/b"]
    assert max(name.count("/") for name in names) == DEPTH_MAX - 1


def test_opening_leaves_no_descriptor_behind(root: Path) -> None:
    (root / "out").symlink_to("../secret")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a", "sub/b", "out", "no/no", "sub/../a"):
        try:
            os.close(open_beneath(str(root), path))
        except OSError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before
