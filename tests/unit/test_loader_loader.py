"""Loading modules: injected names, `__virtual__`, overriding, and the texts of failures."""

from __future__ import annotations

import logging
import textwrap
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.index import Index, ModuleFile, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.module_builder import read_shipped
from saltlite.loader.search_path import SHIPPED, Form, Layer

Files = dict[str, str]


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """A loader over layers of files, the highest first."""

    def build(*layers: Files, **given: Any) -> Loader:
        found = []
        for number, files in enumerate(layers):
            folder = tmp_path / f"layer{number}"
            folder.mkdir(exist_ok=True)
            for stem, source in files.items():
                (folder / f"{stem}.py").write_text(textwrap.dedent(source))
            found.append(Layer(f"layer{number}", str(folder)))
        return Loader(build_index(found), given.get("opts", {}), given.get("grains", {}), given.get("pillar", {}))

    return build


def refusal(loader: Loader, name: str) -> str:
    with pytest.raises(FunctionUnavailable) as caught:
        loader[name]
    return str(caught.value)


# --- what becomes a function


def test_aliased_function_answers_under_its_alias_only(make: Any) -> None:
    loader = make({"m": "__func_alias__ = {'set_': 'set'}\ndef set_(): return 1"})
    assert loader["m.set"]() == 1
    assert refusal(loader, "m.set_") == "'m.set_' is not available."


def test_private_names_classes_imports_and_data_are_no_functions(make: Any) -> None:
    source = """
        from os.path import join
        import functools
        def _private(): pass
        class Thing: pass
        cheese = {}
        partial = functools.partial(print)
        def real(): pass
        """
    assert list(make({"m": source})) == ["m.real"]


def test_a_listed_partial_is_offered_and_a_listed_class_is_not(make: Any) -> None:
    source = """
        import functools
        __all__ = ["partial", "Thing"]
        partial = functools.partial(int, "7")
        class Thing: pass
        """
    loader = make({"m": source})
    assert loader["m.partial"]() == 7
    assert "m.Thing" not in loader


def test_virtual_aliases_answer_too(make: Any) -> None:
    loader = make({"m": "__virtual_aliases__ = ('n',)\ndef f(): return 1"})
    assert (loader["m.f"](), loader["n.f"]()) == (1, 1)


def test_a_module_may_use_dataclasses(make: Any) -> None:
    source = """
        from __future__ import annotations
        from dataclasses import dataclass
        @dataclass
        class Point:
            x: int
        def f():
            @dataclass
            class Local:
                y: int
            return Point(1).x + Local(2).y
        """
    assert make({"m": source})["m.f"]() == 3


# --- __virtual__


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("", "m"),
        ("__virtualname__ = 'x'", "m"),
        ("def __virtual__(): return True", "m"),
        ("__virtualname__ = 'x'\ndef __virtual__(): return True", "x"),
        ("def __virtual__(): return 'x'", "x"),
        ("__virtualname__ = 'y'\ndef __virtual__(): return 'x'", "y"),
        ("def __virtual__(): return (True, 'fine')", "m"),
        ("NAME = 'computed'\ndef __virtual__(): return NAME", "computed"),
    ],
)
def test_the_name_that_a_module_answers_to(make: Any, source: str, name: str) -> None:
    assert list(make({"m": source + "\ndef f(): pass"})) == [f"{name}.f"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def __virtual__(): return False", "'m' __virtual__ returned False"),
        ("def __virtual__(): return False, 'needs zz'", "'m' __virtual__ returned False: needs zz"),
        (
            "def __virtual__():\n    raise KeyError('k')",
            (
                "'m' __virtual__ returned False: Exception raised when processing __virtual__: "
                "KeyError: 'k' (m.py, line 2)"
            ),
        ),
        ("def broken(:", "'m' could not be imported: SyntaxError: invalid syntax (m.py, line 1)"),
        (
            "import no_such_lib_zz",
            "'m' could not be imported: ModuleNotFoundError: No module named 'no_such_lib_zz' (m.py, line 1)",
        ),
        ("import sys\nsys.exit(3)", "'m' could not be imported: SystemExit: 3 (m.py, line 2)"),
        (
            "def __init__(opts):\n    raise ValueError('bad option')",
            "'m' was not loaded: __init__ raised ValueError: bad option (m.py, line 2)",
        ),
    ],
)
def test_the_text_that_says_why_a_module_is_absent(make: Any, source: str, text: str) -> None:
    assert refusal(make({"m": source + "\ndef f(): pass"} if "(:" not in source else {"m": source}), "m.f") == text


