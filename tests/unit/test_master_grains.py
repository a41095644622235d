"""Grains that minions send: how much of them is taken."""

from __future__ import annotations

import pytest

from saltlite.targeting.banks import KEY_NAMES_MAX, LEAVES_MAX
from tests.support.master import MasterRig


@pytest.mark.parametrize(
    ("grains", "reason"),
    [
        ({f"g{n}": 1 for n in range(KEY_NAMES_MAX + 1)}, "there are 1001 grains, and there may be 1000"),
        ({"a": [1] * (LEAVES_MAX + 1)}, "the grains have 20001 values, and there may be 20000"),
    ],
    ids=["names", "values"],
)
def test_more_than_an_index_can_hold_is_refused_and_the_old_grains_stay(grains: dict[str, object], reason: str) -> None:
    rig = MasterRig("ma")
    rig.grains("ma", os="Debian")
    said = rig.grains("ma", **grains)
    assert (said["state"], said["names"]) == ("refused", [reason])
    assert rig.ask("match", tgt="os:Debian", tgt_type="grain").fields["minions"] == ["ma"]
