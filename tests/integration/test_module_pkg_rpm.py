"""`pkg` through dnf and zypper, and `lowpkg` of rpm, on packages that the test builds, in root folders of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.grains.collect import collect
from saltlite.plugins.modules import _packages, _rpm
from tests.support import rpm_roots

INDEX = build_index(search_layers({}))
GRAINS = collect({})
FAMILIES = {"dnf": "RedHat", "zypper": "Suse"}
LOCKS = {"dnf": "var/lib/dnf/rpmdb_lock.pid", "zypper": "run/zypp.pid"}
ALPHA, BETA = "slt-alpha", rpm_roots.BETA

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or GRAINS["os_family"] != "Debian", reason="root alone can install packages in a root folder"
)


class Machine:
    """Calls of `pkg` and `lowpkg`, as a minion of that family makes them, with all of it held against the interface."""

    def __init__(self, tool: str, root: Path, repository: Path) -> None:
        self.tool = tool
        grains = {**GRAINS, "os_family": FAMILIES[tool]}
        self.loader = Loader(INDEX, {"smi_returns": "strict"}, grains, {})
        self.root = root
        self.repository = repository

    def run(self, fun: str, *args: Any, **kwargs: Any) -> Outcome:
        return call(self.loader, fun, args, {"root": str(self.root), **kwargs})

    def value(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        outcome = self.run(fun, *args, **kwargs)
        assert outcome.retcode == 0, outcome.value
        return outcome.value

    def error(self, fun: str, *args: Any, **kwargs: Any) -> str:
        outcome = self.run(fun, *args, **kwargs)
        assert outcome.retcode == 1
        return str(outcome.value)

    def file(self, name: str, version: str) -> str:
        return rpm_roots.package_file(self.repository, name, version)

    def installed(self) -> list[str]:
        """What rpm says, asked in another way than the module asks."""
        done = subprocess.run(["rpm", "--root", str(self.root), "-qa"], capture_output=True, text=True, check=True)
        return sorted(done.stdout.split())


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rpm_roots.build(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> dict[str, Path]:
    """For each program a root folder, which a test copies."""
    return {
        tool: rpm_roots.root_for(tool, tmp_path_factory.mktemp(tool) / "root", repository) for tool in ("dnf", "zypper")
    }


@pytest.fixture(params=["dnf", "zypper"])
def tool(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def machine(tool: str, tmp_path: Path, fresh: dict[str, Path], repository: Path) -> Machine:
    root = tmp_path / "root"
    shutil.copytree(fresh[tool], root, symlinks=True)
    return Machine(tool, root, repository)


def test_the_provider_of_each_family_keeps_to_the_interface(machine: Machine) -> None:
    report = call(machine.loader, "smi.conformance", ["pkg"], {}).value["pkg"]
    assert (report["errors"], report["warnings"]) == (0, 0)
    assert set(report["counts"]) == {"implemented", "not_supported"}


def test_a_package_goes_through_its_whole_life(machine: Machine) -> None:
    assert machine.value("pkg.latest_version", ALPHA, "nosuch") == {ALPHA: "2.0-1", "nosuch": ""}
    assert machine.value("pkg.install", ALPHA, version="1.0-1") == {ALPHA: {"old": "", "new": "1.0-1"}}
    assert machine.value("pkg.version", ALPHA, "nosuch") == {ALPHA: "1.0-1", "nosuch": ""}
    assert machine.value("pkg.list_installed", "slt-a*") == {ALPHA: "1.0-1"}
    assert machine.value("pkg.list_upgrades", refresh=False) == {ALPHA: "2.0-1"}
    assert machine.value("pkg.upgrade_available", ALPHA, refresh=False) is True
    assert machine.value("pkg.upgrade", refresh=False) == {ALPHA: {"old": "1.0-1", "new": "2.0-1"}}
    assert machine.value("pkg.install", ALPHA, version="1.0") == {ALPHA: {"old": "2.0-1", "new": "1.0-1"}}
    assert machine.value("pkg.install", BETA) == {BETA: {"old": "", "new": "3:1.0~rc1-1"}}
    gone = {ALPHA: {"old": "1.0-1", "new": ""}, BETA: {"old": "3:1.0~rc1-1", "new": ""}}
    assert machine.value("pkg.remove", f"{ALPHA},nosuch") == gone
    assert machine.installed() == ["slt-base-1.0-1.noarch"]


def test_a_dry_run_tells_what_would_change_and_changes_nothing(machine: Machine) -> None:
    both = {ALPHA: {"old": "", "new": "2.0-1"}, BETA: {"old": "", "new": "3:1.0~rc1-1"}}
    assert machine.value("pkg.install", BETA, test=True) == both
    assert machine.value("pkg.remove", "slt-base", test=True) == {"slt-base": {"old": "1.0-1", "new": ""}}
    assert machine.value("pkg.upgrade", test=True) == {}
    assert machine.installed() == ["slt-base-1.0-1.noarch"]


def test_a_package_file_is_installed_and_asked(machine: Machine) -> None:
    source = [{ALPHA: machine.file(ALPHA, "1.0")}]
    assert machine.value("pkg.install", sources=source, skip_verify=True) == {ALPHA: {"old": "", "new": "1.0-1"}}
    assert machine.value("lowpkg.list_pkgs", ALPHA) == {ALPHA: "1.0"}
    assert machine.value("pkg.owner", f"/etc/{ALPHA}.conf", "/nowhere") == {f"/etc/{ALPHA}.conf": ALPHA, "/nowhere": ""}
    paths = [f"/etc/{ALPHA}.conf", f"/usr/share/slt/{ALPHA} ü"]
    found = {"errors": ["Package nosuch is not installed."], "packages": {ALPHA: paths}}
    assert machine.value("pkg.file_dict", ALPHA, "nosuch") == found
    assert machine.value("pkg.owner", paths[1]) == ALPHA
    row = machine.value("pkg.info_installed", ALPHA)[ALPHA]
    assert (row["version"], row["arch"], row["source"]) == ("1.0", "noarch", f"{ALPHA}-1.0-1.src.rpm")
    assert machine.value("pkg.list_pkgs", attr="version,arch")[ALPHA] == [{"version": "1.0", "arch": "noarch"}]


def test_changed_and_missing_files_are_told(machine: Machine) -> None:
    base = machine.root / "etc/slt-base.conf"
    assert machine.value("pkg.verify", "slt-base") == {}
    base.write_text("a = mine and longer\n")
    (machine.root / "usr/share/slt/slt-base ü").unlink()
    found = machine.value("pkg.verify", "slt-base", verify_options="nodeps")
    assert found["/usr/share/slt/slt-base ü"] == {"missing": True}
    assert found["/etc/slt-base.conf"]["type"] == "config"
    assert {"size", "md5sum"} <= set(found["/etc/slt-base.conf"]["mismatch"])
    assert list(machine.value("pkg.modified", "slt-base", config=True)) == ["/etc/slt-base.conf"]
    difference = machine.value("lowpkg.diff", machine.file("slt-base", "1.0"), "/etc/slt-base.conf")
    assert difference.splitlines()[-2:] == ["-a = 1.0", "+a = mine and longer"]
    assert machine.error("pkg.verify", "nosuch") == "ERROR: Not installed: nosuch"


def test_repositories_are_told_changed_and_removed(machine: Machine) -> None:
    url = "https://example.org/repo"
    machine.value("pkg.mod_repo", "mine", name="My packages", baseurl=url, enabled=False)
    assert set(machine.value("pkg.list_repos")) == {"test", "mine"}
    found = machine.value("pkg.get_repo", "mine")
    assert (found["name"], found["baseurl"], found["enabled"] in ("0", False)) == ("My packages", url, True)
    machine.value("pkg.mod_repo", "mine", gpgcheck=True)
    assert machine.value("pkg.get_repo", "mine")["baseurl"] == url
    machine.value("pkg.mod_repo", "mine", name="Theirs", test=True)
    machine.value("pkg.mod_repo", "other", name="other", baseurl=f"{url}/other", test=True)
    machine.value("pkg.del_repo", "mine", test=True)
    assert set(machine.value("pkg.list_repos")) == {"test", "mine"}
    assert machine.value("pkg.get_repo", "mine")["name"] == "My packages"
    machine.value("pkg.del_repo", "mine")
    assert machine.value("pkg.get_repo", "mine") == {}
    assert "mine" in machine.error("pkg.del_repo", "mine")
    offered = {ALPHA: ["2.0-1", "1.0-1"], BETA: ["3:1.0~rc1-1"]}
    assert machine.value("pkg.list_repo_pkgs", ALPHA, BETA) == offered
    assert machine.value("pkg.list_repo_pkgs", ALPHA, byrepo=True) == {"test": {ALPHA: ["2.0-1", "1.0-1"]}}


def test_a_broken_repository_is_an_error_that_names_it(machine: Machine) -> None:
    machine.value("pkg.mod_repo", "broken", name="broken", baseurl="file:///nowhere", gpgcheck=False)
    assert "broken" in machine.error("pkg.list_upgrades")


def test_what_does_not_exist_is_an_error_that_says_so(machine: Machine) -> None:
    assert "nosuch" in machine.error("pkg.install", "nosuch")
    assert "slt-alpha" in machine.error("pkg.install", ALPHA, version="9.9")
    assert machine.installed() == ["slt-base-1.0-1.noarch"]


def test_a_locked_database_is_reported_as_such(machine: Machine) -> None:
    # A lock of either is a file with the number of a process that lives.
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as other:
        lock = machine.root / LOCKS[machine.tool]
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text(f"{other.pid}" if machine.tool == "dnf" else f"{other.pid}\n")
        message = machine.error("pkg.install", ALPHA)
        other.terminate()
    assert f"The package database is locked by another package manager (process {other.pid}" in message
    assert machine.installed() == ["slt-base-1.0-1.noarch"]


def test_a_program_that_is_killed_or_missing_is_an_error_that_says_so(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rpm").symlink_to("/usr/bin/rpm")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    killed = tmp_path / "bin" / machine.tool
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    killed.chmod(0o755)
    assert f"{machine.tool} failed (return code -9)" in machine.error("pkg.install", ALPHA)
    killed.unlink()
    assert f"{machine.tool} (" in machine.error("pkg.install", ALPHA)


NASTY = ["-x", "--root=/", "a b", "a'b", 'a"b', "a;reboot", "$(reboot)", "a\nb", "a\0b", "ü", "!a", "~a", "", "*"]
CHANGING = ["pkg.install", "pkg.remove", "pkg.hold", "pkg.unhold", "pkg.latest_version", "pkg.download"]


@pytest.mark.parametrize("name", NASTY)
def test_names_that_are_none_are_refused_and_nothing_is_changed(
    tool: str, name: str, fresh: dict[str, Path], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tool, fresh[tool], repository)
    asked = run_of(monkeypatch)
    said = {fun: machine.error(fun, name) for fun in CHANGING}
    reasons = ("is not the name of a package", "there is nothing to install")
    assert {fun: text for fun, text in said.items() if not any(reason in text for reason in reasons)} == {}
    assert [argv for argv in asked if argv[0] != "rpm" and "list" not in argv] == []
    assert not [argv for argv in asked if name in argv]


def run_of(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that run from now on."""
    asked: list[list[str]] = []
    real = _packages.run

    def run(argv: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        asked.append(list(argv))
        return real(argv, env)

    monkeypatch.setattr(_packages, "run", run)
    return asked


@pytest.mark.parametrize("path", ["-x", "--root=/", "a\nb", "a\0b", ""])
def test_paths_that_are_none_are_refused(tool: str, path: str, fresh: dict[str, Path], repository: Path) -> None:
    message = Machine(tool, fresh[tool], repository).error("pkg.owner", path)
    assert "is not the name of a package or file" in message


@pytest.mark.parametrize("root", ["relative", "/no/such/folder", "/etc/passwd"])
def test_a_root_that_is_no_folder_is_refused(tool: str, root: str, fresh: dict[str, Path], repository: Path) -> None:
    message = Machine(tool, fresh[tool], repository).error("pkg.install", ALPHA, root=root)
    assert "root is not the absolute path of a folder" in message


def test_zypper_holds_packages(fresh: dict[str, Path], repository: Path, tmp_path: Path) -> None:
    shutil.copytree(fresh["zypper"], tmp_path / "root", symlinks=True)
    machine = Machine("zypper", tmp_path / "root", repository)
    machine.value("pkg.install", ALPHA, version="1.0")
    report = machine.value("pkg.hold", ALPHA)[ALPHA]
    assert (report["result"], report["changes"]) == (True, {"old": "", "new": "hold"})
    assert machine.value("pkg.list_holds") == ["slt-alpha-0:1.0-1.*"]
    assert machine.value("pkg.upgrade") == {}
    assert machine.value("pkg.unhold", ALPHA)[ALPHA]["changes"] == {"old": "hold", "new": ""}
    assert machine.value("pkg.upgrade") == {ALPHA: {"old": "1.0-1", "new": "2.0-1"}}


def test_dnf_without_its_plugin_says_what_holding_needs(
    fresh: dict[str, Path], repository: Path, tmp_path: Path
) -> None:
    shutil.copytree(fresh["dnf"], tmp_path / "root", symlinks=True)
    message = Machine("dnf", tmp_path / "root", repository).error("pkg.hold", "slt-base")
    assert message == "ERROR: Packages cannot be held without python3-dnf-plugin-versionlock: install it first."


def test_zypper_tells_of_packages_that_are_offered(fresh: dict[str, Path], repository: Path) -> None:
    machine = Machine("zypper", fresh["zypper"], repository)
    row = machine.value("pkg.info_available", ALPHA, refresh=False)[ALPHA]
    assert (row["version"], row["installed"], row["repository"]) == ("2.0-1", False, "test")
    assert machine.value("pkg.search", "alpha")[ALPHA]["status"] == "not-installed"
    assert machine.value("pkg.list_patterns") == {}
    assert machine.value("pkg.list_products") == []


VERSIONS = [
    *("1.0", "1.0~rc1", "1.0^git1", "1.0^", "1.0~", "1.0a", "1.0.1", "1.10", "1.9", "01.9", "1_0", "a", "1"),
    *("1.0^git1~pre", "1.0~rc1^git1", "2.0.1a", "2.0.1b", "xyz10", "xyz.4", "10xyz", "1.0.a"),
]


def test_versions_compare_as_rpm_does() -> None:
    pairs = [(one, other) for one in VERSIONS for other in VERSIONS]
    program = "".join(f'io.write(rpm.vercmp("{one}", "{other}"), " ")\n' for one, other in pairs)
    done = subprocess.run(["rpm", "--eval", f"%{{lua:{program}}}"], capture_output=True, text=True, check=True)
    expected = dict(zip(pairs, map(int, done.stdout.split()), strict=True))
    assert {pair: _rpm.compare_parts(*pair) for pair in pairs} == expected


@pytest.mark.parametrize(
    ("first", "second", "result"), [("1:0.9", "1.0", 1), ("1.0-1", "1.0", 0), ("1.0-2", "1.0-10", -1), ("0:1", "1", 0)]
)
def test_epochs_and_releases_count(first: str, second: str, result: int) -> None:
    assert _rpm.compare(first, second) == result
