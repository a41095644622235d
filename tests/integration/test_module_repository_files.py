"""Files of rpm repositories: one repository is changed, and everything else is preserved."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _rpm

TEXT = """# kept by hand

[base]
name = Base packages
baseurl=http://a.example.org/
    http://b.example.org/
# not yet
;enabled=0
gpgcheck: 1

[Extra-1]
name=Extra
Enabled=1
"""


def change(path: str, repo: str, values: Mapping[str, Any]) -> None:
    _rpm.save_repositories(path, _rpm.changed_repository(path, repo, values))


def remove(path: str, repo: str) -> bool:
    """Whether the file is gone."""
    return _rpm.delete_repository([os.path.dirname(path)], repo, test=False)[1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "base.repo"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


def test_a_file_is_read_with_comments_and_values_of_several_lines(file: Path) -> None:
    assert _rpm.read_repositories([str(file.parent), "/no/such/folder"]) == {
        "base": {
            "name": "Base packages",
            "baseurl": "http://a.example.org/\nhttp://b.example.org/",
            "comments": ["not yet", "enabled=0"],
            "gpgcheck": "1",
            "file": str(file),
        },
        "Extra-1": {"name": "Extra", "enabled": "1", "file": str(file)},
    }


@pytest.mark.parametrize(
    ("values", "before", "after"),
    [
        ({"gpgcheck": False}, "gpgcheck: 1\n", "gpgcheck=0\n"),
        ({"name": None}, "name = Base packages\n", ""),
        ({"priority": 7}, "gpgcheck: 1\n", "gpgcheck: 1\npriority=7\n"),
        (
            {"baseurl": ["http://c/", "http://d/"]},
            "baseurl=http://a.example.org/\n    http://b.example.org/\n",
            "baseurl=http://c/\n    http://d/\n",
        ),
        ({"baseurl": None}, "baseurl=http://a.example.org/\n    http://b.example.org/\n", ""),
    ],
)
def test_only_the_named_setting_changes(file: Path, values: dict[str, Any], before: str, after: str) -> None:
    change(str(file), "base", values)
    assert file.read_text() == TEXT.replace(before, after)
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_repository_is_added_and_removed_again(file: Path) -> None:
    change(str(file), "new", {"name": "New", "enabled": True})
    assert file.read_text() == TEXT + "\n[new]\nname=New\nenabled=1\n"
    assert remove(str(file), "new") is False
    assert file.read_text() == TEXT


def test_a_file_goes_with_its_last_repository(file: Path) -> None:
    remove(str(file), "base")
    assert remove(str(file), "Extra-1") is True
    assert not file.exists()


def test_a_value_cannot_begin_another_repository(file: Path) -> None:
    change(str(file), "base", {"name": "x\n[evil]\nbaseurl=http://evil/"})
    assert set(_rpm.stanzas(str(file))) == {"base", "Extra-1"}


@pytest.mark.parametrize("values", [{"a\nb": 1}, {"[x]": 1}, {"": 1}, {"-x": 1}, {"name": "a\0b"}, {"name": "a\rb"}])
def test_what_is_no_setting_is_refused(file: Path, values: dict[str, Any]) -> None:
    with pytest.raises(SaltInvocationError):
        change(str(file), "base", values)
    assert file.read_text() == TEXT


@pytest.mark.parametrize("repo", ["", "-x", "../x", "a/b", "a b", "a\nb", "a]b", "ü", "a\0b", ".x"])
def test_what_is_no_id_is_refused(repo: str) -> None:
    with pytest.raises(SaltInvocationError):
        _rpm.checked_repository(repo)


def test_a_full_disk_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CommandExecutionError, match="No space left on device"):
        change(str(file), "base", {"name": "new"})
    assert file.read_text() == TEXT
    assert os.listdir(file.parent) == [file.name]


def test_the_file_behind_a_link_is_changed_and_the_link_stays(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.repo"
    link.symlink_to(file)
    change(str(link), "base", {"name": "new"})
    assert link.is_symlink()
    assert "name=new" in file.read_text()
