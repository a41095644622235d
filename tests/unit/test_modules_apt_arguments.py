"""What may reach the command line of apt, and how its failures read."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages
from saltlite.plugins.modules.aptpkg import packages


@pytest.mark.parametrize("name", ["-o", "--help", "vim-", "", "a b", "^vim", "?installed", "vim;id", "vim/sid", "Vim"])
def test_what_is_no_package_name_is_refused(name: str) -> None:
    with pytest.raises(SaltInvocationError, match="not the name of a package"):
        packages.NAME_RULES.name(name)


@pytest.mark.parametrize("name", ["g++", "libc6:i386", "python3.11", "0ad"])
def test_package_names_pass(name: str) -> None:
    assert packages.NAME_RULES.name(name) == name


@pytest.mark.parametrize(
    ("one", "several", "wanted", "targets"),
    [
        ("vim", None, None, ["vim"]),
        ("vim,nano", None, None, ["vim", "nano"]),
        ("vim", None, "2:9.0-1", ["vim=2:9.0-1"]),
        (None, ["vim", {"nano": "7.2-1"}, {"ed": None}], None, ["vim", "nano=7.2-1", "ed"]),
        (None, "vim,nano", None, ["vim", "nano"]),
    ],
)
def test_targets_of_a_call(one: Any, several: Any, wanted: Any, targets: list[str]) -> None:
    assert packages.targets_of(one, several, wanted) == targets


@pytest.mark.parametrize("version", ["-1", "1 2", "1;id", ""])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(SaltInvocationError, match="not a version"):
        packages.NAME_RULES.version(version)


def test_package_files_are_absolute_paths_that_exist(tmp_path: Path) -> None:
    path = tmp_path / "a.deb"
    path.touch()
    assert _packages.package_files([{"a": str(path)}, f"file://{path}"]) == [str(path)] * 2
    assert _packages.package_files(f'[{{"a": {path}}}]') == [str(path)]  # as templates write it
    with pytest.raises(SaltInvocationError, match="are not a list"):
        _packages.package_files("[{a: /x")


@pytest.mark.parametrize("source", ["a.deb", "http://x/a.deb", "salt://a.deb", "/nowhere/a.deb"])
def test_other_sources_are_refused(source: str) -> None:
    with pytest.raises(SaltInvocationError):
        _packages.package_files([{"a": source}])


def test_unknown_keywords_are_refused_and_data_of_the_job_dropped() -> None:
    assert _packages.take({"attr": 1, "__pub_jid": "x"}, "attr", "failhard") == {"attr": 1, "failhard": None}
    with pytest.raises(SaltInvocationError, match="not valid: colour"):
        _packages.take({"colour": 1})


@pytest.mark.parametrize(
    ("stderr", "text"),
    [
        (
            (
                "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (apt)\n"
                "E: Unable to acquire the dpkg frontend lock, is another process using it?"
            ),
            "locked by another package manager (process 4711, apt): try again",
        ),
        (
            "dpkg: error: dpkg frontend lock was locked by another process with pid 99\n",
            "locked by another package manager (process 99): try again",
        ),
        (
            (
                "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)\n"
                "E: Unable to acquire the dpkg frontend lock, are you root?"
            ),
            "root only",
        ),
        ("Reading lists\nE: Unable to locate package nosuch\n", "Unable to locate package nosuch"),
        ("", "it gave no reason"),
    ],
)
def test_a_failure_of_apt_reads_as_a_sentence(stderr: str, text: str) -> None:
    with pytest.raises(CommandExecutionError) as caught:
        packages.checked(subprocess.CompletedProcess(["apt-get"], 100, "", stderr))
    assert text in str(caught.value)
