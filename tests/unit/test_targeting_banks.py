"""How much is in a value before it is put into a bank."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import UsageError
from saltlite.targeting.banks import GRAINS_MAX, VALUE_DEPTH_MAX, encoded, leaves_of


@pytest.mark.parametrize(
    ("content", "leaves"),
    [
        ({}, 1),
        ({"a": 1, "b": None}, 2),
        ({"a": []}, 1),
        ({"a": {}, "b": ["x", "y", {"c": [1, 2], 5: 3}]}, 6),
        ({"a": [[], [{}]]}, 2),
    ],
)
def test_plain_values_and_empty_maps_and_lists_are_counted(content: dict[str, Any], leaves: int) -> None:
    assert leaves_of(content) == leaves


@pytest.mark.parametrize("inmost", [1, [], {}, [1], {"a": 1}])
@pytest.mark.parametrize("levels", range(VALUE_DEPTH_MAX - 3, VALUE_DEPTH_MAX + 2))
def test_what_is_counted_can_be_put_into_a_bank_and_nothing_else_can(inmost: object, levels: int) -> None:
    value = inmost
    for _ in range(levels):
        value = [value]
    assert accepted(leaves_of, {"a": value}) == accepted(lambda content: encoded(content, GRAINS_MAX), {"a": value})


def accepted(check: Any, content: dict[str, Any]) -> bool:
    try:
        check(content)
    except UsageError:
        return False
    return True
