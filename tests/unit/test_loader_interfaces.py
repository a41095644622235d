"""Virtual modules behind their interfaces: the decision table, row by row, as callers and other modules see it."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, InterfaceNotImplemented, InterfaceNotSupported
from saltlite.loader.call import Outcome, call
from saltlite.loader.contracts import LOG_SECONDS, UndeclaredCalls
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.modules import write

THING = """
    from salt.interfaces import Interface

    class ThingInterface(Interface):
        __modulename__ = "thing"
        __version__ = "1.0"

        def plain(self, name, size=1):
            "Do it."
            return {}

        @Interface.supported(os=["weirdlinux", "beos"], os_family=["linux"])
        def rare(self, name): return {}

        @Interface.not_applicable(osfamily=["Windows", "NetBSD"])
        def idle(self, name, *args): return {"done": False}

        @Interface.not_applicable(os=["beos"])
        @Interface.supported(os=["beos"])
        def both(self): return "default"

        def list_(self): return []
        __func_alias__ = {"list_": "list"}
"""

WHOLE = """
    __virtualname__ = "thing"
    def __virtual__(): return __virtualname__
    def plain(name, size=1): return ["real", name, size]
    def rare(name): return "real"
    def idle(name, *args): return "real"
    def both(): return "real"
    def list_(): return ["real"]
    __func_alias__ = {"list_": "list"}
"""

BARE = """
    __virtualname__ = "thing"
    def __virtual__(): return __virtualname__
    def unrelated(): return "real"
    def _private(): return "real"
    class Klass: pass
    from os.path import join
