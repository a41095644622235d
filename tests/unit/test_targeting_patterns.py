"""Patterns that run in bounded time: which engine runs what, what is refused, and that both engines agree.

This also is the test that the private parts of `re` are as `saltlite.targeting.regex` knows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from time import process_time

import pytest

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId
from saltlite.model.job import Target, TargetKind
from saltlite.targeting import regex as tree
from saltlite.targeting import resolve
from saltlite.targeting.fleet import CREDIT_MAX, STEPS_MAX, Budget, BudgetError, DataQuery
from saltlite.targeting.memory_fleet import Member, MemoryFleet
from saltlite.targeting.patterns import BACKTRACKING_MAX, TEXT_MAX, glob_pattern, regex_pattern
from saltlite.targeting.regex import EVALUATIONS_MAX, POSITIONS_MAX, Automaton, steps_bound
from saltlite.targeting.subdict import Subdict

HOSTILE = [
    "(a+)+$",
    "(a|aa)+$",
    "(a|a)*b",
    "(.*)*x",
    "(x+x+)+y",
    "(a*)*b",
    "(a|b|ab)*c",
    "a?" * 30 + "a" * 30,
    "(a{1,30}){1,30}b",
    "((a{0,9}){0,9}){0,9}b",
    ".*" * 20 + "b",
    "(?i)(ä|Ä|ß)*$x",
    "(?s)(.|\\n)*b",
    "(?m)(^a*$\\n?)*b",
    "(?x) ( a + ) + b",
    "(\\b\\w*\\b\\W?)*x",
    "([^b]|[a-z]|\\w)*!",
    "(\\d|\\w|.)*$!",
    "(?:a*?)*?b",
    "(.*a){12}",
    "(a|b)*a(a|b){12}c",
]
TEXTS = ["a" * 20, "a" * 255, "ab" * 2000, "x" * 4096, "äÄß" * 1000, "a\n" * 1000, "0" * 4096, "ab" * 60 + "b" * 14]

EVERYDAY = [
    "web[0-9]+",
    ".*prod.*",
    "(Debian|Ubuntu)",
    "^web\\d{1,3}(-[a-z]{2})?$",
    "db[1-9]|cache.*",
    "(?i)RedHat.*",
    ".*\\.example\\.com$",
    "(?!web).*",
    "",
]


@pytest.fixture(autouse=True)
def within_seconds() -> Iterator[None]:
    """What Python's engine took would last for hours; a count of steps says the same of every machine."""
    began = process_time()
    yield
    assert process_time() - began < 20


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_keeps_a_process_busy(pattern: str) -> None:
    budget = Budget()
    matches = regex_pattern(pattern, budget).over(budget)
    for text in TEXTS:
        matches(text)
    assert budget.left > STEPS_MAX * 0.5


@pytest.mark.parametrize("pattern", EVERYDAY)
def test_everyday_patterns_are_run_by_pythons_own_engine(pattern: str) -> None:
    found = regex_pattern(pattern)
    assert found.automaton is None
    assert found.over(Budget()) == found.native


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(a+)+\\1", "a backreference"),
        ("(?=(a*)*b)a", "a lookahead or lookbehind"),
        ("(?!(a|aa)+$)", "a lookahead or lookbehind"),
        ("(x)?(?(1)(a+)+b|c)", "a condition on a group"),
        ("(a*)*(?>b)", "an atomic group"),
        ("(a*)*b++", "a possessive repeat"),
    ],
)
def test_what_no_automaton_can_match_is_refused_when_it_could_take_for_ever(pattern: str, what: str) -> None:
    with pytest.raises(UsageError, match=f"could run forever: it has {what} and repeats that multiply"):
        regex_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("(a)b\\1", "aba", True),
        ("(a)b\\1", "abb", False),
        ("(?!.*-old).*web", "x-web", True),
        ("(?!.*-old).*web", "x-web-old", False),
        ("(?<=x)a|xa", "xa", True),
        ("(?>ab|a)c", "ac", True),
        ("a++b", "aab", True),
        ("(x)?(?(1)a|b)", "b", True),
    ],
)
def test_what_no_automaton_can_match_is_run_when_it_is_cheap(pattern: str, text: str, matches: bool) -> None:
    assert regex_pattern(pattern).matches(text, Budget()) is matches


def test_repeats_that_are_written_out_have_a_largest_size() -> None:
    with pytest.raises(
        UsageError, match=f"too large: with its repeats written out it has more than {POSITIONS_MAX} parts"
    ):
        regex_pattern("(a{1,99}){1,99}b")
    assert regex_pattern("a{1,9999}b").automaton is not None or regex_pattern("a{1,9999}b").native_length == TEXT_MAX


