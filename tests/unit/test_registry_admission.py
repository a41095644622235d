"""When resources that a look did not find stay, and when they go."""

from __future__ import annotations

from collections.abc import Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltlite.resources.registry.admission import LOOKS, MANY, MissingResources, Seen, is_suspicious, still_missing

NOW = 1000.0


def ids(count: int) -> frozenset[str]:
    return frozenset(f"d{number:03}" for number in range(count))


@pytest.mark.parametrize(
    ("was", "found", "suspicious"),
    [
        (0, 0, False),
        (1, 0, True),
        (5, 0, True),
        (5, 1, False),
        (MANY - 1, 1, False),
        (MANY, MANY // 2, False),
        (MANY, MANY // 2 - 1, True),
        (MANY, MANY - 1, False),
        (1000, 499, True),
        (1000, 500, False),
        (3, 7, False),
    ],
)
def test_nothing_and_less_than_half_of_many_are_suspicious(was: int, found: int, suspicious: bool) -> None:
    assert is_suspicious(was, found) is suspicious


def test_looks_that_agree_let_go_and_a_look_counts_once() -> None:
    missing = None
    for look in ("a", "a", "b", "b"):
        missing = still_missing(ids(3), Seen(frozenset(), look), missing, NOW)
        assert missing is not None
    assert (missing.looks if missing else 0) == LOOKS - 1
    assert still_missing(ids(3), Seen(frozenset(), "c"), missing, NOW) is None


def test_looks_that_do_not_agree_begin_anew_and_what_was_missed_keeps_its_time() -> None:
    first = still_missing(ids(40), Seen(ids(10), "a"), None, NOW)
    assert first is not None
    second = still_missing(ids(40), Seen(ids(5), "b"), first, NOW + 9)
    assert second is not None
    assert (second.looks, len(second.since)) == (1, 35)
    assert (second.since["d010"], second.since["d005"]) == (NOW, NOW + 9)
    # Found again but for a few: those few go, as few always do.
    assert still_missing(ids(40), Seen(ids(38), "c"), second, NOW) is None


def test_a_look_that_failed_says_nothing_and_lets_nothing_go() -> None:
    missing: MissingResources | None = MissingResources(dict.fromkeys(ids(3), NOW), LOOKS - 1, "b")
    for _ in range(LOOKS + 1):
        missing = still_missing(ids(3), Seen(frozenset(), ""), missing, NOW)
        assert missing is not None
        assert missing.looks == LOOKS - 1
    assert still_missing(ids(3), Seen(frozenset(["d000"]), ""), None, NOW) == MissingResources(
        {"d001": NOW, "d002": NOW}, 0, ""
    )


@given(st.sets(st.integers(0, 60)), st.lists(st.tuples(st.sets(st.integers(0, 60)), st.sampled_from("abc"))))
def test_never_does_one_look_let_much_go(held: set[int], looks: list[tuple[set[int], str]]) -> None:
    missing: MissingResources | None = None
    now_held: Set[str] = frozenset(map(str, held))
    for found, look in looks:
        seen, before, previous = Seen(frozenset(map(str, found)), look), now_held, missing
        missing = still_missing(before, seen, previous, NOW)
        kept = set(missing.since) if missing is not None else set()
        assert kept <= before - seen.ids
        now_held = seen.ids | kept
        if is_suspicious(len(before), len(seen.ids)) and not before <= now_held:
            assert previous is not None
            assert (previous.looks, set(previous.since)) == (LOOKS - 1, before - seen.ids)
