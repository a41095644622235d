"""Differences between what an interface and a provider take, and calls that are put into the provider's words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from saltlite.decorators import collecting
from saltlite.errors import InterfaceArgumentError, InterfaceNotImplemented
from saltlite.interfaces import Interface
from saltlite.interfaces.smi.contract import REFUSING, DeclaredFunction, DifferenceLevel, adapted, compare, uniform

DETAILS = {"status": "not_implemented"}


def function(parameters: str) -> Callable[..., Any]:
    """A function with these parameters that returns all that it was given."""
    space: dict[str, Any] = {}
    exec(f"def f({parameters}):\n    return dict(locals())", space)  # noqa: S102 - a signature from a table
    found: Callable[..., Any] = space["f"]
    return found


def differences(interface: str, provider: str) -> list[tuple[str, str, str]]:
    found = compare(inspect.signature(function(interface)), inspect.signature(function(provider)))
    return [(str(one.level), one.kind, one.parameter) for one in found]


@pytest.mark.parametrize(
    ("interface", "provider", "expected"),
    [
        ("name, *args, **kwargs", "name, *args, **kwargs", []),
        ("name", "name, __pub_jid=None", []),
        ("name", "name, root=None", [("ok", "extra", "root")]),
        ("name", "name, **kwargs", [("ok", "extra", "*")]),
        ("*, name=None", "name=None", []),
        ("name, *, pkgs=None", "name, fromrepo=None, pkgs=None", [("ok", "extra", "fromrepo")]),
        ("name, refresh=False", "name", [("error", "missing", "refresh")]),
        ("name, refresh=False", "name, **kwargs", [("warning", "swallowed", "refresh"), ("ok", "extra", "*")]),
        ("name, **kwargs", "pkg, **kwargs", [("warning", "renamed", "name")]),
        ("name, username", "group, name", [("warning", "renamed", "name"), ("warning", "renamed", "username")]),
        ("group, name", "name, username", [("warning", "renamed", "group"), ("warning", "renamed", "name")]),
        ("a, b", "b, a", [("error", "moved", "a"), ("error", "moved", "b")]),
        ("a, refresh=False", "refresh=False", [("error", "missing", "a"), ("error", "moved", "refresh")]),
        ("refresh=True", "refresh=False", [("warning", "default_differs", "refresh")]),
        ("name, purge=False", "name, remove=False", [("error", "missing", "purge"), ("ok", "extra", "remove")]),
        ("name=None", "name", [("error", "required", "name")]),
        ("name", "name, other", [("error", "required", "other")]),
        ("*names", "name", [("error", "required", "name"), ("error", "no_varargs", "*")]),
        ("*names", "name=None", [("ok", "extra", "name"), ("error", "no_varargs", "*")]),
        ("name, **kwargs", "name", [("warning", "fewer_keywords", "**")]),
        ("name: str", "name: int", [("warning", "type_differs", "name")]),
        ("name: str", "name: 'str | None'", []),
        ("name: 'list[str] | None'", "name: 'dict[str, str]'", [("warning", "type_differs", "name")]),
        ("name: str", "name: 'Something'", []),
    ],
)
def test_each_difference_has_its_name_and_level(
    interface: str, provider: str, expected: list[tuple[str, str, str]]
) -> None:
    assert differences(interface, provider) == expected


def enforced(interface: str, provider: str) -> Callable[..., Any]:
    signature = inspect.signature(function(interface))
    return adapted(function(provider), signature, "'pkg.f': file", DETAILS)


def test_the_same_signature_is_handed_out_as_it_is() -> None:
    provider = function("name, root=None")
    assert adapted(provider, inspect.signature(function("name")), "'pkg.f': file", DETAILS) is provider


@pytest.mark.parametrize(
    ("interface", "provider", "args", "kwargs", "expected"),
    [
        ("name", "pkg", (), {"name": "vim"}, {"pkg": "vim"}),
        ("name", "pkg", ("vim",), {}, {"pkg": "vim"}),
        ("name, username", "group, name", ("g",), {"username": "u"}, {"group": "g", "name": "u"}),
        ("a, b", "b, a", (1, 2), {}, {"a": 1, "b": 2}),
        ("refresh=True", "refresh=False", (), {}, {"refresh": True}),
        ("refresh=True", "refresh=False", (), {"refresh": 5}, {"refresh": 5}),
        ("name=None", "name", (), {}, {"name": None}),
        ("name, refresh=False", "name", ("vim",), {"refresh": False}, {"name": "vim"}),
        (
            "name, *, pkgs=None",
            "pkg, root=None, pkgs=None",
            ("v",),
            {"root": "/r"},
            {"pkg": "v", "root": "/r", "pkgs": None},
        ),
        ("refresh=True, *names", "refresh=False, *names", (1, 2, 3), {}, {"refresh": 1, "names": (2, 3)}),
        ("name, **kwargs", "pkg, **kwargs", ("v",), {"x": 1}, {"pkg": "v", "kwargs": {"x": 1}}),
        ("name", "pkg, other", ("v",), {"other": 1}, {"pkg": "v", "other": 1}),
        ("name", "pkg, **kwargs", ("v",), {"__pub_jid": "1"}, {"pkg": "v", "kwargs": {"__pub_jid": "1"}}),
    ],
)
def test_a_call_of_the_interface_reaches_the_provider_in_its_words(
    interface: str, provider: str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert enforced(interface, provider)(*args, **kwargs) == expected


def test_a_value_that_the_provider_has_no_place_for_is_refused_with_its_name() -> None:
    with pytest.raises(InterfaceArgumentError, match=r"^'pkg\.f': file does not take refresh; omit it"):
        enforced("name, refresh=False", "name")("vim", refresh=True)


def test_a_value_that_would_only_be_swallowed_is_dropped_and_the_caller_told() -> None:
    with collecting() as notes:
        assert enforced("name, refresh=False", "name, **kwargs")("vim", refresh=True) == {"name": "vim", "kwargs": {}}
    assert list(notes) == ["'pkg.f': file ignores refresh, which was not passed on."]


def test_more_arguments_than_the_provider_has_places_are_refused() -> None:
    with pytest.raises(InterfaceArgumentError, match="does not take so many arguments"):
        enforced("*names", "name=None")("a", "b")


def test_a_parameter_that_only_the_provider_needs_makes_the_function_not_implemented() -> None:
    with pytest.raises(InterfaceNotImplemented, match="needs other, which the interface does not have"):
        enforced("name", "name, other")("vim")


def test_what_an_enforced_function_takes_is_the_interface_and_the_rest_of_the_provider_by_keyword() -> None:
    shown = str(inspect.signature(enforced("name, test=True, *, pkgs=None", "pkg, fromrepo=None, **kwargs")))
    assert shown == "(name, test=True, *, pkgs=None, fromrepo=None, **kwargs)"


def test_only_differences_that_break_a_call_are_errors() -> None:
    found = compare(inspect.signature(function("name=1, *rest")), inspect.signature(function("other")))
    assert {one.kind for one in found if one.level is DifferenceLevel.ERROR} == {"required", "no_varargs"}


PARAMETERS = [
    "",
    "name",
    "name=None",
    "*names",
    "name, *args",
    "name, size=1",
    "size=1, name=None",
    "name, *, size=1",
    "name, **kwargs",
    "pkg",
    "pkg, size=2, **kwargs",
    "pkg, /, name=None",
    "name, other",
    "name, *, other",
]
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    (("x",), {}),
    (("x", "y"), {}),
    (("x", "y", "z"), {}),
    ((), {"name": "x"}),
    (("x",), {"size": 3}),
    ((), {"name": "x", "size": 3}),
    ((), {"pkg": "x"}),
    ((), {"other": "o", "name": "x"}),
    (("x",), {"name": "y"}),
]


def declared(parameters: str) -> DeclaredFunction:
    method = function(f"self, {parameters}")
    return DeclaredFunction("f", method, type("FInterface", (Interface,), {"__modulename__": "f"}))


@pytest.mark.parametrize("provider", PARAMETERS)
@pytest.mark.parametrize("interface", PARAMETERS)
def test_a_uniform_function_takes_what_the_provider_takes_unchanged_and_often_more(
    interface: str, provider: str
) -> None:
    real, one = function(provider), declared(interface)
    both = uniform(real, one, "'pkg.f': file", DETAILS)
    for args, kwargs in CALLS:
        try:
            expected = real(*args, **kwargs)
        except TypeError:
            continue
        assert both(*args, **kwargs) == expected
        inspect.signature(both).bind(*args, **kwargs)


@pytest.mark.parametrize("provider", PARAMETERS)
@pytest.mark.parametrize("interface", PARAMETERS)
def test_the_quick_check_of_parameters_never_says_more_than_the_comparison(interface: str, provider: str) -> None:
    real, one = function(provider), declared(interface)
    if one.takes_no_more_than(real):
        kinds = {difference.kind for difference in compare(one.signature, inspect.signature(real))}
        assert not kinds & REFUSING
