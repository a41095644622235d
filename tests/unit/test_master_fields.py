"""Every field of every verb has a type and a range: a wrong value is the caller's error, and the sentence names it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from saltlite.errors import UsageError
from saltlite.master.handlers.fields import (
    INTEGER_MAX,
    LIST_MAX,
    TEXT_MAX,
    TOKEN,
    BooleanField,
    BytesField,
    CallField,
    Field,
    IntegerField,
    ListField,
    MapField,
    Names,
    NamesOrText,
    NumberField,
    OpaqueField,
    TextField,
)
from saltlite.master.handlers.operator_verbs import VERBS
from tests.support.master import MasterRig
from tests.unit.test_master_denied import GOOD, WITH_EVENT_DATA

NESTED: Any = []
for _ in range(5000):
    NESTED = [NESTED]

ANYTHING: dict[str, Any] = {
    "none": None,
    "a flag": True,
    "an integer": 7,
    "an integer that no store holds": 2**63,
    "the largest that travels": 2**64 - 1,
    "a negative integer": -(2**63) - 1,
    "a number": 0.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "bytes": b"\xff",
    "text with a NUL": "a\0b",
    "a surrogate": "\udcff",
    "a long text": "x" * (TEXT_MAX + 1),
    "a list": [],
    "a list of numbers": [1],
    "a list in a list": [["x"]],
    "nested": NESTED,
    "a map": {},
    "a map of numbers": {1: 2},
    "a map with a surrogate": {"\udcff": 1},
    "many": [""] * (LIST_MAX + 1),
}

RIGHT: dict[type, set[str]] = {
    TextField: set(),
    OpaqueField: {"text with a NUL", "a surrogate"},
    IntegerField: {"an integer"},
    NumberField: {"an integer", "a number"},
    BooleanField: {"a flag"},
    BytesField: {"bytes"},
    ListField: {"a list"},
    MapField: {"a map"},
}
"""What is no wrong value for a field of that kind, before its range is looked at."""


def _right(kind: Field) -> set[str]:
    if kind is NamesOrText:
        return {"a list"}
    if isinstance(kind, ListField) and kind.item is None:
        return {"a list", "a list of numbers", "a list in a list", "nested"}
    if isinstance(kind, NumberField):
        # What is no moment is a large number that is one still, where the range says so.
        return RIGHT[NumberField] | {name for name, value in ANYTHING.items() if _within(kind, value)}
    if isinstance(kind, IntegerField) and kind.least < 0:
        return {"an integer"}
    return RIGHT.get(type(kind), set())


def _within(kind: NumberField, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and kind.least <= value <= kind.most


def _cases() -> Iterator[Any]:
    for verb, row in VERBS.items():
        for field, kind in {**row.needs, **row.takes, "token": TOKEN}.items():
            for name in ANYTHING.keys() - _right(kind):
                yield pytest.param(verb, field, name, id=f"{verb}-{field}-{name}")


def test_each_field_refuses_each_wrong_value_with_its_name() -> None:
    rig = MasterRig("web1")
    count = 0
    for case in _cases():
        verb, field, name = case.values
        needed = {other: _good(verb, other) for other in VERBS[verb].needs}
        with pytest.raises(UsageError, match=f"the field {field} of {verb} is wrong: ") as caught:
            rig.ask(verb, **{**needed, field: ANYTHING[name]})
        assert caught.value.exit_code == 2
        assert len(str(caught.value)) < 400, "a wrong value is not repeated as a whole"
        count += 1
    assert count > 1500


def _good(verb: str, field: str) -> Any:
    more: dict[str, Any] = {"tgt_type": "glob", "tgt": "*", "user": "root", "backend": "pam", "args": [], "kwargs": {}}
    more |= {"username": "x", "password": "x", "target": "web1"}
    if verb in ("follow", "events"):
        more["after"] = 0
    elif verb in WITH_EVENT_DATA:
        more["data"] = {}
    return {**GOOD, **more}[field]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TextField(3), "äöü"),
        (IntegerField(), INTEGER_MAX),
        (NumberField(), 1e9),
        (BooleanField(), False),
        (BytesField(2), b"ab"),
        (Names, ["web1", "ä"]),
        (NamesOrText, "a,b"),
        (MapField(), {"ä": {1: 2}}),
        (CallField(), ["test.ping", [1, {2: 3}], {"name": None}]),
    ],
)
def test_right_values_are_taken(kind: Field, value: object) -> None:
    assert kind.problem(value) == ""


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (TextField(3), "abcd", "it may have 3 characters, not 4"),
        (BytesField(2), b"abc", "it may have 2 bytes, not 3"),
        (ListField(TextField(), 1), ["a", "b"], "it may have 1 items, not 2"),
        (Names, ["a", 2], "item 2 of it is wrong: it must be text"),
        (MapField(1), {"a": 1, "b": 2}, "it may have 1 keys, not 2"),
        (MapField(), {7: 1}, "its key 7 must be text"),
        (CallField(), ["test.ping", [], {7: 1}], "keyword arguments: its key 7 must be text"),
        (IntegerField(1, 9), 10, "it must be a whole number from 1 to 9"),
        (NamesOrText, {}, "it must be text or it must be a list"),
    ],
)
def test_the_sentence_says_what_it_has_to_be(kind: Field, value: object, sentence: str) -> None:
    assert kind.problem(value) == sentence