def test_virtual_that_returns_nothing_is_a_refusal_with_a_warning(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    loader = make({"m": "def __virtual__(): pass\ndef f(): pass"})
    assert refusal(loader, "m.f").startswith("'m' __virtual__ returned False: it returned None")
    assert "it returned None" in caplog.text


def test_a_refused_provider_explains_itself_under_its_file_name_too(make: Any) -> None:
    loader = make({"yum": "__virtualname__ = 'pkg'\ndef __virtual__(): return False, 'no rpm'"})
    assert refusal(loader, "yum.install") == "'yum' __virtual__ returned False: no rpm"


@pytest.mark.parametrize(("answer", "shown"), [("1", "1"), ("object", "<class 'object'>"), ("['m']", "['m']")])
def test_virtual_that_returns_no_name_is_a_refusal_as_in_salt(make: Any, answer: str, shown: str) -> None:
    loader = make({"m": f"def __virtual__(): return {answer}\ndef f(): pass"})
    assert refusal(loader, "m.f").startswith(f"'m' __virtual__ returned False: it returned {shown}")
    named = f"__virtualname__ = 'named'\ndef __virtual__(): return {answer}\ndef f(): return 1"
    assert make({"m": named})["named.f"]() == 1


def test_reasons_of_several_refused_providers_are_joined(make: Any) -> None:
    gate = "__virtualname__ = 'pkg'\ndef __virtual__(): return False, '{}'"
    loader = make({"apt": gate.format("no apt"), "yum": gate.format("no rpm")})
    assert refusal(loader, "pkg.install") == "'pkg' __virtual__ returned False: no apt; no rpm"


def test_init_gets_the_options_before_virtual_is_asked(make: Any) -> None:
    source = """
        READY = False
        def __init__(opts):
            global READY
            READY = opts["id"]
        def __virtual__(): return bool(READY)
        def f(): return READY
        """
    assert make({"m": source}, opts={"id": "web1"})["m.f"]() == "web1"


def test_a_failure_is_logged_once_and_not_tried_again(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    loader = make({"m": "import no_such_lib_zz"})
    refusal(loader, "m.f")
    refusal(loader, "m.f")
    assert len([record for record in caplog.records if "no_such_lib_zz" in record.message]) == 1


def test_a_broken_module_costs_no_other_one(make: Any) -> None:
    loader = make({"bad": "def broken(:", "worse": "raise SystemExit", "good": "def f(): return 1"})
    assert (list(loader), loader["good.f"]()) == (["good.f"], 1)


# --- injected names


def test_dunder_names_are_there_while_the_body_runs(make: Any) -> None:
    source = """
        if __grains__["os_family"] == "Debian":
            def f(): return __opts__["id"], __pillar__["secret"], __salt_system_encoding__
        """
    loader = make({"m": source}, opts={"id": "a"}, grains={"os_family": "Debian"}, pillar={"secret": 1})
    assert loader["m.f"]() == ("a", 1, "utf-8")


def test_placeholders_of_the_module_are_replaced(make: Any) -> None:
    source = "__grains__ = {}\n__salt__ = None\ndef f(): return __grains__['os'], 'm.f' in __salt__"
    assert make({"m": source}, grains={"os": "Debian"})["m.f"]() == ("Debian", True)


def test_module_level_opts_lie_over_the_minions_for_that_module_only(make: Any) -> None:
    layers = {"m": "__opts__ = {'b': 2}\ndef f(): return __opts__", "n": "def f(): return __opts__"}
    loader = make(layers, opts={"a": 1, "b": 1})
    both = [loader["m.f"](), loader["n.f"]()]
    assert [(seen["a"], seen["b"]) for seen in both] == [(1, 2), (1, 1)]


def test_context_is_shared_by_the_modules_of_one_loader_and_by_no_other(make: Any) -> None:
    files = {"m": "def put(): __context__['k'] = 1", "n": "def get(): return __context__.get('k')"}
    first, second = make(files), make(files)
    first["m.put"]()
    assert (first["n.get"](), second["n.get"]()) == (1, None)


def test_two_loaders_share_no_module_state(make: Any) -> None:
    files = {"m": "N = []\ndef f():\n    N.append(1)\n    return len(N)"}
    first, second = make(files), make(files)
    assert [first["m.f"](), first["m.f"](), second["m.f"]()] == [1, 2, 1]


def test_options_of_the_caller_are_not_changed_by_a_module(make: Any) -> None:
    opts: dict[str, Any] = {"a": 1}
    make({"m": "def f(): __opts__['a'] = 2"}, opts=opts)["m.f"]()
    assert opts == {"a": 1}


def test_modules_call_each_other(make: Any) -> None:
    loader = make({"a": "def f(x): return __salt__['b.g'](x) + 1", "b": "def g(x): return x * 2"})
    assert loader["a.f"](3) == 7


def test_modules_that_ask_for_each_other_while_loading_come_to_an_end(make: Any) -> None:
    loader = make(
        {
            "a": "def __virtual__(): return 'b.f' in __salt__\ndef f(): return 1",
            "b": "def __virtual__(): return 'a.f' in __salt__\ndef f(): return 1",
        }
    )
    assert "a.f" not in loader


def test_a_module_named_like_a_library_does_not_import_itself(make: Any) -> None:
    loader = make({"json": "import json\ndef f(): return json.dumps([1])"})
    assert loader["json.f"]() == "[1]"


# --- one import a call


def test_a_lookup_imports_the_one_file_that_claims_the_name(make: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    body = f"with open({str(trace)!r}, 'a') as s: s.write(__name__ + ' ')\ndef f(): pass\n"
    body += "def __virtual__(): return True"
    loader = make({f"m{number}": body for number in range(50)})
    loader["m7.f"]
    assert trace.read_text().split() == ["saltlite.loaded.layer0.modules.m7"]


def test_listing_modules_imports_only_files_that_decide_for_themselves(make: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    body = f"with open({str(trace)!r}, 'a') as s: s.write(__name__.rpartition('.')[2] + ' ')\ndef f(): pass\n"
    loader = make({"plain": body, "gated": body + "def __virtual__(): return False"})
    assert loader.modules() == ["plain"]
    assert trace.read_text().split() == ["gated"]


# --- overriding


def test_a_higher_layer_wins_function_by_function(make: Any) -> None:
    custom = {"mytest": "def __virtual__(): return 'test'\ndef ping(): return 'mine'"}
    stock = {"test": "def ping(): return 'stock'\ndef echo(): return 'stock'"}
    loader = make(custom, stock)
    assert (loader["test.ping"](), loader["test.echo"]()) == ("mine", "stock")


def test_replace_hides_the_whole_lower_provider(make: Any) -> None:
    custom = {"mytest": "__replace__ = True\ndef __virtual__(): return 'test'\ndef ping(): return 'mine'"}
    loader = make(custom, {"test": "def ping(): pass\ndef echo(): pass"})
    assert list(loader) == ["test.ping"]
    assert loader.functions("test") == ["ping"]


def test_a_higher_provider_that_refuses_leaves_the_stock_one(make: Any) -> None:
    custom = {"mytest": "def __virtual__(): return 'test' if 0 else False\ndef ping(): return 'mine'"}
    assert make(custom, {"test": "def ping(): return 'stock'"})["test.ping"]() == "stock"


def test_two_providers_of_one_layer_are_never_mixed(make: Any) -> None:
    gate = "def __virtual__(): return 'pkg'\ndef {0}(): return '{0}'\ndef both(): return '{0}'"
    loader = make({"apt": gate.format("a"), "yum": gate.format("y")})
    assert list(loader) == ["pkg.a", "pkg.both"]
    assert [(one.stem, one.chosen) for one in loader.candidates("pkg")] == [("apt", True), ("yum", False)]


def test_the_option_providers_replaces_the_whole_name_without_asking_virtual(make: Any) -> None:
    files = {
        "apt": "def __virtual__(): return 'pkg'\ndef install(): return 'apt'\ndef show(): pass",
        "yum": "__virtualname__ = 'pkg'\ndef __virtual__(): return False\ndef install(): return 'yum'",
    }
    loader = make(files, opts={"providers": {"pkg": "yum"}})
    assert (list(loader), loader["pkg.install"]()) == (["pkg.install"], "yum")


def test_the_option_providers_takes_the_short_names_of_salts_manual(make: Any) -> None:
    files = {
        "systemd_service": "def __virtual__(): return False\ndef start(): return 'systemd'",
        "rh_service": "def __virtual__(): return 'service'\ndef start(): return 'rh'",
    }
    assert make(files, opts={"providers": {"service": "systemd"}})["service.start"]() == "systemd"
    assert make(files, opts={"providers": {"service": "rh_service"}})["service.start"]() == "rh"


def test_a_forced_provider_that_asks_for_itself_while_it_loads_comes_to_an_end(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    files = {"yum": "SEEN = 'drinks.f' in __salt__\ndef f(): return SEEN"}
    assert make(files, opts={"providers": {"drinks": "yum"}})["drinks.f"]() is False
    assert "Recursion" not in caplog.text


def test_an_unknown_provider_is_reported_and_the_natural_one_stays(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    loader = make({"pkg": "def f(): return 1"}, opts={"providers": {"pkg": "nosuch"}})
    assert loader["pkg.f"]() == 1
    assert "there is no module file 'nosuch'" in caplog.text


def test_disabled_modules_are_gone_by_file_name_and_by_virtual_name(make: Any) -> None:
    files = {"cmdmod": "def __virtual__(): return 'cmd'\ndef run(): pass", "other": "def f(): pass"}
    for name in ("cmd", "cmdmod"):
        loader = make(files, opts={"disable_modules": [name]})
        assert refusal(loader, "cmd.run") == "'cmd.run' is not available."
        assert loader.modules() == ["other"]


def test_a_provider_that_failed_does_not_hide_the_good_one_beside_it(make: Any) -> None:
    gate = "__virtualname__ = 'system'\ndef __virtual__(): return {}\ndef get_time(): return 1"
    loader = make({"a_bad": gate.format("1 / 0"), "b_refuses": gate.format("False"), "c_good": gate.format("True")})
    assert (loader.functions("system"), list(loader), loader["system.get_time"]()) == (
        ["get_time"],
        ["system.get_time"],
        1,
    )


# --- asking


def test_a_function_that_a_provider_for_other_machines_has_is_not_suggested_in_its_own_place(make: Any) -> None:
    debian = "__virtualname__ = 'low'\ndef __virtual__(): return __virtualname__\ndef lists(): pass"
    fedora = "__virtualname__ = 'low'\ndef __virtual__(): return False, 'no rpm'\ndef listed(): pass"
    with pytest.raises(FunctionUnavailable) as caught:
        make({"debian": debian, "fedora": fedora})["low.listed"]
    assert caught.value.suggestions == ("low.lists",)


def test_two_modules_that_refuse_do_not_name_each_other_and_what_works_is_named(make: Any) -> None:
    refused = "def __virtual__(): return (False, 'not on this machine')\ndef make(): return 1\n"
    loader = make({"cheese_a": refused, "cheese_b": refused, "cheese_c": "def make(): return 1\n"})
    for name in ("cheese_a.make", "cheese_b.make"):
        with pytest.raises(FunctionUnavailable) as caught:
            loader[name]
        assert caught.value.suggestions == ("cheese_c.make",)


def test_a_missing_function_has_suggestions_outside_its_text(make: Any) -> None:
    with pytest.raises(FunctionUnavailable) as caught:
        make({"test": "def ping(): pass"})["test.pign"]
    assert (str(caught.value), caught.value.suggestions) == ("'test.pign' is not available.", ("test.ping",))


def test_a_provider_asked_by_its_file_name_suggests_the_virtual_name(make: Any) -> None:
    with pytest.raises(FunctionUnavailable) as caught:
        make({"aptpkg": "def __virtual__(): return 'pkg'\ndef install(): pass"})["aptpkg.install"]
    assert caught.value.suggestions[0] == "pkg.install"


def test_membership_and_get_never_raise(make: Any) -> None:
    loader = make({"m": "def f(): pass"})
    assert ("m.f" in loader, "m.g" in loader, "m" in loader, 3 in loader) == (True, False, False, False)
    assert (loader.get("m.g"), loader.get("nomod.x", 5)) == (None, 5)


def test_an_outputter_is_found_by_python_name_and_by_alias(make: Any) -> None:
    source = """
        __func_alias__ = {"list_": "list", "set_": "set"}
        __outputter__ = {"list_": "txt", "set": "yaml"}
        def list_(): pass
        def set_(): pass
        def plain(): pass
        """
    loader = make({"m": source})
    assert [loader.outputter(f"m.{name}") for name in ("list", "set", "plain")] == ["txt", "yaml", None]


def test_describing_a_function_gives_doc_and_arguments_without_importing(make: Any) -> None:
    source = '''
        raise RuntimeError("imported")
        def f(a, b=2, *args, c, d=SOME, **kw):
            """Do it.

            CLI Example::
            """
        '''
    found = make({"m": source}).describe("m.f")
    assert found.doc == "Do it.\n\nCLI Example::"
    assert (found.args, found.defaults, found.varargs, found.kwargs) == (
        ("a", "b", "c", "d"),
        (2, "SOME"),
        "args",
        "kw",
    )


def test_what_did_not_load_is_listed_with_its_reason(make: Any) -> None:
    loader = make({"good": "def f(): pass", "bad": "def __virtual__(): return False, 'why'"})
    assert loader.not_loaded() == {"bad": "'bad' __virtual__ returned False: why"}


def test_refusals_are_no_noise_in_the_log(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    refusal(make({"m": "def __virtual__(): return False, 'why'"}), "m.f")
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


# --- loading ahead

READS_A_FILE = """
    import pathlib
    text = pathlib.Path({path!r}).read_text()
    def read(): return text, __later__
    """


@pytest.mark.parametrize(
    ("layer", "virtual", "read"),
    [
        (SHIPPED, "", "before"),
        (SHIPPED, "def __virtual__(): return True", "before"),
        (SHIPPED, "def __virtual__(): return bool(__grains__) or True", "after"),
        ("custom", "", "after"),
    ],
)
def test_only_a_shipped_module_that_asks_nothing_of_this_machine_is_loaded_ahead(
    tmp_path: Path, layer: str, virtual: str, read: str
) -> None:
    text = tmp_path / "text"
    (tmp_path / "early.py").write_text(textwrap.dedent(READS_A_FILE.format(path=str(text))) + virtual + "\n")
    text.write_text("before")
    loader = Loader(build_index([Layer(layer, str(tmp_path))]), {}, {}, {})
    loader.load_ahead("early")
    text.write_text("after")
    loader.provide("__later__", "seen")
    assert loader["early.read"]() == (read, "seen")


def test_what_was_looked_for_ahead_is_not_looked_for_by_the_first_call(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make({"m": "def f(): return 1"})
    asked: list[str] = []

    def look(*_args: object) -> tuple[()]:
        asked.append("")
        return ()

    monkeypatch.setattr("saltlite.loader.registry.salt_is_installed", look)
    monkeypatch.setattr("saltlite.loader.contracts.search_layers", look)
    loader.load_ahead("m")
    assert len(asked) == 2
    assert loader["m.f"]() == 1
    assert len(asked) == 2


def test_loading_ahead_what_is_not_there_does_nothing(make: Any) -> None:
    loader = make({"m": "def f(): return 1"})
    loader.load_ahead("n")
    assert loader["m.f"]() == 1


def test_nothing_of_a_module_that_does_not_load_is_suggested(make: Any) -> None:
    loader = make({"m": "import no_such_lib_zz\ndef ab(): pass\ndef ac(): pass"})
    with pytest.raises(FunctionUnavailable) as caught:
        loader["m.aa"]
    assert caught.value.suggestions == ()


def test_reading_ahead_of_a_shipped_file_that_is_gone_fails_nothing(tmp_path: Path) -> None:
    gone = ModuleFile(str(tmp_path / "gone.py"), "gone", SHIPPED, 0, Form.SOURCE, 0, 0, claims=("gone",))
    read_shipped(Index([], [gone]), "gone")


@pytest.mark.parametrize(
    ("declared", "functions"),
    [
        ("('set',)", {"set"}),
        ("['set_']", {"set"}),
        ("True", {"get", "set"}),
        ("()", set()),
        ("'set'", set()),
        ("False", set()),
    ],
)
def test_a_module_lists_functions_after_which_no_other_job_may_follow(
    make: Any, declared: str, functions: set[str]
) -> None:
    text = f"""
        __func_alias__ = {{"set_": "set"}}
        __own_process__ = {declared}
        def get():
            return 1
        def set_():
            return 2
    """
    found = set()
    for function in ("get", "set"):
        loader = make({"zone": text})
        _ = f"zone.{function}" in loader
        assert not loader.needs_own_process
        _ = loader[f"zone.{function}"]
        if loader.needs_own_process:
            found.add(function)
    assert found == functions


def test_a_function_that_calls_one_with_its_own_process_has_one_too(make: Any) -> None:
    loader = make(
        {
            "zone": "__own_process__ = ('set',)\ndef set():\n    return 1\n",
            "other": "def call():\n    return __salt__['zone.set']()\n",
        }
    )
    function = loader["other.call"]
    assert not loader.needs_own_process
    assert function() == 1
    assert loader.needs_own_process
