"""What becomes of resources that their minion does not find any more, and of those that others claimed meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.documents import agrees
from saltlite.master.processes import fleet
from saltlite.master.processes.fleet import CLAIMS_MAX, Registered, Registrations
from saltlite.model.ids import MinionId
from saltlite.model.resourcelook import TEXT_MAX, TypeReport, read_report
from saltlite.resources.registry.admission import RegistrationRules
from saltlite.resources.registry.registry import Conflict
from saltlite.wire.codec import encode_document
from tests.support.keys import NOW
from tests.support.master import MasterRig
from tests.support.store import key

DUMMIES = {"dummy": ["d1", "d2"]}
MANY = [f"d{number:03}" for number in range(40)]


@pytest.fixture
def rig() -> MasterRig:
    return MasterRig("ma", "mb", "mc")


def looked(rig: MasterRig, minion: str, resources: dict[str, list[str]], look: str, **why: str) -> Any:
    """A minion registers what its look of this name found; `why`: type -> why it could not be looked at."""
    reports = {kind: TypeReport(True, True, len(ids), None, look=look).to_map() for kind, ids in resources.items()} | {
        kind: TypeReport(True, True, None, None, error=error).to_map() for kind, error in why.items()
    }
    return rig.register(minion, resources, look=look, reports=reports)


def stale(rig: MasterRig) -> dict[str, float]:
    rows = rig.ask("resource_list").fields["resources"]
    return {row["srn"]: row["stale_since"] for row in rows if row["stale_since"] is not None}


@pytest.mark.parametrize("found", [{"dummy": []}, {}], ids=["the look found none", "the type is declared no more"])
def test_resources_that_are_all_gone_stay_until_three_looks_agree(rig: MasterRig, found: dict[str, list[str]]) -> None:
    looked(rig, "ma", DUMMIES, "a")
    for number, look in enumerate(["b", "b", "c"]):
        rig.clock.advance(5.0)
        said = looked(rig, "ma", found, look)
        assert (said["state"], said["more"]) == ("ok", True)
        assert "0 were found where 2 were" in said["names"][0]
        assert rig.owned("ma") == DUMMIES
        assert stale(rig) == {"dummy:d1": NOW + 5, "dummy:d2": NOW + 5}, number
    assert agrees(rig.master, MinionId("ma"))
    said = looked(rig, "ma", found, "d")
    assert (said["names"], said["more"], rig.owned("ma"), stale(rig)) == ([], False, {}, {})


def test_less_than_half_of_many_stays_and_what_is_found_again_is_fresh(rig: MasterRig) -> None:
    looked(rig, "ma", {"dummy": MANY}, "a")
    looked(rig, "ma", {"dummy": MANY[:10]}, "b")
    assert (len(rig.owned("ma")["dummy"]), len(stale(rig))) == (40, 30)
    assert looked(rig, "ma", {"dummy": MANY}, "c")["names"] == []
    assert stale(rig) == {}
    # Half of them, or a few of few, go at once.
    looked(rig, "ma", {"dummy": MANY[:20]}, "d")
    assert len(rig.owned("ma")["dummy"]) == 20


def test_what_is_missed_is_known_to_every_mworker_and_after_a_restart(rig: MasterRig) -> None:
    looked(rig, "ma", DUMMIES, "a")
    looked(rig, "ma", {"dummy": []}, "b")
    other = MasterRig(shared=rig.shared)
    assert stale(other) == {"dummy:d1": NOW, "dummy:d2": NOW}
    looked(other, "ma", {"dummy": []}, "c")
    assert looked(rig, "ma", {"dummy": []}, "d")["more"] is False
    assert rig.owned("ma") == {}


def test_a_type_that_could_not_be_looked_at_keeps_what_it_has_however_often(rig: MasterRig) -> None:
    looked(rig, "ma", DUMMIES, "a")
    for number in range(6):
        said = looked(rig, "ma", {}, f"b{number}", dummy="the bus is not there")
        assert "could not be looked at (the bus is not there), and its 2 resources stay" in said["names"][0]
    assert rig.owned("ma") == DUMMIES


def test_the_same_document_again_is_no_further_look(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES)
    data = encode_document({"resources": {}})
    for _ in range(5):
        rig.send("ma", "resources", data)
        assert rig.holds("ma", resources=data) == [("ma", "resources")]
    assert rig.owned("ma") == DUMMIES


def test_grains_and_functions_of_what_is_missed_stay(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}}, functions={"dummy": ["test.ping()"]}, look="a")
    rig.register("ma", {}, look="b")
    row = rig.ask("resource_grains", type="dummy", id="d1").fields
    assert (row["grains"], row["stale_since"]) == ({"n": 1}, NOW)
    known = rig.master.registrations.of(MinionId("ma"))
    assert known is not None
    assert known.functions == {"dummy": {"test.ping": "test.ping()"}}


def test_one_event_says_what_would_go_and_one_that_it_went(rig: MasterRig) -> None:
    looked(rig, "ma", DUMMIES, "a")
    for look in ("b", "b", "c", "d"):
        looked(rig, "ma", {"dummy": []}, look)
    first, second, last = (event.data for event in rig.events("resource/missing/ma"))
    counts = {"count": 2, "found": 0, "was": 2, "resources": ["dummy:d1", "dummy:d2"]}
    names = ["d1", "d2"]
    assert first["missing"]["dummy"] == {**counts, "looks": 1, "resources": names}
    assert second["missing"]["dummy"]["looks"] == 2
    assert (last["missing"], last["released"], last["found_again"]) == ({}, 2, 0)


def test_an_operator_lets_go_what_is_missed_by_type_and_nothing_else(rig: MasterRig) -> None:
    looked(rig, "ma", {**DUMMIES, "probe": ["p1"], "ssh": ["s1"]}, "a")
    looked(rig, "ma", {"ssh": ["s1"]}, "b")
    with pytest.raises(UsageError, match=r"no resources of type ssh of ma wait .* of type dummy, probe"):
        rig.ask("resource_confirm", minion="ma", type="ssh")
    assert rig.ask("resource_confirm", minion="ma", type="probe").fields["released"] == {"probe": 1}
    assert rig.owned("ma") == {**DUMMIES, "ssh": ["s1"]}
    assert rig.ask("resource_confirm", minion="ma").fields["released"] == {"dummy": 2}
    assert rig.owned("ma") == {"ssh": ["s1"]}
    assert agrees(rig.master, MinionId("ma"))
    with pytest.raises(UsageError, match="no resources of ma wait to be let go"):
        rig.ask("resource_confirm", minion="ma")
    assert rig.events("resource/missing/ma")[-1].data["by"] == "root"


def test_status_and_stats_tell_what_is_missed_and_which_types_are_in_trouble(rig: MasterRig) -> None:
    looked(rig, "ma", DUMMIES, "a")
    looked(rig, "ma", {}, "b", dummy="no\x1b[31m bus")
    question = rig.ask("status").question
    assert question is not None
    said = question.fields(None)["resources"]
    assert said["missing"] == {"ma": {"dummy": 2}}
    assert said["types"] == {"dummy": {"count": 2, "minions": 1, "problems": ["ma: no [31m bus"]}}
    stats = rig.ask("resource_stats").fields
    assert stats["missing"]["ma"]["dummy"]["count"] == 2
    assert stats["reports"]["ma"]["dummy"]["error"] == "no [31m bus"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("look", 5),
        ("look", "x" * 65),
        ("reports", []),
        ("reports", {"../x": {}}),
        ("reports", {"dummy": 5}),
        ("reports", {"dummy": {"found": -1}}),
        ("reports", {"dummy": {"found": True}}),
        ("reports", {"dummy": {"loaded": 1}}),
        ("reports", {"dummy": {"error": 5}}),
        ("reports", {f"t{number}": {} for number in range(257)}),
    ],
)
def test_a_report_that_is_none_is_refused(rig: MasterRig, field: str, value: Any) -> None:
    rig.register("ma", DUMMIES)
    assert rig.register("ma", {}, **{field: value})["state"] == "refused"
    assert rig.owned("ma") == DUMMIES


def test_a_report_has_short_plain_texts() -> None:
    report = read_report({"loaded": True, "error": "a\nb\x1b" + "x" * 1000, "odd": 5})
    assert report.error == ("a b " + "x" * 1000)[:TEXT_MAX]
    assert read_report(report.to_map()) == report


# -- claims of others


def test_who_claimed_a_resource_is_asked_when_its_owner_gives_it_up(rig: MasterRig) -> None:
    looked(rig, "ma", {"dummy": ["d1", "d2"]}, "a")
    data = encode_document({"resources": {"dummy": ["d1"]}})
    rig.send("mb", "resources", data)
    rig.link.wanted.clear()
    looked(rig, "ma", {"dummy": ["d2"]}, "b")
    assert rig.link.wanted == [("mb", "resources")]
    assert rig.send("mb", "resources", data)["names"] == []
    assert rig.owned("mb") == {"dummy": ["d1"]}
    # Nobody wants anything any more.
    rig.link.wanted.clear()
    looked(rig, "ma", {"dummy": ["d3"]}, "c")
    assert rig.link.wanted == []


def test_what_its_owner_misses_passes_on_at_once_and_is_not_taken_back(rig: MasterRig) -> None:
    looked(rig, "ma", {"dummy": ["d1"]}, "a")
    looked(rig, "mb", {"dummy": ["d1"]}, "x")
    rig.link.wanted.clear()
    looked(rig, "ma", {"dummy": []}, "b")
    assert rig.link.wanted == [("mb", "resources")]
    assert looked(rig, "mb", {"dummy": ["d1"]}, "x")["names"] == []
    assert (rig.owned("ma"), rig.owned("mb"), stale(rig)) == ({}, {"dummy": ["d1"]}, {})
    assert looked(rig, "ma", {"dummy": ["d1"]}, "c")["names"] == ["dummy:d1 is managed by mb, and stays so"]
    assert agrees(rig.master, MinionId("mb"))


@pytest.mark.parametrize("action", ["delete", "revoke"])
def test_who_claimed_a_resource_is_asked_when_the_key_of_its_owner_goes(rig: MasterRig, action: str) -> None:
    rig.register("ma", DUMMIES)
    rig.register("mb", {"dummy": ["d2"]})
    rig.link.wanted.clear()
    rig.ask("key_change", action=action, fingerprints=[key(MinionId("ma")).fingerprint])
    assert rig.link.wanted == [("mb", "resources")]
    assert rig.register("mb", {"dummy": ["d2"]})["names"] == []


def test_who_claimed_a_resource_is_asked_when_an_operator_lets_it_go(rig: MasterRig) -> None:
    looked(rig, "ma", {"dummy": ["d1"]}, "a")
    looked(rig, "ma", {}, "b")
    rig.master.registrations.put(MinionId("mb"), Registered(claims=frozenset({"dummy:d1"})), "")
    rig.link.wanted.clear()
    rig.ask("resource_confirm", minion="ma")
    assert rig.link.wanted == [("mb", "resources")]


def test_where_the_newest_wins_who_lost_a_resource_is_asked_when_it_is_free(rig: MasterRig) -> None:
    rig = MasterRig("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    rig.register("ma", {"dummy": ["d1"]})
    looked(rig, "mb", {"dummy": ["d1"]}, "a")
    rig.link.wanted.clear()
    looked(rig, "mb", {"dummy": []}, "b")
    assert rig.link.wanted == [("ma", "resources")]
    assert rig.register("ma", {"dummy": ["d1"]})["names"] == []
    assert (rig.owned("ma"), rig.owned("mb")) == ({"dummy": ["d1"]}, {})


def test_so_many_claims_are_remembered_and_so_many_claimants_are_asked(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"d{number:05}" for number in range(CLAIMS_MAX + 5)]
    rig.register("ma", {"dummy": names})
    rig.register("mb", {"dummy": names})
    rig.register("mc", {"dummy": names[:1]})
    known = rig.master.registrations.of(MinionId("mb"))
    assert known is not None
    assert len(known.claims) == CLAIMS_MAX
    monkeypatch.setattr(fleet, "ASKED_MAX", 1)
    rig.link.wanted.clear()
    rig.ask("key_change", action="delete", fingerprints=[key(MinionId("ma")).fingerprint])
    assert rig.link.wanted == [("mb", "resources")]


def test_claims_of_a_minion_that_is_gone_are_forgotten(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES)
    rig.register("mb", {"dummy": ["d1"]})
    assert rig.master.registrations.claimants(["dummy:d1"]) == {"mb"}
    rig.ask("key_change", action="delete", fingerprints=[key(MinionId("mb")).fingerprint])
    assert rig.master.registrations.claimants(["dummy:d1"]) == set()


def test_a_row_of_an_earlier_version_is_read(rig: MasterRig) -> None:
    row = {"functions": {}, "count": 2, "refusals": 0, "reasons": [], "lost": ["dummy:d9"]}
    rig.master.banks.bank("resource_types").put("ma", row, "x")
    found = Registrations(rig.master.banks).of(MinionId("ma"))
    assert found == Registered(count=2, lost=frozenset({"dummy:d9"}), reasons=())


def test_only_operators_let_resources_go(rig: MasterRig) -> None:
    from saltlite.auth.acl import Principal
    from saltlite.master.handlers.operator_verbs import handle_request

    with pytest.raises(RefusedError):
        handle_request(rig.master, Principal("eve", 4242), {"v": 1, "verb": "resource_confirm", "minion": "ma"})
