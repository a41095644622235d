"""Folded names: a person reads them, so what they expand to is exactly what was folded."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from saltlite.cli.targets import nodeset

MINION_IDS = st.from_regex(r"[a-z0-9_][a-z0-9._-]{0,9}", fullmatch=True)
NUMBERED = st.builds(
    "{}{:0{}d}{}".format,
    st.sampled_from(["", "web", "db-", "r1."]),
    st.integers(0, 120),
    st.integers(1, 4),
    st.sampled_from(["", ".example.org", "-b2"]),
)


def expand(text: str) -> list[str]:
    """Every name in a folded text, as a person would read it; written without a look at how folding is done."""
    names: list[list[str]] = []
    for part in text.replace("[", "\x00[").replace("]", "]\x00").split("\x00"):
        if part.startswith("["):
            numbers = list(itertools.chain(*(spread(one) for one in part.strip("[]").split(","))))
            stem = names.pop()
            names.append([f"{one}{number}" for one in stem for number in numbers])
            continue
        first, *others = part.split(",")
        if names:
            names[-1] = [f"{one}{first}" for one in names[-1]]
        else:
            names.append([first])
        names += [[other] for other in others]
    return list(itertools.chain(*names))


def spread(text: str) -> list[str]:
    first, dash, last = text.partition("-")
    if not dash:
        return [first]
    width = len(first) if first.startswith("0") else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]


@given(st.sets(MINION_IDS | NUMBERED, min_size=1, max_size=40))
@example({"web8", "web08", "web008", "web9", "web10", "web010"})
@example({"0", "00", "1", "01"})
@example({"a1b1", "a1b2", "a2b1", "a3b1"})
def test_folded_names_expand_back_to_the_same_names_each_once(names: set[str]) -> None:
    expanded = expand(nodeset(names))
    assert sorted(expanded) == sorted(names)


@given(st.integers(0, 2000), st.integers(2, 300), st.sampled_from(["", ".example.org"]))
def test_names_that_count_up_fold_into_one_range(first: int, count: int, behind: str) -> None:
    names = [f"web{number:05d}{behind}" for number in range(first, first + count)]
    assert nodeset(names) == f"web[{first:05d}-{first + count - 1:05d}]{behind}"


@given(st.lists(NUMBERED, max_size=20))
def test_the_order_of_names_and_repetitions_change_nothing(names: list[str]) -> None:
    assert nodeset(names) == nodeset(reversed(names + names))
