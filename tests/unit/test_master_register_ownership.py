"""Whose a resource is when several minions register it, when an operator gives it away, and both at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saltlite.master.handlers import keys, registration
from saltlite.master.handlers import registration as registering
from saltlite.master.handlers.documents import agrees
from saltlite.model.ids import MinionId
from saltlite.model.resourcelook import bits_of, without_marked
from saltlite.resources.registry.admission import RegistrationRules
from saltlite.resources.registry.registry import Conflict
from saltlite.targeting.banks import RESOURCE_GRAINS
from saltlite.wire.codec import encode_document
from tests.support.master import MasterRig
from tests.support.store import key

CONFLICT = {"id": "mb", "count": 1, "owned_by": {"ma": 1}, "resources": ["dummy:d1"]}
DUMMIES = {"dummy": ["d1", "d2"]}
PING = "test.ping()"


@pytest.fixture
def rig() -> MasterRig:
    return MasterRig("ma", "mb", "mc")


# -- ownership


def test_a_resource_of_another_minion_stays_with_it_and_both_are_told(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES)
    said = rig.register("mb", {"dummy": ["d1", "d11"]})
    assert (said["state"], said["names"]) == ("ok", ["dummy:d1 is managed by ma, and stays so"])
    assert rig.owned("ma") == DUMMIES
    assert rig.owned("mb") == {"dummy": ["d11"]}
    assert without_marked({"dummy": ["d1", "d11"]}, said["data"]) == {"dummy": ["d11"]}
    assert rig.register("ma", DUMMIES)["data"] == b""
    (event,) = rig.events("resource/conflict/")
    assert (event.tag, event.data) == ("resource/conflict/mb", CONFLICT)


def test_the_bits_of_withheld_resources_name_them_and_unknown_ones_are_none() -> None:
    claimed = {"dummy": [f"d{number}" for number in range(20)], "ssh": ["web"], "rack": []}
    gone = {("dummy", "d0"), ("dummy", "d17"), ("ssh", "web")}
    bits = bits_of((kind, one) in gone for kind, ids in claimed.items() for one in ids)
    left = without_marked(claimed, bits)
    assert left == {"dummy": [f"d{number}" for number in range(20) if number not in (0, 17)]}
    assert bits_of([False] * 9) == b""
    assert without_marked({"dummy": ["d1"]}, b"") == {"dummy": ["d1"]}


def test_where_the_newest_wins_the_resource_moves_with_its_grains() -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"of": "ma"}, "dummy:d2": {"of": "ma"}})
    rig.register("mb", {"dummy": ["d1"]}, grains={"dummy:d1": {"of": "mb"}})
    assert (rig.owned("ma"), rig.owned("mb")) == ({"dummy": ["d2"]}, {"dummy": ["d1"]})
    assert rig.ask("resource_grains", type="dummy", id="d1").fields["grains"] == {"of": "mb"}
    assert rig.ask("resource_grains", type="dummy", id="d2").fields["grains"] == {"of": "ma"}
    (event,) = rig.events("resource/conflict/")
    assert event.data == {"id": "mb", "count": 1, "taken_from": {"ma": 1}, "resources": ["dummy:d1"]}


def test_two_minions_do_not_take_one_resource_from_each_other_for_ever() -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    rig.register("ma", DUMMIES)
    rig.register("mb", {"dummy": ["d1"]})
    said = rig.register("ma", DUMMIES, grains={"dummy:d2": {"n": 1}})
    assert said["names"] == ["dummy:d1 is managed by mb, and stays so"]
    assert (rig.owned("ma"), rig.owned("mb")) == ({"dummy": ["d2"]}, {"dummy": ["d1"]})


def test_what_was_lost_to_another_minion_is_no_disagreement() -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    rig.register("ma", DUMMIES)
    rig.register("mb", {"dummy": ["d1"]})
    assert agrees(rig.master, MinionId("ma"))


def test_what_was_lost_is_had_again_when_the_other_minion_releases_it() -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    data = encode_document({"resources": DUMMIES})
    rig.send("ma", "resources", data)
    rig.register("mb", {"dummy": ["d1"]})
    rig.register("mb", {})
    assert rig.holds("ma", resources=data) == [("ma", "resources")]
    assert rig.send("ma", "resources", data)["names"] == []
    assert rig.owned("ma") == DUMMIES


def test_a_full_disk_does_not_make_the_master_forget_what_a_minion_lost() -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    rig.register("ma", DUMMIES)
    rig.register("mb", {"dummy": ["d1"]})
    rig.shared.cache.full = True
    assert rig.register("ma", {"dummy": ["d1", "d3"]})["state"] == "busy"
    rig.shared.cache.full = False
    assert rig.register("ma", {"dummy": ["d1", "d3"]})["names"] == ["dummy:d1 is managed by mb, and stays so"]
    assert rig.owned("mb") == {"dummy": ["d1"]}


def test_who_gives_a_resource_up_and_registers_it_later_is_the_newest() -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    for minion, ids in (("ma", ["d1"]), ("mb", ["d1"]), ("ma", []), ("ma", ["d1"])):
        rig.register(minion, {"dummy": ids})
    assert (rig.owned("ma"), rig.owned("mb")) == ({"dummy": ["d1"]}, {})


@pytest.mark.parametrize("conflict", Conflict)
def test_what_an_operator_gave_to_another_minion_is_not_taken_back(conflict: Conflict) -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(conflict=conflict))
    rig.register("ma", DUMMIES)
    rig.register("mb", {})
    rig.ask("resource_transfer", srn="dummy:d1", minion="mb")
    for _ in range(2):
        assert rig.register("ma", DUMMIES)["names"] == ["dummy:d1 is managed by mb, and stays so"]
    rig.register("mb", {"dummy": ["d1"]})
    assert (rig.owned("ma"), rig.owned("mb")) == ({"dummy": ["d2"]}, {"dummy": ["d1"]})


def test_one_conflict_is_one_event_with_the_count_and_the_first_names(rig: MasterRig) -> None:
    mine = [f"d{n:02}" for n in range(registering.CONFLICT_NAMES_MAX)]
    rig.register("ma", {"dummy": mine})
    rig.register("mc", {"dummy": ["x"]})
    rig.register("mb", {"dummy": [*mine, "x"]})
    (event,) = rig.events("resource/conflict/")
    owners = {"ma": registering.CONFLICT_NAMES_MAX, "mc": 1}
    names = [f"dummy:{name}" for name in mine]
    assert (event.tag, event.data) == (
        "resource/conflict/mb",
        {"id": "mb", "count": len(mine) + 1, "owned_by": owners, "resources": names},
    )


def test_the_same_refusal_again_is_no_news(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES)
    for _ in range(3):
        assert rig.register("mb", {"dummy": ["d1"]})["names"] == ["dummy:d1 is managed by ma, and stays so"]
    assert len(rig.events("resource/conflict/")) == 1
    assert len(rig.events("resource/refused/")) == 1


def test_a_policy_keeps_back_what_a_minion_may_not_register() -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(policy={"m[a]": ["dummy:d*", "ssh:*"]}))
    assert rig.register("ma", {"dummy": ["d1", "x1"], "ssh": ["x1"]})["names"] == [
        "dummy:x1 may not be registered by ma: resource_policy of the master"
    ]
    assert rig.owned("ma") == {"dummy": ["d1"], "ssh": ["x1"]}
    rig.register("mb", {"dummy": ["d2"]})
    assert rig.owned("mb") == {}


def test_a_release_by_a_minion_does_not_touch_what_another_took_meanwhile() -> None:
    first = MasterRig("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    second = MasterRig(rules=RegistrationRules(conflict=Conflict.NEWEST), shared=first.shared)
    first.register("ma", {"dummy": ["x"]})
    second.register("mb", {"dummy": ["x"]})
    first.register("ma", {})
    assert first.owned("mb") == {"dummy": ["x"]}


# -- what happens between the two transactions of a registration


def meanwhile(monkeypatch: pytest.MonkeyPatch, *happens: Callable[[], object]) -> None:
    """Have this happen once, right after the grains of a registration were stored."""
    store_grains, waiting = registration.put_rows, list(happens)

    def stored(*what: Any) -> None:
        store_grains(*what)
        if waiting:
            waiting.pop()()

    monkeypatch.setattr("saltlite.master.handlers.registration.put_rows", stored)


def test_of_a_key_that_goes_while_grains_are_stored_nothing_stays(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint = key(MinionId("ma")).fingerprint
    meanwhile(monkeypatch, lambda: rig.ask("key_change", action="delete", fingerprints=[fingerprint]))
    # As when the key goes between the clean-up of the other MWorker and what this one stores.
    monkeypatch.setattr(keys, "_forget", lambda *_: None)
    said = rig.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}})
    assert (said["state"], said["names"]) == ("refused", ["the key is not accepted any more"])
    assert rig.owned("ma") == {}
    assert rig.master.banks.bank(RESOURCE_GRAINS).keys() == []


def test_what_another_minion_takes_while_grains_are_stored_has_the_grains_of_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = RegistrationRules(conflict=Conflict.NEWEST)
    rig = MasterRig("ma", "mb", rules=rules)
    other = MasterRig(rules=rules, shared=rig.shared)
    meanwhile(monkeypatch, lambda: other.register("mb", {"dummy": ["d1"]}, grains={"dummy:d1": {"of": "mb"}}))
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"of": "ma"}, "dummy:d2": {"of": "ma"}})
    rows = rig.master.banks.bank(RESOURCE_GRAINS).get("ma")
    assert rows is not None
    assert list(rows) == ["dummy:d2"]
    assert rig.ask("resource_grains", type="dummy", id="d1").fields["grains"] == {"of": "mb"}
    assert agrees(rig.master, MinionId("ma"))
    rig.register("ma", DUMMIES)
    assert rig.owned("mb") == {"dummy": ["d1"]}


def test_grains_that_another_process_replaced_meanwhile_by_older_ones_are_stored_again(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = {"dummy:d2": {"grains": {"n": 0}, "stale_since": None}}
    meanwhile(monkeypatch, lambda: rig.master.banks.bank(RESOURCE_GRAINS).put("ma", older))
    rig.register("ma", DUMMIES, grains={"dummy:d2": {"n": 1}})
    assert rig.ask("resource_grains", type="dummy", id="d2").fields["grains"] == {"n": 1}
