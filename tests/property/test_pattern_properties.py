"""The automaton beside Python's own engine, over random patterns and texts."""

from __future__ import annotations

import re
import warnings
from fnmatch import fnmatchcase, translate

from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.errors import UsageError
from saltlite.targeting import regex as tree
from saltlite.targeting.fleet import Budget
from saltlite.targeting.patterns import glob_pattern, regex_pattern
from saltlite.targeting.regex import Automaton

LETTERS = "abx1_- .\n\u00e4\u00c4\u00df\u017fkK\u212aSi\u0130\u0131\u0663\U0001f600"
ATOMS = st.sampled_from(
    [
        *("a", "b", "x", "1", "_", "-", ".", "\\.", "\\n", "\u00e4", "\u0130", "\u212a", "\u017f", ""),
        *("\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "[ab]", "[^a]", "[a-z0-9]", "[^\\W\\d]", "[\u00c4-\u00d6]"),
        *("\\b", "\\B", "^", "$", "\\A", "\\Z", "(?i:k)", "(?a:\\w)", "(?-i:S)", "(?s:.)", "(?m:^)", "(?m:$)"),
    ]
)
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,3}?", "{2,}", "{0}"]
FLAGS = st.sets(st.sampled_from([re.IGNORECASE, re.MULTILINE, re.DOTALL, re.ASCII, re.VERBOSE]))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda two: f"(?:{two[0]}){two[1]}"),
    )


PATTERNS = st.recursive(ATOMS, _larger, max_leaves=8)
TEXTS = st.lists(st.text(LETTERS, max_size=7), min_size=1, max_size=8)


@settings(max_examples=400, deadline=None)
@given(PATTERNS, FLAGS, TEXTS, st.booleans())
def test_the_automaton_finds_what_python_finds(
    pattern: str, flags: set[re.RegexFlag], texts: list[str], whole: bool
) -> None:
    combined = int(sum(flags))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            plain = re.compile(pattern, combined)
        except re.error:
            return
        items, own_flags = tree.parsed(pattern, combined)
        automaton = Automaton(pattern, items, own_flags, whole=whole)
    for text in texts:
        found = (plain.fullmatch if whole else plain.match)(text)
        assert automaton.matches(text, Budget()) is (found is not None), (pattern, text)


@settings(max_examples=200, deadline=None)
@given(PATTERNS, TEXTS, st.booleans())
def test_whichever_engine_is_chosen_the_answer_is_the_same(pattern: str, texts: list[str], whole: bool) -> None:
    try:
        chosen, plain = regex_pattern(pattern, whole=whole), re.compile(pattern)
    except UsageError:
        return
    budget, over = Budget(), regex_pattern(pattern, whole=whole).over(Budget())
    for text in texts:
        found = (plain.fullmatch if whole else plain.match)(text) is not None
        assert chosen.matches(text, budget) is found
        assert bool(over(text)) is found


@settings(max_examples=200, deadline=None)
@given(st.text("ab*?[]!-", min_size=1, max_size=12), st.lists(st.text("ab-]!", max_size=9), min_size=1, max_size=8))
def test_a_glob_that_no_engine_of_python_runs_means_the_same(glob: str, texts: list[str]) -> None:
    items, flags = tree.parsed(translate(glob), 0)
    automaton = Automaton(glob, items, flags, whole=False)
    for text in texts:
        assert automaton.matches(text, Budget()) is fnmatchcase(text, glob)
        assert glob_pattern(glob).matches(text, Budget()) is fnmatchcase(text, glob)
