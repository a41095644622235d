"""What a real minion does not find any more stays until it is sure, and what it gives up passes on at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


class Site:
    """A master and the minions `ma` and `mb`, whose pillar declares what a test says."""

    def __init__(self, fleet: Fleet, pillar: Path) -> None:
        self.fleet = fleet
        self._pillar = pillar
        pillar.mkdir()
        (pillar / "top.sls").write_text("base:\n  ma: [ma]\n  mb: [mb]\n")
        self.declare("ma", dummy={"count": 30})
        self.declare("mb")
        fleet.start_master(pillar_roots={"base": [str(pillar)]})
        fleet.join("ma")
        wait_until(lambda: len(self.rows()) == 30, "30 resources are registered")

    def declare(self, minion: str, **types: Any) -> None:
        (self._pillar / f"{minion}.sls").write_text(json.dumps({"resources": types}))

    def pillar(self, minion: str) -> None:
        assert self.fleet.cli(minion, "saltutil.refresh_pillar").code == 0

    def look(self, minion: str) -> tuple[int, dict[str, Any]]:
        said = self.fleet.cli("--out", "json", "runner", "resource.refresh", f"minion={minion}")
        return said.code, said.json()

    def rows(self) -> list[dict[str, Any]]:
        with self.fleet.client() as client:
            rows: list[dict[str, Any]] = client.call("resource_list")["resources"]
            return rows

    def stale(self) -> int:
        return sum(row["stale_since"] is not None for row in self.rows())

    def owner(self, srn: str) -> str:
        return next((row["minion"] for row in self.rows() if row["srn"] == srn), "")

    def events(self, tag: str) -> list[Any]:
        with self.fleet.store() as store:
            return [event.data for event in store.events(0, 10**6) if event.tag == tag]


@pytest.fixture
def site(fleet: Fleet, tmp_path: Path) -> Site:
    return Site(fleet, tmp_path / "pillar")


def test_an_empty_look_loses_nothing_also_over_a_restart_and_is_told_everywhere(site: Site) -> None:
    fleet = site.fleet
    site.declare("ma", dummy={"count": 0})
    site.pillar("ma")
    assert (len(site.rows()), site.stale()) == (30, 30)
    (event,) = site.events("resource/missing/ma")
    assert (event["missing"]["dummy"]["count"], event["missing"]["dummy"]["looks"]) == (30, 1)
    assert "(stale since " in fleet.cli("runner", "resource.list").out
    assert "30 of 1 minion no longer found" in fleet.cli("status").out
    assert "ma no longer finds 30 of type dummy" in " ".join(fleet.cli("doctor", "master").out.split())

    # The minion forgets all it knew, and the rule holds; the second look.
    fleet.daemons["ma"].stop()
    fleet.restart_minion("ma")
    wait_until(lambda: len(site.events("resource/missing/ma")) == 2, "the minion has looked again")
    assert (len(site.rows()), site.stale()) == (30, 30)

    # They are found again, and nothing was lost.
    site.declare("ma", dummy={"count": 30})
    site.pillar("ma")
    assert (len(site.rows()), site.stale()) == (30, 0)

    # Less than half: the look says so, and why it does not succeed; an operator lets them go.
    site.declare("ma", dummy={"count": 3})
    site.pillar("ma")
    code, told = site.look("ma")
    assert code != 0
    assert told["types"]["dummy"] | {"was": 3} == {"loaded": True, "initialised": True, "found": 3, "was": 3}
    assert "3 were found where 30 were, and the missing 27 stay" in told["withheld"][0]
    assert len(site.rows()) == 30
    assert fleet.cli("--out", "json", "runner", "resource.confirm", "ma").json() == {"dummy": 27}
    assert (len(site.rows()), site.stale()) == (3, 0)
    assert fleet.cli("runner", "resource.confirm", "ma").code != 0

    # Looks that agree let them go too, and the type says where it looked.
    site.declare("ma", dummy={"count": 0})
    site.pillar("ma")
    assert site.look("ma")[0] != 0
    code, told = site.look("ma")
    assert (code, told["withheld"], site.rows()) == (0, [], [])
    assert told["types"]["dummy"]["looked_at"] == "pillar resources:dummy, which has the keys count"


def test_a_type_that_cannot_be_used_says_why_and_keeps_what_it_has_over_a_restart(site: Site) -> None:
    site.declare("ma", dummy={"count": "many"}, nosuch={})
    site.pillar("ma")
    code, told = site.look("ma")
    assert code != 0
    assert "count is 'many'" in told["types"]["dummy"]["error"]
    assert not told["types"]["nosuch"]["loaded"]
    site.fleet.daemons["ma"].stop()
    site.fleet.restart_minion("ma")
    for _ in range(4):
        assert site.look("ma")[0] != 0
    assert (len(site.rows()), site.stale()) == (30, 30)
    assert "ma: not loaded: No resource loader available for type 'nosuch'" in site.fleet.cli("status").out


def test_what_a_minion_gives_up_passes_on_at_once_and_so_does_what_goes_with_its_key(site: Site) -> None:
    fleet = site.fleet
    site.declare("mb", dummy={"resource_ids": ["dummy-1", "dummy-2", "dummy-3"]})
    fleet.join("mb")
    wait_until(lambda: site.events("resource/conflict/mb"), "mb was refused")
    (event,) = site.events("resource/conflict/mb")
    names = ["dummy:dummy-1", "dummy:dummy-2", "dummy:dummy-3"]
    assert event == {"id": "mb", "count": 3, "owned_by": {"ma": 3}, "resources": names}
    site.declare("ma", dummy={"resource_ids": [f"dummy-{number}" for number in range(2, 31)]})
    site.pillar("ma")
    wait_until(lambda: site.owner("dummy:dummy-1") == "mb", "what ma gave up is mb's", 5.0)
    assert site.owner("dummy:dummy-2") == "ma"
    # Without a single one left it may be an error; who declares it gets it all the same.
    site.declare("ma")
    site.pillar("ma")
    wait_until(lambda: site.owner("dummy:dummy-2") == "mb", "what ma misses is mb's", 5.0)
    assert (site.owner("dummy:dummy-4"), site.stale()) == ("ma", 27)
    # And what belongs to a key that is deleted.
    site.declare("ma", dummy={"resource_ids": ["dummy-7"]})
    site.declare("mb", dummy={"resource_ids": ["dummy-1", "dummy-2", "dummy-3", "dummy-7"]})
    site.pillar("ma")
    site.pillar("mb")
    assert site.owner("dummy:dummy-7") == "ma"
    assert fleet.cli("key", "delete", "ma", "-y").code == 0
    wait_until(lambda: site.owner("dummy:dummy-7") == "mb", "what went with the key is mb's", 5.0)
