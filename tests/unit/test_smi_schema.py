"""What a function returns at least, and whether a value has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from saltlite.interfaces.smi.schema import ENTRIES_MAX, MISMATCHES_MAX, mismatches_of, schema_of, schema_of_example


class Change(TypedDict):
    old: str
    new: str


class Partly(TypedDict, total=False):
    old: str


@dataclass
class Row:
    name: str
    uid: int


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (str, "x"),
        (int, 5),
        (float, 5),
        (bool, True),
        (None, None),
        (Any, object()),
        (object, 5),
        (list, [1, "x"]),
        (list[str], ("a", "b")),
        (dict, {1: 2}),
        (dict[str, str], {"a": "b"}),
        (dict[str, Any], {"a": object()}),
        (dict[str, Change], {"vim": {"old": "", "new": "9", "more": 1}}),
        (Partly, {}),
        (Row, {"name": "x", "uid": 0, "shell": "/bin/sh"}),
        (str | dict[str, str], {"a": "b"}),
        (bool | None, None),
        ({"name": str, "groups": [str]}, {"name": "x", "groups": ["a"], "extra": 1}),
        ({"uid": (int, None)}, {"uid": None}),
        ([str], ["a"]),
        ([], [1]),
    ],
)
def test_a_value_with_the_minimal_data_fits_whatever_else_it_has(wanted: Any, value: Any) -> None:
    assert mismatches_of(schema_of(wanted), value) == []


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        (str, None, "None where str is promised"),
        (int, True, "bool where int is promised"),
        (bool, 1, "int where bool is promised"),
        (None, 0, "int where None is promised"),
        (list[str], "x", "str where list[str] is promised"),
        (list[str], ["a", 5], "int at [1] where str is promised"),
        (dict[str, str], {"a": "b", "c": 1}, "int at c where str is promised"),
        (dict[str, str], {1: "b"}, "int at the key 1 where str is promised"),
        (dict[str, Change], {"vim": {"old": ""}}, "nothing at vim.new where str is promised"),
        (Row, {"name": "x", "uid": "0"}, "str at uid where int is promised"),
        (Row, ["x"], "list where {name: str, uid: int} is promised"),
        (Partly, {"old": 1}, "int at old where str is promised"),
        (bool | dict[str, bool], "x", "str where bool | dict[str, bool] is promised"),
        (bool | dict[str, bool], {"a": "x"}, "str at a where bool is promised"),
        ({"name": str}, {}, "nothing at name where str is promised"),
    ],
)
def test_what_is_missing_or_of_another_kind_is_told_with_its_place(wanted: Any, value: Any, expected: str) -> None:
    assert [one.text() for one in mismatches_of(schema_of(wanted), value)] == [expected]


def test_only_the_first_entries_of_a_large_value_are_looked_at() -> None:
    schema = schema_of(dict[str, str])
    good = {str(number): "x" for number in range(ENTRIES_MAX)}
    assert not mismatches_of(schema, {**good, "late": 5})
    assert mismatches_of(schema_of(list[str]), [5, *good]) != []
    assert not mismatches_of(schema_of(list[str]), [*good, 5])


def test_no_more_than_so_many_mismatches_are_told() -> None:
    assert len(mismatches_of(schema_of(list[str]), [1] * ENTRIES_MAX)) == MISMATCHES_MAX


def test_filling_adds_minimal_keys_from_the_default_and_leaves_the_rest() -> None:
    schema = schema_of({"name": str, "groups": [str]})
    assert schema.filled({"name": "x", "more": 1}, {"name": "", "groups": []}) == {"name": "x", "more": 1, "groups": []}


def test_filling_goes_into_the_entries_of_a_dict_by_the_sample_of_the_default() -> None:
    schema = schema_of(dict[str, Change])
    filled = schema.filled({"vim": {"new": "9"}}, {"sample": {"old": "", "new": ""}})
    assert filled == {"vim": {"new": "9", "old": ""}}


@pytest.mark.parametrize(
    ("wanted", "empty"),
    [
        (str, ""),
        (int, 0),
        (bool, False),
        ([str], []),
        (dict, {}),
        ((str, None), None),
        ((bool, str), False),
        (Any, None),
    ],
)
def test_a_key_of_which_the_default_structure_says_nothing_is_filled_with_an_empty_value(
    wanted: Any, empty: Any
) -> None:
    assert schema_of({"key": wanted}).filled({}, {}) == {"key": empty}


def test_filling_a_value_of_another_kind_leaves_it_as_it_is() -> None:
    assert schema_of({"name": str}).filled("text", {"name": ""}) == "text"


def test_filling_one_of_several_kinds_takes_the_one_that_then_fits() -> None:
    schema = schema_of(bool | dict[str, Change] | Change)
    assert schema.filled({"old": "1"}, {"old": "", "new": ""}) == {"old": "1", "new": ""}


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ({}, "dict"),
        ([], "list"),
        (["x"], "list[str]"),
        (
            {"name": "", "uid": 0, "groups": [], "more": {}, "free": None},
            "{name: str, uid: int, groups: list, more: dict, free: any}",
        ),
        (True, "bool"),
        (1.5, "float"),
        (None, "any"),
        (object(), "any"),
    ],
)
def test_a_structure_is_an_example_of_itself(example: Any, text: str) -> None:
    schema = schema_of_example(example)
    assert schema.text() == text
    assert schema.fits(example)