"""

BEOS = {"os": "beos", "os_family": "Haiku"}
DEBIAN = {"os": "Debian", "os_family": "Debian"}
WINDOWS = {"os": "Windows", "os_family": "windows"}


def thing(folder: Path, provider: str, grains: dict[str, Any], **opts: Any) -> Loader:
    """A loader with the interface above and a provider of it in the file `ours`."""
    write(folder, {"interfaces/thing_module": THING, "modules/ours": provider})
    given = {"extension_modules": str(folder), "cachedir": str(folder / "cache"), **opts}
    return Loader(build_index(search_layers(given)), given, grains, {})


def run(loader: Loader, fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(loader, fun, args, kwargs)


# --- the rows of the table


@pytest.mark.parametrize("fun", ["thing.plain", "thing.rare"])
def test_row_1_what_both_have_is_the_provider_s_function(tmp_path: Path, fun: str) -> None:
    outcome = run(thing(tmp_path, WHOLE, BEOS), fun, "x")
    assert outcome.retcode == 0
    assert "real" in outcome.value
    assert outcome.warnings == ()


def test_row_2_a_platform_that_is_not_declared_is_noted_and_works(tmp_path: Path) -> None:
    loader = thing(tmp_path, WHOLE, DEBIAN)
    assert run(loader, "thing.rare", "x").value == "real"
    report = loader.conformance("thing")
    assert report is not None
    assert report["functions"]["rare"]["note"] == "the interface does not name this platform"


def test_row_3_what_the_provider_lacks_is_not_implemented(tmp_path: Path) -> None:
    outcome = run(thing(tmp_path, BARE, DEBIAN), "thing.plain", "x")
    assert (outcome.value, outcome.retcode) == ("'thing.plain' is not implemented by ours (interface thing 1.0).", 69)
    assert outcome.interface == {
        "status": "not_implemented",
        "interface": "thing",
        "version": "1.0",
        "provider": "ours",
        "function": "plain",
    }


def test_row_4_what_is_supported_here_and_lacks_is_not_implemented(tmp_path: Path) -> None:
    outcome = run(thing(tmp_path, BARE, {"os": "Debian", "os_family": "Linux"}), "thing.rare", "x")
    assert outcome.value == "'thing.rare' is not implemented by ours (interface thing 1.0)."


def test_row_5_what_is_not_supported_here_says_where_it_is(tmp_path: Path) -> None:
    outcome = run(thing(tmp_path, BARE, DEBIAN), "thing.rare", "x")
    assert outcome.retcode == 69
    assert outcome.value == (
        "'thing.rare' is not supported on Debian (interface thing 1.0 supports: os=beos, weirdlinux; os_family=linux)."
    )
    assert outcome.interface is not None
    assert outcome.interface["status"] == "not_supported"


def test_row_6_what_is_not_applicable_returns_its_default_structure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        outcome = run(thing(tmp_path, BARE, WINDOWS), "thing.idle", "x", "y")
    assert (outcome.value, outcome.retcode) == ({"done": False}, 0)
    assert "thing.idle is not applicable here: its default structure is returned." in caplog.messages


def test_row_7_the_provider_s_function_is_not_called_where_it_is_not_applicable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader = thing(tmp_path, WHOLE, WINDOWS)
    assert run(loader, "thing.idle", "x").value == {"done": False}
    assert run(loader, "thing.idle", "x").value == {"done": False}
    told = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [one.getMessage() for one in told] == [
        "thing.idle is not applicable here, so ours's function is not called."
    ]


def test_row_8_not_applicable_elsewhere_is_not_implemented_here(tmp_path: Path) -> None:
    assert run(thing(tmp_path, BARE, DEBIAN), "thing.idle", "x").retcode == 69


@pytest.mark.parametrize("provider", [WHOLE, BARE])
def test_row_9_not_applicable_goes_before_supported(tmp_path: Path, provider: str) -> None:
    assert run(thing(tmp_path, provider, BEOS), "thing.both").value == "default"


def test_row_10_a_function_that_the_interface_does_not_have_runs_and_warns_the_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader = thing(tmp_path, BARE, DEBIAN)
    sentence = "'thing.unrelated' is not part of the interface thing 1.0, and may be removed one day."
    for _ in range(3):
        outcome = run(loader, "thing.unrelated")
        assert (outcome.value, outcome.retcode, outcome.warnings) == ("real", 0, (sentence,))
    assert caplog.messages == [sentence]
    report = loader.conformance("thing")
    assert report is not None
    assert report["stray_calls"] == {"unrelated": 3}
    assert report["functions"]["unrelated"]["state"] == "deprecated"


def test_row_11_what_neither_has_is_not_available(tmp_path: Path) -> None:
    outcome = run(thing(tmp_path, BARE, DEBIAN), "thing.nothing")
    assert (outcome.value, outcome.retcode) == ("'thing.nothing' is not available.", 1)


@pytest.mark.parametrize("name", ["_private", "Klass", "join"])
def test_row_12_what_is_private_a_class_or_imported_is_not_seen(tmp_path: Path, name: str) -> None:
    loader = thing(tmp_path, BARE, DEBIAN)
    assert run(loader, f"thing.{name}").value == f"'thing.{name}' is not available."
    report = loader.conformance("thing")
    assert report is not None
    assert name not in report["functions"]


def test_row_13_functions_are_looked_up_by_the_name_that_is_shown(tmp_path: Path) -> None:
    loader = thing(tmp_path, WHOLE, DEBIAN)
    assert run(loader, "thing.list").value == ["real"]
    assert run(loader, "thing.list_").value == "'thing.list_' is not available."
    hidden = thing(tmp_path / "other", WHOLE.replace('__func_alias__ = {"list_": "list"}', ""), DEBIAN)
    assert run(hidden, "thing.list").retcode == 69


def test_row_14_what_depends_took_away_says_what_it_needs(tmp_path: Path) -> None:
    provider = (
        BARE + "\n    from salt.utils.decorators import depends\n    @depends('lib')\n    def plain(name): return 1"
    )
    loader = thing(tmp_path, provider, DEBIAN)
    outcome = run(loader, "thing.plain", "x")
    assert (outcome.value, outcome.retcode) == (
        "'thing.plain' is not implemented by ours (interface thing 1.0): it needs lib.",
        69,
    )
    report = loader.conformance("thing")
    assert report is not None
    assert report["functions"]["plain"]["note"] == "it needs lib"


def test_row_15_a_fallback_is_an_implementation(tmp_path: Path) -> None:
    provider = BARE + (
        "\n    from salt.utils.decorators import depends"
        "\n    def _fallback(name, size=1): return 'fallback'"
        "\n    @depends('lib', fallback_function=_fallback)\n    def plain(name, size=1): return 1"
    )
    assert run(thing(tmp_path, provider, DEBIAN), "thing.plain", "x").value == "fallback"


# --- membership


def test_membership_does_not_see_stubs_and_calling_one_gives_the_contract_s_text(tmp_path: Path) -> None:
    salt = thing(tmp_path, BARE, DEBIAN)
    assert "thing.plain" not in salt
    assert "thing.rare" not in salt
    assert "thing.unrelated" in salt
    with pytest.raises(InterfaceNotImplemented, match=r"^'thing\.plain' is not implemented by ours"):
        salt["thing.plain"]("x")
    with pytest.raises(InterfaceNotSupported):
        salt["thing.rare"]("x")


def test_a_stub_raises_what_states_and_scripts_catch(tmp_path: Path) -> None:
    stub = thing(tmp_path, BARE, DEBIAN)["thing.plain"]
    for kind in (CommandExecutionError, NotImplementedError):
        with pytest.raises(kind):
            stub()


def test_what_is_not_applicable_counts_as_there(tmp_path: Path) -> None:
    salt = thing(tmp_path, BARE, WINDOWS)
    assert "thing.idle" in salt
    assert "idle" in salt.functions("thing")
    assert "thing.idle" in list(salt)


def test_listings_hide_stubs_unless_they_are_asked_for(tmp_path: Path) -> None:
    salt = thing(tmp_path, BARE, DEBIAN)
    assert salt.functions("thing") == ["unrelated"]
    assert [name for name in salt if name.startswith("thing.")] == ["thing.unrelated"]
    assert salt.stubs("thing") == ["both", "idle", "list", "plain", "rare"]
    assert run(salt, "sys.list_functions", "thing", stubs=True).value == [
        "thing.both", "thing.idle", "thing.list", "thing.plain", "thing.rare", "thing.unrelated",
    ]  # fmt: skip


# --- the ways in which a module brings its interface


@pytest.mark.parametrize(
    "declared",
    [
        "__virtualname__ = ThingInterface(__name__)()",
        "__virtualname__ = ThingInterface(__name__)",
        "__virtualname__ = ThingInterface",
        "__virtualname__ = ThingInterface(__name__)()\ndef __virtual__(): return __virtualname__",
        "def __virtual__(): return ThingInterface(__name__)",
        "def __virtual__(): return ThingInterface",
        "def __virtual__(): return ThingInterface(__name__)()",
        "__virtualname__ = 'thing'\n__interface__ = ThingInterface\ndef __virtual__(): return True",
    ],
)
@pytest.mark.parametrize("package", ["salt", "saltlite"])
def test_every_spelling_offers_the_module_under_the_interface_s_name(
    tmp_path: Path, package: str, declared: str
) -> None:
    imported = f"from {package}.interfaces.thing_module import ThingInterface"
    source = f"{imported}\n{declared}\ndef plain(name, size=1): return name"
    loader = thing(tmp_path, source, DEBIAN)
    assert run(loader, "thing.plain", "x").value == "x"
    assert run(loader, "thing.rare", "x").retcode == 69
    assert loader.modules().count("thing") == 1


def test_a_name_made_of_an_interface_is_a_text(tmp_path: Path) -> None:
    source = (
        "from saltlite.interfaces.thing_module import ThingInterface\n__virtualname__ = ThingInterface(__name__)()\n"
        "def plain(name, size=1): return [isinstance(__virtualname__, str), __virtualname__ == 'thing']"
    )
    assert run(thing(tmp_path, source, DEBIAN), "thing.plain", "x").value == [True, True]


def test_an_interface_of_another_name_is_refused_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = (
        "from saltlite.interfaces.thing_module import ThingInterface\n__interface__ = ThingInterface\n"
        "def __virtual__(): return 'other'\ndef stray(): return 1"
    )
    outcome = run(thing(tmp_path, source, DEBIAN), "other.stray")
    assert (outcome.value, outcome.warnings) == (1, ())
    assert any(
        "SMI003: its interface describes 'thing', and it is offered as 'other'" in one for one in caplog.messages
    )


def test_a_provider_that_the_configuration_forces_keeps_to_the_same_interface(tmp_path: Path) -> None:
    refusing = "def __virtual__(): return False\ndef plain(name, size=1): return name"
    loader = thing(tmp_path, refusing, DEBIAN, providers={"thing": "ours"})
    assert run(loader, "thing.plain", "x").value == "x"
    assert run(loader, "thing.rare", "x").retcode == 69


def test_a_lower_layer_that_has_the_function_is_no_stub(tmp_path: Path) -> None:
    write(tmp_path / "high", {"modules/mine": BARE})
    loader = thing(tmp_path / "low", WHOLE, DEBIAN, module_dirs=[str(tmp_path / "high")])
    assert run(loader, "thing.plain", "x").value == ["real", "x", 1]


# --- where interfaces come from


def test_an_interface_that_extends_adds_to_the_one_that_ships(tmp_path: Path) -> None:
    extension = """
        from saltlite.interfaces.pkg import PkgInterface

        class MyPkg(PkgInterface):
            __extends__ = "pkg"
            def salute_fireworks(self, name): return {}
    """
    provider = "__virtualname__ = 'pkg'\ndef __virtual__(): return True\ndef salute_fireworks(name): return name"
    write(tmp_path, {"interfaces/pkg": extension, "modules/mypkg": provider})
    loader = Loader(build_index(search_layers(given := {"extension_modules": str(tmp_path)})), given, DEBIAN, {})
    outcome = run(loader, "pkg.salute_fireworks", "x")
    assert (outcome.value, outcome.warnings) == ("x", ())
    found = loader.interface("pkg")
    assert found is not None
    assert {"install", "salute_fireworks"} <= found["functions"].keys()


def test_an_interface_of_a_higher_layer_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    mine = (
        "from saltlite.interfaces import Interface\n"
        'class P(Interface):\n    __modulename__ = "pkg"\n    def only(self): return 1'
    )
    write(tmp_path, {"interfaces/pkg": mine})
    loader = Loader(build_index(search_layers(given := {"extension_modules": str(tmp_path)})), given, DEBIAN, {})
    found = loader.interface("pkg")
    assert found is not None
    assert list(found["functions"]) == ["only"]


def test_a_broken_interface_costs_the_interface_and_not_the_module(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = 'class T:\n    __modulename__ = "thing"\nraise OSError("gone")'
    write(tmp_path, {"interfaces/thing": broken, "modules/ours": BARE})
    loader = Loader(build_index(search_layers(given := {"extension_modules": str(tmp_path)})), given, DEBIAN, {})
    assert run(loader, "thing.unrelated").value == "real"
    assert run(loader, "thing.unrelated").warnings == ()
    assert caplog.messages == ["'thing' could not be imported: OSError: gone (thing.py, line 3)"]


def test_an_interface_that_extends_nothing_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lone = (
        "from saltlite.interfaces import Interface\n"
        'class T(Interface):\n    __extends__ = "thing"\n    def f(self): ...'
    )
    write(tmp_path, {"interfaces/thing": lone, "modules/ours": BARE})
    loader = Loader(build_index(search_layers(given := {"extension_modules": str(tmp_path)})), given, DEBIAN, {})
    assert run(loader, "thing.f").value == "'thing.f' is not available."
    assert "T only extends, and there is no interface of that name to extend" in caplog.text


def test_a_module_that_nobody_provides_is_not_there_whatever_its_interface_has(tmp_path: Path) -> None:
    write(tmp_path, {"interfaces/thing": THING, "modules/x": "def f(): ..."})
    loader = Loader(build_index(search_layers(given := {"extension_modules": str(tmp_path)})), given, WINDOWS, {})
    assert run(loader, "thing.idle", "x").value == "'thing.idle' is not available."
    assert loader.functions("thing") == []
    assert loader.interface("thing") is not None


# --- options and refresh


def test_grains_that_change_change_how_functions_stand(tmp_path: Path) -> None:
    loader = thing(tmp_path, BARE, DEBIAN)
    assert run(loader, "thing.idle", "x").retcode == 69
    loader.refresh(WINDOWS, {})
    assert run(loader, "thing.idle", "x").value == {"done": False}
    loader.refresh(DEBIAN, {})
    assert run(loader, "thing.idle", "x").retcode == 69


def test_off_does_not_look_at_interfaces(tmp_path: Path) -> None:
    loader = thing(tmp_path, BARE, WINDOWS, smi_mode="off")
    assert run(loader, "thing.idle").value == "'thing.idle' is not available."
    assert run(loader, "thing.unrelated").warnings == ()
    assert loader.interfaces() == {}


RENAMED = """
    __virtualname__ = "thing"
    def __virtual__(): return __virtualname__
    def plain(pkg, size=2, speed=0): return [pkg, size, speed]
