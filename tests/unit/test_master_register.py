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
from tests.support.master import Office
from tests.support.store import key

DUMMIES = {"dummy": ["d1", "d2"]}
PING = "test.ping()"


@pytest.fixture
def office() -> Office:
    return Office("ma", "mb", "mc")


def test_a_registration_is_acknowledged_and_found_and_one_event_tells_it(office: Office) -> None:
    said = office.register("ma", DUMMIES)
    assert (said["state"], said["names"], len(said["sha256"])) == ("ok", [], 32)
    assert office.owned("ma") == DUMMIES
    (event,) = office.events("resource/")
    assert (event.tag, event.data) == ("resource/refresh/ma", {"Resource cache refresh": "ma"})


def test_no_event_tells_of_registrations_when_the_configuration_says_so() -> None:
    office = Office("ma", rules=RegistrationRules(events=False))
    office.register("ma", DUMMIES)
    assert office.events("resource/") == []


def test_what_a_later_registration_does_not_have_is_released_with_its_grains(office: Office) -> None:
    office.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}, "dummy:d2": {"n": 2}})
    office.register("ma", {"dummy": ["d1"]}, grains={"dummy:d1": {"n": 1}})
    assert office.owned("ma") == {"dummy": ["d1"]}
    assert list(office.ask("resource_list_grains").fields["resources"]) == ["dummy:d1"]
    office.give_up("ma", {})
    assert office.owned("ma") == {}
    assert office.ask("resource_list_grains").fields["resources"] == {}


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
def test_a_bad_id_refuses_the_whole_registration_and_the_old_one_stays(office: Office, ids: Any, reason: str) -> None:
    office.register("ma", DUMMIES)
    said = office.send("ma", "resources", encode_document({"resources": {"dummy": ids, "probe": ["p1"]}}))
    assert said["state"] == "refused"
    assert reason in said["names"][0]
    assert office.owned("ma") == DUMMIES
    (event,) = office.events("resource/refused/ma")
    assert event.data == {"id": "ma", "act": "register", "whole": True, "reasons": said["names"]}
    assert office.ask("resource_stats").fields["refused"]["ma"] == {"refusals": 1, "reasons": said["names"]}


def test_registrations_that_are_withheld_in_part_count_as_refusals_until_one_counts_whole(office: Office) -> None:
    office.register("mb", {"dummy": ["d3", "ma"]})
    office.register("mb", {"dummy": ["d3", "ma", "mc"]})
    office.register("mb", {"dummy": ["a/b"]})
    assert office.ask("resource_stats").fields["refused"]["mb"]["refusals"] == 3
    office.register("mb", {"dummy": ["d3"]})
    assert office.ask("resource_stats").fields["refused"] == {}


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
    office: Office, document: dict[str, Any], reason: str
) -> None:
    said = office.send("ma", "resources", encode_document(document))
    assert said["state"] == "refused"
    assert reason in said["names"][0]


def test_what_is_no_msgpack_is_refused(office: Office) -> None:
    said = office.send("ma", "resources", b"\xc1\xc1\xc1")
    assert (said["state"], office.owned("ma")) == ("refused", {})
    assert "could not be read" in said["names"][0]


def test_every_bad_entry_is_named_up_to_a_limit(office: Office) -> None:
    names = office.register("ma", {"dummy": [f"bad {n}" for n in range(REASONS_MAX + 5)]})["names"]
    assert len(names) == REASONS_MAX + 1
    assert names[-1] == "and more"


def test_more_resources_than_the_quota_are_refused_and_the_old_ones_stay() -> None:
    office = Office("ma", rules=RegistrationRules(quota=3))
    office.register("ma", DUMMIES)
    said = office.register("ma", {"dummy": ["d1", "d2"], "probe": ["p1", "p2"]})
    assert said["names"] == ["it registers 4 resources, and resource_quota of the master allows 3"]
    assert office.owned("ma") == DUMMIES


def test_a_million_ids_are_refused_by_the_quota(office: Office) -> None:
    said = office.send("ma", "resources", encode_document({"resources": {"d": [f"{n:x}" for n in range(1_000_000)]}}))
    assert said["names"] == [f"it registers 1000000 resources, and resource_quota of the master allows {QUOTA}"]
    assert office.owned("ma") == {}


# -- names of minions


def test_a_resource_with_the_id_of_a_minion_is_withheld_and_the_others_are_taken(office: Office) -> None:
    office.add_keys("md")
    said = office.register("mb", {"dummy": ["d3", "md"]})
    assert said["state"] == "ok"
    assert said["names"] == ["dummy:md has the id of a minion: give the resource another id"]
    assert office.owned("mb") == {"dummy": ["d3"]}
    assert [event.tag for event in office.events("resource/refused")] == ["resource/refused/mb"]


