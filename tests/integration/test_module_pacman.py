"""`pkg` of Arch Linux: the real pacman on a root and a repository of the test's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.pacman_roots import Package, build, make_root, publish

INDEX = build_index(search_layers({}))
GRAINS = {"os": "Arch", "os_family": "Arch", "osarch": "x86_64"}

TINY = Package("slttiny", "1.0-1", {"usr/share/slttiny/a b.txt": "x"}, groups=["sltgroup"])
OTHER = Package("sltother", "1:2.0-1", {"usr/share/sltother": "x"}, depends=["slttiny"], groups=["sltgroup"])
ALONE = Package("sltalone", "0.9-1", {"etc/sltalone.conf": "a = 1\n"})

NO_NAMES = ["-Scc", "--root=/", "a b", "a;id", "", "a\nb", "a\0b", "ä", "a'b", 'a"b', "../x", "*"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the lists of a repository that has three packages."""
    assert shutil.which("pacman"), "pacman is not installed: apt-get install pacman-package-manager"
    publish(tmp_path / "repository", "tiny", [TINY, OTHER, ALONE])
    made = make_root(tmp_path, "tiny", tmp_path / "repository")
    assert run("pkg.refresh_db", root=str(made)).value == {"tiny": True}
    return made


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call it with everything that its interface promises held against what it returns."""
    return call(Loader(INDEX, {"smi_returns": "strict"}, GRAINS, {}), fun, args, kwargs)


def test_a_package_goes_through_its_whole_life(root: Path, tmp_path: Path) -> None:
    at = {"root": str(root)}
    assert run("pkg.refresh_db", **at).value == {"tiny": False}
    assert run("pkg.latest_version", "slttiny", **at).value == "1.0-1"
    both = {"slttiny": {"old": "", "new": "1.0-1"}, "sltother": {"old": "", "new": "1:2.0-1"}}
    assert run("pkg.install", "sltother", test=True, **at).value == both
    assert run("pkg.list_pkgs", **at).value == {}
    assert run("pkg.install", "sltother", **at).value == both
    assert run("pkg.list_pkgs", **at).value == {"sltother": "1:2.0-1", "slttiny": "1.0-1"}
    assert run("pkg.list_pkgs", versions_as_list=True, **at).value["slttiny"] == ["1.0-1"]
    assert run("pkg.list_installed", "*tiny", **at).value == {"slttiny": "1.0-1"}
    assert run("pkg.version", "slttiny", "nosuch", **at).value == {"slttiny": "1.0-1", "nosuch": ""}

    files = run("pkg.file_dict", "slttiny", "nosuch", **at).value
    assert files["errors"] == ["Package nosuch is not installed."]
    assert files["packages"]["slttiny"][-1] == "/usr/share/slttiny/a b.txt"
    assert "/usr/share/sltother" in run("pkg.file_list", **at).value["files"]
    assert run("pkg.owner", "/usr/share/slttiny/a b.txt", **at).value == "slttiny"
    assert run("pkg.owner", "/usr/share/sltother", "/no", **at).value == {"/usr/share/sltother": "sltother", "/no": ""}

    publish(tmp_path / "repository", "tiny", [Package("slttiny", "1.1-1", TINY.files), OTHER])
    assert run("pkg.list_upgrades", **at).value == {"slttiny": "1.1-1"}
    assert run("pkg.upgrade_available", "slttiny", **at).value is True
    assert run("pkg.upgrade", test=True, **at).value == {"slttiny": {"old": "1.0-1", "new": "1.1-1"}}
    assert run("pkg.upgrade", **at).value == {"slttiny": {"old": "1.0-1", "new": "1.1-1"}}
    assert run("pkg.latest_version", "slttiny", "sltother", **at).value == {"slttiny": "", "sltother": ""}

    refused = run("pkg.remove", "slttiny", **at)
    assert (refused.retcode, "breaks dependency 'slttiny'" in refused.value) == (1, True)
    gone = {"slttiny": {"old": "1.1-1", "new": ""}, "sltother": {"old": "1:2.0-1", "new": ""}}
    assert run("pkg.remove", pkgs=["sltother", "slttiny"], test=True, **at).value == gone
    assert run("pkg.purge", "slttiny", **at).value == gone
    assert run("pkg.remove", "slttiny", **at).value == {}


def test_a_package_file_is_installed(root: Path, tmp_path: Path) -> None:
    path = build(tmp_path, ALONE)
    done = run("pkg.install", sources=[{"sltalone": str(path)}], root=str(root))
    assert done.value == {"sltalone": {"old": "", "new": "0.9-1"}}
    assert (root / "etc/sltalone.conf").read_text() == "a = 1\n"


def test_versions_can_be_asked_for_exactly_and_by_comparison(root: Path) -> None:
    no = run("pkg.install", pkgs=[{"slttiny": "<0.5"}], root=str(root)).value
    assert no == "ERROR: pacman failed (return code 1): target not found: slttiny<0.5"
    assert run("pkg.install", "slttiny", version="1.0-1", root=str(root)).value["slttiny"]["new"] == "1.0-1"
    assert run("pkg.install", pkgs=[{"sltother": ">=1:2.0"}], root=str(root)).value["sltother"]["new"] == "1:2.0-1"


def test_groups_are_listed_by_how_much_of_them_is_installed(root: Path) -> None:
    at = {"root": str(root)}
    assert run("pkg.group_list", **at).value["available"] == ["sltgroup"]
    run("pkg.install", "slttiny", **at)
    assert run("pkg.group_list", **at).value["partially_installed"] == ["sltgroup"]
    assert run("pkg.group_info", "sltgroup", **at).value["default"] == ["sltother", "slttiny"]
    diff = run("pkg.group_diff", "sltgroup", **at).value["default"]
    assert diff == {"installed": ["slttiny"], "not installed": ["sltother"]}
    assert run("pkg.group_info", "nosuch", **at).value["default"] == []


def test_what_repositories_offer_is_listed(root: Path) -> None:
    at = {"root": str(root)}
    assert run("pkg.list_repo_pkgs", "slt[ot]*", **at).value == {"sltother": ["1:2.0-1"], "slttiny": ["1.0-1"]}
    assert run("pkg.list_repo_pkgs", "sltalone", byrepo=True, **at).value == {"tiny": {"sltalone": ["0.9-1"]}}
    assert run("pkg.list_repo_pkgs", fromrepo="core", **at).value == {}


@pytest.mark.parametrize(
    ("first", "second", "kwargs", "result"),
    [("1.0-1", "1.0-1", {}, 0), ("1.0-1", "1:0.5-1", {}, -1), ("1:0.5", "1.0", {"ignore_epoch": True}, -1)],
)
def test_versions_compare_as_pacman_does(first: str, second: str, kwargs: dict[str, Any], result: int) -> None:
    assert run("pkg.version_cmp", first, second, **kwargs).value == result


@pytest.mark.parametrize("fun", ["pkg.install", "pkg.remove", "pkg.purge", "pkg.latest_version", "pkg.group_info"])
@pytest.mark.parametrize("name", [name for name in NO_NAMES if name])
def test_what_is_no_name_is_refused_before_anything_runs(fun: str, name: str) -> None:
    outcome = run(fun, name)
    assert (outcome.retcode, "is not the name of a package" in outcome.value) == (1, True)


@pytest.mark.parametrize("place", ["-x", "relative", "/nowhere/at/all", "/a\nb"])
def test_what_is_no_root_is_refused(place: str) -> None:
    assert run("pkg.list_pkgs", root=place).retcode == 1


def test_a_locked_database_is_said_with_who_holds_it(root: Path) -> None:
    lock = root / "var/lib/pacman/db.lck"
    lock.touch()
    left = run("pkg.install", "slttiny", root=str(root)).value
    assert left.endswith(f"no process of this machine has it open, so remove {lock} if it was left behind.")
    with lock.open():
        held = run("pkg.install", "slttiny", root=str(root)).value
    assert f"locked by another package manager (process {os.getpid()}, " in held
    assert run("pkg.list_pkgs", root=str(root)).value == {}


def test_the_provider_keeps_to_its_interface() -> None:
    report = run("smi.conformance", "pkg").value["pkg"]
    assert (report["provider"], report["errors"], report["warnings"]) == ("pacmanpkg", 0, 0)
    missing = {name for name, one in report["functions"].items() if one["state"] == "not_implemented"}
    assert missing == set()
