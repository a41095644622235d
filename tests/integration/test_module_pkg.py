"""`pkg` and `lowpkg` against this machine's real package database."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import SaltInvocationError
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.grains.collect import collect
from saltlite.plugins.modules import _packages, dpkg_lowpkg

INDEX = build_index(search_layers({}))
GRAINS = collect({})
NAME = "saltlite-test-package"

pytestmark = pytest.mark.skipif(
    GRAINS["os_family"] != "Debian" or not shutil.which("dpkg-query"),
    reason="this machine has no dpkg database",
)
CHANGES = pytest.mark.skipif(os.geteuid() != 0, reason="only root can install packages")


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call it with everything that its interface promises held against what it returns."""
    return call(Loader(INDEX, {"smi_returns": "strict"}, GRAINS, {}), fun, args, kwargs)


def query(form: str, *names: str) -> list[str]:
    done = subprocess.run(["dpkg-query", "-W", "-f", form, *names], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def installed() -> dict[str, str]:
    """What dpkg-query says, asked in another way than the module asks."""
    rows = (line.split("\t") for line in query("${db:Status-Abbrev}\t${Package}\t${Architecture}\t${Version}\n"))
    own = GRAINS["osarch"]
    return {
        name if arch in (own, "all") else f"{name}:{arch}": version
        for status, name, arch, version in rows
        if status[1] in "iWt"
    }


def test_the_list_of_packages_is_that_of_dpkg() -> None:
    outcome = run("pkg.list_installed")
    assert outcome.retcode == 0
    assert outcome.value == installed()


def test_versions_come_as_lists_when_asked() -> None:
    assert run("pkg.list_pkgs", versions_as_list=True).value["dpkg"] == [installed()["dpkg"]]


def test_named_packages_and_globs_limit_the_list() -> None:
    found = run("pkg.list_installed", "dpkg", "apt*", "nosuchpkg").value
    assert {"dpkg", "apt"} <= set(found)
    assert all(name == "dpkg" or name.startswith("apt") for name in found)


def test_removed_packages_are_those_with_left_configuration() -> None:
    rows = [line.split() for line in query("${db:Status-Status} ${Package}\n")]
    assert set(run("pkg.list_pkgs", removed=True).value) == {name for status, name in rows if status == "config-files"}


def test_version_is_a_text_for_one_name_and_a_dict_for_several() -> None:
    assert run("pkg.version", "dpkg").value == installed()["dpkg"]
    assert run("pkg.version", "nosuchpkg").value == ""
    assert run("pkg.version", "dpkg", "nosuchpkg").value == {"dpkg": installed()["dpkg"], "nosuchpkg": ""}


def test_a_package_that_nobody_has_is_neither_latest_nor_upgradable() -> None:
    assert run("pkg.latest_version", "nosuchpkg", refresh=False).value == ""
    assert run("pkg.upgrade_available", "nosuchpkg", refresh=False).value is False


@pytest.mark.parametrize(
    ("first", "second", "kwargs", "result"),
    [
        ("1.0", "1.0", {}, 0),
        ("1.0~rc1", "1.0", {}, -1),
        ("1:0.9", "1.0", {}, 1),
        ("1:0.9", "1.0", {"ignore_epoch": True}, -1),
    ],
)
def test_versions_compare_as_dpkg_does(first: str, second: str, kwargs: dict[str, Any], result: int) -> None:
    assert run("pkg.version_cmp", first, second, **kwargs).value == result


def test_owner_names_the_package_of_a_file() -> None:
    assert run("pkg.owner", "/usr/bin/dpkg").value == "dpkg"
    assert run("pkg.owner", "/usr/bin/dpkg", "/nowhere").value == {"/usr/bin/dpkg": "dpkg", "/nowhere": ""}


def test_files_of_a_package_are_listed_and_missing_packages_named() -> None:
    expected = subprocess.run(["dpkg-query", "-L", "dpkg"], capture_output=True, text=True, check=True).stdout
    paths = [line for line in expected.splitlines() if line.startswith("/")]
    found = run("pkg.file_dict", "dpkg", "nosuchpkg").value
    assert found == {"errors": ["Package nosuchpkg is not installed."], "packages": {"dpkg": paths}}
    assert run("pkg.file_list", "dpkg").value == {"errors": [], "files": sorted(set(paths))}


def test_files_of_all_packages_are_listed_at_once() -> None:
    packages = run("pkg.file_dict").value["packages"]
    assert set(packages) == set(installed())
    assert "/usr/bin/dpkg" in packages["dpkg"]


def test_info_of_an_installed_package() -> None:
    found = run("pkg.info_installed", "dpkg", attr="version,arch").value
    assert found == {"dpkg": {"version": installed()["dpkg"], "arch": GRAINS["osarch"]}}


def test_what_lowpkg_is_asked_for_and_nobody_installed_is_an_error() -> None:
    assert run("lowpkg.info", "slt-nosuch").value == "ERROR: Not installed: slt-nosuch"
    assert run("lowpkg.info", "slt-nosuch", failhard=False).value == {}
    assert set(run("lowpkg.info", "slt-nosuch", "dpkg").value) == {"dpkg"}


def test_lowpkg_gives_one_version_a_package_and_the_day_of_its_installation() -> None:
    assert run("lowpkg.list_pkgs", "dpkg").value == {"dpkg": query("${Version}", "dpkg")[0]}
    found = run("pkg.info_installed", "dpkg", attr="name,architecture,source,install_date_time_t,install_date").value
    seconds = int(Path("/var/lib/dpkg/info/dpkg.list").stat().st_mtime)
    day = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = {"name": "dpkg", "architecture": query("${Architecture}", "dpkg")[0], "source": "dpkg"}
    assert found == {"dpkg": {**own, "install_date_time_t": seconds, "install_date": day}}


def test_the_license_is_that_of_the_file_copyright(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dpkg").mkdir()
    (tmp_path / "dpkg" / "copyright").write_bytes(
        b"License: GPL-2+\n text\nLicense:  BSD-2\nLicense: GPL-2+\nFiles: \xff\n"
    )
    monkeypatch.setattr(dpkg_lowpkg, "_DOCUMENTS", str(tmp_path))
    assert dpkg_lowpkg._licenses("dpkg") == {"license": "BSD-2, GPL-2+"}
    assert dpkg_lowpkg._licenses("none") == {}


def test_info_of_a_missing_package_is_an_error_unless_told_otherwise() -> None:
    assert run("pkg.info_installed", "nosuchpkg").value == "ERROR: Not installed: nosuchpkg"
    assert run("pkg.info_installed", "nosuchpkg", failhard=False).value == {}


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        ("pkg.install", ("-o=Debug::x=1",)),
        ("pkg.remove", ("--purge",)),
        ("pkg.purge", ("dpkg-",)),
        ("pkg.hold", ("-x",)),
        ("pkg.owner", ("--help",)),
        ("pkg.file_list", ("--help",)),
        ("pkg.latest_version", ("-h",)),
    ],
)
def test_names_that_look_like_options_are_refused(fun: str, args: tuple[str, ...]) -> None:
    outcome = run(fun, *args)
    assert (outcome.retcode, "is not the name of a package" in outcome.value) == (1, True)