"""


def test_observe_reports_differences_and_calls_the_provider_as_it_is(tmp_path: Path) -> None:
    loader = thing(tmp_path, RENAMED, DEBIAN, smi_mode="observe")
    assert run(loader, "thing.plain", "x").value == ["x", 2, 0]
    assert run(loader, "thing.plain", name="x").retcode == 1
    report = loader.conformance("thing")
    assert report is not None
    kinds = [one["kind"] for one in report["functions"]["plain"]["differences"]]
    assert (kinds, report["warnings"], report["errors"]) == (["renamed", "default_differs", "extra"], 2, 0)


def test_by_default_calls_in_the_words_of_the_interface_and_of_the_provider_both_work(tmp_path: Path) -> None:
    loader = thing(tmp_path, RENAMED, DEBIAN)
    assert run(loader, "thing.plain", name="x").value == ["x", 2, 0]
    assert run(loader, "thing.plain", name="x", speed=3).value == ["x", 2, 3]
    assert run(loader, "thing.plain", pkg="x", speed=3).value == ["x", 2, 3]
    assert run(loader, "thing.plain", "x", 5).value == ["x", 5, 0]
    assert loader["thing.plain"](name="x", size=7) == ["x", 7, 0]


def test_by_default_a_call_that_fits_neither_is_refused_in_the_words_of_the_provider(tmp_path: Path) -> None:
    loader = thing(tmp_path, RENAMED, DEBIAN)
    assert run(loader, "thing.plain").value.startswith("Passed invalid arguments to thing.plain: missing a required")
    assert "not valid: colour=x" in run(loader, "thing.plain", "x", colour="x").value


OTHERS = """
    __virtualname__ = "thing"
    def __virtual__(): return __virtualname__
    def plain(pkg, **kwargs): return [pkg, sorted(kwargs.items())]
    def unrelated(name, *names): return [name, *names]
