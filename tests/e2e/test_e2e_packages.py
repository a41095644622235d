"""Packages through master and minion: apt and pacman, each on a root of the test's own, say the same in one shape."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import apt_roots, pacman_roots
from tests.support.fleet import Fleet

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can have package managers install"),
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt"),
]

PROVIDERS = {"debian": "aptpkg", "arch": "pacmanpkg"}
WORDS: dict[str, list[str]] = {}
"""Minion -> what each of its commands ends with."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A minion whose apt and dpkg work on a root of theirs, and one whose pacman is told another one."""
    assert shutil.which("pacman"), "pacman is not installed: apt-get install pacman-package-manager"
    folder = tmp_path_factory.mktemp("packages")
    files = {"usr/share/slttiny": "x"}
    line = apt_roots.publish(folder / "debs", [apt_roots.Package("slttiny", "1.0-1", files)])
    pacman_roots.publish(folder / "pacman", "tiny", [pacman_roots.Package("slttiny", "1.0-1", files)])
    root = pacman_roots.make_root(folder, "tiny", folder / "pacman")
    (folder / "apt").mkdir()
    WORDS.update(debian=[], arch=[f"root={root}"])
    fleet = Fleet(folder / "fleet")
    try:
        fleet.start_master()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in apt_roots.make_root(folder / "apt", line).items():
                patch.setenv(name, value)
            fleet.join("debian", smi_returns="strict", grains={"os_family": "Debian", "os": "Debian"})
        fleet.join("arch", smi_returns="strict", grains={"os_family": "Arch", "os": "Arch"})
        for minion in PROVIDERS:
            assert run(fleet, minion, "pkg.refresh_db")["retcode"] == 0
        yield fleet
    finally:
        fleet.close()


def run(fleet: Fleet, minion: str, *words: str) -> dict[str, Any]:
    """What one minion answered, with its return code."""
    said = fleet.cli("--out", "json-full", "--accept-risk", "remove", minion, *words, *WORDS[minion])
    assert said.out, said.err
    found: dict[str, Any] = said.json()["returns"][minion]
    return found


@pytest.mark.parametrize("minion", PROVIDERS)
def test_a_package_is_installed_listed_and_removed(fleet: Fleet, minion: str) -> None:
    steps = [
        (("pkg.install", "slttiny", "test=True"), {"slttiny": {"old": "", "new": "1.0-1"}}),
        (("pkg.list_installed", "slttiny"), {}),
        (("pkg.install", "slttiny"), {"slttiny": {"old": "", "new": "1.0-1"}}),
        (("pkg.list_installed",), {"slttiny": "1.0-1"}),
        (("pkg.remove", "slttiny"), {"slttiny": {"old": "1.0-1", "new": ""}}),
        (("pkg.list_installed",), {}),
    ]
    answers = [run(fleet, minion, *words) for words, _ in steps]
    assert [(one["return"], one["retcode"]) for one in answers] == [(expected, 0) for _, expected in steps]


@pytest.mark.parametrize("minion", PROVIDERS)
@pytest.mark.parametrize("name", ["--root=/", "slttiny;id", "a\nb"])
def test_what_is_no_name_is_refused_and_nothing_is_installed(fleet: Fleet, minion: str, name: str) -> None:
    answer = run(fleet, minion, "pkg.install", f"name={name}")
    assert (answer["retcode"], "is not the name of a package" in answer["return"]) == (1, True)


@pytest.mark.parametrize("minion", PROVIDERS)
def test_a_package_that_nobody_offers_is_an_error(fleet: Fleet, minion: str) -> None:
    answer = run(fleet, minion, "pkg.install", "nosuchpkg")
    assert (answer["retcode"], "nosuchpkg" in answer["return"]) == (1, True)


@pytest.mark.parametrize(("minion", "provider"), PROVIDERS.items())
def test_the_provider_keeps_to_the_interface(fleet: Fleet, minion: str, provider: str) -> None:
    said = fleet.cli("--out", "json", minion, "smi.conformance", "pkg").json()
    report = said[minion]["pkg"]
    assert (report["provider"], report["errors"], report["warnings"]) == (provider, 0, 0)


def test_roots_and_machine_are_apart(fleet: Fleet) -> None:
    assert not Path("/usr/share/slttiny").exists()