def test_an_unknown_keyword_is_refused_and_nothing_is_installed() -> None:
    assert "not valid: flavour" in run("pkg.install", "bash", flavour=1).value
    assert "not valid: versio (did you mean version?)" in run("pkg.install", "bash", versio=1).value
    for nothing in ({}, {"name": ""}, {"refresh": True}):
        refused = run("pkg.install", **nothing)
        assert (refused.retcode, "give a name, pkgs or sources" in refused.value) == (1, True)
    assert run("pkg.install", pkgs=[]).value == {}


def test_removing_what_is_not_installed_changes_nothing() -> None:
    assert run("pkg.remove", "nosuchpkg") == Outcome({}, 0)


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Any]:
    """Build small packages with a configuration file; whatever is installed is purged at the end, and before, where a
    run was ended that could not."""
    purge = ["dpkg", "--purge", NAME]
    subprocess.run(purge, check=False, capture_output=True)

    def build(version: str) -> str:
        root = tmp_path / version
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN/control").write_text(
            f"Package: {NAME}\nVersion: {version}\nArchitecture: all\n"
            "Maintainer: nobody <nobody@example.org>\nDescription: a package of the tests\n"
        )
        (root / "DEBIAN/conffiles").write_text(f"/etc/{NAME}.conf\n")
        (root / "etc").mkdir()
        (root / f"etc/{NAME}.conf").write_text("a = 1\n")
        path = tmp_path / f"{NAME}_{version}_all.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "--build", str(root), str(path)],
            check=True,
            capture_output=True,
        )
        return str(path)

    yield build
    subprocess.run(purge, check=False, capture_output=True)


