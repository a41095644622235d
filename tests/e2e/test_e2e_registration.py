"""Registrations of real minions: they survive restarts, follow the pillar, and make good what a damaged disk took."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

OURS = {"dummy:d1": "ma", "dummy:d2": "ma"}


class Site:
    """A master with a pillar, and the minion `ma`, which manages what `declare` says."""

    def __init__(self, fleet: Fleet, pillar: Path) -> None:
        self.fleet = fleet
        self.pillar = pillar

    def declare(self, *ids: str) -> None:
        text = f"resources:\n  dummy:\n    resource_ids: [{', '.join(ids)}]\n" if ids else "nothing: here\n"
        (self.pillar / "ma.sls").write_text(text)

    def owners(self) -> dict[str, str]:
        with self.fleet.client() as client:
            return {row["srn"]: row["minion"] for row in client.call("resource_list")["resources"]}

    def stats(self) -> dict[str, Any]:
        with self.fleet.client() as client:
            return client.call("resource_stats")

    def refresh(self) -> None:
        assert self.fleet.cli("--out", "json", "ma", "saltutil.refresh_pillar").json() == {"ma": True}

    def wait_owners(self, owners: dict[str, str]) -> None:
        wait_until(lambda: self.owners() == owners, f"the resources are {owners}")

    @property
    def registry(self) -> Path:
        return self.fleet.root("master") / "var/cache/saltlite/master/resources/resource_index.by_id.mmap"


@pytest.fixture
def site(fleet: Fleet, tmp_path: Path) -> Site:
    pillar = tmp_path / "pillar"
    pillar.mkdir()
    (pillar / "top.sls").write_text("base:\n  ma:\n    - ma\n")
    site = Site(fleet, pillar)
    site.declare("d1", "d2")
    fleet.start_master(pillar_roots={"base": [str(pillar)]})
    fleet.join("ma")
    site.wait_owners(OURS)
    return site


def test_resources_are_known_after_a_restart_of_the_master_while_their_minion_is_away(site: Site) -> None:
    site.fleet.daemons["ma"].stop()
    site.fleet.daemons["master"].stop()
    site.fleet.restart_master()
    said = site.fleet.cli("--out", "json", "match", "-C", "T@dummy").json()
    assert said["resources"] == {"ma": ["dummy:d1", "dummy:d2"]}
    assert said["away"] == ["ma"]


def test_what_was_found_while_the_master_was_down_is_registered_when_it_is_back(site: Site) -> None:
    site.fleet.daemons["master"].stop()
    site.fleet.daemons["ma"].stop()
    site.declare("d1", "d3")
    site.fleet.restart_minion("ma")
    site.fleet.restart_master()
    site.wait_owners({"dummy:d1": "ma", "dummy:d3": "ma"})


def test_what_the_pillar_loses_vanishes_with_its_grains(site: Site) -> None:
    assert site.fleet.cli("--out", "json", "-G", "dummy_grain_1:one", "test.ping").json() == {"d1": True, "d2": True}
    site.declare()
    site.refresh()
    # A pillar with a typing error looks the same: it takes more than one look until they go.
    assert site.owners() == OURS
    assert site.fleet.cli("--out", "json", "runner", "resource.confirm", "ma").json() == {"dummy": 2}
    assert site.owners() == {}
    assert site.fleet.cli("-G", "dummy_grain_1:one", "test.ping").code == 3


def test_the_runner_has_a_minion_register_anew_and_says_whether_it_did(site: Site) -> None:
    site.declare("d1", "d2", "d4")
    told = site.fleet.cli("--out", "json", "runner", "resource.refresh", "minion=ma").json()
    assert told == {"types": {"dummy": {"loaded": True, "initialised": True, "found": 2, "was": 2}}, "withheld": []}
    with site.fleet.store() as store:
        tags = [event.tag for event in store.events(0, 10**6)]
    assert "resource/refresh/ma" in tags
    assert site.fleet.cli("runner", "resource.refresh", "minion=nosuch").code != 0


def test_a_damaged_registry_is_rebuilt_from_the_minions_and_it_is_said(site: Site) -> None:
    master = site.fleet.daemons["master"]
    master.process.send_signal(signal.SIGKILL)
    master.process.wait()
    site.registry.write_bytes(b"\xff" * 100)
    site.fleet.restart_master()
    site.wait_owners(OURS)
    wait_until(lambda: not site.stats()["registry"]["primary"]["incomplete"], "it is called complete", 40.0)
    assert list(site.registry.parent.glob("*damaged*"))
    with site.fleet.store() as store:
        said = [event.data["state"] for event in store.events(0, 10**6) if event.tag == "resource/registry"]
    assert said == ["incomplete", "complete"]


def test_a_registry_that_is_removed_under_a_running_master_is_rebuilt(site: Site) -> None:
    site.registry.unlink()
    wait_until(lambda: site.owners() == OURS, "the resources are back", 40.0)


def test_a_transferred_resource_stays_with_the_minion_that_declares_it_too(site: Site) -> None:
    (site.pillar / "top.sls").write_text("base:\n  'm*':\n    - ma\n")
    site.fleet.join("mb")
    wait_until(lambda: site.stats()["refused"].get("mb"), "mb was told that it owns nothing")
    assert site.owners() == OURS
    assert site.fleet.cli("runner", "resource.transfer", "dummy:d1", "mb").code == 0
    moved = {**OURS, "dummy:d1": "mb"}
    wait_until(lambda: site.stats()["refused"].get("ma"), "ma was told that it has lost it")
    assert site.owners() == moved
    assert site.fleet.cli("--out", "json", "d1", "test.ping").json() == {"d1": True}
