"""What the master tells of its cache banks, and what it clears of them, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers import cached
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.targeting.banks import PILLAR
from tests.support.master import ROOT, MasterRig

ALL = {"tgt": "*", "tgt_type": "glob"}
READERS = ("cache.grains", "cache.pillar", "cache.list", "cache.fetch")
CLEARERS = ("cache.clear_grains", "cache.clear_pillar", "cache.clear_all", "cache.flush")


def filled_rig() -> MasterRig:
    """Three minions; of the last one nothing is known. Each runner is granted to a user of its name."""
    rules = {name: [{"@runner": [name]}] for name in (*READERS, *CLEARERS)}
    rig = MasterRig("a", "b", "c", granted=Granted(publisher=read_rules(rules, "publisher_acl")))
    rig.grains("a", os="Debian")
    rig.grains("b", os="Fedora")
    rig.register("a", {"dummy": ["lamp"]})
    rig.master.banks.bank(PILLAR).put("b", {"tier": "front"})
    return rig


def test_grains_and_pillars_are_told_of_each_minion_of_a_target() -> None:
    rig = filled_rig()
    grains = rig.ask("cached", bank="grains", **ALL).fields
    assert grains["more"] is False
    assert {one: value.get("os") for one, value in grains["values"].items()} == {
        "a": "Debian",
        "b": "Fedora",
        "c": None,
    }
    one = {"tgt": "os:Fedora", "tgt_type": "grain"}
    assert rig.ask("cached", bank="pillar", **one).fields["values"] == {"b": {"tier": "front"}}


def test_names_are_those_of_minions_of_which_there_is_something() -> None:
    rig = filled_rig()
    assert rig.ask("cached", bank="grains", names=True, **ALL).fields["values"] == {"a": None, "b": None}
    assert rig.ask("cached", bank="pillar", names=True, **ALL).fields["values"] == {"b": None}


def resources() -> MasterRig:
    """The minions a and b with resources, two of which share a bare id."""
    rig = MasterRig("a", "b")
    rig.grains("a", os="Debian")
    rig.register("a", {"dummy": ["lamp", "web"]}, grains={"dummy:lamp": {"n": 1}, "dummy:web": {"n": 2}})
    rig.register("b", {"ssh": ["web"]}, grains={"ssh:web": {"n": 3}})
    rig.master.banks.bank(PILLAR).put("a", {"tier": "front"})
    return rig


def value_of(rig: MasterRig, bank: str, key: str) -> Any:
    said = rig.ask("cached", bank=bank, key=key, tgt=key, tgt_type="list").fields
    assert said["more"] is False
    return said["values"].get(key)


def test_banks_of_resources_name_srns_and_bare_ids() -> None:
    rig = resources()
    named = rig.ask("cached", bank="resource_grains", names=True, **ALL).fields["values"]
    assert list(named) == ["dummy:lamp", "dummy:web", "ssh:web"]
    assert list(rig.ask("cached", bank="resources", names=True, **ALL).fields["values"]) == ["lamp", "web"]
    only = {"tgt": "b", "tgt_type": "list"}
    assert list(rig.ask("cached", bank="resource_grains", names=True, **only).fields["values"]) == ["ssh:web"]
    assert list(rig.ask("cached", bank="resources", names=True, **only).fields["values"]) == ["web"]


@pytest.mark.parametrize("bank", ["resource_grains", "resources"])
def test_names_of_resources_come_in_pages(monkeypatch: pytest.MonkeyPatch, bank: str) -> None:
    rig = resources()
    whole = list(rig.ask("cached", bank=bank, names=True, **ALL).fields["values"])
    monkeypatch.setattr(cached, "NAMES_MAX", 1)
    found, after, more = [], "", True
    while more:
        said = rig.ask("cached", bank=bank, names=True, after=after, **ALL).fields
        found += said["values"]
        after, more = said["last"], said["more"]
    assert found == whole


def test_a_resource_answers_by_srn_and_bare_id_in_every_bank() -> None:
    rig = resources()
    for bank in ("resource_grains", "grains"):
        assert value_of(rig, bank, "dummy:lamp") == value_of(rig, bank, "lamp") == {"n": 1}
        assert value_of(rig, bank, "web") == {"dummy:web": {"n": 2}, "ssh:web": {"n": 3}}
        assert value_of(rig, bank, "nosuch") is None
    lamp = {"id": "lamp", "managing_minions": ["a"], "types": {"dummy": "a"}}
    assert value_of(rig, "resources", "lamp") == value_of(rig, "resources", "dummy:lamp") == lamp
    assert value_of(rig, "resources", "web") == {
        "id": "web",
        "managing_minions": ["a", "b"],
        "types": {"dummy": "a", "ssh": "b"},
    }
    assert value_of(rig, "resources", "nosuch") is None
    assert value_of(rig, "pillar", "lamp") == {"tier": "front"}


def test_a_minion_answers_by_its_id_and_only_while_its_key_is_accepted() -> None:
    rig = resources()
    rig.master.banks.bank(PILLAR).put("gone", {"tier": "old"})
    assert value_of(rig, "pillar", "a") == {"tier": "front"}
    assert value_of(rig, "grains", "a")["os"] == "Debian"
    assert value_of(rig, "resource_grains", "b")["ssh:web"]["grains"] == {"n": 3}
    assert value_of(rig, "pillar", "gone") is None


@pytest.mark.parametrize(("limit", "most"), [("VALUES_MAX", 1), ("NAMES_MAX", 1)])
def test_an_answer_is_limited_and_the_rest_comes_behind_its_last(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(cached, limit, most)
    rig, found, after = filled_rig(), [], ""
    while (said := rig.ask("cached", bank="grains", after=after, **ALL).fields)["values"]:
        assert len(said["values"]) == 1
        found += said["values"]
        after = found[-1]
        assert said["more"] is (after != "c")
    assert found == ["a", "b", "c"]


def test_what_is_cleared_is_gone_and_grains_are_asked_for() -> None:
    rig = filled_rig()
    one, before = {"tgt": "a", "tgt_type": "list"}, list(rig.link.wanted)
    assert rig.ask("cache_clear", banks=["grains", "pillar"], **one).fields["cleared"] == 1
    assert rig.ask("cached", bank="grains", names=True, **ALL).fields["values"] == {"b": None}
    assert rig.ask("cache_clear", banks=["grains"], **one).fields["cleared"] == 0
    assert rig.link.wanted == [*before, ("a", "grains")]
    assert rig.ask("match", tgt="os:Debian", tgt_type="grain").fields["minions"] == []


def allowed(who: str, verb: str, **fields: Any) -> bool:
    rig = filled_rig()
    try:
        handle_request(rig.master, Principal(who, 1000), {"v": 1, "verb": verb, **fields, **ALL})
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("verb", "fields", "who"),
    [
        ("cached", {"bank": "grains"}, ("cache.grains", "cache.fetch")),
        ("cached", {"bank": "pillar"}, ("cache.pillar", "cache.fetch")),
        ("cached", {"bank": "resource_grains"}, ("cache.fetch",)),
        ("cached", {"bank": "resources", "key": "lamp"}, ("cache.fetch",)),
        ("cached", {"bank": "resources", "names": True}, ("cache.list", "cache.fetch")),
        ("cached", {"bank": "grains", "names": True}, ("cache.grains", "cache.list", "cache.fetch")),
        ("cached", {"bank": "pillar", "names": True}, ("cache.pillar", "cache.list", "cache.fetch")),
        ("cache_clear", {"banks": ["grains"]}, ("cache.clear_grains", "cache.clear_all", "cache.flush")),
        ("cache_clear", {"banks": ["pillar"]}, ("cache.clear_pillar", "cache.clear_all", "cache.flush")),
        ("cache_clear", {"banks": ["grains", "pillar"]}, ("cache.clear_all", "cache.flush")),
    ],
    ids=str,
)
def test_the_right_to_a_runner_is_one_to_its_banks_only(
    verb: str, fields: dict[str, Any], who: tuple[str, ...]
) -> None:
    assert {one for one in (*READERS, *CLEARERS, "fred") if allowed(one, verb, **fields)} == set(who)


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("cached", {"bank": "resource_types"}),
        ("cached", {"bank": "../grains"}),
        ("cached", {"bank": "resources"}),
        ("cached", {"bank": "grains", "tgt_type": "nosuch"}),
        ("cache_clear", {"banks": ["grains", "resource_grains"]}),
        ("cache_clear", {"banks": [["grains"]]}),
        ("cache_clear", {"banks": [None]}),
    ],
    ids=str,
)
def test_other_banks_are_nobodys(verb: str, fields: dict[str, Any]) -> None:
    rig = filled_rig()
    with pytest.raises(UsageError):
        handle_request(rig.master, ROOT, {"v": 1, "verb": verb, **ALL, **fields})
    assert len(rig.ask("cached", bank="grains", names=True, **ALL).fields["values"]) == 2


def test_pillars_are_not_found_out_by_patterns_of_a_target() -> None:
    rig = filled_rig()
    who = Principal("cache.grains", 1000)
    request = {"v": 1, "verb": "cached", "bank": "grains", "tgt": "tier:f*", "tgt_type": "pillar"}
    with pytest.raises(RefusedError, match="patterns of pillar"):
        handle_request(rig.master, who, request)