"""


def test_by_default_keywords_without_a_parameter_reach_the_providers_kwargs(tmp_path: Path) -> None:
    loader = thing(tmp_path, OTHERS, DEBIAN)
    pub = {"jid": "1"}
    assert call(loader, "thing.plain", [], {"name": "x", "size": 3}, pub=pub).value == [
        "x",
        [("__pub_jid", "1"), ("size", 3)],
    ]
    assert run(loader, "thing.plain", "x", name="y").value == ["x", [("name", "y")]]


def test_observe_calls_a_function_of_the_provider_that_is_not_applicable_here(tmp_path: Path) -> None:
    loader = thing(tmp_path, WHOLE, WINDOWS, smi_mode="observe")
    found = run(loader, "thing.idle", "x")
    assert (found.retcode, found.value == {"done": False}) == (0, False)
    report = loader.conformance("thing")
    assert report is not None
    assert "smi_mode is observe" in report["functions"]["idle"]["note"]


def test_enforce_puts_calls_into_the_provider_s_words(tmp_path: Path) -> None:
    loader = thing(tmp_path, RENAMED, DEBIAN, smi_mode="enforce")
    assert run(loader, "thing.plain", name="x").value == ["x", 1, 0]
    assert run(loader, "thing.plain", "x", speed=3).value == ["x", 1, 3]
    assert "not valid: pkg=x" in run(loader, "thing.plain", pkg="x").value


RETURNS = """
    from salt.interfaces import Interface
    class RowInterface(Interface):
        __modulename__ = "row"
        @Interface.returns({"name": str, "uid": int})
        def info(self): return {"name": "", "uid": -1}
        def names(self) -> list[str]: return []
