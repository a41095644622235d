"""Values that are no minion's, such as a runner's, in every format."""

from __future__ import annotations

import json
from ast import literal_eval
from typing import Any

import pytest
import yaml

from saltlite.cli.render.outputters import NAMES, Paint, render_alone

VALUES = [True, None, "text", ["web1", "web2"], {"up": ["web1"], "down": []}, [], {}]


@pytest.mark.parametrize("value", VALUES)
def test_formats_for_programs_give_the_value_back(value: Any) -> None:
    assert json.loads(render_alone("json", value)) == value
    assert yaml.safe_load(render_alone("yaml", value)) == value
    assert literal_eval(render_alone("raw", value)) == value


@pytest.mark.parametrize("name", NAMES)
def test_every_outputter_ends_its_text_with_a_newline(name: str) -> None:
    text = render_alone(name, {"up": ["web1"]})
    assert text == "" if name == "quiet" else text.endswith("\n")


def test_nested_has_the_keys_of_a_map_at_the_margin_and_items_as_in_a_return() -> None:
    assert render_alone("nested", {"up": ["web1"], "down": "none"}) == "down:\n    none\nup:\n    - web1\n"
    assert render_alone("nested", ["web1", "web2"]) == "- web1\n- web2\n"
    assert render_alone("nested", "x") == "x\n"


def test_nested_has_colours_where_they_are_wanted() -> None:
    assert "\x1b[36m" in render_alone("nested", {"up": 1}, Paint(colors=True))


def test_txt_has_an_item_a_line() -> None:
    assert render_alone("txt", ["web1", "web2"]) == "web1\nweb2\n"
    assert render_alone("txt", {"web1": True}) == "web1: True\n"
    assert render_alone("txt", "a\nb") == "a\nb\n"


def test_control_characters_do_not_reach_a_terminal() -> None:
    for name in ("nested", "txt"):
        assert "\x1b" not in render_alone(name, ["\x1b[2J"])
