"""The dunder names as modules use them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.modules import loader_over, write

NAMES = ("__opts__", "__grains__", "__pillar__", "__context__", "__salt__", "__utils__", "__proxy__", "__file_client__")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_in_the_body_and_gives_itself_as_its_value(tmp_path: Path, name: str) -> None:
    loader = loader_over(write(tmp_path, {"m": f"HERE = {name}\ndef f(): return HERE is {name} is {name}.value()"}))
    assert loader["m.f"]() is True


@pytest.mark.parametrize("name", ["__proxy__", "__file_client__"])
def test_what_this_minion_does_not_have_is_false(tmp_path: Path, name: str) -> None:
    assert not loader_over(write(tmp_path, {"m": f"def f(): return {name}"}))["m.f"]()


def test_a_refresh_is_seen_through_references_that_were_kept(tmp_path: Path) -> None:
    source = "G, P = __grains__, __pillar__\ndef f(): return G is __grains__, dict(G), dict(P)"
    loader = loader_over(write(tmp_path, {"m": source}), grains={"a": 1, "b": 1}, pillar={"p": 1})
    loader["m.f"]
    loader.refresh({"a": 2}, {"q": 3})
    assert loader["m.f"]() == (True, {"a": 2}, {"q": 3})


def test_templates_reach_functions_as_attributes(tmp_path: Path) -> None:
    files = {"m": "def f(): return __salt__.other.g(1)", "other": "def g(x): return x + 1"}
    assert loader_over(write(tmp_path, files))["m.f"]() == 2


def test_an_attribute_that_is_no_function_is_an_attribute_error_with_the_reason(tmp_path: Path) -> None:
    loader = loader_over(write(tmp_path, {"m": "def f(): return __salt__.test.nope"}))
    with pytest.raises(AttributeError, match=r"'test\.nope' is not available"):
        loader["m.f"]()


def test_cross_calls_are_a_mapping(tmp_path: Path) -> None:
    source = "def f(): return sorted(__salt__), len(__salt__), 'm.f' in __salt__, __salt__.get('m.x', 7)"
    assert loader_over(write(tmp_path, {"m": source}))["m.f"]() == (["m.f"], 1, True, 7)


# --- __utils__


def test_utils_come_from_their_own_folders_and_share_the_context(tmp_path: Path) -> None:
    text = """
        def join(x):
            __context__["seen"] = x
            return __utils__["text.more"](x) + __grains__["os"]
        def more(x): return x + __salt__["m.g"]()
        """
    module = """
        def f(): return __utils__["text.join"]("x"), __context__["seen"]
        def g(): return "g"
        """
    write(tmp_path, {"a/utils/text": text, "a/modules/m": module})
    opts = {"module_dirs": [str(tmp_path / "a")]}
    loader = Loader(build_index(search_layers(opts)), opts, {"os": "Debian"}, {})
    assert loader["m.f"]() == ("xgDebian", "x")


def test_utils_folders_are_an_option_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, {"u/text": "def one(): return 1", "m/modules/m": "def f(): return __utils__['text.one']()"})
    opts = {"module_dirs": [str(tmp_path / "m")], "utils_dirs": [str(tmp_path / "u")]}
    assert Loader(build_index(search_layers(opts)), opts, {}, {})["m.f"]() == 1


def test_functions_of_utils_cannot_be_called_from_outside(tmp_path: Path) -> None:
    write(tmp_path, {"utils/text": "def one(): return 1"})
    opts = {"module_dirs": [str(tmp_path)]}
    assert "text.one" not in Loader(build_index(search_layers(opts)), opts, {}, {})


# --- __context__["retcode"]


def test_calls_at_once_have_return_codes_of_their_own(tmp_path: Path) -> None:
    source = """
        def f(number, barrier):
            __context__["retcode"] = number
            barrier.wait(60)
            return __context__["retcode"]
        """
    loader = loader_over(write(tmp_path, {"m": source}))
    barrier, outcomes = threading.Barrier(2), dict[int, Outcome]()

    def run(number: int) -> None:
        outcomes[number] = call(loader, "m.f", (number, barrier), {})

    threads = [threading.Thread(target=run, args=(number,)) for number in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes == {3: Outcome(3, 3), 4: Outcome(4, 4)}


def test_a_call_inside_a_call_leaves_the_outer_return_code(tmp_path: Path) -> None:
    source = """
        def inner(): __context__["retcode"] = 9
        def outer(call, loader):
            __context__["retcode"] = 2
            return call(loader, "m.inner", (), {}).retcode
        """
    loader = loader_over(write(tmp_path, {"m": source}))
    assert call(loader, "m.outer", (call, loader), {}) == Outcome(9, 2)


def test_a_function_that_another_one_calls_sets_the_return_code_of_the_job(tmp_path: Path) -> None:
    files = {"m": "def f(): __salt__['n.g']()", "n": "def g(): __context__['retcode'] = 7"}
    assert call(loader_over(write(tmp_path, files)), "m.f", (), {}).retcode == 7


@pytest.mark.parametrize(
    ("source", "retcode"),
    [
        ("__context__.update(retcode=5)", 5),
        ("__context__.setdefault('retcode', 6)", 6),
        ("__context__['retcode'] = 5; del __context__['retcode']", 0),
        ("__context__['retcode'] = 5; __context__.pop('retcode')", 0),
        ("__context__['retcode'] = __context__.get('retcode', 3)", 3),
        ("__context__['retcode'] = 4 if 'retcode' in __context__ else 2", 2),
    ],
)
def test_the_return_code_is_a_key_like_any_other(tmp_path: Path, source: str, retcode: int) -> None:
    assert call(loader_over(write(tmp_path, {"m": f"def f(): {source}"})), "m.f", (), {}).retcode == retcode


def test_calls_at_once_load_a_module_once_and_wait_for_it(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    body = f"import time\nwith open({str(trace)!r}, 'a') as s: s.write('x')\ntime.sleep(0.05)\ndef f(): return 1"
    loader, outcomes = loader_over(write(tmp_path, {"m": body})), list[Outcome]()
    threads = [threading.Thread(target=lambda: outcomes.append(call(loader, "m.f", (), {}))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (outcomes, trace.read_text()) == ([Outcome(1, 0)] * 5, "x")


# --- what callers are told


def test_a_deprecated_module_warns_every_caller(tmp_path: Path) -> None:
    source = "__deprecated__ = (3009, 'saltext-old', 'https://example.org')\ndef f(): return 1"
    outcome = call(loader_over(write(tmp_path, {"m": source})), "m.f", (), {})
    text = (
        "The module 'm' is deprecated and will be removed in version 3009; "
        "use the package 'saltext-old' instead: https://example.org"
    )
    assert outcome == Outcome(1, 0, warnings=(text,))


def test_deprecated_functions_that_a_function_calls_reach_the_caller(tmp_path: Path) -> None:
    files = {
        "m": "def f(): return __salt__['n.g'](), __salt__['n.g']()",
        "n": "from salt.utils.decorators import is_deprecated\n@is_deprecated(globals(), '4')\ndef g(): return 1",
    }
    outcome: Any = call(loader_over(write(tmp_path, files)), "m.f", (), {})
    assert outcome.warnings == ('The function "n.g" is deprecated and will expire in version "4".',)


# --- whitelist_modules


@pytest.mark.parametrize(("listed", "value"), [([], "gm"), (["m"], "gm"), (["n"], None)])
def test_only_listed_modules_may_be_called_from_outside(tmp_path: Path, listed: list[str], value: str | None) -> None:
    files = {"m": "def f(): return __salt__['other.g']() + 'm'", "other": "def g(): return 'g'", "n": "def f(): pass"}
    outcome = call(loader_over(write(tmp_path, files), opts={"whitelist_modules": listed}), "m.f", (), {})
    refused = "'m.f' is not available. (option whitelist_modules of this minion does not have 'm')"
    assert outcome.value == (value or refused)
    assert outcome.retcode == (0 if value else 1)


def test_a_module_that_is_not_listed_is_not_even_imported(tmp_path: Path) -> None:
    write(tmp_path, {"m": f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef f(): pass"})
    call(loader_over(tmp_path, opts={"whitelist_modules": ["test"]}), "m.f", (), {})
    assert not (tmp_path / "ran").exists()
