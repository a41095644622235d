"""The module `pillar`: what jobs ask of the pillar that they were given."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

INDEX = build_index(search_layers({}))
PILLAR: dict[str, Any] = {
    "port": 80,
    "users": {"ann": {"uid": 1}, "bob": {"uid": 2}},
    "list": ["a", {"b": 1}],
    "by_port": {443: "https"},
    "with:colon": True,
    "empty": None,
}


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, PILLAR), fun, args, kwargs)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("port", 80),
        ("users:bob:uid", 2),
        ("list:1:b", 1),
        ("list:b", 1),
        ("by_port:443", "https"),
        ("with:colon", True),
        ("empty", None),
        ("users:eve", ""),
        ("port:80", ""),
        ("list:7", ""),
    ],
)
def test_a_value_is_found_by_its_path(key: str, value: Any) -> None:
    assert run("pillar.get", key).value == value


def test_another_default_and_delimiter_may_be_given() -> None:
    assert run("pillar.get", "users/ann/uid", delimiter="/").value == 1
    assert run("pillar.get", "gone", default="x").value == "x"


def test_a_missing_key_is_an_error_where_the_minion_says_so_and_no_default_is_given() -> None:
    loader = Loader(INDEX, {"pillar_raise_on_missing": True}, {}, PILLAR)
    failed = call(loader, "pillar.get", ["gone"], {})
    assert (failed.retcode, failed.value) == (1, "ERROR: Pillar key not found: gone")
    with pytest.raises(KeyError):
        loader["pillar.get"]("gone")
    assert call(loader, "pillar.get", ["gone", ""], {}).value == ""
    assert call(loader, "pillar.get", ["port"], {}).value == 80
    assert call(loader, "pillar.item", ["gone"], {}).value == {"gone": ""}


def test_a_default_is_completed_by_the_pillar() -> None:
    assert run("pillar.get", "users", {"ann": {"gid": 9}, "eve": {}}, merge=True).value == {
        "ann": {"gid": 9, "uid": 1},
        "eve": {},
        "bob": {"uid": 2},
    }
    assert run("pillar.get", "list", [0], merge=True).value == [0, "a", {"b": 1}]
    assert run("pillar.get", "gone", {"a": 1}, merge=True).value == {"a": 1}


def test_the_whole_pillar_is_shown() -> None:
    assert run("pillar.items").value == PILLAR
    assert run("pillar.raw").value == PILLAR


def test_one_key_is_shown_as_it_is() -> None:
    assert run("pillar.raw", key="list").value == ["a", {"b": 1}]
    assert run("pillar.raw", "gone").value == {}
    assert run("pillar.item", "port", "users:ann", "gone", default="-").value == {
        "port": 80,
        "users:ann": {"uid": 1},
        "gone": "-",
    }


def test_keys_are_listed_without_values() -> None:
    assert run("pillar.ls").value == sorted(PILLAR)
    assert run("pillar.keys", "users").value == ["ann", "bob"]


@pytest.mark.parametrize(("key", "sentence"), [("gone", "has no 'gone'"), ("port", "is not a map")])
def test_what_has_no_keys_is_said_to_have_none(key: str, sentence: str) -> None:
    outcome = run("pillar.keys", key)
    assert outcome.retcode != 0
    assert sentence in str(outcome.value)


def test_the_pillar_has_the_names_that_salt_gives_it_too() -> None:
    assert (run("pillar.data").value, run("pillar.fetch", "users:bob:uid").value) == (PILLAR, 2)


def test_an_obfuscated_pillar_shows_types_and_no_value() -> None:
    assert run("pillar.obfuscate").value == {
        "port": "<int>",
        "users": {"ann": {"uid": "<int>"}, "bob": {"uid": "<int>"}},
        "list": ["<str>", {"b": "<int>"}],
        "by_port": {443: "<str>"},
        "with:colon": "<bool>",
        "empty": "<NoneType>",
    }


def test_lists_inside_of_maps_are_joined_where_that_is_wanted() -> None:
    default = {"list": [0], "n": 1}
    pillar = {"deep": {"list": ["a"]}}

    def got(**how: Any) -> Any:
        return call(Loader(INDEX, {}, {}, pillar), "pillar.get", ["deep", default], {"merge": True, **how}).value

    assert got() == {"list": ["a"], "n": 1}
    assert got(merge_nested_lists=True) == {"list": [0, "a"], "n": 1}
    assert (default, pillar) == ({"list": [0], "n": 1}, {"deep": {"list": ["a"]}})


def test_keys_may_be_named_where_all_of_the_pillar_would_be_shown() -> None:
    assert run("pillar.items", "port", "users:bob").value == {"port": 80, "users:bob": {"uid": 2}}
    assert run("pillar.data", "port").value == {"port": 80}
    assert run("pillar.obfuscate", "port", "users:bob").value == {"port": "<int>", "users:bob": {"uid": "<int>"}}


MASK = "**********"


@pytest.mark.parametrize(
    ("fun", "args", "masked"),
    [
        ("pillar.get", ["users:bob"], {"uid": MASK}),
        ("pillar.get", ["list"], [MASK, {"b": MASK}]),
        ("pillar.get", ["gone"], ""),
        ("pillar.fetch", ["port"], MASK),
        ("pillar.item", ["port", "empty"], {"port": MASK, "empty": None}),
        ("pillar.items", ["port"], {"port": MASK}),
        ("pillar.data", ["port"], {"port": MASK}),
        ("pillar.raw", ["by_port"], {443: MASK}),
    ],
)
def test_values_are_masked_for_who_wants_that_and_shown_otherwise(fun: str, args: list[str], masked: Any) -> None:
    assert run(fun, *args, unmask=False).value == masked
    assert run(fun, *args, unmask=True).value == run(fun, *args).value != MASK


@pytest.mark.parametrize(
    ("lookup", "key", "how", "value"),
    [
        ({"web": "a", "default": "b"}, "role", {}, "a"),
        ({"w*": "a"}, "role", {}, "a"),
        ({"web": "a", "default": "b"}, "gone", {}, "b"),
        ({"db": 1, "x": 2}, "roles", {}, 1),
        ({"x": 2}, "role", {}, None),
        (
            {"web": {"a": 1}, "base": {"a": 0, "b": 0}},
            "role",
            {"base": "base", "merge": {"c": 3}},
            {"a": 1, "b": 0, "c": 3},
        ),
        ({"other": "a"}, "role", {"default": "other"}, "a"),
    ],
)
def test_one_of_several_values_is_chosen_by_the_pillar(lookup: Any, key: str, how: dict[str, Any], value: Any) -> None:
    pillar = {"role": "web", "roles": ["cache", "db"]}
    assert call(Loader(INDEX, {}, {}, pillar), "pillar.filter_by", [lookup, key], how).value == value


# -- a pillar that could not be compiled as a whole

BROKEN = {**PILLAR, "_errors": ["Rendering SLS 'a' failed: a.sls:1: why", "b"]}


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        ("pillar.items", []), ("pillar.raw", []), ("pillar.ls", []), ("pillar.get", ["gone"]), ("pillar.raw", ["gone"]),
        ("pillar.item", ["port", "gone"]),
    ],
)  # fmt: skip
def test_what_may_be_missing_because_a_file_failed_is_no_success(fun: str, args: list[str]) -> None:
    outcome = call(Loader(INDEX, {}, {}, BROKEN), fun, args, {})
    assert outcome.retcode == 5
    assert outcome.warnings == ("The pillar is incomplete: Rendering SLS 'a' failed: a.sls:1: why (and 1 more)",)
    assert call(Loader(INDEX, {}, {}, PILLAR), fun, args, {}).retcode == 0


def test_a_value_that_is_there_is_returned_whatever_else_failed() -> None:
    outcome = call(Loader(INDEX, {}, {}, BROKEN), "pillar.get", ["port"], {})
    assert (outcome.value, outcome.retcode, list(outcome.warnings)) == (80, 0, [])
