"""What targets of each kind select. Three minions: ma and mb manage resources, mc none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId, TargetId
from saltlite.model.job import Target, TargetKind
from saltlite.targeting import explain, resolve
from saltlite.targeting.expression import parse_compound, written
from saltlite.targeting.fleet import Selection
from saltlite.targeting.memory_fleet import Member, MemoryFleet
from saltlite.targeting.patterns import PATTERN_MAX

MA, MB, MC = MinionId("ma"), MinionId("mb"), MinionId("mc")
ADDRESSES = {MA: "10.1.0.7", MB: "192.168.3.4", MC: "172.16.0.9"}
NODEGROUPS: dict[str, str | list[str]] = {
    "ng_res": "T@dummy:dummy-01",
    "edge": "L@mb,mc",
    "names": ["mb", "nosuch"],
    "typed": "mb mc",
    "pattern": ["m[ab]"],
    "choice": "ma m(b|c)",
    "spaced": ["G@city:New York", "or", "mc"],
    "nested": "N@edge and not mc",
    "one": "ma",
    "commas": "ma,mb",
    "empty": "",
    "circle": "mc or N@round",
    "round": ["N@circle"],
    "broken": "mc and ( mb",
    "two": ["m*", "mc"],
}


def _member(minion: MinionId, dummies: Iterable[str] = (), probes: Iterable[str] = ()) -> Member:
    grains = {"site": "lab", "who": str(minion), "ipv4": ["127.0.0.1", ADDRESSES[minion]], "ipv6": ["2001:db8::7"]}
    resources: dict[TargetId, dict[str, object]] = {f"dummy:{name}": {} for name in dummies}
    resources |= {f"probe:{name}": {"role": "probe", "rid": name} for name in probes}
    return Member(grains | ({"city": "New York"} if minion == MA else {}), {"role": f"{minion}-db"}, resources)


FLEET = MemoryFleet(
    {
        MA: _member(MA, ("dummy-01", "dummy-02", "web-9"), ("p1", "p2", "shared")),
        MB: _member(MB, ("dummy-11", "shared")),
        MC: _member(MC),
    },
    NODEGROUPS,
)
OF_MA = "dummy:dummy-01 dummy:dummy-02 dummy:web-9"
DUMMIES = f"{OF_MA} dummy:dummy-11 dummy:shared"
PROBES = "probe:p1 probe:p2 probe:shared"
SHARED = "dummy:shared probe:shared"


def select(expression: str, kind: TargetKind = TargetKind.COMPOUND) -> Selection:
    return resolve(Target(expression, kind), FLEET)


def everything(selection: Selection) -> set[str]:
    return {*selection.minions, *selection.resources}


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("T@dummy", DUMMIES),
        ("T@dummy:dummy-01", "dummy:dummy-01"),
        ("T@dummy:", DUMMIES),
        ("T@nosuch", ""),
        ("T@dummy:typo", ""),
        ("T@dummy:*", DUMMIES),
        ("T@dummy:dummy-0?", "dummy:dummy-01 dummy:dummy-02"),
        ("T@:dummy-01", ""),
        ("M@ma", "ma"),
        ("M@m*", "ma mb mc"),
        ("M@ma and T@dummy", OF_MA),
        ("T@dummy and not M@ma", "dummy:dummy-11 dummy:shared"),
        ("T@dummy or T@probe", f"{DUMMIES} {PROBES}"),
        ("T@probe and G@role:probe", PROBES),
        ("G@role:probe and not T@probe:p1", "probe:p2 probe:shared"),
        ("P@role:pro(b|x) not T@probe:p1", "probe:p2 probe:shared"),
        ("* and T@dummy", DUMMIES),
        ("T@dummy or mc", f"{DUMMIES} mc"),
        ("T@dummy and G@site:lab", ""),
        ("mc or dummy-01", "mc dummy:dummy-01"),
        ("dummy-01", "dummy:dummy-01"),
        ("dummy:dummy-01", "dummy:dummy-01"),
        ("shared", SHARED),
        ("ma and T@probe", PROBES),
        ("ma and shared", "probe:shared"),
        ("L@dummy-01,mc", "mc dummy:dummy-01"),
        ("L@dummy:shared", "dummy:shared"),
        ("not mc", "ma mb"),
        ("mc", "mc"),
        ("*", "ma mb mc"),
        ("not T@dummy", "ma mb mc"),
        ("not ( not T@dummy )", DUMMIES),
        ("E@.*1$", "dummy:dummy-01 dummy:dummy-11 probe:p1"),
        ("E@p and M@mb", ""),
        ("G@site:lab", "ma mb mc"),
        ("G|@site|lab and not G/@who/m[ab]", "mc"),
        ("( T@dummy:dummy-01 or T@probe:p1 ) and not L@p1", "dummy:dummy-01"),
        ("N@ng_res", "dummy:dummy-01"),
        ("G@who:mc and not S@10.0.0.0/8", "mc"),
        ("S@10.0.0.0/8 or I@role:mb*", "ma mb"),
        ("J@role:m[bc]-d", "mb mc"),
        ("mb or mc and not mc", "mb"),
        ("not mb and not mc or mc", "ma mc"),
        ("I@role:* or S@127.0.0.1 or S@2001:db8::/32", "ma mb mc"),
    ],
)
def test_a_compound_target_selects(expression: str, wanted: str) -> None:
    assert everything(select(expression)) == set(wanted.split())


@pytest.mark.parametrize(
    ("kind", "expression", "wanted"),
    [
        (TargetKind.GLOB, "*", f"ma mb mc {DUMMIES} {PROBES}"),
        (TargetKind.GLOB, "m*", f"ma mb mc {DUMMIES} {PROBES}"),
        (TargetKind.GLOB, "mc*", "mc"),
        (TargetKind.GLOB, "m[!ac]", "mb dummy:dummy-11 dummy:shared"),
        (TargetKind.GLOB, "web*", ""),
        (TargetKind.GLOB, "dummy-0?", ""),
        (TargetKind.GLOB, "ma", "ma"),
        (TargetKind.GLOB, "MA", ""),
        (TargetKind.GLOB, "dummy-01", "dummy:dummy-01"),
        (TargetKind.GLOB, "shared", SHARED),
        (TargetKind.GLOB, "probe:shared", "probe:shared"),
        (TargetKind.GLOB, "", ""),
        (TargetKind.LIST, "mc,dummy-01,shared,nosuch", f"mc dummy:dummy-01 {SHARED}"),
        (TargetKind.LIST, "mc mb\tmc,,", "mb mc"),
        (TargetKind.LIST, "m*", ""),
        (TargetKind.LIST, "", ""),
        (TargetKind.PCRE, "^mc$", "mc"),
        (TargetKind.PCRE, "mc", "mc"),
        (TargetKind.PCRE, "c", ""),
        (TargetKind.PCRE, "dummy-0.", "dummy:dummy-01 dummy:dummy-02"),
        (TargetKind.GRAIN, "role:PROBE", PROBES),
        (TargetKind.GRAIN, "who:m[ab]", "ma mb"),
        (TargetKind.GRAIN, "role:*", PROBES),
        (TargetKind.GRAIN_PCRE, r"rid:p\d", "probe:p1 probe:p2"),
        (TargetKind.PILLAR, "role:*", "ma mb mc"),
        (TargetKind.PILLAR_PCRE, "role:m(a|b)", "ma mb"),
        (TargetKind.IPCIDR, "127.0.0.1", "ma mb mc"),
        (TargetKind.IPCIDR, "192.168.0.0/16", "mb"),
        (TargetKind.IPCIDR, "2001:db8::7", "ma mb mc"),
        (TargetKind.NODEGROUP, "ng_res", "dummy:dummy-01"),
        (TargetKind.NODEGROUP, "edge", "mb mc"),
        (TargetKind.NODEGROUP, "names", "mb"),
        (TargetKind.NODEGROUP, "typed", "mb mc"),
        (TargetKind.NODEGROUP, "pattern", "ma mb"),
        (TargetKind.NODEGROUP, "choice", "ma mb mc"),
        (TargetKind.NODEGROUP, "spaced", "ma mc"),
        (TargetKind.NODEGROUP, "nested", "mb"),
        (TargetKind.NODEGROUP, "one", "ma"),
        (TargetKind.NODEGROUP, "commas", "ma mb"),
    ],
)
def test_a_target_of_one_kind_selects(kind: TargetKind, expression: str, wanted: str) -> None:
    assert everything(select(expression, kind)) == set(wanted.split())


def test_every_selected_resource_comes_with_its_owner() -> None:
    assert dict(select("shared").resources) == {"dummy:shared": MB, "probe:shared": MA}


def test_a_nodegroup_inside_of_a_compound_target_is_as_in_parentheses() -> None:
    assert everything(select("N@edge and not N@nested")) == {"mc"}


@pytest.mark.parametrize(
    ("kind", "expression", "unknown", "named"),
    [
        (TargetKind.LIST, "zz,mc,dummy-01,aa,shared,zz", ("zz", "aa"), "mc dummy:dummy-01"),
        (TargetKind.COMPOUND, "shared and M@mb", (), "dummy:shared"),
        (TargetKind.GLOB, "nosuch", ("nosuch",), ""),
        (TargetKind.GLOB, "m*", (), ""),
        (TargetKind.GLOB, "ma", (), "ma"),
        (TargetKind.COMPOUND, "T@dummy:typo or T@dummy", ("dummy:typo",), ""),
        (TargetKind.COMPOUND, "T@dummy:dummy-01 or T@probe", (), "dummy:dummy-01"),
        (TargetKind.COMPOUND, "M@nosuch and T@dummy", ("nosuch",), ""),
        (TargetKind.COMPOUND, "L@ma,mb and G@who:ma", (), "ma"),
        (TargetKind.COMPOUND, "* and not L@nosuch,ma", (), ""),
        (TargetKind.NODEGROUP, "names", ("nosuch",), "mb"),
    ],
)
def test_names_are_told_from_descriptions(
    kind: TargetKind, expression: str, unknown: tuple[str, ...], named: str
) -> None:
    selection = select(expression, kind)
    assert (selection.unknown, selection.named) == (unknown, frozenset(named.split()))


def test_what_one_name_means_together_is_told_from_what_is_named_alone() -> None:
    selection = select("shared or L@dummy:shared,p1")
    assert selection.id_collisions == (frozenset(SHARED.split()),)
    assert selection.named == {"dummy:shared", "probe:p1"}


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("", "the target is empty"),
        ("and mc", r"word 1 \('and'\), column 1: a condition is missing before it"),
        ("mc  or", r"word 2 \('or'\), column 5: a condition is missing after it"),
        ("( and mc )", r"word 2 \('and'\), column 3: a condition is missing before it"),
        ("( )", r"word 2 \('\)'\), column 3: a condition is missing before it"),
        ("mc and not or mb", r"word 4 \('or'\), column 12: a condition is missing before it"),
        ("mc not not mb", r"word 3 \('not'\), column 8: it follows another `not`"),
        ("mc and ( mb or ma", r"word 3 \('\('\), column 8: this parenthesis is never closed"),
        ("mc )", r"word 2 \('\)'\), column 4: no parenthesis is open here"),
        ("mc dummy-01", r"word 2 \('dummy-01'\), column 4: an operator is missing before it; write `and` or `or`"),
        ("( mc dummy-01 )", r"word 3 \('dummy-01'\), column 6: an operator is missing"),
        ("mc ( mb )", r"word 2 \('\('\), column 4: an operator is missing"),
        ("(mc or mb)", r"word 1 \('\(mc'\), column 1: parentheses are words of their own"),
        ("( mc or mb)", r"word 4 \('mb\)'\), column 9: parentheses are words of their own"),
        ("mc or Z@x", r"word 3 \('Z@x'\), column 7: there is no kind of target Z@; there are G@ P@"),
        ("R@web1-9", r"word 1 \('R@web1-9'\), column 1: ranges of names \(R@\) are not supported"),
        ("mc or G@", r"word 3 \('G@'\), column 7: nothing stands after the @"),
        ("G@os", r"word 1 \('G@os'\), column 1: 'os' has no key and value with a ':' between"),
        ("G|@os:x", r"'os:x' has no key and value with a '\|' between"),
        ("mc or E@web(", r"word 3 \('E@web\('\), column 7: 'web\(' is not a regular expression: .* at position 3"),
        ("not P@os:(", r"word 2 \('P@os:\('\), column 5: '\(' is not a regular expression"),
        ("S@10.0.0.300", r"word 1 \('S@10.0.0.300'\), column 1: '10.0.0.300' is neither an address nor a network"),
        ("mc or N@edgy", r"word 3 \('N@edgy'\), column 7: there is no nodegroup 'edgy'; did you mean 'edge'\?"),
        ("N@circle", r"nodegroup 'round', word 1 \('N@circle'\): .*contains itself: circle > round > circle"),
        ("N@empty", "nodegroup 'empty' is empty"),
        ("N@broken", r"nodegroup 'broken', word 3 \('\('\), column 8: this parenthesis is never closed"),
        ("N@two", r"nodegroup 'two', word 2 \('mc'\): an operator is missing"),
    ],
)
def test_what_is_wrong_is_said_with_the_word_and_its_place(expression: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        select(expression)


def test_a_broken_regular_expression_is_a_usage_error_that_says_where() -> None:
    with pytest.raises(UsageError, match=r"^'web\(' is not a regular expression: .* at position 3"):
        select("web(", TargetKind.PCRE)


@pytest.mark.parametrize("expression", ["a{99999999999999999999}", "(" * 500 + ")" * 500])
def test_a_monstrous_regular_expression_is_a_usage_error_too(expression: str) -> None:
    with pytest.raises(UsageError, match="too large"):
        select(expression, TargetKind.PCRE)


@pytest.mark.parametrize("kind", [TargetKind.GLOB, TargetKind.PCRE, TargetKind.GRAIN, TargetKind.PILLAR_PCRE])
def test_a_pattern_has_a_longest_length(kind: TargetKind) -> None:
    fits = "a:x*".ljust(PATTERN_MAX, "b")
    assert everything(select(fits, kind)) == set()
    with pytest.raises(UsageError, match=f"at most {PATTERN_MAX} characters"):
        select(fits + "b", kind)


def test_a_list_of_names_may_be_as_long_as_a_request() -> None:
    names = ",".join(f"minion-{number}" for number in range(20_000))
    assert everything(select(f"{names},mb", TargetKind.LIST)) == {"mb"}


class _CountsWalks(MemoryFleet):
    """Counts how often somebody looks at resources of all owners, or of all of one type."""

    def __init__(self) -> None:
        super().__init__({MA: _member(MA, ("dummy-01", "web-9"), ("p1",)), MB: _member(MB, ("web-1",))})
        self.walks = 0

    def resources_of_type(self, resource_type: str) -> Iterable[tuple[TargetId, MinionId]]:
        self.walks += 1
        return super().resources_of_type(resource_type)

    def resources(self) -> Iterable[tuple[TargetId, MinionId]]:
        self.walks += 1
        return super().resources()


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("M@ma and T@dummy:web*", {"dummy:web-9"}),
        ("T@dummy and ma", {"dummy:dummy-01", "dummy:web-9"}),
        ("T@dummy:web-1 or L@p1", {"dummy:web-1", "probe:p1"}),
        ("G@role:probe and ( T@probe or E@x )", {"probe:p1"}),
        ("L@p1,web-1 and not T@dummy", {"probe:p1"}),
        ("* and not T@dummy", set()),
    ],
)
def test_resources_are_found_through_what_is_true_of_the_fewest(expression: str, wanted: set[str]) -> None:
    fleet = _CountsWalks()
    found = set(resolve(Target(expression, TargetKind.COMPOUND), fleet).resources)
    assert (found, fleet.walks) == (wanted, 0)


def test_resources_are_looked_for_when_they_are_asked_for_and_stay_as_they_were_found() -> None:
    fleet = _CountsWalks()
    selection = resolve(Target("*"), fleet)
    assert (len(selection.minions), fleet.walks) == (2, 0)
    assert len(selection.resources) == len(list(selection.resources)) == 4
    assert fleet.walks == 1


@pytest.mark.parametrize(
    ("kind", "expression", "name", "selected", "truths", "verdict"),
    [
        (TargetKind.COMPOUND, "G@site:lab and not mb", "mb", False, [True, True], "the target is false for it"),
        (TargetKind.COMPOUND, "G@site:lab and not mb", "mc", True, [True, False], "selected"),
        (TargetKind.COMPOUND, "N@nested or T@dummy", "dummy-01", True, [False, False, True], "selected"),
        (TargetKind.COMPOUND, "* and not mc", "p1", False, [True, False], "nothing in it names resources"),
        (TargetKind.COMPOUND, "M@ma and T@dummy", "probe:shared", False, [True, False], "false for it"),
        (TargetKind.GLOB, "*", "p1", True, [True], "through its minion 'ma'"),
        (TargetKind.GLOB, "mb", "dummy-11", False, [True], "nothing in it names resources"),
        (TargetKind.PILLAR, "role:*", "dummy-11", False, [False], "false for it"),
    ],
)
def test_an_explanation_says_what_each_term_comes_to_and_why(
    kind: TargetKind, expression: str, name: str, selected: bool, truths: list[bool], verdict: str
) -> None:
    explanation = explain(Target(expression, kind), FLEET, name)
    assert (explanation.selected, [term.true for term in explanation.terms]) == (selected, truths)
    assert verdict in explanation.verdict


def test_an_explanation_places_every_word_and_writes_nodegroups_out() -> None:
    explanation = explain(Target("N@nested or ma", TargetKind.COMPOUND), FLEET, "ma")
    assert explanation.read_as == "L@mb,mc and not mc or ma"
    assert [str(term.place) for term in explanation.terms] == [
        "nodegroup 'edge', word 1 ('L@mb,mc'), column 1",
        "nodegroup 'nested', word 4 ('mc'), column 16",
        "word 3 ('ma'), column 13",
    ]
    assert [term.why for term in explanation.terms] == ["its id is in the list", "its id is 'mc'", "its id is 'ma'"]


def test_whom_nobody_knows_cannot_be_explained() -> None:
    with pytest.raises(UsageError, match="'zz' is neither an accepted minion nor a registered resource"):
        explain(Target("*"), FLEET, "zz")


@pytest.mark.parametrize(
    ("kind", "expression", "wanted"),
    [
        (TargetKind.GLOB, "dummy:d1", {"dummy:d1"}),
        (TargetKind.LIST, "dummy:d1", {"dummy:d1"}),
        (TargetKind.COMPOUND, "dummy:d1", {"dummy:d1"}),
        (TargetKind.COMPOUND, "L@dummy:d1 and M@m*", {"dummy:d1"}),
        (TargetKind.COMPOUND, "T@evil and not dummy:d1", {"evil:dummy:d1", "evil:a:b"}),
        (TargetKind.GLOB, "evil:dummy:d1", {"evil:dummy:d1"}),
        (TargetKind.GLOB, "a:b", {"evil:a:b"}),
    ],
)
def test_the_srn_of_a_resource_never_means_another_with_such_a_bare_id(
    kind: TargetKind, expression: str, wanted: set[str]
) -> None:
    fleet = MemoryFleet(
        {MA: Member(resources={"dummy:d1": {}}), MB: Member(resources={"evil:dummy:d1": {}, "evil:a:b": {}})}
    )
    selection = resolve(Target(expression, kind), fleet)
    assert {*selection.resources} == wanted
    assert explain(Target(expression, kind), fleet, "dummy:d1").id == "dummy:d1"


def test_a_bare_id_of_several_resources_is_asked_back() -> None:
    with pytest.raises(UsageError, match="say which, as type:id; there are dummy:shared, probe:shared"):
        explain(Target("*"), FLEET, "shared")


def test_what_was_written_is_read_as_the_same_again() -> None:
    text = "not ( a and ( b or c ) ) or G|@x|y not ( d or e ) and ( f and g )"
    once = written(parse_compound(text, {}))
    assert written(parse_compound(once, {})) == once
