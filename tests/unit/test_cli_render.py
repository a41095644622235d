"""What the outputters promise to programs and to terminals; how they look is in tests/golden/cli."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
import yaml

from saltlite.cli.render.outputters import NAMES, Paint, render

RETURNS: dict[str, Any] = {
    "web2": {"b": [1, [2, {"x": None}]], "a": "two\nlines", 3: b"\x00\xff"},
    "web1": "caf\u00e9 \U0001f600",
}


@pytest.mark.parametrize("out", [name for name in NAMES if name != "json"])
def test_minions_one_by_one_give_the_same_text_as_all_at_once(out: str) -> None:
    assert "".join(render(out, {minion: RETURNS[minion]}) for minion in sorted(RETURNS)) == render(out, RETURNS)


@pytest.mark.parametrize("out", [name for name in NAMES if name != "json"])
def test_no_returns_give_no_text(out: str) -> None:
    assert render(out, {}) == ""


def test_json_is_one_object_with_sorted_keys_and_bytes_marked() -> None:
    text = render("json", RETURNS)
    assert json.loads(text)["web2"] == {
        "3": {"$bytes": "AP8="},
        "a": "two\nlines",
        "b": [1, [2, {"x": None}]],
    }
    assert text.index("web1") < text.index("web2")
    assert "caf\u00e9" in text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {None: 1, True: 2, b"k": 3, 1.5: 4}])
def test_json_stays_valid_for_values_that_json_does_not_have(value: object) -> None:
    def refuse(name: str) -> object:
        raise AssertionError(name)

    assert json.loads(render("json", {"web1": value}), parse_constant=refuse)


def test_yaml_reads_back() -> None:
    shared = ["same"]
    returns = {**RETURNS, "web3": {"x": shared, "y": shared}}
    assert yaml.safe_load(render("yaml", returns)) == returns


def test_raw_reads_back_line_by_line() -> None:
    lines = render("raw", RETURNS).splitlines()
    assert [ast.literal_eval(line) for line in lines] == [
        {"web1": RETURNS["web1"]},
        {"web2": RETURNS["web2"]},
    ]


@pytest.mark.parametrize("out", ["nested", "txt", "yaml", "json", "raw"])
def test_a_return_cannot_send_escape_sequences_to_a_terminal(out: str) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\x08"
    text = render(out, {"web1": {evil: [evil], "plain": evil}, "web2": evil})
    assert not set(text) & {chr(code) for code in (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0))}


def test_a_failed_minion_has_a_red_name_and_a_good_one_does_not() -> None:
    text = render("nested", {"good": 1, "bad": 2}, Paint(colors=True, red_ids=frozenset({"bad"})))
    assert "\x1b[31mbad\x1b[0m:" in text
    assert "\x1b[36mgood\x1b[0m:" in text


def test_without_colors_nested_has_no_escape_sequences() -> None:
    assert "\x1b" not in render("nested", RETURNS, Paint(colors=False, red_ids=frozenset({"web1"})))
