"""A minion that registers the bare id of another one's resource: operators hear of it, once."""

from __future__ import annotations

import pytest

from tests.support.master import MasterRig


@pytest.fixture
def rig() -> MasterRig:
    rig = MasterRig("ma", "mb")
    rig.register("ma", {"dummy": ["d1", "d2"], "probe": ["d1"]})
    return rig


def test_a_name_that_another_minion_has_is_told_when_it_comes_and_not_again(
    rig: MasterRig, caplog: pytest.LogCaptureFixture
) -> None:
    assert rig.events("resource/namesake") == [], "one minion may call two things alike"
    rig.register("mb", {"evil": ["d1", "x"]})
    rig.register("mb", {"evil": ["d1", "x", "y"]})
    (event,) = rig.events("resource/namesake")
    names = {"d1": ["dummy:d1", "evil:d1", "probe:d1"]}
    assert (event.tag, event.data) == ("resource/namesake/mb", {"id": "mb", "count": 1, "names": names})
    assert (
        caplog.text.count("mb registered names that resources of other minions have as well, 1 in all: dummy:d1, ") == 1
    )


def test_an_srn_that_is_the_bare_id_of_anothers_resource_is_told_as_well_and_the_other_way_round() -> None:
    rig = MasterRig("ma", "mb", "mc")
    rig.register("ma", {"ssh": ["fe80::1"]})
    rig.register("mb", {"fe80": [":1"]})
    rig.register("mc", {"evil": ["ssh:fe80::1"]})
    first, second = rig.events("resource/namesake")
    assert first.data == {"id": "mb", "count": 1, "names": {"fe80::1": ["fe80::1", "ssh:fe80::1"]}}
    assert second.data["names"] == {"ssh:fe80::1": ["evil:ssh:fe80::1", "ssh:fe80::1"]}


def test_a_resource_that_stays_with_its_owner_is_no_namesake(rig: MasterRig) -> None:
    rig.register("mb", {"dummy": ["d1"]})
    assert rig.events("resource/namesake") == []
