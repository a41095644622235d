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
from tests.support.master import Office
from tests.support.store import key

DUMMIES = {"dummy": ["d1", "d2"]}
MANY = [f"d{number:03}" for number in range(40)]


@pytest.fixture
def office() -> Office:
    return Office("ma", "mb", "mc")


def looked(office: Office, minion: str, resources: dict[str, list[str]], look: str, **why: str) -> Any:
    """A minion registers what its look of this name found; `why`: type -> why it could not be looked at."""
    reports = {kind: TypeReport(True, True, len(ids), None, look=look).to_map() for kind, ids in resources.items()} | {
        kind: TypeReport(True, True, None, None, error=error).to_map() for kind, error in why.items()
    }
    return office.register(minion, resources, look=look, reports=reports)


def stale(office: Office) -> dict[str, float]:
    rows = office.ask("resource_list").fields["resources"]
    return {row["srn"]: row["stale_since"] for row in rows if row["stale_since"] is not None}


@pytest.mark.parametrize("found", [{"dummy": []}, {}], ids=["the look found none", "the type is declared no more"])
def test_resources_that_are_all_gone_stay_until_three_looks_agree(office: Office, found: dict[str, list[str]]) -> None:
    looked(office, "ma", DUMMIES, "a")
    for number, look in enumerate(["b", "b", "c"]):
        office.clock.advance(5.0)
        said = looked(office, "ma", found, look)
        assert (said["state"], said["more"]) == ("ok", True)
        assert "0 were found where 2 were" in said["names"][0]
        assert office.owned("ma") == DUMMIES
        assert stale(office) == {"dummy:d1": NOW + 5, "dummy:d2": NOW + 5}, number
    assert agrees(office.master, MinionId("ma"))
    said = looked(office, "ma", found, "d")
    assert (said["names"], said["more"], office.owned("ma"), stale(office)) == ([], False, {}, {})


def test_less_than_half_of_many_stays_and_what_is_found_again_is_fresh(office: Office) -> None:
    looked(office, "ma", {"dummy": MANY}, "a")
    looked(office, "ma", {"dummy": MANY[:10]}, "b")
    assert (len(office.owned("ma")["dummy"]), len(stale(office))) == (40, 30)
    assert looked(office, "ma", {"dummy": MANY}, "c")["names"] == []
    assert stale(office) == {}
    # Half of them, or a few of few, go at once.
    looked(office, "ma", {"dummy": MANY[:20]}, "d")
    assert len(office.owned("ma")["dummy"]) == 20


def test_what_is_missed_is_known_to_every_mworker_and_after_a_restart(office: Office) -> None:
    looked(office, "ma", DUMMIES, "a")
    looked(office, "ma", {"dummy": []}, "b")
    other = Office(shared=office.shared)
    assert stale(other) == {"dummy:d1": NOW, "dummy:d2": NOW}
    looked(other, "ma", {"dummy": []}, "c")
    assert looked(office, "ma", {"dummy": []}, "d")["more"] is False
    assert office.owned("ma") == {}


def test_a_type_that_could_not_be_looked_at_keeps_what_it_has_however_often(office: Office) -> None:
    looked(office, "ma", DUMMIES, "a")
    for number in range(6):
        said = looked(office, "ma", {}, f"b{number}", dummy="the bus is not there")
        assert "could not be looked at (the bus is not there), and its 2 resources stay" in said["names"][0]
    assert office.owned("ma") == DUMMIES


def test_the_same_document_again_is_no_further_look(office: Office) -> None:
    office.register("ma", DUMMIES)
    data = encode_document({"resources": {}})
    for _ in range(5):
        office.send("ma", "resources", data)
        assert office.holds("ma", resources=data) == [("ma", "resources")]
    assert office.owned("ma") == DUMMIES


def test_grains_and_functions_of_what_is_missed_stay(office: Office) -> None:
    office.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}}, functions={"dummy": ["test.ping()"]}, look="a")
    office.register("ma", {}, look="b")
    row = office.ask("resource_grains", type="dummy", id="d1").fields
    assert (row["grains"], row["stale_since"]) == ({"n": 1}, NOW)
    known = office.master.registrations.of(MinionId("ma"))
    assert known is not None
    assert known.functions == {"dummy": {"test.ping": "test.ping()"}}


