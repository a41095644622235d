"""The evaluator beside a plain reading of what each term is true of, over random fleets and targets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId
from saltlite.model.job import Target, TargetKind
from saltlite.targeting import explain, resolve
from saltlite.targeting.expression import parse_compound, written
from saltlite.targeting.memory_fleet import Member, MemoryFleet


@dataclass(frozen=True)
class Entity:
    """A minion, or a resource with its owner."""

    id: str
    owner: str
    colour: str
    """A grain."""
    role: str
    """In the pillar of a minion."""
    called: frozenset[str] = frozenset()
    """The names in lists that mean this resource: its SRN, and its bare id where that is no SRN of another."""

    @property
    def bare(self) -> str:
        return self.id.partition(":")[2]


@dataclass(frozen=True)
class Part:
    """A piece of a target, what it is true of, and which resources its positive terms name."""

    text: str
    true: Callable[[Entity], bool]
    names: Callable[[Entity], bool]
    denies: Callable[[Entity], bool]
    """What it names under a `not`."""


def _never(_one: Entity) -> bool:
    return False


def _term(text: str, minion: Callable[[Entity], bool], resource: Callable[[Entity], bool], *, names: bool) -> Part:
    def true(one: Entity) -> bool:
        return resource(one) if one.owner else minion(one)

    return Part(text, true, resource if names else _never, _never)


def _word(name: str) -> Part:
    if "*" in name:
        return _term(name, lambda one: fnmatchcase(one.id, name), lambda one: fnmatchcase(one.owner, name), names=False)
    part = _term(name, lambda one: one.id == name, lambda one: name == one.owner or name in one.called, names=False)
    return Part(name, part.true, lambda one: name in one.called, _never)


def _manager(name: str) -> Part:
    return _term(
        f"M@{name}", lambda one: fnmatchcase(one.id, name), lambda one: fnmatchcase(one.owner, name), names=False
    )


def _list(names: list[str]) -> Part:
    return _term(
        f"L@{','.join(names)}",
        lambda one: one.id in names,
        lambda one: not one.called.isdisjoint(names),
        names=True,
    )


def _regex(pattern: str) -> Part:
    return _term(
        f"E@{pattern}",
        lambda one: bool(re.match(pattern, one.id)),
        lambda one: bool(re.match(pattern, one.bare)),
        names=True,
    )


def _type(kind: str, name: str | None) -> Part:
    def true(one: Entity) -> bool:
        return one.id.startswith(f"{kind}:") and (name is None or fnmatchcase(one.bare, name))

    return _term(f"T@{kind}" if name is None else f"T@{kind}:{name}", _never, true, names=True)


def _colour(value: str) -> Part:
    return _term(f"G@colour:{value}", lambda one: one.colour == value, lambda one: one.colour == value, names=True)


def _role(value: str) -> Part:
    return _term(f"I@role:{value}", lambda one: one.role == value, _never, names=True)


MINIONS = ["m1", "m2", "m10", "n1"]
BARE = ["m1", "r1", "r2", "r10", "t:r1"]  # a resource may not be called as a minion; here it is all the same
TYPES = ["t", "u"]
SRNS = [f"{kind}:{bare}" for kind in TYPES for bare in BARE]
PATTERNS = ["*", "m*", "m1*", "r*", "*1", "zz*"]
NAMES = st.sampled_from([*MINIONS, *BARE, *SRNS, "nosuch"])
COLOURS = ["red", "blue"]

TERMS = st.one_of(
    st.sampled_from(PATTERNS).map(_word),
    NAMES.map(_word),
    st.sampled_from([*PATTERNS, *MINIONS, "nosuch"]).map(_manager),
    st.lists(NAMES, min_size=1, max_size=4).map(_list),
    st.sampled_from(["m1", "r1$", ".*0", "[mt]", "x"]).map(_regex),
    st.builds(_type, st.sampled_from([*TYPES, "v"]), st.sampled_from([None, *PATTERNS, *BARE])),
    st.sampled_from(COLOURS).map(_colour),
    st.sampled_from(["db", "web"]).map(_role),
)


def _not(one: Part) -> Part:
    return Part(f"not ( {one.text} )", lambda each: not one.true(each), one.denies, one.names)


def _join(word: str, how: Callable[[list[bool]], bool], left: Part, right: Part) -> Part:
    return Part(
        f"( {left.text} ) {word} ( {right.text} )",
        lambda one: how([left.true(one), right.true(one)]),
        lambda one: left.names(one) or right.names(one),
        lambda one: left.denies(one) or right.denies(one),
    )


PARTS = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        inner.map(_not),
        st.builds(lambda left, right: _join("and", all, left, right), inner, inner),
        st.builds(lambda left, right: _join("or", any, left, right), inner, inner),
    ),
    max_leaves=8,
)


@st.composite
def fleets(draw: st.DrawFn) -> list[Entity]:
    colours = st.sampled_from([*COLOURS, ""])
    minions = draw(st.lists(st.sampled_from(MINIONS), unique=True))
    found = [Entity(name, "", draw(colours), draw(st.sampled_from(["db", "web"]))) for name in minions]
    if minions:
        srns = draw(st.lists(st.sampled_from(SRNS), unique=True))
        for srn in srns:
            called = frozenset({srn, srn.partition(":")[2]}.difference(set(srns) - {srn}))
            found.append(Entity(srn, draw(st.sampled_from(minions)), draw(colours), "", called))
    return found


def _fleet(entities: list[Entity]) -> MemoryFleet:
    return MemoryFleet(
        {
            MinionId(one.id): Member(
                {"colour": one.colour},
                {"role": one.role},
                {each.id: {"colour": each.colour} for each in entities if each.owner == one.id},
            )
            for one in entities
            if not one.owner
        },
        {"group": "m1 or T@t"},
    )


@given(fleets(), PARTS)
@settings(max_examples=400, deadline=None)
def test_what_is_selected_is_what_the_target_is_true_of_and_names(entities: list[Entity], part: Part) -> None:
    selection = resolve(Target(part.text, TargetKind.COMPOUND), _fleet(entities))
    wanted = {one.id for one in entities if part.true(one) and (not one.owner or part.names(one))}
    assert {*selection.minions, *selection.resources} == wanted


@given(fleets(), PARTS)
@settings(max_examples=100, deadline=None)
def test_an_explanation_agrees_with_what_is_selected(entities: list[Entity], part: Part) -> None:
    fleet, target = _fleet(entities), Target(part.text, TargetKind.COMPOUND)
    selection = resolve(target, fleet)
    selected = {*selection.minions, *selection.resources}
    for one in entities:
        assert explain(target, fleet, one.id).selected is (one.id in selected)


@given(fleets(), PARTS)
@settings(max_examples=100, deadline=None)
def test_every_name_is_selected_unknown_or_left_out(entities: list[Entity], part: Part) -> None:
    selection = resolve(Target(part.text, TargetKind.COMPOUND), _fleet(entities))
    assert selection.named.union(*selection.id_collisions) <= {*selection.minions, *selection.resources}
    known = {text for one in entities for text in (one.id, one.bare)}
    minions = {one.id for one in entities if not one.owner}
    for name in selection.unknown:
        # A name behind M@ is a minion's, and one behind T@ the whole of a resource's; what is only like it is none.
        behind_m = f"M@{name}" in part.text and name not in minions
        behind_t = f"T@{name}" in part.text and name not in {one.id for one in entities}
        assert name not in known or behind_m or behind_t


@given(PARTS)
def test_what_was_parsed_can_be_written_and_parsed_again(part: Part) -> None:
    once = written(parse_compound(part.text, {}))
    assert written(parse_compound(once, {})) == once


WORDS = st.sampled_from(["and", "or", "not", "(", ")", "m1", "m*", "T@t", "N@group", "G@a:b", "L@", "Z@q", "E@[[a"])


@given(st.one_of(st.lists(WORDS, max_size=12).map(" ".join), st.text(max_size=60)), st.sampled_from(list(TargetKind)))
@settings(max_examples=500, deadline=None)
def test_any_text_selects_something_or_is_a_usage_error(text: str, kind: TargetKind) -> None:
    fleet = _fleet([Entity("m1", "", "red", "db"), Entity("t:r1", "m1", "red", "")])
    try:
        selection = resolve(Target(text, kind), fleet)
    except UsageError:
        return
    assert {*selection.minions} <= {"m1"}
    assert {*selection.resources} <= {"t:r1"}


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3))
GRAINS = st.dictionaries(
    st.text("ab:*7", max_size=3),
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.text("ab:*", max_size=3), st.integers()), inner)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


@given(GRAINS, st.text("ab:*7[?(", min_size=1, max_size=9), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_question_to_any_grains_has_an_answer(grains: dict[str, object], question: str, regex: bool) -> None:
    fleet = MemoryFleet({MinionId("m1"): Member(grains, grains)})
    kind = TargetKind.GRAIN_PCRE if regex else TargetKind.GRAIN
    try:
        found = resolve(Target(question, kind), fleet).minions
        same = resolve(Target(question, TargetKind.PILLAR_PCRE if regex else TargetKind.PILLAR), fleet).minions
    except UsageError:
        return
    assert found == same


@given(GRAINS)
def test_a_key_that_is_there_exists(grains: dict[str, object]) -> None:
    fleet = MemoryFleet({MinionId("m1"): Member(grains)})
    for key in grains:
        if key and not key.startswith(":"):
            assert resolve(Target(f"{key}:*", TargetKind.GRAIN), fleet).minions == {"m1"}
