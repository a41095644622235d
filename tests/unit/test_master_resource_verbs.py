"""What operators ask about resources, and what they change."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import UsageError
from saltlite.master.handlers import resources
from saltlite.master.handlers.keys import handle_decide
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState, fingerprint
from tests.support.master import MasterRig


@pytest.fixture
def rig() -> MasterRig:
    rig = MasterRig("ma", "mb")
    grains = {"dummy:d1": {"os": "x", "a": 1}}
    rig.register("ma", {"dummy": ["d1", "d2"], "probe": ["d1"]}, grains=grains)
    rig.register("mb", {"dummy": ["d3"]})
    rig.master.present[MinionId("mb")] = 1.0
    return rig


def srns(rig: MasterRig, **fields: str) -> list[str]:
    return [row["srn"] for row in rig.ask("resource_list", **fields).fields["resources"]]


def test_resources_are_listed_by_type_and_minion(rig: MasterRig) -> None:
    assert srns(rig) == ["dummy:d1", "dummy:d2", "dummy:d3", "probe:d1"]
    assert srns(rig, type="dummy") == ["dummy:d1", "dummy:d2", "dummy:d3"]
    assert srns(rig, minion="ma") == ["dummy:d1", "dummy:d2", "probe:d1"]
    assert srns(rig, type="probe", minion="mb") == []
    (row,) = rig.ask("resource_list", minion="mb").fields["resources"]
    assert row == {"srn": "dummy:d3", "type": "dummy", "id": "d3", "minion": "mb", "up": True, "stale_since": None}


def test_a_long_list_comes_in_pages(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "ROWS_MAX", 3)
    first = rig.ask("resource_list").fields
    assert ([row["srn"] for row in first["resources"]], first["more"]) == (["dummy:d1", "dummy:d2", "dummy:d3"], True)
    assert srns(rig, after="dummy:d3") == ["probe:d1"]


def test_grains_are_listed_in_pages_of_rows(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.register("mb", {"dummy": ["d3", "d4", "d5"]}, grains={f"dummy:d{n}": {} for n in (3, 4, 5)})
    monkeypatch.setattr(resources, "ROWS_MAX", 2)
    pages: list[list[str]] = []
    more, after = True, ""
    while more:
        said = rig.ask("resource_list_grains", after=after).fields
        pages.append(list(said["resources"]))
        more, after = said["more"], said["last"]
    assert pages == [["dummy:d1", "dummy:d3"], ["dummy:d4", "dummy:d5"]]


def test_a_row_of_grains_says_their_names(rig: MasterRig) -> None:
    row = rig.ask("resource_list_grains").fields["resources"]["dummy:d1"]
    assert (row["grain_keys"], row["grain_count"], row["stale_since"]) == (["a", "os"], 2, None)


def test_grains_of_a_resource_without_any_are_none(rig: MasterRig) -> None:
    assert rig.ask("resource_grains", type="dummy", id="d1").fields["grains"] == {"os": "x", "a": 1}
    for kind, name in (("dummy", "d2"), ("dummy", "nosuch"), ("", "d1")):
        assert rig.ask("resource_grains", type=kind, id=name).fields["grains"] is None


def test_owners_are_found_by_srn_and_by_bare_id(rig: MasterRig) -> None:
    def owners(name: str) -> dict[str, str]:
        return {row["srn"]: row["minion"] for row in rig.ask("resource_owner", id=name).fields["resources"]}

    assert owners("dummy:d1") == {"dummy:d1": "ma"}
    assert owners("d1") == {"dummy:d1": "ma", "probe:d1": "ma"}
    assert owners("nosuch") == {}


def test_a_transfer_moves_the_resource_drops_its_grains_and_asks_both_minions(rig: MasterRig) -> None:
    assert rig.ask("resource_transfer", srn="dummy:d1", minion="mb").fields == {"former": "ma"}
    assert rig.owned("mb") == {"dummy": ["d1", "d3"]}
    assert rig.ask("resource_grains", type="dummy", id="d1").fields["grains"] is None
    assert sorted(rig.link.wanted) == [("ma", "resources"), ("mb", "resources")]
    (event,) = rig.events("resource/conflict/mb")
    moved = {"id": "mb", "count": 1, "taken_from": {"ma": 1}, "resources": ["dummy:d1"]}
    assert event.data == {**moved, "by": "root"}
    # The former owner says that it still has it, and is told that it has not.
    names = rig.register("ma", {"dummy": ["d1", "d2"], "probe": ["d1"]})["names"]
    assert names == ["dummy:d1 is managed by mb, and stays so"]
    assert rig.owned("mb") == {"dummy": ["d1", "d3"]}


@pytest.mark.parametrize(
    ("srn", "minion", "sentence"),
    [
        ("dummy:nosuch", "mb", "no minion manages 'dummy:nosuch'"),
        ("dummy", "mb", "is not a resource id"),
        ("dummy:d1", "stranger", "no minion of the id stranger has an accepted key here"),
        ("dummy:d1", "../x", "is not a minion id"),
    ],
)
def test_an_impossible_transfer_changes_nothing(rig: MasterRig, srn: str, minion: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        rig.ask("resource_transfer", srn=srn, minion=minion)
    assert rig.owned("ma") == {"dummy": ["d1", "d2"], "probe": ["d1"]}
    assert rig.events("resource/conflict/") == []


def test_stats_count_types_and_minions(rig: MasterRig) -> None:
    said = rig.ask("resource_stats").fields
    assert (said["types"], said["minions"], said["registry"]["primary"]["rows"]) == ({"dummy": 3, "probe": 1}, 2, 4)
    assert said["refused"] == {}


def test_compaction_and_verification_answer_in_figures(rig: MasterRig) -> None:
    rig.give_up("ma", {})
    assert rig.ask("resource_compact").fields == {"before": 7, "after": 1}
    assert rig.ask("resource_verify").fields == {"rows": 1, "problems": [], "aside": ""}


def test_status_has_resources_and_who_was_refused(rig: MasterRig) -> None:
    rig.register("mb", {"dummy": ["d1"]})

    def status() -> Any:
        question = rig.ask("status").question
        assert question is not None
        return question.fields(None)

    said = status()
    types = said["resources"].pop("types")
    assert said["resources"] == {"count": 3, "minions": 1, "refused": 1, "incomplete": False, "missing": {}}
    assert types["dummy"] == {"count": 2, "minions": 1, "problems": []}
    assert {row["id"]: row["resources"] for row in said["minions"]} == {"ma": 3, "mb": 0}


# -- keys that nobody looked at before they were accepted


def test_a_pre_accepted_key_with_the_id_of_a_resource_waits_for_an_operator(rig: MasterRig) -> None:
    public = b"p" * 32
    with rig.store.write() as tx:
        tx.put_preaccept(MinionId("d2"), fingerprint(public), "root")
    said = {"id": "d2", "token": b""}
    handle_decide(rig.master, {"session": 1, "public": public, "address": "10.0.0.9", "hello": said})
    record = rig.store.key(fingerprint(public))
    assert record is not None
    assert record.state is KeyState.PENDING
    assert "a resource has this id: dummy:d2 (of ma)" in record.how


def test_no_fingerprint_is_accepted_in_advance_for_the_id_of_a_resource(rig: MasterRig) -> None:
    with pytest.raises(UsageError, match=r"^d2: a resource has this id: dummy:d2 \(of ma\)\. Give the minion another"):
        rig.ask("key_preaccept", id="d2", fingerprint=fingerprint(bytes(32)))
