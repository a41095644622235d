"""The index over grains: what it costs, what hostile minions can put into it, and how it follows a bank."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import pytest

from saltlite.errors import StoreError, UsageError
from saltlite.targeting import grain_index
from saltlite.targeting import grain_index as index_module
from saltlite.targeting.banks import GRAINS_MAX, VALUE_DEPTH_MAX
from saltlite.targeting.fleet import Budget, BudgetError, DataQuery
from saltlite.targeting.grain_index import BankIndex, GrainIndex, of_resources
from saltlite.targeting.subdict import VALUE_MAX, Subdict
from saltlite.testing.banks import MemoryBank, MemoryBanks, MemoryCache


def fleet(size: int = 200) -> GrainIndex:
    index = GrainIndex()
    for number in range(size):
        index.put(f"m{number}", {"os": ["Debian", "Alpine"][number % 2], "serial": f"S{number}", "n": {"x": number}})
    return index


def test_a_question_finds_text_without_regard_to_case_and_keys_with() -> None:
    index = fleet(4)
    assert index.select(DataQuery("os:DEBIAN")) == {"m0", "m2"}
    assert index.select(DataQuery("OS:Debian")) == frozenset()


def test_any_value_under_any_key_is_found_also_a_text_too_long_for_patterns() -> None:
    index = GrainIndex()
    index.put("m0", {"a": "b" * (VALUE_MAX + 1)})
    assert index.select(DataQuery("*:*")) == {"m0"}
    assert index.select(DataQuery("*:b*")) == frozenset()


@pytest.mark.parametrize(("pattern", "regex"), [("sn:s*n*", False), ("sn:S.*N", True)])
def test_a_pattern_is_not_run_on_a_text_that_is_too_long_among_short_ones(pattern: str, regex: bool) -> None:
    index = GrainIndex()
    index.put("m0", {"sn": "S" + "n" * VALUE_MAX})
    index.put("m1", {"sn": "S-N"})
    index.put("m2", {"sn": "N-S"})
    assert index.select(DataQuery(pattern, regex=regex)) == {"m1"}
    index.delete("m0")
    assert index.select(DataQuery(pattern, regex=regex)) == {"m1"}


def with_text(index: GrainIndex, path: str, text: str) -> set[str]:
    return index.with_texts(path, text.__eq__, Budget())


def test_a_text_as_a_key_hides_the_number_from_questions_and_from_texts() -> None:
    index = GrainIndex()
    with_both: Any = {0: ["a", "b"], "0": "a"}
    with_number: Any = {0: ["a", "b"]}
    index.put("m0", with_both)
    index.put("m1", with_number)
    assert index.select(DataQuery("0:1:b")) == {"m1"}
    assert with_text(index, "0:1", "b") == {"m1"}


def test_a_bad_regular_expression_is_refused_also_when_nobody_is_there() -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        GrainIndex().select(DataQuery("os:(", regex=True))


def test_who_was_deleted_is_found_by_no_question_and_may_come_back_as_another() -> None:
    index = fleet()
    assert "m0" in index.select(DataQuery("os:Debian"))
    index.delete("m0")
    index.delete("never there")
    assert "m0" not in index.select(DataQuery("os:Debian"))
    assert index.select(DataQuery("serial:S0")) == frozenset()
    index.put("new", {"os": "Debian"})
    index.put("m0", {"os": "Rocky"})
    assert index.select(DataQuery("os:Rocky")) == {"m0"}
    assert index.select(DataQuery("serial:S0")) == frozenset()
    assert "new" in index.select(DataQuery("os:Debian"))


def test_views_make_room_for_each_other_and_answers_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "VIEWS_COST_MAX", 1500)
    index = fleet()
    tracemalloc.start()
    try:
        for turn in range(50):
            for question in ("serial:S5", "n:x:5", f"n:absent-{turn}:5"):
                assert index.select(DataQuery(question)) == ({"m5"} if "absent" not in question else frozenset())
            index.put("m0", {"serial": f"T{turn}"})
            assert index.select(DataQuery("serial:T*")) == {"m0"}
            if turn == 5:
                before = tracemalloc.get_traced_memory()[0]
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 50_000


def size_of_what_the_index_made() -> int:
    # Not all that was allocated: Python's own table of interned texts, which the decoder fills with keys, grows in
    # jumps of megabytes at a moment that depends on what ran before, and in 3.12 it never shrinks.
    made = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/saltlite/targeting/*")])
    return sum(trace.size for trace in made.traces)


def test_a_minion_that_never_says_the_same_twice_costs_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "SHAPES_MAX", 256)
    index = fleet()
    for question in ("serial:S5", "n:x:5", "n:*"):
        index.select(DataQuery(question))
    most = {"first half": 0, "second half": 0}
    tracemalloc.start()
    try:
        for turn in range(24_000):
            index.put("m0", {"serial": f"Other {turn}", "n": {f"Key {turn}": f"Text {turn}"}, f"new {turn}": turn})
            if turn % 1_500 == 0:
                half = "first half" if turn <= 12_000 else "second half"
                most[half] = max(most[half], size_of_what_the_index_made())
    finally:
        tracemalloc.stop()
    assert index.select(DataQuery(f"serial:other {turn}")) == {"m0"}
    # What is looked for again (texts, lists of keys) is bounded; all that is said in the second half is 3 MB.
    assert most["second half"] - most["first half"] < 200_000


@pytest.mark.parametrize(
    "grains",
    [
        {"os": None},
        {"os": float("nan")},
        {"os": b"\xff\xfe"},
        {"os": [[[[["Debian"]]]], {}, [], {1: 2}]},
        {"os": "x" * (GRAINS_MAX - 100)},
        {"os": {f"key-{number}": number for number in range(10_000)}},
        {"os": {"version": list(range(40_000))}},
        {f"key-{number}": number for number in range(10_000)},
        {"": {"": ""}, ":": ":", "*": "*", "os:version": "12"},
        {5: 6, "5": {6: 7}},
        {"os": "\x00\n\x1b[0m"},
    ],
)
def test_strange_grains_of_one_minion_disturb_no_question_about_the_others(grains: dict[Any, Any]) -> None:
    banks = MemoryBanks(MemoryCache(lambda: 0.0))
    bank = banks.bank("grains")
    bank.put("good", {"os": "Debian", "nested": {"a": ["b"]}})
    index = BankIndex(bank)
    for first in (True, False):
        assert "good" in index.select(DataQuery("os:Debian"))
        assert "good" in index.select(DataQuery("nested:a:b"))
        assert "good" in index.select(DataQuery("*:Deb*"))
        assert "good" in index.select(DataQuery("os:deb[i]an", regex=True))
        assert "good" not in index.select(DataQuery("os:version:12"))
        if first:
            bank.put("hostile", grains)
    bank.delete("hostile")
    assert index.select(DataQuery("os:*")) == {"good"}


def test_grains_as_deep_as_may_be_are_found() -> None:
    bank = MemoryBanks(MemoryCache(lambda: 0.0)).bank("grains")
    deep: Any = "found"
    for _ in range(VALUE_DEPTH_MAX):
        deep = {"a": deep}
    bank.put("m", deep)
    assert BankIndex(bank).select(DataQuery("a:" * VALUE_DEPTH_MAX + "found")) == {"m"}


def test_the_ids_with_a_text_under_a_path_are_found() -> None:
    index = GrainIndex()
    index.put("a", {"ip": {"eth0": ["10.0.0.1", "10.0.0.2"], "lo": ["::1"]}})
    index.put("b", {"ip": {"eth0": ["10.0.0.1"]}})
    assert with_text(index, "ip:eth0", "10.0.0.1") == {"a", "b"}
    assert with_text(index, "ip:eth0", "10.0.0.2") == {"a"}
    assert with_text(index, "ip:eth0", "::1") == set()
    assert with_text(index, "ip:*", "::1") == {"a"}
    assert with_text(index, "nowhere", "::1") == set()


def test_the_texts_that_are_looked_through_are_paid_for() -> None:
    index = GrainIndex()
    for number in range(10):
        index.put(f"m{number}", {"ipv4": [f"10.0.0.{number}"]})
    with_text(index, "ipv4", "10.0.0.1")
    with pytest.raises(BudgetError):
        index.with_texts("ipv4", bool, Budget(10))


ODD: list[Any] = [
    *("a", "A", "", "*", "1", "İ", "i̇", "ß", b"a", b"\xff", None, True, False, 1, 1.0, 0.0, -0.0, 2**40),
    *([], {}, [[]], [{}], ["a"], ["b", ["a"]], [1, {"a": "b"}], [["a", "b"], "c"], [{"a": {}}, {"a": ["1"]}]),
    *({"a": "b"}, {"a": {"a": "a"}}, {"a": []}, {"a:b": "a"}, {"1": "b", 1: "a"}, {1: {"a": "b"}}, {0: "b"}),
    *({"*": "b"}, {"": {"": "a"}}, {"a": [{"b": "a"}, ["b"]]}, {"b": {"a": 1.0}}, {"a": {"a:b": None, "a": {"b": 0}}}),
]
PIECES = ["a", "b", "A", "1", "0", "01", "*", "", "i̇", "ß", "[ab]", "true", "-0.0", "1.0", "none", "?"]


def test_every_short_question_to_odd_data_is_answered_as_the_reference_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grain_index, "DENSE_FROM", 4)
    monkeypatch.setattr(grain_index, "INTERNED_MAX", 3)
    names = [f"m{number}" for number in range(len(ODD))]
    index = GrainIndex()
    pairs: list[tuple[Any, Any]] = [("a", "b"), ("a", "a:b"), ("1", 1), (1, "*"), ("b", "c"), ("", "A")]
    for keys in pairs:
        for turn in range(2):
            # Each name has a value, and then that of its neighbour: views are kept up meanwhile.
            data = {
                name: {keys[0]: ODD[place - turn], keys[1]: ODD[place - 3 - turn]} for place, name in enumerate(names)
            }
            for name, grains in data.items():
                index.put(name, grains)
            index.delete(names[turn])
            del data[names[turn]]
            for length in (2, 3):
                for pieces in itertools.product(PIECES[: 9 if length == 3 else None], repeat=length):
                    query = DataQuery(":".join(pieces))
                    expected = {name for name in data if Subdict(query).match(data[name])}
                    assert index.select(query) == expected, query


# -- over a bank


class FailingBank(MemoryBank):
    """Fails to read one key for as long as it is told to."""

    failing = ""

    def get(self, key: str) -> dict[str, Any] | None:
        if key == self.failing:
            raise StoreError("the disk fails")
        return super().get(key)


def test_what_could_not_be_read_is_taken_up_by_the_next_question() -> None:
    bank = FailingBank(MemoryCache(lambda: 0.0), "grains")
    bank.put("a", {"os": "Debian"})
    index = BankIndex(bank)
    bank.failing = "a"
    with pytest.raises(StoreError):
        index.select(DataQuery("os:Debian"))
    bank.failing = ""
    assert index.select(DataQuery("os:Debian")) == {"a"}


def test_minions_that_went_while_the_feed_was_lost_are_found_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = MemoryBanks(MemoryCache(lambda: 0.0)).bank("grains")
    for name in ("a", "b"):
        bank.put(name, {"os": "Debian"})
    index = BankIndex(bank)
    assert index.select(DataQuery("os:Debian")) == {"a", "b"}
    monkeypatch.setattr("saltlite.testing.banks.FEED_ENTRIES", 1)
    bank.delete("a")
    bank.put("c", {"os": "Debian"})
    bank.put("c", {"os": "Debian", "again": True})
    assert index.select(DataQuery("os:Debian")) == {"b", "c"}


def rows(**resources: str) -> dict[str, Any]:
    return {f"ssh:{name}": {"grains": {"os": text}, "stale_since": None} for name, text in resources.items()}


def test_resources_are_found_by_their_srn_and_go_when_their_minion_loses_them() -> None:
    bank = MemoryBanks(MemoryCache(lambda: 0.0)).bank("resource_grains")
    index = BankIndex(bank, of_resources)
    bank.put("m1", rows(a="Debian", b="Debian"))
    bank.put("m2", rows(c="Debian"))
    assert index.select(DataQuery("os:Debian")) == {"ssh:a", "ssh:b", "ssh:c"}
    bank.put("m1", rows(b="Alpine"))
    bank.delete("m2")
    assert index.select(DataQuery("os:*")) == {"ssh:b"}


def test_a_resource_that_moves_is_never_lost_whoever_is_heard_first() -> None:
    bank = MemoryBanks(MemoryCache(lambda: 0.0)).bank("resource_grains")
    index = BankIndex(bank, of_resources)
    bank.put("m1", rows(a="old"))
    assert index.select(DataQuery("os:old")) == {"ssh:a"}
    bank.put("m2", rows(a="new"))
    assert index.select(DataQuery("os:new")) == {"ssh:a"}
    bank.delete("m1")
    assert index.select(DataQuery("os:new")) == {"ssh:a"}
    bank.delete("m2")
    assert index.select(DataQuery("os:*")) == frozenset()