@CHANGES
@pytest.mark.timeout(600)  # dpkg syncs what it writes, some dozens of times
def test_a_package_goes_through_its_whole_life(package: Any) -> None:
    first, second = package("1.0"), package("2.0")
    assert run("pkg.install", sources=[{NAME: first}]).value == {NAME: {"old": "", "new": "1.0"}}
    assert run("pkg.version", NAME).value == "1.0"
    assert run("pkg.owner", f"/etc/{NAME}.conf").value == NAME

    held = run("pkg.hold", NAME).value[NAME]
    assert (held["result"], held["changes"]) == (True, {"old": "install", "new": "hold"})
    assert NAME in run("pkg.list_holds").value
    assert run("pkg.unhold", NAME).value[NAME]["result"] is True
    assert NAME not in run("pkg.list_holds").value

    assert run("pkg.install", sources=[{NAME: second}]).value == {NAME: {"old": "1.0", "new": "2.0"}}
    assert run("pkg.remove", NAME).value == {NAME: {"old": "2.0", "new": ""}}
    assert run("pkg.list_pkgs", removed=True).value[NAME] == "2.0"
    assert run("pkg.purge", NAME).value == {NAME: {"old": "2.0", "new": ""}}
    assert not Path(f"/etc/{NAME}.conf").exists()


@CHANGES
def test_a_package_that_does_not_exist_is_an_error_that_says_so() -> None:
    outcome = run("pkg.install", "nosuchpkg-zz")
    assert outcome.retcode == 1
    assert outcome.value == ("ERROR: apt-get failed (return code 100): Unable to locate package nosuchpkg-zz")


@CHANGES
def test_holding_a_package_that_does_not_exist_fails_for_that_package() -> None:
    report = run("pkg.hold", "nosuchpkg-zz").value["nosuchpkg-zz"]
    assert (report["result"], report["changes"]) == (False, {})


def test_the_file_of_a_package_tells_its_name_and_version(tmp_path: Path) -> None:
    control = tmp_path / "slt" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    for arch, name in (("all", "slt-one"), ("s390x", "slt-one:s390x")):
        control.write_text(f"Package: slt-one\nVersion: 1.2-3\nArchitecture: {arch}\nMaintainer: x\nDescription: x\n")
        file = str(tmp_path / "slt.deb")
        subprocess.run(["dpkg-deb", "--build", str(tmp_path / "slt"), file], check=True, capture_output=True)
        assert run("lowpkg.bin_pkg_info", file).value == {"name": name, "version": "1.2-3", "arch": arch}
    (tmp_path / "bad.deb").write_text("x")
    assert "Unable to get info for" in run("lowpkg.bin_pkg_info", str(tmp_path / "bad.deb")).value
    for missing in ("/sltnosuch.deb", "relative.deb"):
        assert "does not exist on minion" in run("lowpkg.bin_pkg_info", missing).value


def test_only_named_packages_are_selected_for_installation_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[list[str], str]] = []
    answers = iter([{"curl": "1", "vim": "2"}, {"vim": "2"}])

    def ran(argv: list[str], text: str = "") -> Any:
        calls.append((argv, text))
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(_packages, "run", ran)
    monkeypatch.setattr(dpkg_lowpkg, "list_pkgs", lambda **_how: next(answers))
    assert dpkg_lowpkg.unpurge("curl") == {"curl": {"old": "1", "new": ""}}
    assert calls == [(["dpkg", "--set-selections"], "curl install\n")]
    assert dpkg_lowpkg.unpurge() == {}
    for bad in ("c*", "curl install\nvim", "-x"):
        with pytest.raises(SaltInvocationError):
            dpkg_lowpkg.unpurge(bad)
    assert len(calls) == 1