def test_steps_are_never_fewer_than_the_engine_takes() -> None:
    """Of ways that the engine really tries: a count of them by hand."""
    for pattern, length, ways in [("a*a*b", 50, 50 * 51 / 2), ("a*a*a*b", 20, 1540), ("(?:a|a)*b", 10, 2**10)]:
        items, _flags = tree.parsed(pattern, 0)
        steps, _looked_at = steps_bound(items, length, 10**9, whole=False)
        assert steps >= ways


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-z]+-[0-9]+-[a-z]+",
        "[a-z]+\\d+\\.[a-z]+\\.example\\.org",
        "web[0-9]+-(?:[a-z]+)-[0-9]{2,}x",
        "[^-]*-[^-]*-[^-]*-x",
        "\\d+\\.\\d+\\.\\d+\\.\\d+",
    ],
)
def test_repeats_that_end_where_the_next_item_begins_are_for_pythons_engine_at_any_length(pattern: str) -> None:
    assert regex_pattern(pattern).native_length == TEXT_MAX


@pytest.mark.parametrize(
    "pattern",
    ["[a-z]+a[a-z]+b[a-z]+c", "[a-z]+x?[a-z]+-[a-z]+c[a-z]+d", "(?i:[a-z]+A[a-z]+B[a-z]+C)", "\\w+\\d+\\w+\\d+-"],
)
def test_repeats_that_could_take_what_follows_them_are_not(pattern: str) -> None:
    assert regex_pattern(pattern).native_length < TEXT_MAX


def test_steps_of_repeats_that_lead_on_once_are_counted_too() -> None:
    items, flags = tree.parsed("[a-z]+-[a-z]+-[a-z]+-x", 0)
    steps, _looked_at = steps_bound(items, 1000, 10**9, flags, whole=False)
    assert 3 * 1000 <= steps <= 30 * 1000  # of a text of 1000 letters the engine tries each end of the first run


@pytest.mark.parametrize("repeated", ["[a-z]", "[^a-z]", "\\d", "\\w", "a", "[^a]", ".", "[\\w-]"])
@pytest.mark.parametrize("following", ["-", "[0-9]", "[^-]", "\\d", "\\W", "z", "\n", "(a)", "[x-z]+", "(?:[0-9]+)"])
def test_no_character_is_taken_by_an_item_that_excludes_what_follows(repeated: str, following: str) -> None:
    items, flags = tree.parsed(f"{repeated}+{following}", 0)
    first, second = list(items)
    if tree.excludes(first[1][2][0], second, flags):
        begins = re.compile(following.rstrip("+"))
        both = [chr(code) for code in range(0x3000) if re.match(repeated, chr(code)) and begins.match(chr(code))]
        assert both == []


def test_an_analysis_looks_at_few_items() -> None:
    for pattern in [*HOSTILE, "((((a{9}){9}){9}){9}){9}", "((((){9}){9}){9}){9}b"]:
        items, _flags = tree.parsed(pattern, 0)
        assert steps_bound(items, TEXT_MAX, 10**9, whole=False)[1] <= EVALUATIONS_MAX + 1


def test_texts_that_are_short_enough_are_for_pythons_engine_until_the_credit_is_used_up() -> None:
    pattern, budget = regex_pattern(".*a.*b"), Budget()
    assert pattern.automaton is not None
    assert 16 <= pattern.native_length < TEXT_MAX
    pattern.matches("a" * 16, budget)
    assert budget.credit < CREDIT_MAX
    budget.credit, before = 0, budget.left
    assert not pattern.matches("a" * 16, budget)
    assert before - budget.left > 16
    assert budget.credit == 0
    assert pattern.rate * 16 * pattern.native_length * 0.99 <= BACKTRACKING_MAX


def test_more_states_than_there_is_room_for_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.targeting.regex.CELLS_MAX", 500)
    source = "(a|b)*a(a|b){8}c"
    items, flags = tree.parsed(source, 0)
    automaton, plain = Automaton(source, items, flags, whole=False), re.compile(source)
    for number in range(300):
        text = f"{number:010b}".replace("0", "a").replace("1", "b") * 3 + "c"
        assert automaton.matches(text, Budget()) is bool(plain.match(text)), text
        assert automaton._cells < 2000


ANCHORS = [
    "\\B",
    "\\b",
    "^$",
    "\\Z",
    "a$",
    "a\\Z",
    "(?m)a$",
    "(?m)^b",
    "a\\Zb|a",
    "(?a:\\w)",
    "(?i:\N{LATIN SMALL LETTER LONG S})",
]


