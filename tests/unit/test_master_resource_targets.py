"""Targets over minions and resources as the master resolves them, and which resources a function is for."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from saltlite.errors import NoTargetError, UsageError
from saltlite.model.ids import MinionId
from tests.support.master import MasterRig, Shared
from tests.support.store import key

DUMMY = ["grains.items()", "test.ping()", "test.sleep(length:float)"]
PROBE = ["test.ping()"]
_numbers = itertools.count(1)


@pytest.fixture
def rig() -> MasterRig:
    """The fixture of the targets' table: ma and mb manage resources, mc does not."""
    rig = MasterRig("ma", "mb", "mc", nodegroups={"res": "T@dummy:dummy-01", "both": ["mc", "p1"]})
    ours = {"dummy": ["dummy-01", "dummy-02", "web-9"], "probe": ["p1", "p2", "shared"]}
    probes = {f"probe:{name}": {"role": "probe", "rid": name} for name in ours["probe"]}
    rig.register("ma", ours, grains=probes, functions={"dummy": DUMMY, "probe": PROBE})
    rig.register("mb", {"dummy": ["dummy-11", "shared"]}, functions={"dummy": DUMMY})
    rig.grains("ma", site="lab", who="ma", ipv4=["127.0.0.1", "10.0.0.1"], ipv6=["2001:db8::1"])
    rig.grains("mb", site="lab", who="mb", ipv4=["127.0.0.1", "10.1.0.1"], ipv6=[5, "no address"])
    rig.grains("mc", site="lab", who="mc", ipv4="10.0.0.3")
    rig.master.banks.bank("pillar").put("mc", {"role": "db"})
    return rig


def selected(rig: MasterRig, target: str, kind: str = "compound") -> set[str]:
    found = rig.ask("match", tgt=target, tgt_type=kind).fields
    return {*found["minions"], *(srn for srns in found["resources"].values() for srn in srns)}


MINIONS = {"ma", "mb", "mc"}
DUMMIES = {"dummy:dummy-01", "dummy:dummy-02", "dummy:web-9", "dummy:dummy-11", "dummy:shared"}
PROBES = {"probe:p1", "probe:p2", "probe:shared"}

TARGETS: dict[tuple[str, str], set[str]] = {
    ("*", "glob"): MINIONS | DUMMIES | PROBES,
    ("mc*", "glob"): {"mc"},
    ("shared", "glob"): {"dummy:shared", "probe:shared"},
    ("dummy:dummy-01", "glob"): {"dummy:dummy-01"},
    ("mc,dummy-01", "list"): {"mc", "dummy:dummy-01"},
    ("dummy-0.", "pcre"): {"dummy:dummy-01", "dummy:dummy-02"},
    ("role:probe", "grain"): PROBES,
    ("site:lab", "grain"): MINIONS,
    ("rid:p[12]", "grain_pcre"): {"probe:p1", "probe:p2"},
    ("role:db", "pillar"): {"mc"},
    ("role:d.", "pillar_pcre"): {"mc"},
    ("127.0.0.1", "ipcidr"): {"ma", "mb"},
    ("10.0.0.0/24", "ipcidr"): {"ma", "mc"},
    ("2001:db8::/32", "ipcidr"): {"ma"},
    ("res", "nodegroup"): {"dummy:dummy-01"},
    ("both", "nodegroup"): {"mc", "probe:p1"},
    ("T@dummy", "compound"): DUMMIES,
    ("M@ma and T@dummy", "compound"): {"dummy:dummy-01", "dummy:dummy-02", "dummy:web-9"},
    ("T@dummy and not M@ma", "compound"): {"dummy:dummy-11", "dummy:shared"},
    ("G@role:probe and not T@probe:p1", "compound"): {"probe:p2", "probe:shared"},
    ("T@dummy or mc", "compound"): DUMMIES | {"mc"},
    ("not T@dummy", "compound"): MINIONS,
    ("G@who:mc and S@10.0.0.0/8", "compound"): {"mc"},
    ("N@res or mc", "compound"): {"dummy:dummy-01", "mc"},
    ("T@nosuch", "compound"): set(),
}


@pytest.mark.parametrize(("target", "right"), TARGETS.items(), ids=[f"{kind} {text}" for text, kind in TARGETS])
def test_a_target_selects_what_store_registry_and_banks_say(
    rig: MasterRig, target: tuple[str, str], right: set[str]
) -> None:
    assert selected(rig, *target) == right


