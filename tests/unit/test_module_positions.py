"""A call of Salt's that gives arguments by position means the same here, and so does one that leaves them out."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from saltlite.client.arguments import parse_arguments
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

SALT = json.loads((Path(__file__).parents[1] / "data" / "salt_positions.json").read_text(encoding="utf-8"))
"""Module -> function -> its parameters in Salt 3008, in order: a name, or a name and its default; `*` for more."""

FUNCTIONS = [f"{module}.{function}" for module, functions in SALT.items() for function in functions]

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

INDEX = build_index(search_layers({}))

_LOADER = Loader(INDEX, {}, {"os": "Debian", "kernel": "Linux"}, {})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_stand_where_salt_has_them(name: str) -> None:
    module, _, function = name.partition(".")
    here = list(inspect.signature(_LOADER[name]).parameters.values())
    found = [one for one in here if one.kind in POSITIONAL]
    for place, (parameter, *default) in enumerate(SALT[module][function]):
        if parameter == "*":
            assert any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in here)
            continue
        assert found[place].name == parameter, f"argument {place + 1} of {name}"
        # A default where Salt has none takes nothing away from a caller.
        if default:
            assert (found[place].default, type(found[place].default)) == (default[0], type(default[0])), parameter


TEXTS = {
    "environ.setval": ("foo", "1.50"),
    "file.append": ("/a", "1.50", "0x10"),
    "file.blockreplace": ("/a", "1.50", "2.50", "3.50"),
    "file.comment": ("/a", "1.50", "2.50"),
    "file.contains": ("/a", "1.50"),
    "file.grep": ("/a", "1.50", "2.50"),
    "file.line": ("/a", "1.50", "2.50"),
    "file.prepend": ("/a", "1.50"),
    "file.psed": ("/a", "1.50", "2.50", "3.50"),
    "file.replace": ("/a", "1.50", "2.50"),
    "file.sed": ("/a", "1.50", "2.50", "3.50"),
    "file.seek_write": ("/a", "1.50"),
    "file.write": ("/a", "1.50", "true"),
    "hosts.add_host": ("192.0.2.1", "1.50"),
    "mount.mount": ("/a", "1.50"),
    "sysctl.assign": ("a.b", "1.50"),
    "sysctl.persist": ("a.b", "1.50"),
}
"""Function -> words that a person types for texts."""


@pytest.mark.parametrize("function", TEXTS)
def test_a_text_that_a_person_types_arrives_as_it_stands(function: str) -> None:
    texts = [text for text in INDEX.function_texts({}) if text.startswith(f"{function}(")]
    assert texts
    assert parse_arguments(list(TEXTS[function]), texts) == (list(TEXTS[function]), {})