def test_one_event_says_what_would_go_and_one_that_it_went(office: Office) -> None:
    looked(office, "ma", DUMMIES, "a")
    for look in ("b", "b", "c", "d"):
        looked(office, "ma", {"dummy": []}, look)
    first, second, last = (event.data for event in office.events("resource/missing/ma"))
    counts = {"count": 2, "found": 0, "was": 2, "resources": ["dummy:d1", "dummy:d2"]}
    names = ["d1", "d2"]
    assert first["missing"]["dummy"] == {**counts, "looks": 1, "resources": names}
    assert second["missing"]["dummy"]["looks"] == 2
    assert (last["missing"], last["released"], last["found_again"]) == ({}, 2, 0)


def test_an_operator_lets_go_what_is_missed_by_type_and_nothing_else(office: Office) -> None:
    looked(office, "ma", {**DUMMIES, "probe": ["p1"], "ssh": ["s1"]}, "a")
    looked(office, "ma", {"ssh": ["s1"]}, "b")
    with pytest.raises(UsageError, match=r"no resources of type ssh of ma wait .* of type dummy, probe"):
        office.ask("resource_confirm", minion="ma", type="ssh")
    assert office.ask("resource_confirm", minion="ma", type="probe").fields["released"] == {"probe": 1}
    assert office.owned("ma") == {**DUMMIES, "ssh": ["s1"]}
    assert office.ask("resource_confirm", minion="ma").fields["released"] == {"dummy": 2}
    assert office.owned("ma") == {"ssh": ["s1"]}
    assert agrees(office.master, MinionId("ma"))
    with pytest.raises(UsageError, match="no resources of ma wait to be let go"):
        office.ask("resource_confirm", minion="ma")
    assert office.events("resource/missing/ma")[-1].data["by"] == "root"


def test_status_and_stats_tell_what_is_missed_and_which_types_are_in_trouble(office: Office) -> None:
    looked(office, "ma", DUMMIES, "a")
    looked(office, "ma", {}, "b", dummy="no\x1b[31m bus")
    question = office.ask("status").question
    assert question is not None
    said = question.fields(None)["resources"]
    assert said["missing"] == {"ma": {"dummy": 2}}
    assert said["types"] == {"dummy": {"count": 2, "minions": 1, "problems": ["ma: no [31m bus"]}}
    stats = office.ask("resource_stats").fields
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
def test_a_report_that_is_none_is_refused(office: Office, field: str, value: Any) -> None:
    office.register("ma", DUMMIES)
    assert office.register("ma", {}, **{field: value})["state"] == "refused"
    assert office.owned("ma") == DUMMIES


def test_a_report_has_short_plain_texts() -> None:
    report = read_report({"loaded": True, "error": "a\nb\x1b" + "x" * 1000, "odd": 5})
    assert report.error == ("a b " + "x" * 1000)[:TEXT_MAX]
    assert read_report(report.to_map()) == report


# -- claims of others


def test_who_claimed_a_resource_is_asked_when_its_owner_gives_it_up(office: Office) -> None:
    looked(office, "ma", {"dummy": ["d1", "d2"]}, "a")
    data = encode_document({"resources": {"dummy": ["d1"]}})
    office.send("mb", "resources", data)
    office.link.wanted.clear()
    looked(office, "ma", {"dummy": ["d2"]}, "b")
    assert office.link.wanted == [("mb", "resources")]
    assert office.send("mb", "resources", data)["names"] == []
    assert office.owned("mb") == {"dummy": ["d1"]}
    # Nobody wants anything any more.
    office.link.wanted.clear()
    looked(office, "ma", {"dummy": ["d3"]}, "c")
    assert office.link.wanted == []