def test_resources_of_a_minion_whose_key_is_not_accepted_any_more_are_selected_by_nothing(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        tx.delete_key(key(MinionId("ma")).fingerprint)
    assert selected(rig, "T@probe") == set()
    assert selected(rig, "probe:p1", "glob") == set()
    assert selected(rig, "G@role:probe") == set()
    assert selected(rig, "p1", "glob") == set()


def test_another_mworker_sees_a_registration_at_once() -> None:
    shared = Shared()
    first, second = MasterRig("ma", shared=shared), MasterRig(shared=shared)
    assert selected(second, "T@dummy or G@n:1") == set()
    first.register("ma", {"dummy": ["d1"], "probe": ["p1"]}, grains={"probe:p1": {"n": 1}})
    assert selected(second, "T@dummy or G@n:1") == {"dummy:d1", "probe:p1"}


def test_match_says_who_is_away_what_is_unknown_and_why(rig: MasterRig) -> None:
    rig.master.present[MinionId("ma")] = 1.0
    found = rig.ask("match", tgt="mc,p1,nosuch", tgt_type="list", explain="probe:p1").fields
    assert (found["minions"], found["resources"]) == (["mc"], {"ma": ["probe:p1"]})
    assert (found["away"], found["unknown"]) == (["mc"], ["nosuch"])
    why = found["explanation"]
    assert (why["id"], why["owner"], why["selected"]) == ("probe:p1", "ma", True)
    assert [term["true"] for term in why["terms"]] == [True]


# -- functions


def publish(rig: MasterRig, target: str, kind: str, fun: str, *args: Any) -> Any:
    fields = {"request_id": f"{next(_numbers):032x}", "tgt": target, "tgt_type": kind}
    return rig.ask("publish", calls=[[fun, list(args), {}]], **fields).fields


def test_a_wildcard_skips_types_without_the_function_and_counts_them(rig: MasterRig) -> None:
    said = publish(rig, "*", "glob", "test.sleep", 1)
    assert said["minions"] == ["ma", "mb", "mc"]
    dummies = {"ma": ["dummy:dummy-01", "dummy:dummy-02", "dummy:web-9"], "mb": ["dummy:dummy-11", "dummy:shared"]}
    assert said["resources"] == dummies
    assert said["skipped"] == [{"type": "probe", "fun": "test.sleep", "count": 3}]


@pytest.mark.parametrize(("target", "kind"), [("dummy-01", "glob"), ("dummy-01", "list"), ("dummy-01", "compound")])
def test_who_registers_the_name_of_anothers_resource_keeps_no_function_from_that(
    rig: MasterRig, target: str, kind: str
) -> None:
    rig.register("mc", {"evil": ["dummy-01"]}, functions={"evil": ["test.ping()"]})
    said = publish(rig, target, kind, "test.sleep", 1)
    assert said["resources"] == {"ma": ["dummy:dummy-01"]}
    assert said["skipped"] == [{"type": "evil", "fun": "test.sleep", "count": 1}]
    with pytest.raises(UsageError, match=r"Function 'cmd.run' is not supported for resource type 'dummy'\."):
        publish(rig, target, kind, "cmd.run")
    with pytest.raises(UsageError, match=r"Function 'test.sleep' is not supported for resource type 'evil'\."):
        publish(rig, "evil:dummy-01", kind, "test.sleep", 1)


@pytest.mark.parametrize(
    ("target", "kind", "fun"),
    [
        ("dummy-01", "glob", "cmd.run"),
        ("mc,dummy-01", "list", "cmd.run"),
        ("T@dummy:dummy-01 or mc", "compound", "cmd.run"),
        ("T@dummy", "compound", "cmd.run"),
        ("dummy-01", "glob", "saltutil.refresh_pillar"),
        ("T@dummy", "compound", "state.apply"),
    ],
)
def test_a_function_that_a_named_or_every_resource_lacks_is_an_error(
    rig: MasterRig, target: str, kind: str, fun: str
) -> None:
    with pytest.raises(UsageError, match=rf"Function '{fun}' is not supported for resource type 'dummy'\."):
        publish(rig, target, kind, fun)
    assert rig.link.published == []


@pytest.mark.parametrize("fun", ["saltutil.refresh_pillar", "sys.reload_modules", "state.apply"])
def test_functions_for_minions_only_leave_resources_out_without_a_word(rig: MasterRig, fun: str) -> None:
    said = publish(rig, "*", "glob", fun)
    assert (said["minions"], said["resources"], said["skipped"]) == (["ma", "mb", "mc"], {}, [])


def test_a_type_of_which_no_functions_are_known_may_have_any(rig: MasterRig) -> None:
    rig.register("mc", {"new": ["n1"]})
    assert publish(rig, "n1", "glob", "anything.at_all")["resources"] == {"mc": ["new:n1"]}


def test_arguments_that_no_selected_resource_takes_are_refused(rig: MasterRig) -> None:
    with pytest.raises(UsageError, match=r"test\.sleep"):
        publish(rig, "T@dummy", "compound", "test.sleep", 1, 2, 3)
    assert publish(rig, "T@dummy", "compound", "test.sleep", 1)["skipped"] == []


def test_describe_counts_resources_and_knows_their_functions(rig: MasterRig) -> None:
    rig.master.present[MinionId("mb")] = 1.0
    said = rig.ask("describe", tgt="T@dummy", tgt_type="compound", funs=["test.sleep"]).fields
    assert (said["count"], said["resources"], said["away"]) == (5, 5, 3)
    known = said["functions"]["test.sleep"]
    assert known["signatures"] == ["test.sleep(length:float)"]
    assert (known["missing"], known["unknown"]) == (0, 0)


def test_a_target_that_selects_nothing_publishes_nothing(rig: MasterRig) -> None:
    with pytest.raises(NoTargetError):
        publish(rig, "T@nosuch", "compound", "test.ping")
    assert rig.link.published == []


def test_completion_offers_ids_and_functions_of_resources(rig: MasterRig) -> None:
    assert rig.ask("complete", kind="target", prefix="dummy-0").fields["words"] == ["dummy-01", "dummy-02"]
    assert rig.ask("complete", kind="function", prefix="test.s").fields["words"] == ["test.sleep"]
    found = rig.ask("complete", kind="argument", prefix="", function="test.sleep").fields["words"]
    assert found == ["length="]
