"""A minion with several masters: it finds the one that lives, and goes to the other when its own is gone."""

from __future__ import annotations

import pytest

from tests.e2e.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


def two_masters(fleet: Fleet) -> None:
    """Two live masters of one fleet, `one` and `two`, which both accept the minion `m`."""
    fleet.start_master("one")
    fleet.share_fleet_key("one", "two")
    fleet.start_master("two")


def test_a_minion_goes_past_a_dead_master_to_a_live_one(fleet: Fleet) -> None:
    fleet.start_master()
    dead = fleet.address("dead")
    token = fleet.token()

    fleet.start_minion("m", master=[dead, fleet.address()], join_token=token)

    fleet.wait_up("m")
    assert fleet.cli("--out", "json", "m", "test.ping").json() == {"m": True}
    assert f"{dead} refused the connection" in fleet.daemons["m"].log()