@pytest.mark.parametrize("pattern", ANCHORS)
@pytest.mark.parametrize("text", ["", "\n", "a", "a\n", "a\n\n", "a\nb", "b", " ", "é", "S", "K"])
@pytest.mark.parametrize("whole", [False, True])
def test_anchors_and_case_mean_what_they_mean_to_python(pattern: str, text: str, whole: bool) -> None:
    items, flags = tree.parsed(pattern, 0)
    plain = re.compile(pattern)
    found = (plain.fullmatch if whole else plain.match)(text)
    assert Automaton(pattern, items, flags, whole=whole).matches(text, Budget()) is (found is not None)


GLOBS = [
    "*a" * 60 + "b",
    "*" + "?" * 250 + "b",
    "*a*" * 300,
    "*[ab]" * 100 + "c",
    "*" + "a" * 900 + "b*",
    "*a*b?c[!d]*",
]


@pytest.mark.parametrize("glob", GLOBS)
def test_globs_cost_their_length_times_that_of_the_text_at_most(glob: str) -> None:
    budget = Budget()
    pattern = glob_pattern(glob, budget)
    for text in TEXTS:
        matches = pattern.matches(text, budget)
        assert matches is glob_pattern(glob).matches(text, Budget())
    assert budget.left > STEPS_MAX * 0.5


@pytest.mark.parametrize("glob", ["*", "**", "*7", "*7*", "7*", "*.7*", "*7**", "**7"])
def test_globs_without_python_s_engine_mean_what_python_means(glob: str) -> None:
    for text in ("", "7", "77", "a7", "7a", "a7b", "a.7b", "a+7b", "b"):
        assert glob_pattern(glob).matches(text, Budget()) is fnmatchcase(text, glob), text


def fleet(count: int = 2000, steps: int = STEPS_MAX) -> MemoryFleet:
    name = "a" * 100
    minions = {MinionId(f"{name}{number}"): Member({"long": "a" * 4000 + str(number)}) for number in range(count)}
    found = MemoryFleet(minions, {"big": " or ".join(["E@(a|b)*a(a|b){9}c"] * 500)})
    found.budget.left = steps
    return found


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        (TargetKind.GRAIN_PCRE, "long:(a*)*a(a|b){1200}c"),
        (TargetKind.COMPOUND, " or ".join(f"E@(a|b)*{number}(a|b){{300}}c" for number in range(1000))),
        (TargetKind.COMPOUND, " or ".join(["*z*"] * 2048)),
        (TargetKind.COMPOUND, " or ".join(["not G@long:x"] * 1300)),
        (TargetKind.COMPOUND, " or ".join(f"P@long:{'.*' * 12}{number}x" for number in range(500))),
        (TargetKind.NODEGROUP, "big"),
        (TargetKind.LIST, ",".join(map(str, range(1_100_000)))),
    ],
    ids=["grain", "compound", "globs", "nots", "repeats", "nodegroup", "list"],
)
def test_one_target_has_a_budget(kind: TargetKind, expression: str) -> None:
    with pytest.raises(BudgetError, match="takes too long") as refused:
        resolve(Target(expression, kind), fleet(steps=STEPS_MAX // 10))
    assert refused.value.exit_code == 2


def test_the_sentence_names_the_pattern_and_how_many_texts_there_were() -> None:
    with pytest.raises(BudgetError, match=r"^the pattern '\(a\*\)\*.*' takes too long on \d+ texts?: make it simpler$"):
        resolve(Target("long:(a*)*a(a|b){1200}c", TargetKind.GRAIN_PCRE), fleet(steps=STEPS_MAX // 10))


def test_a_document_that_branches_is_walked_once_for_each_place_of_a_question() -> None:
    document: object = "x"
    for _ in range(20):
        document = [{"left": document, "right": document}]
    budget = Budget()
    assert not Subdict(DataQuery("*:" * 40 + "y"), budget).match({"a": document})
    assert budget.left > STEPS_MAX * 0.9


def test_values_of_one_document_are_paid_for() -> None:
    budget = Budget(10_000)
    question = Subdict(DataQuery("*:*:y"), budget)
    with pytest.raises(BudgetError):
        question.match({"a": {"b": [str(number) for number in range(10_000)]}})


def test_a_budget_is_one_for_all_terms_of_a_target() -> None:
    """Each alone is allowed, and so many together are not."""
    term = "E@(a|b)*a(a|b){9}c"
    assert resolve(Target(term, TargetKind.COMPOUND), fleet()).minions == frozenset()
    with pytest.raises(BudgetError):
        resolve(Target(" or ".join([term] * 200), TargetKind.COMPOUND), fleet(steps=STEPS_MAX // 10))
