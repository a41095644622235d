"""Reports of one minion and tables of a fleet, and the interfaces that ship."""

from __future__ import annotations

import types
from typing import Any

import pytest

from saltlite.interfaces import Interface
from saltlite.interfaces.group import GroupInterface
from saltlite.interfaces.pkg import PkgInterface
from saltlite.interfaces.service import ServiceInterface
from saltlite.interfaces.shadow import ShadowInterface
from saltlite.interfaces.smi.contract import Contract, contract_of
from saltlite.interfaces.smi.report import FleetTable, as_html, check_module, digest_of
from saltlite.interfaces.user import UserInterface
from saltlite.loader.contracts import SHIPPED_INTERFACES, with_interfaces
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.grains.collect import collect

DEBIAN = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "init": "systemd"}
SHIPPED = {
    "group": GroupInterface,
    "pkg": PkgInterface,
    "service": ServiceInterface,
    "shadow": ShadowInterface,
    "user": UserInterface,
}


class ThingInterface(Interface):
    __modulename__ = "thing"
    __version__ = "2.1"

    def plain(self, name: str) -> dict[str, str]:
        """Do it."""
        return {}

    def gone(self) -> None:
        """Do nothing."""

    @Interface.supported(os=["beos"])
    def rare(self) -> None:
        """Do it on BeOS."""


def provider(source: str) -> types.ModuleType:
    """An imported module of that text."""
    module = types.ModuleType("providers.ours")
    exec(source, module.__dict__)  # noqa: S102 - the text of a test
    return module


def test_a_module_can_be_checked_without_a_loader() -> None:
    source = "def plain(pkg): ...\ndef stray(): ...\ndef _private(): ...\n__func_alias__ = {'stray': 'strays'}"
    report = ThingInterface.check(provider(source), grains=DEBIAN)
    assert {fun: row["state"] for fun, row in report["functions"].items()} == {
        "gone": "not_implemented",
        "plain": "implemented",
        "rare": "not_supported",
        "strays": "deprecated",
    }
    assert (report["interface"], report["version"], report["provider"]) == ("thing", "2.1", "ours")
    assert report["functions"]["plain"]["differences"] == [
        {"kind": "renamed", "level": "warning", "text": "renamed: name is pkg here"}
    ]
    assert (report["warnings"], report["errors"]) == (1, 0)


def test_the_digest_changes_with_what_the_report_says_and_with_nothing_else() -> None:
    report = check_module(ThingInterface, provider("def plain(name): ..."), DEBIAN)
    assert digest_of({**report, "stray_calls": {"x": 5}, "os": "Debian"}) == report["digest"]
    assert check_module(ThingInterface, provider("def plain(pkg): ..."), DEBIAN)["digest"] != report["digest"]


def test_a_method_without_self_is_refused_where_it_is_declared() -> None:
    with pytest.raises(TypeError, match="must take self"):
        type("Bad", (Interface,), {"__modulename__": "bad", "f": lambda: None})


def test_a_name_is_made_of_an_interface_that_says_its_module() -> None:
    with pytest.raises(TypeError, match="has no __modulename__"):
        type("Bad", (Interface,), {})("m")()


def test_an_interface_inherits_functions_and_not_the_decorators_of_what_it_overrides() -> None:
    class Wider(ThingInterface):
        def rare(self) -> None:
            """Do it everywhere."""

    contract = contract_of(Wider)
    assert contract.functions.keys() == {"plain", "gone", "rare"}
    assert contract.functions["rare"].supported is None


# --- what ships


@pytest.fixture(params=sorted(SHIPPED))
def shipped(request: pytest.FixtureRequest) -> Contract:
    return contract_of(SHIPPED[request.param])


def test_every_interface_that_ships_is_known_to_the_loader() -> None:
    assert SHIPPED.keys() == SHIPPED_INTERFACES


def test_every_default_structure_fits_what_is_promised(shipped: Contract) -> None:
    misfits = {
        fun: declared.default()
        for fun, declared in shipped.functions.items()
        if not declared.schema.fits(declared.default())
    }
    assert misfits == {}


def test_every_function_that_ships_is_documented(shipped: Contract) -> None:
    assert [fun for fun, declared in shipped.functions.items() if not declared.doc] == []


def test_the_core_of_an_interface_is_to_be_had_everywhere(shipped: Contract) -> None:
    core = {fun for fun, declared in shipped.functions.items() if declared.supported is None}
    least = {
        "group": {"add", "info"},
        "pkg": {"install", "version"},
        "service": {"start", "status"},
        "user": {"add", "info"},
    }
    assert least.get(shipped.name, set()) <= core


