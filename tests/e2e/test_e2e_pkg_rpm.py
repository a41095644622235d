"""Packages of rpm through master and minion: dnf and zypper in root folders, in one shape with Debian's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import rpm_roots
from tests.support.fleet import Fleet

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="root alone can install packages in a root folder"),
]
ALPHA = "slt-alpha"
PROVIDERS = {"dnf": "yumpkg", "zypper": "zypperpkg"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rpm_roots.build(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A minion for dnf, one for zypper, and one that has what its machine has."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        fleet.start_master()
        for tool, provider in PROVIDERS.items():
            fleet.join(tool, providers={"pkg": provider, "lowpkg": "rpm_lowpkg"}, smi_returns="strict")
        fleet.join("own", smi_returns="strict")
        yield fleet
    finally:
        fleet.close()


@pytest.mark.parametrize("tool", sorted(PROVIDERS))
def test_a_package_is_installed_listed_and_removed(tool: str, fleet: Fleet, repository: Path, tmp_path: Path) -> None:
    root = f"root={rpm_roots.root_for(tool, tmp_path / 'root', repository)}"
    said = fleet.cli("--out", "json", tool, "pkg.install", ALPHA, root)
    assert (said.code, said.json()) == (0, {tool: {ALPHA: {"old": "", "new": "2.0-1"}}})
    assert fleet.cli("--out", "json", tool, "pkg.list_installed", "slt-a*", root).json() == {tool: {ALPHA: "2.0-1"}}
    removed = fleet.cli("--out", "json", tool, "pkg.remove", ALPHA, root, "--accept-risk=remove")
    assert (removed.code, removed.json()) == (0, {tool: {ALPHA: {"old": "2.0-1", "new": ""}}})
    refused = fleet.cli(tool, "pkg.install", "a;reboot", root)
    assert (refused.code == 0, "'a;reboot' is not the name of a package." in refused.out + refused.err) == (False, True)


def test_all_providers_keep_to_one_interface(fleet: Fleet) -> None:
    reports = fleet.cli("--out", "json", "*", "smi.conformance", "pkg").json()
    found = {name: (row["pkg"]["provider"], row["pkg"]["errors"]) for name, row in reports.items()}
    assert found == {"dnf": ("yumpkg", 0), "zypper": ("zypperpkg", 0), "own": ("aptpkg", 0)}


def test_debian_has_its_list_in_the_same_shape(fleet: Fleet) -> None:
    found = fleet.cli("--out", "json", "own", "pkg.list_installed", "dpkg", "zypper").json()["own"]
    assert {name: type(version) for name, version in found.items()} == {"dpkg": str, "zypper": str}
