"""Values that are no minion's, such as a runner's, in every format."""

from __future__ import annotations

import json
from ast import literal_eval
from typing import Any

import pytest
import yaml

from saltlite.cli.output import SHIPPED, OutputStyle, render

VALUES = [True, None, "text", ["web1", "web2"], {"up": ["web1"], "down": []}, [], {}]


@pytest.mark.parametrize("value", VALUES)
def test_formats_for_programs_give_the_value_back(value: Any) -> None:
    assert json.loads(render("json", value)) == value
    assert yaml.safe_load(render("yaml", value)) == value
    assert literal_eval(render("raw", value)) == value


@pytest.mark.parametrize("name", SHIPPED)
def test_every_outputter_ends_its_text_with_a_newline(name: str) -> None:
    text = render(name, {"up": ["web1"]})
    assert text == "" if name == "quiet" else text.endswith("\n")


def test_nested_has_the_keys_of_a_map_at_the_margin_and_items_as_in_a_return() -> None:
    assert render("nested", {"up": ["web1"], "down": "none"}) == "down:\n    none\nup:\n    - web1\n"
    assert render("nested", ["web1", "web2"]) == "- web1\n- web2\n"
    assert render("nested", "x") == "x\n"


def test_nested_has_colours_where_they_are_wanted() -> None:
    assert "\x1b[36m" in render("nested", {"up": 1}, OutputStyle(color=True))


def test_txt_has_an_item_a_line() -> None:
    assert render("txt", ["web1", "web2"]) == "web1\nweb2\n"
    assert render("txt", {"web1": True}) == "web1: True\n"
    assert render("txt", "a\nb") == "a\nb\n"


def test_control_characters_do_not_reach_a_terminal() -> None:
    for name in ("nested", "txt"):
        assert "\x1b" not in render(name, ["\x1b[2J"])
