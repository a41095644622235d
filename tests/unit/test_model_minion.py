"""Natural order of ids and versions."""

from __future__ import annotations

import pytest

from saltlite.model.minion import natural


@pytest.mark.parametrize(
    "ordered",
    [
        ["web1", "web2", "web10", "web010b", "web11"],
        ["0.9.9", "0.10.0", "0.10.1"],
        ["", "7", "12", "a"],
        ["a" + "9" * 5000, "a1" + "0" * 5000],
        ["²", "ⅷ"],
    ],
)
def test_numbers_in_names_are_sorted_by_their_value(ordered: list[str]) -> None:
    for turned in (ordered, ordered[::-1]):
        assert sorted(turned, key=natural) == ordered