"""
ROW = """
    def info(): return {"name": "x", "more": 1}
    async def names(): return ["a", 5]
"""


def rows(folder: Path, returns: str) -> Loader:
    write(folder, {"interfaces/row": RETURNS, "modules/row": ROW})
    given = {"extension_modules": str(folder), "smi_returns": returns}
    return Loader(build_index(search_layers(given)), given, {}, {})


def test_a_return_that_lacks_minimal_data_is_logged_once_and_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader = rows(tmp_path, "log")
    assert [run(loader, "row.info").value for _ in range(2)] == [{"name": "x", "more": 1}] * 2
    assert run(loader, "row.names").value == ["a", 5]
    assert caplog.messages == [
        "row.info of row breaks the interface row 1.0: it returned nothing at uid where int is promised.",
        "row.names of row breaks the interface row 1.0: it returned int at [1] where str is promised.",
    ]


def test_fill_adds_the_minimal_data_of_the_default_structure(tmp_path: Path) -> None:
    assert run(rows(tmp_path, "fill"), "row.info").value == {"name": "x", "more": 1, "uid": -1}


@pytest.mark.parametrize("fun", ["row.info", "row.names"])
def test_strict_fails_the_call_with_its_own_code(tmp_path: Path, fun: str) -> None:
    outcome = run(rows(tmp_path, "strict"), fun)
    assert outcome.retcode == 70
    assert f"'{fun}' of row breaks the interface row 1.0: it returned" in outcome.value


def test_returns_are_not_looked_at_when_that_is_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert run(rows(tmp_path, "off"), "row.info").value == {"name": "x", "more": 1}
    assert caplog.messages == []


def test_utils_have_no_interfaces(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "interfaces/thing": THING,
            "utils/thing": "def helper(): return 7",
            "modules/m": "def f(): return __utils__['thing.helper']()",
        },
    )
    loader = Loader(build_index(search_layers(given := {"extension_modules": str(tmp_path)})), given, {}, {})
    assert (run(loader, "m.f").value, run(loader, "m.f").warnings) == (7, ())


def test_an_interface_is_that_of_its_own_name_among_several(tmp_path: Path) -> None:
    source = (
        "from saltlite.interfaces.thing_module import ThingInterface\n__virtualname__ = ThingInterface(__name__)()\n"
        "__virtual_aliases__ = ('also',)\ndef plain(name, size=1): return name"
    )
    loader = thing(tmp_path, source, DEBIAN)
    assert run(loader, "also.plain", "x").value == "x"
    assert run(loader, "also.rare", "x").value == "'also.rare' is not available."
    assert run(loader, "thing.rare", "x").retcode == 69


def test_a_line_in_the_log_is_worth_a_minute(tmp_path: Path) -> None:
    counts = UndeclaredCalls(str(tmp_path / "smi"))
    assert [counts.count("pkg.foo") for _ in range(3)] == [True, False, False]
    os.utime(tmp_path / "smi/pkg.foo", (0, time.time() - LOG_SECONDS - 1))
    assert counts.count("pkg.foo") is True
    assert counts.counts() == {"pkg.foo": 4}


def test_counts_that_cannot_be_kept_cost_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    counts = UndeclaredCalls(str(tmp_path / "file"))
    assert counts.count("pkg.foo") is True
    assert counts.counts() == {}
    assert UndeclaredCalls(str(tmp_path / "smi")).count("../pkg") is True
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


# -- Documentation, and structures without annotations


NOTED = """
    '''A thing.'''
    __virtualname__ = "thing"
    def __virtual__(): return __virtualname__
    def plain(name, size=1):
        '''Only with a lid.'''
        return ["no dict"]
    def list_(): return ["real"]
    __func_alias__ = {"list_": "list"}