def test_the_shipped_provider_keeps_to_the_shipped_interface() -> None:
    opts: dict[str, Any] = {}
    loader = Loader(build_index(search_layers(opts)), opts, collect({}) | DEBIAN, {})
    report = loader.conformance("pkg")
    if report is None:
        pytest.skip("apt is not installed here")
    assert (report["provider"], report["errors"], report["warnings"]) == ("aptpkg", 0, 0)
    assert report["counts"].get("deprecated", 0) == 0
    core = {fun for fun, declared in contract_of(PkgInterface).functions.items() if declared.supported is None}
    assert {report["functions"][fun]["state"] for fun in core} == {"implemented"}


# --- what minions tell of it


def test_functions_that_only_an_interface_has_are_told_as_absent() -> None:
    install = "pkg.install(name=None,refresh=False,*,pkgs=None,sources=None)!x"
    texts = with_interfaces([install, "test.ping()"], {})
    assert install in texts
    assert "pkg.lock?" in texts
    assert "test.ping()" in texts
    assert not [text for text in texts if text.startswith("user.")]
    assert texts == sorted(texts)


def test_parameters_are_not_told_where_the_provider_has_other_names_because_a_call_may_use_either() -> None:
    assert "pkg.install!x" in with_interfaces(["pkg.install(pkg,**kwargs)!x"], {})
    assert "pkg.install(pkg,**kwargs)" in with_interfaces(["pkg.install(pkg,**kwargs)"], {"smi_mode": "observe"})


def test_with_enforce_what_the_provider_takes_is_not_told() -> None:
    assert "pkg.install!x" in with_interfaces(["pkg.install(name)!x"], {"smi_mode": "enforce"})


def test_off_tells_of_modules_alone() -> None:
    assert with_interfaces(["pkg.install(name)"], {"smi_mode": "off"}) == ["pkg.install(name)"]


# --- fleets


def answer(source: str, system: str, **more: Any) -> dict[str, Any]:
    report = check_module(ThingInterface, provider(source), {"os": system})
    return {"thing": {**report, "os": system, **more}}


def test_a_fleet_s_table_counts_minions_by_provider_and_system() -> None:
    fleet = FleetTable({})
    fleet.add("a", answer("def plain(name): ...\ndef stray(): ...", "Debian", stray_calls={"stray": 2}))
    fleet.add("b", answer("def plain(name): ...\ndef stray(): ...", "Debian", stray_calls={"stray": 1}))
    fleet.add("c", answer("def plain(): ...", "beos"))
    fleet.add("d", "'smi.conformance' is not available.")
    table = fleet.table()
    thing = table["modules"]["thing"]
    assert table["minions"] == 3
    assert table["silent"] == {"d": "'smi.conformance' is not available."}
    assert [(one["os"], one["minions"]) for one in thing["providers"]] == [("Debian", 2), ("beos", 1)]
    assert thing["functions"]["plain"] == [{"implemented": 2}, {"implemented": 1}]
    assert thing["functions"]["rare"] == [{"not_supported": 2}, {"not_implemented": 1}]
    assert thing["functions"]["stray"] == [{"deprecated": 2}, {}]
    assert thing["problems"] == {"plain": ["ours: missing: name is not taken here"]}
    assert thing["stray_calls"] == {"stray": 3}


def test_a_digest_stands_for_a_report_that_came_before() -> None:
    first = FleetTable({})
    whole = answer("def plain(name): ...", "Debian")
    first.add("a", whole)
    second = FleetTable(first.reports)
    second.add("a", {"thing": {"digest": whole["thing"]["digest"], "stray_calls": {}, "os": "Debian"}})
    assert second.table() == first.table()


@pytest.mark.parametrize(
    "said",
    [
        5,
        {"digest": "unknown"},
        {"digest": "0" * 16, "provider": "p", "version": "1", "functions": {}},
        {"digest": [], "functions": {"f": 5}, "provider": "p", "version": "1"},
    ],
)
def test_an_answer_that_cannot_be_a_report_is_told_and_costs_nothing_else(said: Any) -> None:
    fleet = FleetTable({})
    fleet.add("bad", {"thing": said})
    fleet.add("good", answer("def plain(name): ...", "Debian"))
    table = fleet.table()
    assert table["silent"] == {"bad": "its report about thing cannot be read"}
    assert table["modules"]["thing"]["functions"]["plain"] == [{"implemented": 1}]


def test_the_page_holds_what_minions_say_as_text_and_never_as_markup() -> None:
    fleet = FleetTable({})
    fleet.add("a", answer("def plain(name): ...", "<script>x</script>"))
    fleet.add("<b>", "<i>no</i>")
    page = as_html(fleet.table())
    assert "<script>" not in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "&lt;b&gt;: &lt;i&gt;no&lt;/i&gt;" in page
    assert 'class="implemented"' in page
