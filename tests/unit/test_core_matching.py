"""Which minions a target means."""

from __future__ import annotations

import pytest

from saltlite.core.matching import resolve
from saltlite.errors import UsageError
from saltlite.model.ids import MinionId
from saltlite.model.target import Target, TargetKind

IDS = [MinionId(name) for name in ("db1", "web1", "web10", "web2", "web2.example.com")]


def selected(expression: str, kind: TargetKind = TargetKind.GLOB) -> list[str]:
    return list(resolve(Target(expression, kind), IDS))


@pytest.mark.parametrize(
    ("expression", "ids"),
    [
        ("*", IDS),
        ("web1", ["web1"]),
        ("web?", ["web1", "web2"]),
        ("web*", ["web1", "web10", "web2", "web2.example.com"]),
        ("*.example.com", ["web2.example.com"]),
        ("[dw]*1", ["db1", "web1"]),
        ("web[!2]*", ["web1", "web10"]),
        ("WEB1", []),
        ("web", []),
        ("", []),
    ],
)
def test_glob(expression: str, ids: list[str]) -> None:
    assert selected(expression) == ids


@pytest.mark.parametrize(
    ("expression", "ids"),
    [
        ("web2,db1", ["db1", "web2"]),
        ("web2 db1\tweb2,,", ["db1", "web2"]),
        ("nobody,web1", ["web1"]),
        ("web*", []),
        ("", []),
    ],
)
def test_list(expression: str, ids: list[str]) -> None:
    assert selected(expression, TargetKind.LIST) == ids


@pytest.mark.parametrize(
    ("expression", "ids"),
    [
        ("web1", ["web1", "web10"]),
        ("web1$", ["web1"]),
        ("(db|web)1$", ["db1", "web1"]),
        (".*example", ["web2.example.com"]),
        ("eb1", []),
        ("", IDS),
    ],
)
def test_a_regular_expression_matches_from_the_start(expression: str, ids: list[str]) -> None:
    assert selected(expression, TargetKind.PCRE) == ids


def test_a_broken_regular_expression_is_a_usage_error_that_says_where() -> None:
    with pytest.raises(UsageError, match=r"'web\(' is not a regular expression: .* at position 3"):
        selected("web(", TargetKind.PCRE)


@pytest.mark.parametrize("expression", ["a{99999999999999999999}", "(" * 20_000 + ")" * 20_000])
def test_a_monstrous_regular_expression_is_a_usage_error_too(expression: str) -> None:
    with pytest.raises(UsageError, match="too large"):
        selected(expression, TargetKind.PCRE)


def test_an_id_that_is_given_twice_is_selected_once() -> None:
    assert resolve(Target("*"), [MinionId("b"), MinionId("a"), MinionId("b")]) == ["a", "b"]