def test_what_its_owner_misses_passes_on_at_once_and_is_not_taken_back(office: Office) -> None:
    looked(office, "ma", {"dummy": ["d1"]}, "a")
    looked(office, "mb", {"dummy": ["d1"]}, "x")
    office.link.wanted.clear()
    looked(office, "ma", {"dummy": []}, "b")
    assert office.link.wanted == [("mb", "resources")]
    assert looked(office, "mb", {"dummy": ["d1"]}, "x")["names"] == []
    assert (office.owned("ma"), office.owned("mb"), stale(office)) == ({}, {"dummy": ["d1"]}, {})
    assert looked(office, "ma", {"dummy": ["d1"]}, "c")["names"] == ["dummy:d1 is managed by mb, and stays so"]
    assert agrees(office.master, MinionId("mb"))


@pytest.mark.parametrize("action", ["delete", "revoke"])
def test_who_claimed_a_resource_is_asked_when_the_key_of_its_owner_goes(office: Office, action: str) -> None:
    office.register("ma", DUMMIES)
    office.register("mb", {"dummy": ["d2"]})
    office.link.wanted.clear()
    office.ask("key_change", action=action, fingerprints=[key(MinionId("ma")).fingerprint])
    assert office.link.wanted == [("mb", "resources")]
    assert office.register("mb", {"dummy": ["d2"]})["names"] == []


def test_who_claimed_a_resource_is_asked_when_an_operator_lets_it_go(office: Office) -> None:
    looked(office, "ma", {"dummy": ["d1"]}, "a")
    looked(office, "ma", {}, "b")
    office.master.registrations.put(MinionId("mb"), Registered(claims=frozenset({"dummy:d1"})), "")
    office.link.wanted.clear()
    office.ask("resource_confirm", minion="ma")
    assert office.link.wanted == [("mb", "resources")]


def test_where_the_newest_wins_who_lost_a_resource_is_asked_when_it_is_free(office: Office) -> None:
    office = Office("ma", "mb", rules=RegistrationRules(conflict=Conflict.NEWEST))
    office.register("ma", {"dummy": ["d1"]})
    looked(office, "mb", {"dummy": ["d1"]}, "a")
    office.link.wanted.clear()
    looked(office, "mb", {"dummy": []}, "b")
    assert office.link.wanted == [("ma", "resources")]
    assert office.register("ma", {"dummy": ["d1"]})["names"] == []
    assert (office.owned("ma"), office.owned("mb")) == ({"dummy": ["d1"]}, {})


def test_so_many_claims_are_remembered_and_so_many_claimants_are_asked(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"d{number:05}" for number in range(CLAIMS_MAX + 5)]
    office.register("ma", {"dummy": names})
    office.register("mb", {"dummy": names})
    office.register("mc", {"dummy": names[:1]})
    known = office.master.registrations.of(MinionId("mb"))
    assert known is not None
    assert len(known.claims) == CLAIMS_MAX
    monkeypatch.setattr(fleet, "ASKED_MAX", 1)
    office.link.wanted.clear()
    office.ask("key_change", action="delete", fingerprints=[key(MinionId("ma")).fingerprint])
    assert office.link.wanted == [("mb", "resources")]


def test_claims_of_a_minion_that_is_gone_are_forgotten(office: Office) -> None:
    office.register("ma", DUMMIES)
    office.register("mb", {"dummy": ["d1"]})
    assert office.master.registrations.claimants(["dummy:d1"]) == {"mb"}
    office.ask("key_change", action="delete", fingerprints=[key(MinionId("mb")).fingerprint])
    assert office.master.registrations.claimants(["dummy:d1"]) == set()


def test_a_row_of_an_earlier_version_is_read(office: Office) -> None:
    row = {"functions": {}, "count": 2, "refusals": 0, "reasons": [], "lost": ["dummy:d9"]}
    office.master.banks.bank("resource_types").put("ma", row, "x")
    found = Registrations(office.master.banks).of(MinionId("ma"))
    assert found == Registered(count=2, lost=frozenset({"dummy:d9"}), reasons=())


def test_only_operators_let_resources_go(office: Office) -> None:
    from saltlite.auth.acl import Principal
    from saltlite.master.handlers.operator_verbs import handle_request

    with pytest.raises(RefusedError):
        handle_request(office.master, Principal("eve", 4242), {"v": 1, "verb": "resource_confirm", "minion": "ma"})
