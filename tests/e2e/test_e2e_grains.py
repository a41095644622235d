"""Grains that are set: the master has them when the command has ended, and the minion when it was restarted."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.support.fleet import BIN, Fleet, wait_until

pytestmark = pytest.mark.e2e


def run(fleet: Fleet, tgt: str, *words: str) -> Any:
    """What each minion returned."""
    said = fleet.cli(tgt, *words, "--out", "json")
    assert said.code == 0, said
    return said.json()


def test_a_grain_is_targeted_when_it_is_set_and_outlives_the_minion(fleet: Fleet) -> None:
    place = fleet.root("master") / "srv/pillar"
    place.mkdir(parents=True)
    (place / "top.sls").write_text("base:\n  'rack:4':\n    - match: grain\n    - rack\n")
    (place / "rack.sls").write_text("switch: s4\n")
    fleet.start_master()
    fleet.join("web", "db")
    assert run(fleet, "web", "grains.setval", "rack", "4") == {"web": {"rack": 4}}
    assert run(fleet, "-G", "rack:4", "test.ping") == {"web": True}
    assert run(fleet, "*", "pillar.get", "switch") == {"web": "s4", "db": ""}

    # Jobs at the same time: none undoes what another has set.
    jobs = [fleet.start_cli("web", "grains.append", "roles", f"role{number}") for number in range(4)]
    assert [job.wait() for job in jobs] == [0, 0, 0, 0]
    for job in jobs:
        job.communicate()
    assert sorted(run(fleet, "-C", "G@roles:role3 and G@rack:4", "grains.get", "roles")["web"]) == [
        f"role{number}" for number in range(4)
    ]

    # Not through the minion: it sees the file some time later.
    call = [str(BIN / "saltlite"), "-c", str(fleet.folder / "web"), "call", "grains.setval", "shelf", "2"]
    subprocess.run(call, check=True, capture_output=True, env=fleet.environment())
    wait_until(lambda: fleet.cli("-G", "shelf:2", "test.ping").code == 0, "the master has the grain that was set")

    fleet.daemons["web"].stop()
    fleet.restart_minion("web")
    fleet.wait_up("web")
    assert run(fleet, "web", "grains.item", "rack") == {"web": {"rack": 4}}
    assert run(fleet, "web", "match.grain", "rack:4") == {"web": True}
    assert run(fleet, "web", "grains.delkey", "rack")["web"]["result"] is True
    said = fleet.cli("-G", "rack:4", "test.ping")
    assert (said.code, said.out) == (3, "")
    assert run(fleet, "web", "grains.has_value", "rack") == {"web": False}
