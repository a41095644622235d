"""The runners `file_roots` and `pillar_roots`: nothing outside of the folders is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins import _roots
from saltlite.plugins._roots import files_at, text_of_files, tree_of_env, trees_of_all


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, list[str]]:
    """Two folders of an environment, the second behind a symbolic link, and what is beside them."""
    for name in ("one/web", "two"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "one/top.sls").write_text("one")
    (tmp_path / "one/web/init.sls").write_text("web")
    (tmp_path / "one/image").write_bytes(b"\x89PNG\0")
    (tmp_path / "one/link").symlink_to(tmp_path / "secret")
    (tmp_path / "one/up").symlink_to(tmp_path)
    (tmp_path / "two/top.sls").write_text("two")
    (tmp_path / "linked").symlink_to(tmp_path / "two")
    return {"base": [str(tmp_path / "one"), str(tmp_path / "linked"), str(tmp_path / "none")]}


def test_files_are_found_in_each_folder(roots: dict[str, list[str]]) -> None:
    one, two, _none = roots["base"]
    assert files_at(roots, "top.sls", "base") == [{f"{one}/top.sls": "txt"}, {f"{two}/top.sls": "txt"}]
    assert files_at(roots, "image", "base") == [{f"{one}/image": "bin"}]
    assert text_of_files(roots, "top.sls", "base") == [{f"{one}/top.sls": "one"}, {f"{two}/top.sls": "two"}]
    assert text_of_files(roots, "image", "base") == []
    assert text_of_files(roots, "web/init.sls", "base") == [{f"{one}/web/init.sls": "web"}]
    assert files_at(roots, "top.sls", "dev") == []


def test_trees_do_not_follow_links(roots: dict[str, list[str]]) -> None:
    one, two, none = roots["base"]
    tree = {"image": "f", "link": "f", "top.sls": "f", "up": "f", "web": {"init.sls": "f"}}
    assert tree_of_env(roots, "base") == {one: tree, two: {"top.sls": "f"}, none: {}}
    assert trees_of_all(roots) == {"base": [tree_of_env(roots, "base")]}


@pytest.mark.parametrize("path", ["../secret", "link", "up/secret", "web/../../secret", "/etc/passwd", ".", "web"])
def test_nothing_leaves_the_folders(roots: dict[str, list[str]], path: str) -> None:
    assert files_at(roots, path, "base") == []
    assert text_of_files(roots, path, "base") == []


@pytest.mark.parametrize("path", ["", "a\0b", 5])
def test_what_is_no_path_is_refused(roots: dict[str, list[str]], path: str) -> None:
    with pytest.raises(SaltInvocationError):
        files_at(roots, path, "base")


def test_a_large_file_is_not_read(roots: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_roots, "READ_MAX", 2)
    with pytest.raises(CommandExecutionError, match="more than 2 bytes"):
        text_of_files(roots, "top.sls", "base")


def test_the_beginning_of_a_text_may_end_within_a_character(roots: dict[str, list[str]]) -> None:
    path = Path(roots["base"][0]) / "long"
    path.write_bytes(b"x" * (_roots.TEXT_LOOKED_AT - 1) + "é".encode())
    assert files_at(roots, "long", "base") == [{str(path): "txt"}]
