"""SELinux labels: extended attributes of real files, and the programs of SELinux, played by scripts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.modules import done, refusal, run

LABEL = "system_u:object_r:etc_t:s0:c1,c2"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root sets labels")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    return path


def label(path: Path) -> str:
    return os.getxattr(path, "security.selinux").rstrip(b"\0").decode()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs; each writes its words down, and fails as its file NAME.fails says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("semanage", "restorecon"):
        (folder / name).write_text(
            f'#!/bin/sh\necho "$*" >>{folder}/log\n'
            f'case "$*" in $(cat {folder}/{name}.fails 2>/dev/null || echo none)) echo wrong >&2; exit 1 ;; esac\n'
        )
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_parts_of_a_label_are_set_and_the_others_stay(file: Path) -> None:
    assert "No selinux context" in done("get_selinux_context", str(file))
    assert done("set_selinux_context", str(file), "system_u", "object_r", "etc_t", "s0:c1,c2") == LABEL
    assert label(file) == done("get_selinux_context", str(file)) == LABEL
    assert done("set_selinux_context", str(file), type="httpd_t") == "system_u:object_r:httpd_t:s0:c1,c2"
    assert done("set_selinux_context", str(file), range="s1") == label(file) == "system_u:object_r:httpd_t:s1"
    link = file.with_name("link")
    link.symlink_to(file)
    done("set_selinux_context", str(link), user="root")
    assert label(file).startswith("root:")


def test_a_file_without_a_label_needs_a_whole_one(file: Path) -> None:
    assert "give user, role and type" in refusal("set_selinux_context", str(file), type="etc_t")
    assert done("set_selinux_context", str(file), "u", "r", "t") == "u:r:t"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "which part of the label"),
        ({"type": "a:b"}, "is not the type"),
        ({"user": "a b"}, "is not the user"),
        ({"range": "s0\n"}, "is not the range"),
    ],
)
def test_what_is_no_label_is_refused(file: Path, parts: dict[str, str], words: str) -> None:
    assert words in refusal("set_selinux_context", str(file), **parts)
    assert "file.gone cannot be labelled" in refusal("set_selinux_context", f"{file}.gone", "u", "r", "t")


def test_a_label_that_persists_is_in_the_policy_first(file: Path, programs: Path) -> None:
    done("set_selinux_context", str(file), "u", "r", "t", "s0", persist=True)
    (programs / "semanage.fails").write_text("*-a*")
    done("set_selinux_context", str(file), type="x_t", persist=True)
    log = [f"fcontext -a -s u -t t -r s0 -- {file}", f"fcontext -a -t x_t -- {file}", f"fcontext -m -t x_t -- {file}"]
    assert (programs / "log").read_text().splitlines() == log
    (programs / "semanage.fails").write_text("*")
    assert "semanage failed: wrong" in refusal("set_selinux_context", str(file), type="y_t", persist=True)
    assert label(file) == "u:r:x_t:s0"


def test_the_label_of_the_policy_is_restored(file: Path, programs: Path) -> None:
    assert done("restorecon", str(file)) is True
    assert done("restorecon", str(file), recursive=True) is True
    assert (programs / "log").read_text().splitlines() == [f"-F -- {file}", f"-FR -- {file}"]
    (programs / "restorecon.fails").write_text("*")
    outcome = run("restorecon", str(file))
    assert (outcome.value, outcome.retcode, outcome.warnings) == (False, 1, ("restorecon failed: wrong",))


def test_without_the_programs_the_error_names_them(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "restorecon" in refusal("restorecon", str(file))
    assert "semanage" in refusal("set_selinux_context", str(file), "u", "r", "t", persist=True)
