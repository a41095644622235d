"""What becomes of a minion's registration: taken whole, in part with reasons, or refused while the old one stays."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.master.handlers import registration as registering
from saltlite.master.handlers.documents import AT_ONCE, EVERY_S
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState
from saltlite.resources.registry.admission import QUOTA, REASONS_MAX, RegistrationRules
from saltlite.wire.codec import encode_document
from tests.support.master import MasterRig
from tests.support.store import key

DUMMIES = {"dummy": ["d1", "d2"]}
PING = "test.ping()"


@pytest.fixture
def rig() -> MasterRig:
    return MasterRig("ma", "mb", "mc")


def test_a_registration_is_acknowledged_and_found_and_one_event_tells_it(rig: MasterRig) -> None:
    said = rig.register("ma", DUMMIES)
    assert (said["state"], said["names"], len(said["sha256"])) == ("ok", [], 32)
    assert rig.owned("ma") == DUMMIES
    (event,) = rig.events("resource/")
    assert (event.tag, event.data) == ("resource/refresh/ma", {"Resource cache refresh": "ma"})


def test_no_event_tells_of_registrations_when_the_configuration_says_so() -> None:
    rig = MasterRig("ma", rules=RegistrationRules(events=False))
    rig.register("ma", DUMMIES)
    assert rig.events("resource/") == []


def test_what_a_later_registration_does_not_have_is_released_with_its_grains(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}, "dummy:d2": {"n": 2}})
    rig.register("ma", {"dummy": ["d1"]}, grains={"dummy:d1": {"n": 1}})
    assert rig.owned("ma") == {"dummy": ["d1"]}
    assert list(rig.ask("resource_list_grains").fields["resources"]) == ["dummy:d1"]
    rig.give_up("ma", {})
    assert rig.owned("ma") == {}
    assert rig.ask("resource_list_grains").fields["resources"] == {}


BAD: dict[str, tuple[Any, str]] = {
    "an empty id": ([""], "is not a resource id"),
    "a slash": (["a/b"], "'a/b' is not a resource id"),
    "a backslash": (["a\\b"], "is not a resource id"),
    "the folder above": ([".."], "'..' is not a resource id"),
    "a space": (["a b"], "'a b' is not a resource id"),
    "a wildcard": (["x*"], "'x*' is not a resource id"),
    "a number": ([5], "5 is not a resource id"),
    "a NUL": (["a\0b"], "is not a resource id"),
    "a word of targets": (["and"], "'and' is not a resource id"),
    "too long": (["x" * 256], "is not a resource id"),
    "twice the same": (["a", "a"], "the id 'a' is there twice for one type"),
    "no list": ("d1", "a map from types to lists of ids"),
}


@pytest.mark.parametrize(("ids", "reason"), BAD.values(), ids=BAD.keys())
def test_a_bad_id_refuses_the_whole_registration_and_the_old_one_stays(rig: MasterRig, ids: Any, reason: str) -> None:
    rig.register("ma", DUMMIES)
    said = rig.send("ma", "resources", encode_document({"resources": {"dummy": ids, "probe": ["p1"]}}))
    assert said["state"] == "refused"
    assert reason in said["names"][0]
    assert rig.owned("ma") == DUMMIES
    (event,) = rig.events("resource/refused/ma")
    assert event.data == {"id": "ma", "act": "register", "whole": True, "reasons": said["names"]}
    assert rig.ask("resource_stats").fields["refused"]["ma"] == {"refusals": 1, "reasons": said["names"]}


def test_registrations_that_are_withheld_in_part_count_as_refusals_until_one_counts_whole(rig: MasterRig) -> None:
    rig.register("mb", {"dummy": ["d3", "ma"]})
    rig.register("mb", {"dummy": ["d3", "ma", "mc"]})
    rig.register("mb", {"dummy": ["a/b"]})
    assert rig.ask("resource_stats").fields["refused"]["mb"]["refusals"] == 3
    rig.register("mb", {"dummy": ["d3"]})
    assert rig.ask("resource_stats").fields["refused"] == {}


DOCUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "no resources": ({}, "a registration has `resources`"),
    "an unknown field": ({"resources": {}, "id": "mb"}, "no field 'id'"),
    "a bad type": ({"resources": {"../x": ["a"]}}, "'../x' is not a resource type"),
    "grains that are no map": ({"resources": {}, "grains": []}, "`grains` of a registration"),
    "stale that is no list": ({"resources": {}, "stale": "x"}, "`stale` of a registration"),
    "functions of no type": ({"resources": {}, "functions": {"dummy": [PING]}}, "no resources of it"),
    "functions that are none": ({"resources": DUMMIES, "functions": {"dummy": ["x"]}}, "not a function"),
    "functions that are no list": ({"resources": DUMMIES, "functions": {"dummy": 1}}, "`functions` of a registration"),
    "too many functions": (
        {"resources": DUMMIES, "functions": {"dummy": [f"a.f{n}()" for n in range(4097)]}},
        "4097 functions",
    ),
    "too many types": ({"resources": {f"t{n}": [] for n in range(257)}}, "257 resource types"),
}


@pytest.mark.parametrize(("document", "reason"), DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_document_that_is_no_registration_is_refused_with_the_reason(
    rig: MasterRig, document: dict[str, Any], reason: str
) -> None:
    said = rig.send("ma", "resources", encode_document(document))
    assert said["state"] == "refused"
    assert reason in said["names"][0]


def test_what_is_no_msgpack_is_refused(rig: MasterRig) -> None:
    said = rig.send("ma", "resources", b"\xc1\xc1\xc1")
    assert (said["state"], rig.owned("ma")) == ("refused", {})
    assert "could not be read" in said["names"][0]


def test_every_bad_entry_is_named_up_to_a_limit(rig: MasterRig) -> None:
    names = rig.register("ma", {"dummy": [f"bad {n}" for n in range(REASONS_MAX + 5)]})["names"]
    assert len(names) == REASONS_MAX + 1
    assert names[-1] == "and more"


def test_more_resources_than_the_quota_are_refused_and_the_old_ones_stay() -> None:
    rig = MasterRig("ma", rules=RegistrationRules(quota=3))
    rig.register("ma", DUMMIES)
    said = rig.register("ma", {"dummy": ["d1", "d2"], "probe": ["p1", "p2"]})
    assert said["names"] == ["it registers 4 resources, and resource_quota of the master allows 3"]
    assert rig.owned("ma") == DUMMIES


def test_a_million_ids_are_refused_by_the_quota(rig: MasterRig) -> None:
    said = rig.send("ma", "resources", encode_document({"resources": {"d": [f"{n:x}" for n in range(1_000_000)]}}))
    assert said["names"] == [f"it registers 1000000 resources, and resource_quota of the master allows {QUOTA}"]
    assert rig.owned("ma") == {}


# -- names of minions


def test_a_resource_with_the_id_of_a_minion_is_withheld_and_the_others_are_taken(rig: MasterRig) -> None:
    rig.add_keys("md")
    said = rig.register("mb", {"dummy": ["d3", "md"]})
    assert said["state"] == "ok"
    assert said["names"] == ["dummy:md has the id of a minion: give the resource another id"]
    assert rig.owned("mb") == {"dummy": ["d3"]}
    assert [event.tag for event in rig.events("resource/refused")] == ["resource/refused/mb"]


def test_a_key_that_nobody_has_accepted_keeps_no_resource_back_and_the_log_names_it(
    rig: MasterRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.add_keys("md", state=KeyState.PENDING)
    for _ in range(2):
        assert rig.register("mb", {"dummy": ["d3", "md"]})["names"] == []
    assert rig.owned("mb") == {"dummy": ["d3", "md"]}
    assert caplog.text.count("mb registers md, the id of a minion whose key is pending") == 1


def test_a_resource_cannot_have_the_id_of_its_own_minion(rig: MasterRig) -> None:
    assert "has the id of a minion" in rig.register("mb", {"dummy": ["mb"]})["names"][0]


def test_among_many_ids_those_of_minions_are_found_as_well(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "ASK_EACH_MAX", 1)
    rig.register("mb", {"dummy": ["mc", "d1", "d2"]})
    assert rig.owned("mb") == {"dummy": ["d1", "d2"]}


def test_a_key_is_not_accepted_for_the_id_of_a_resource(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES)
    rig.add_keys("d1", state=KeyState.PENDING)
    (pending,) = rig.store.keys(frozenset({KeyState.PENDING}))
    answer = rig.ask("key_change", action="accept", fingerprints=[pending.fingerprint])
    assert answer.fields["changed"] == []
    assert answer.fields["refused"][0]["reason"].startswith("a resource has this id: dummy:d1 (of ma). ")


# -- keys


@pytest.mark.parametrize("action", ["delete", "revoke"])
def test_what_a_minion_managed_goes_with_its_key(rig: MasterRig, action: str) -> None:
    rig.grains("ma", role="gate")
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"role": "probe"}})
    rig.register("mb", {"dummy": ["d11"]}, grains={"dummy:d11": {"role": "probe"}})
    rig.ask("key_change", action=action, fingerprints=[key(MinionId("ma")).fingerprint])
    assert rig.owned("ma") == {}
    for target, kind in (("T@dummy", "compound"), ("role:*", "grain")):
        found = rig.ask("match", tgt=target, tgt_type=kind).fields
        assert (found["minions"], found["resources"]) == ([], {"mb": ["dummy:d11"]})
    # Another machine of that name begins with nothing.
    rig.add_keys("ma")
    assert rig.ask("resource_stats").fields["minions"] == 1
    assert rig.ask("match", tgt="role:gate", tgt_type="grain").fields["minions"] == []


def test_a_registration_under_a_key_that_was_revoked_meanwhile_is_refused(rig: MasterRig) -> None:
    rig.add_keys("ma", state=KeyState.REVOKED)
    said = rig.register("ma", DUMMIES)
    assert (said["state"], said["names"]) == ("refused", ["the key is not accepted any more"])
    assert rig.owned("ma") == {}


# -- when the disk is full, and how often


def test_a_full_disk_is_an_answer_and_the_next_try_succeeds(rig: MasterRig) -> None:
    rig.register("ma", {"dummy": ["d9"]})
    rig.shared.cache.full = True
    said = rig.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}})
    assert said["state"] == "busy"
    assert "the registry has its resources" in said["names"][0]
    assert "the disk is full" in said["names"][0]
    # The rows stand, the rest does not: whatever the minion holds when it comes back, it is asked.
    assert rig.owned("ma") == DUMMIES
    for held in (DUMMIES, {"dummy": ["d9"]}):
        assert rig.holds("ma", resources=encode_document({"resources": held})) == [("ma", "resources")]
    rig.shared.cache.full = False
    assert rig.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}})["state"] == "ok"
    assert rig.owned("ma") == DUMMIES


def test_a_registry_that_cannot_be_written_leaves_everything_as_it_was(rig: MasterRig) -> None:
    rig.register("ma", {"dummy": ["d9"]})
    events = len(rig.events("resource/"))
    rig.shared.rows.busy = True
    assert rig.register("ma", DUMMIES)["state"] == "busy"
    rig.shared.rows.busy = False
    assert (rig.owned("ma"), len(rig.events("resource/"))) == ({"dummy": ["d9"]}, events)
    assert rig.register("ma", DUMMIES)["state"] == "ok"


def test_a_minion_registers_so_often_at_once_and_others_are_not_held_up(rig: MasterRig) -> None:
    for _ in range(AT_ONCE):
        assert rig.register("ma", DUMMIES)["state"] == "ok"
    said = rig.register("ma", {})
    assert said["state"] == "busy"
    assert rig.register("mb", {"dummy": ["d3"]})["state"] == "ok"
    rig.clock.advance(EVERY_S)
    assert rig.register("ma", {})["state"] == "ok"


# -- what is asked for


def test_a_minion_whose_registration_stands_is_asked_for_nothing(rig: MasterRig) -> None:
    data = encode_document({"resources": DUMMIES})
    assert rig.holds("ma", resources=data) == [("ma", "resources")]
    rig.send("ma", "resources", data)
    assert rig.holds("ma", resources=data) == []
    assert rig.holds("ma") == []


def test_a_minion_whose_resources_went_missing_is_asked_for_them(rig: MasterRig) -> None:
    data = encode_document({"resources": DUMMIES})
    rig.send("ma", "resources", data)
    rig.master.registry.unregister_minion("ma")
    assert rig.holds("ma", resources=data) == [("ma", "resources")]


def test_what_was_withheld_is_asked_for_again(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES)
    data = encode_document({"resources": {"dummy": ["d1"]}})
    rig.send("mb", "resources", data)
    assert rig.holds("mb", resources=data) == [("mb", "resources")]


def test_other_grains_are_asked_for(rig: MasterRig) -> None:
    data = encode_document({"os": "Debian"})
    assert rig.holds("ma", grains=data) == [("ma", "grains")]
    rig.send("ma", "grains", data)
    assert rig.holds("ma", grains=data) == []


def test_no_minion_can_be_found_under_the_id_of_another_by_its_grains(rig: MasterRig) -> None:
    rig.grains("ma", id="mb")
    assert rig.ask("match", tgt="id:mb", tgt_type="grain").fields["minions"] == []
    assert rig.ask("match", tgt="id:ma", tgt_type="grain").fields["minions"] == ["ma"]
