"""Module interfaces through a master and minions: the listings of the RFC that they come from, as users type them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import BIN, Fleet
from tests.support.modules import write

pytestmark = pytest.mark.e2e

LISTINGS = Path(__file__).parents[1] / "data" / "interfaces"

MINIONS = {
    "beos": {"os": "beos", "os_family": "Haiku", "osfamily": "Haiku"},
    "plan9": {"os": "Plan9", "os_family": "Plan9", "osfamily": "Plan9"},
    "netbsd": {"os": "NetBSD", "os_family": "NetBSD", "osfamily": "NetBSD"},
    "redhat": {"os": "RedHat", "os_family": "RedHat", "osfamily": "RedHat"},
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("interfaces"))
    try:
        fleet.start_master()
        for minion, grains in MINIONS.items():
            fleet.join(minion, grains=grains, extension_modules=str(LISTINGS))
        yield fleet
    finally:
        fleet.close()


def run(fleet: Fleet, minion: str, *words: str) -> dict[str, Any]:
    """What one minion answered, with retcode and reason."""
    said = fleet.cli("--out", "json-full", minion, *words)
    answer: dict[str, Any] = said.json()
    found: dict[str, Any] = answer["returns"][minion]
    return found


def test_the_document_s_module_is_offered_under_its_interface_s_name(fleet: Fleet) -> None:
    assert run(fleet, "beos", "pkg.list_installed")["return"] == {"zypper": "1.14"}


def test_fireworks_are_not_implemented_where_they_are_supported(fleet: Fleet) -> None:
    answer = run(fleet, "beos", "pkg.salute_fireworks", "x")
    assert (answer["return"], answer["retcode"]) == (
        "'pkg.salute_fireworks' is not implemented by zypper (interface pkg 1.0).",
        69,
    )


def test_fireworks_are_not_supported_elsewhere(fleet: Fleet) -> None:
    answer = run(fleet, "plan9", "pkg.salute_fireworks", "x")
    assert answer["retcode"] == 69
    assert answer["return"] == (
        "'pkg.salute_fireworks' is not supported on Plan9 "
        "(interface pkg 1.0 supports: os=beos, frogbsd, weirdlinux; os_family=linux)."
    )


def test_a_function_that_the_interface_does_not_have_works_and_the_person_is_told(fleet: Fleet) -> None:
    said = fleet.cli("plan9", "pkg.hold", "vim")
    assert "vim: hold" in " ".join(said.out.split())
    assert "plan9: 'pkg.hold' is not part of the interface pkg 1.0, and may be removed one day." in said.err
    assert said.code == 0


@pytest.mark.parametrize(
    ("minion", "value", "retcode"),
    [
        ("redhat", {"redhat": "x"}, 0),
        ("netbsd", {}, 0),
        ("plan9", "'some.foo' is not implemented by some (interface some 1.0).", 69),
    ],
)
def test_the_function_that_is_there_on_red_hat_only(fleet: Fleet, minion: str, value: Any, retcode: int) -> None:
    answer = run(fleet, minion, "some.foo", "x")
    assert (answer["return"], answer["retcode"]) == (value, retcode)


def test_states_see_by_membership_what_is_there(fleet: Fleet) -> None:
    listed = run(fleet, "netbsd", "sys.list_functions", "some", "pkg")["return"]
    assert listed == ["pkg.hold", "pkg.list_installed", "some.foo"]
    assert run(fleet, "plan9", "sys.list_functions", "some")["return"] == []


def test_explain_tells_the_winner_and_why_another_file_is_none(fleet: Fleet) -> None:
    said = fleet.cli("explain", "pkg", "plan9", "--out", "json")
    candidates = {one["file"]: one for one in said.json()["candidates"]}
    assert candidates["zypper"]["chosen"]
    assert not candidates["aptpkg"]["chosen"]
    assert candidates["aptpkg"]["reason"]
    counts = said.json()["interface"]["counts"]
    assert counts == {"implemented": 1, "not_implemented": 1, "not_supported": 1, "deprecated": 1}


def test_the_fleet_s_report_has_a_column_for_each_provider_and_system(fleet: Fleet) -> None:
    said = fleet.cli("runner", "smi.report", "beos,plan9", "pkg", "tgt_type=list", "--out", "json")
    table = said.json()
    assert table["minions"] == 2
    module = table["modules"]["pkg"]
    assert [(one["provider"], one["os"], one["minions"]) for one in module["providers"]] == [
        ("zypper", "Plan9", 1),
        ("zypper", "beos", 1),
    ]
    assert module["functions"]["salute_fireworks"] == [{"not_supported": 1}, {"not_implemented": 1}]
    again = fleet.cli("runner", "smi.report", "beos,plan9", "pkg", "tgt_type=list", "--out", "json")
    assert again.json() == said.json()


def test_completion_offers_what_can_be_called(fleet: Fleet) -> None:
    done = subprocess.run(
        [BIN / "saltlite", "__complete", "--", "-c", fleet.folder / "master", "beos", "pkg."],
        capture_output=True,
        text=True,
        env=fleet.environment(),
        check=True,
    )
    assert "pkg.hold" in done.stdout
    assert "pkg.salute_fireworks" not in done.stdout


def test_a_minion_that_enforces_takes_the_interface_s_words(fleet: Fleet, tmp_path: Path) -> None:
    provider = """
        __virtualname__ = "group"
        def __virtual__(): return True
        def add(group, gid=5): return [group, gid]
    """
    write(tmp_path, {"modules/ourgroup": provider})
    fleet.join("strict", extension_modules=str(tmp_path), smi_mode="enforce", smi_returns="strict")
    answer = run(fleet, "strict", "group.add", "name=ops")
    assert answer["retcode"] == 70
    assert answer["return"] == (
        "'group.add' of ourgroup breaks the interface group 1.0: it returned list where bool is promised."
    )
