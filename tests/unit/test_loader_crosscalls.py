"""Calls from one module to another, as files that were written for Salt make them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.modules import write

PASSING = """
    def plain(a=1): return a
    def rest(**kwargs): return sorted(kwargs)
    def to(fun, **kwargs): return __salt__[fun](**kwargs)
    def attribute(**kwargs): return __salt__.m.plain(**kwargs)
    def of_utils(**kwargs): return __utils__["u.plain"](**kwargs)
    """


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    write(
        tmp_path,
        {"modules/m": PASSING, "utils/u": "def plain(a=1): return a", "modules/cp": "def get_file(a=1): return a"},
    )
    opts = {"module_dirs": [str(tmp_path)], "id": "web1"}
    return Loader(build_index(search_layers(opts)), opts, {"os": "Debian"}, {})


def said(loader: Loader, fun: str, *args: Any, **kwargs: Any) -> Any:
    return call(loader, fun, args, kwargs, pub={"jid": "1", "fun": fun, "user": "root"}).value


@pytest.mark.parametrize(("fun", "args"), [("m.to", ("m.plain",)), ("m.attribute", ()), ("m.of_utils", ())])
def test_keywords_that_are_passed_on_bring_no_facts_of_the_job(loader: Loader, fun: str, args: tuple[str]) -> None:
    assert said(loader, fun, *args, a=2) == 2


def test_a_function_with_keywords_of_its_own_receives_the_facts(loader: Loader) -> None:
    assert said(loader, "m.to", "m.rest", x=1) == ["__pub_fun", "__pub_jid", "__pub_user", "x"]


def test_a_function_that_takes_any_keyword_in_salt_ignores_unknown_ones_of_other_modules(loader: Loader) -> None:
    assert said(loader, "m.to", "grains.item", none_such=1) == {}
    # One that names the keys of its `**kwargs`.
    assert "not valid" not in str(said(loader, "m.to", "pkg.version", none_such=1))
    outcome = call(loader, "grains.item", ("os",), {"none_such": 1})
    assert (outcome.retcode, "none_such=1" in str(outcome.value)) == (1, True)


def test_other_functions_refuse_unknown_keywords(loader: Loader) -> None:
    assert "unexpected keyword argument 'none_such'" in said(loader, "m.to", "m.plain", none_such=1)


def test_a_custom_function_of_such_a_name_refuses_them_too(loader: Loader) -> None:
    assert "unexpected keyword argument 'none_such'" in said(loader, "m.to", "cp.get_file", none_such=1)


def test_the_function_looks_as_it_is(loader: Loader, tmp_path: Path) -> None:
    write(tmp_path, {"modules/n": "def same(): return __salt__['m.plain'] is __salt__['m.plain'], __salt__['m.plain']"})
    opts = {"module_dirs": [str(tmp_path)]}
    is_same, function = Loader(build_index(search_layers(opts)), opts, {}, {})["n.same"]()
    assert is_same
    assert str(inspect.signature(function)) == "(a=1)"
    assert (function.__name__, function.__doc__) == ("plain", None)