def test_a_key_that_nobody_has_accepted_keeps_no_resource_back_and_the_log_names_it(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office.add_keys("md", state=KeyState.PENDING)
    for _ in range(2):
        assert office.register("mb", {"dummy": ["d3", "md"]})["names"] == []
    assert office.owned("mb") == {"dummy": ["d3", "md"]}
    assert caplog.text.count("mb registers md, the id of a minion whose key is pending") == 1


def test_a_resource_cannot_have_the_id_of_its_own_minion(office: Office) -> None:
    assert "has the id of a minion" in office.register("mb", {"dummy": ["mb"]})["names"][0]


def test_among_many_ids_those_of_minions_are_found_as_well(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "ASK_EACH_MAX", 1)
    office.register("mb", {"dummy": ["mc", "d1", "d2"]})
    assert office.owned("mb") == {"dummy": ["d1", "d2"]}


def test_a_key_is_not_accepted_for_the_id_of_a_resource(office: Office) -> None:
    office.register("ma", DUMMIES)
    office.add_keys("d1", state=KeyState.PENDING)
    (pending,) = office.store.keys(frozenset({KeyState.PENDING}))
    answer = office.ask("key_change", action="accept", fingerprints=[pending.fingerprint])
    assert answer.fields["changed"] == []
    assert answer.fields["refused"][0]["reason"].startswith("a resource has this id: dummy:d1 (of ma). ")


# -- keys


@pytest.mark.parametrize("action", ["delete", "revoke"])
def test_what_a_minion_managed_goes_with_its_key(office: Office, action: str) -> None:
    office.grains("ma", role="gate")
    office.register("ma", DUMMIES, grains={"dummy:d1": {"role": "probe"}})
    office.register("mb", {"dummy": ["d11"]}, grains={"dummy:d11": {"role": "probe"}})
    office.ask("key_change", action=action, fingerprints=[key(MinionId("ma")).fingerprint])
    assert office.owned("ma") == {}
    for target, kind in (("T@dummy", "compound"), ("role:*", "grain")):
        found = office.ask("match", tgt=target, tgt_type=kind).fields
        assert (found["minions"], found["resources"]) == ([], {"mb": ["dummy:d11"]})
    # Another machine of that name begins with nothing.
    office.add_keys("ma")
    assert office.ask("resource_stats").fields["minions"] == 1
    assert office.ask("match", tgt="role:gate", tgt_type="grain").fields["minions"] == []


def test_a_registration_under_a_key_that_was_revoked_meanwhile_is_refused(office: Office) -> None:
    office.add_keys("ma", state=KeyState.REVOKED)
    said = office.register("ma", DUMMIES)
    assert (said["state"], said["names"]) == ("refused", ["the key is not accepted any more"])
    assert office.owned("ma") == {}


# -- when the disk is full, and how often


def test_a_full_disk_is_an_answer_and_the_next_try_succeeds(office: Office) -> None:
    office.register("ma", {"dummy": ["d9"]})
    office.shared.cache.full = True
    said = office.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}})
    assert said["state"] == "busy"
    assert "the registry has its resources" in said["names"][0]
    assert "the disk is full" in said["names"][0]
    # The rows stand, the rest does not: whatever the minion holds when it comes back, it is asked.
    assert office.owned("ma") == DUMMIES
    for held in (DUMMIES, {"dummy": ["d9"]}):
        assert office.holds("ma", resources=encode_document({"resources": held})) == [("ma", "resources")]
    office.shared.cache.full = False
    assert office.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}})["state"] == "ok"
    assert office.owned("ma") == DUMMIES


def test_a_registry_that_cannot_be_written_leaves_everything_as_it_was(office: Office) -> None:
    office.register("ma", {"dummy": ["d9"]})
    events = len(office.events("resource/"))
    office.shared.rows.busy = True
    assert office.register("ma", DUMMIES)["state"] == "busy"
    office.shared.rows.busy = False
    assert (office.owned("ma"), len(office.events("resource/"))) == ({"dummy": ["d9"]}, events)
    assert office.register("ma", DUMMIES)["state"] == "ok"


def test_a_minion_registers_so_often_at_once_and_others_are_not_held_up(office: Office) -> None:
    for _ in range(AT_ONCE):
        assert office.register("ma", DUMMIES)["state"] == "ok"
    said = office.register("ma", {})
    assert said["state"] == "busy"
    assert office.register("mb", {"dummy": ["d3"]})["state"] == "ok"
    office.clock.advance(EVERY_S)
    assert office.register("ma", {})["state"] == "ok"


# -- what is asked for


def test_a_minion_whose_registration_stands_is_asked_for_nothing(office: Office) -> None:
    data = encode_document({"resources": DUMMIES})
    assert office.holds("ma", resources=data) == [("ma", "resources")]
    office.send("ma", "resources", data)
    assert office.holds("ma", resources=data) == []
    assert office.holds("ma") == []


def test_a_minion_whose_resources_went_missing_is_asked_for_them(office: Office) -> None:
    data = encode_document({"resources": DUMMIES})
    office.send("ma", "resources", data)
    office.master.registry.unregister_minion("ma")
    assert office.holds("ma", resources=data) == [("ma", "resources")]


def test_what_was_withheld_is_asked_for_again(office: Office) -> None:
    office.register("ma", DUMMIES)
    data = encode_document({"resources": {"dummy": ["d1"]}})
    office.send("mb", "resources", data)
    assert office.holds("mb", resources=data) == [("mb", "resources")]


def test_other_grains_are_asked_for(office: Office) -> None:
    data = encode_document({"os": "Debian"})
    assert office.holds("ma", grains=data) == [("ma", "grains")]
    office.send("ma", "grains", data)
    assert office.holds("ma", grains=data) == []


def test_no_minion_can_be_found_under_the_id_of_another_by_its_grains(office: Office) -> None:
    office.grains("ma", id="mb")
    assert office.ask("match", tgt="id:mb", tgt_type="grain").fields["minions"] == []
    assert office.ask("match", tgt="id:ma", tgt_type="grain").fields["minions"] == ["ma"]