"""


def docs(loader: Loader, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = call(loader, "sys.doc", names, {}).value
    return found


def test_the_docstring_of_the_interface_comes_before_the_notes_of_the_provider(tmp_path: Path) -> None:
    loader = thing(tmp_path, NOTED, DEBIAN)
    assert docs(loader, "thing.plain") == {"thing.plain": "Do it.\n\nNotes of ours:\n\nOnly with a lid."}
    described = loader.describe("thing.plain")
    assert described is not None
    assert (described.args, described.defaults) == (("name", "size"), (1,))


def test_what_the_machine_lacks_is_documented_with_the_reason(tmp_path: Path) -> None:
    loader = thing(tmp_path, NOTED, {**WINDOWS, "osfamily": "Windows"})
    found = docs(loader, "thing")
    assert sorted(found) == ["thing.both", "thing.idle", "thing.list", "thing.plain", "thing.rare"]
    assert found["thing.rare"] == "On this machine: not supported."
    assert found["thing.idle"] == "On this machine: not applicable; a call returns {'done': False}."
    bare = thing(tmp_path, BARE, DEBIAN)
    assert docs(bare, "thing.plain") == {"thing.plain": "Do it.\n\nOn this machine: not implemented."}
    described = bare.describe("thing.plain")
    assert described is not None
    assert (described.args, described.defaults) == (("name", "size"), (1,))


def test_an_equal_docstring_is_shown_once(tmp_path: Path) -> None:
    provider = NOTED.replace("Only with a lid.", "Do it quickly.").replace("Do it quickly", "Do it")
    assert docs(thing(tmp_path, provider, DEBIAN), "thing.plain") == {"thing.plain": "Do it."}


@pytest.mark.parametrize(
    ("returns", "value", "retcode"), [("log", ["no dict"], 0), ("off", ["no dict"], 0), ("strict", None, 70)]
)
def test_the_structure_that_the_body_of_a_declaration_returns_is_its_promise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, returns: str, value: Any, retcode: int
) -> None:
    outcome = call(thing(tmp_path, NOTED, DEBIAN, smi_returns=returns), "thing.plain", ("x",), {})
    assert outcome.retcode == retcode
    assert value is None or outcome.value == value
    told = f"{caplog.text} {outcome.value}"
    assert ("it returned list where dict is promised" in told) == (returns != "off")


def test_missing_keys_are_filled_from_the_structure_of_the_body(tmp_path: Path) -> None:
    whole = THING.replace('"Do it."\n            return {}', '"Do it."\n            return {"size": 0, "tags": []}')
    write(tmp_path, {"interfaces/thing_module": whole, "modules/ours": NOTED.replace('["no dict"]', '{"size": 3}')})
    given = {"extension_modules": str(tmp_path), "smi_returns": "fill"}
    loader = Loader(build_index(search_layers(given)), given, DEBIAN, {})
    assert call(loader, "thing.plain", ("x",), {}) == Outcome({"size": 3, "tags": []}, 0)
