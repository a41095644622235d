"""The index says of every question what the reference says of each minion's data, whatever was put and deleted."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.errors import UsageError
from saltlite.targeting import grain_index
from saltlite.targeting import grain_index as index_module
from saltlite.targeting.fleet import Budget, DataQuery
from saltlite.targeting.grain_index import BankIndex, GrainIndex
from saltlite.targeting.patterns import PATTERN_MAX
from saltlite.targeting.subdict import VALUE_MAX, Subdict
from saltlite.testing.banks import MemoryBanks, MemoryCache

# Few different ones, so that questions meet data; what is rare is in the second list of each.
KEYS = st.sampled_from(["a", "b", "1", 1, 0]) | st.sampled_from(["a", "a:b", "b:a", "0", "*", "", "Ä", "a.b", 7])
PLAIN = st.sampled_from(["a", "A", "b", True, 1, 1.0, float("nan")]) | st.sampled_from(
    ["a:b", "web-1", "Web-1", "İ", "i̇", "ß", "*", "1", "", "none", b"a", b"\xff", "x\ny", 0.0, -0.0, None, False, 0]
)
LONG = st.sampled_from(["a" * VALUE_MAX, "b" * (VALUE_MAX + 1)])
VALUES = (
    PLAIN
    | LONG
    | st.recursive(
        PLAIN, lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(KEYS, deeper, max_size=3), max_leaves=5
    )
)
DATA = st.dictionaries(KEYS, VALUES, max_size=3)
PIECES = st.sampled_from(["a", "b", "A", "*", "1", "0"]) | st.sampled_from(
    ["", "web-*", "web-1", "[ab]", "?", ".*", "a|b", "(", "true", "1.0", "0.0", "-0.0", "n", "i̇", "ß", "01", "7"]
)
QUERIES = st.builds(
    lambda pieces, delimiter, regex: DataQuery(delimiter.join(pieces), delimiter, regex),
    st.lists(PIECES, min_size=2, max_size=3) | st.lists(PIECES, min_size=1, max_size=5),
    st.just(":") | st.sampled_from([".", "::", "%"]),
    st.just(False) | st.booleans(),
)
NAMES = st.sampled_from([f"m{number}" for number in range(4)])
STEPS = st.lists(
    st.tuples(st.just("put"), NAMES, DATA) | st.tuples(st.just("delete"), NAMES) | st.tuples(st.just("ask"), QUERIES),
    max_size=12,
)


def reference(data: Mapping[str, Mapping[str, object]], query: DataQuery) -> set[str] | str:
    try:
        return {name for name, grains in data.items() if Subdict(query).match(grains)} if data else _checked(query)
    except UsageError as error:
        return str(error)


def _checked(query: DataQuery) -> set[str]:
    Subdict(query).match({})
    return set()


def asked(index: GrainIndex | BankIndex, query: DataQuery) -> set[str] | str:
    try:
        return set(index.select(query))
    except UsageError as error:
        return str(error)


@settings(max_examples=400, deadline=None)
@given(STEPS, st.lists(QUERIES, min_size=10, max_size=20), st.sampled_from([0, 20, 1_000_000]))
def test_the_index_says_what_the_reference_says(
    steps: list[tuple[object, ...]], last: list[DataQuery], room: int
) -> None:
    index, data = GrainIndex(), dict[str, Mapping[str, object]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "VIEWS_COST_MAX", room)
        patch.setattr(grain_index, "DENSE_FROM", 2)
        patch.setattr(grain_index, "INTERNED_MAX", 2)
        for step in steps:
            match step:
                case ("put", str(name), dict(grains)):
                    data[name] = grains
                    index.put(name, grains)
                case ("delete", str(name)):
                    data.pop(name, None)
                    index.delete(name)
            # Always the same questions: their views are kept up over all steps.
            for query in [*last, *(part for part in step if isinstance(part, DataQuery))]:
                assert asked(index, query) == reference(data, query)
        assert len(index) == len(data)
        assert all(name in index for name in data)


@settings(max_examples=100, deadline=None)
@given(STEPS, QUERIES)
def test_an_index_over_a_bank_says_at_any_time_what_is_in_it(steps: list[tuple[object, ...]], last: DataQuery) -> None:
    banks, data = MemoryBanks(MemoryCache(lambda: 0.0)), dict[str, Mapping[str, object]]()
    index = BankIndex(banks.bank("grains"))
    for step in [*steps, ("ask", last)]:
        match step:
            case ("put", str(name), dict(grains)):
                data[name] = grains
                banks.bank("grains").put(name, grains)
            case ("delete", str(name)):
                data.pop(name, None)
                banks.bank("grains").delete(name)
            case (_, DataQuery() as query):
                assert asked(index, query) == reference(data, query)


@settings(max_examples=100, deadline=None)
@given(st.lists(DATA, max_size=100), st.sampled_from(["a", "b:a", "b:*", "a:b", "7", "0:1"]))
def test_the_texts_of_a_path_are_those_whose_questions_hold(fleet: list[dict[str, object]], path: str) -> None:
    index = GrainIndex()
    for number, grains in enumerate(fleet):
        index.put(f"m{number}", grains)
    texts: dict[str, bool] = {}
    index.with_texts(path, lambda text: texts.setdefault(text, True), Budget())
    for text in texts:
        if 0 < len(text) < PATTERN_MAX // 2 and not set(text) & set("*?[:"):
            found = index.with_texts(path, text.__eq__, Budget())
            assert found <= index.select(DataQuery(f"{path}:{text}"))
