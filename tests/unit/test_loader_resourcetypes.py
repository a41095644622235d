"""Resource types: which files make one, what they see, and what may be called on a resource."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.loader import Loader
from saltlite.loader.resource_types import ResourceType, TypeUnavailableError, find_type, load_type
from saltlite.model.signature import by_name
from tests.support.modules import loader_over, write

CONNECTION = """
    def __virtual__():
        return True

    def init(opts):
        __context__["seen"] = [dict(__resource__), opts["id"], sorted(__pillar__)]

    def initialized():
        return "seen" in __context__

    def discover(opts):
        return ["p1", "p2"]

    def grains():
        return {"rid": __resource__["id"], "host": __grains__["os"]}

    def shutdown(opts):
        __context__["seen"] = "closed"

    def info():
        return f"{__resource__['type']}:{__resource__['id']}"

    def peek():
        return __context__["seen"]

    def own_minion():
        return __salt__["plain.hello"]()
    """
SLOT = """
    def ping():
        return True

    def names():
        return __resource__, __grains__, __opts__["resource_type"], __opts__["id"]

    def info():
        return __resource_funcs__["probe.info"]()

    def peek():
        return __resource_funcs__["probe.peek"]()

    def again():
        return __salt__["test.info"]()

    def stock():
        return __salt__["plain.hello"]()

    def minion():
        return __minion__["plain.hello"](), __resource_funcs__["probe.own_minion"]()

    def fail(code):
        __context__["retcode"] = code
        return "no"

    def _private():
        return 1
    """
FILES = {"resources/probe/__init__": CONNECTION, "resources/probe/modules/test": SLOT}


def probe(folder: Path, files: Mapping[str, str] = FILES, **opts: Any) -> ResourceType:
    write(folder, files)
    minion: Loader = loader_over(write(folder / "plain", {"plain": "def hello():\n    return 'hello'\n"}))
    opts = {"module_dirs": [str(folder)], "id": "ma", **opts}
    return ResourceType(find_type("probe", opts), opts, {"os": "Debian"}, {"key": 1}, minion=minion)


def run(one: ResourceType, fun: str, *args: Any, resource: str = "p1", grains: Mapping[str, Any] = {}) -> Outcome:
    with one.entered(resource, grains):
        outcome = call(one.slots, fun, args, {})
        value = outcome.value
        copied = (
            [dict(item) if isinstance(item, Mapping) else item for item in value] if type(value) is tuple else value
        )
    return Outcome(copied, outcome.retcode)


def test_a_slot_sees_its_resource_and_its_grains_and_the_id_of_the_minion(tmp_path: Path) -> None:
    said = run(probe(tmp_path), "test.names", grains={"role": "probe"})
    assert said.value == [{"id": "p1", "type": "probe"}, {"role": "probe"}, "probe", "ma"]


def test_a_connection_module_sees_the_minions_grains_and_the_resource_of_the_call(tmp_path: Path) -> None:
    one = probe(tmp_path)
    with one.entered("p2", {"role": "probe"}):
        assert one.grains() == {"rid": "p2", "host": "Debian"}


def test_init_knows_no_resource_and_what_it_keeps_is_there_in_later_calls(tmp_path: Path) -> None:
    one = probe(tmp_path)
    assert not one.initialized()
    one.init()
    assert one.initialized()
    assert run(one, "test.peek").value == [{}, "ma", ["key"]]


def test_shutdown_is_called_when_the_type_has_one(tmp_path: Path) -> None:
    one = probe(tmp_path)
    one.init()
    one.shutdown()
    assert run(one, "test.peek").value == "closed"


def test_a_type_without_shutdown_is_none_the_worse(tmp_path: Path) -> None:
    bare = CONNECTION.replace("def shutdown", "def _shutdown")
    probe(tmp_path, {**FILES, "resources/probe/__init__": bare}).shutdown()


@pytest.mark.parametrize(("fun", "value"), [("test.info", "probe:p1"), ("test.again", "probe:p1")])
def test_slots_reach_the_connection_module_and_each_other(tmp_path: Path, fun: str, value: str) -> None:
    assert run(probe(tmp_path), fun).value == value


def test_both_files_reach_the_minions_modules_by_the_names_that_are_theirs(tmp_path: Path) -> None:
    assert run(probe(tmp_path), "test.minion").value == ["hello", "hello"]


def test_the_minions_modules_are_not_among_the_slots(tmp_path: Path) -> None:
    said = run(probe(tmp_path), "test.stock")
    assert "Function 'plain.hello' is not supported for resource type 'probe'" in said.value


@pytest.mark.parametrize("fun", ["plain.hello", "cmd.run", "probe.info", "test._private", "nodot", "state.apply"])
def test_what_is_in_no_slot_is_not_supported(tmp_path: Path, fun: str) -> None:
    said = run(probe(tmp_path), fun)
    assert said.value.startswith(f"Function '{fun}' is not supported for resource type 'probe'")
    assert said.retcode == 1


def test_a_slot_that_refuses_says_why(tmp_path: Path) -> None:
    refusing = "def __virtual__():\n    return False, 'no pump'\ndef start():\n    pass\n"
    one = probe(tmp_path, {**FILES, "resources/probe/modules/pump": refusing})
    said = run(one, "pump.start")
    assert said.value == (
        "Function 'pump.start' is not supported for resource type 'probe': 'pump' __virtual__ returned False: no pump"
    )
    assert one.slot_faults == {"pump": "'pump' __virtual__ returned False: no pump"}


def test_the_retcode_is_that_of_the_call(tmp_path: Path) -> None:
    one = probe(tmp_path)
    assert [run(one, "test.fail", 7).retcode, run(one, "test.ping").retcode] == [7, 0]


def test_calls_at_once_see_each_its_own_resource_and_grains(tmp_path: Path) -> None:
    one = probe(tmp_path)
    meet = threading.Barrier(16)
    wrong: list[Any] = []

    def calls(number: int) -> None:
        meet.wait(60)
        for _ in range(50):
            said = run(one, "test.names", resource=f"p{number}", grains={"rid": f"p{number}"}).value
            if said[:2] != [{"id": f"p{number}", "type": "probe"}, {"rid": f"p{number}"}]:
                wrong.append(said)

    threads = [threading.Thread(target=calls, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("connection", "why"),
    [
        ("def __virtual__():\n    return False, 'no library'\n" + "def init(opts): pass\n", "no library"),
        ("import nonexistent_library\n", "No module named 'nonexistent_library'"),
        ("def init(opts): pass\ndef initialized(): return True\n", r"lacks discover\(\), grains\(\)"),
        ("raise SystemExit\n", "SystemExit"),
    ],
)
def test_a_type_that_cannot_be_used_says_why(tmp_path: Path, connection: str, why: str) -> None:
    with pytest.raises(TypeUnavailableError, match=why):
        probe(tmp_path, {"resources/probe/__init__": connection})


@pytest.mark.parametrize("name", ["nosuch", "../probe", "", "a.b"])
def test_a_name_without_files_is_no_type(tmp_path: Path, name: str) -> None:
    write(tmp_path, FILES)
    with pytest.raises(TypeUnavailableError):
        find_type(name, {"module_dirs": [str(tmp_path)]})


def test_a_folder_without_a_connection_module_is_no_type(tmp_path: Path) -> None:
    with pytest.raises(TypeUnavailableError, match=r"there is no probe/__init__\.py"):
        probe(tmp_path, {"resources/probe/modules/test": SLOT})


def test_a_slot_in_ones_own_folder_is_added_to_a_type_and_wins_over_its_slot(tmp_path: Path) -> None:
    own = write(
        tmp_path / "own",
        {
            "_resources/probe/modules/test": "def ping():\n    return 'mine'\n",
            "_resources/probe/modules/more": "def f():\n    return 'more'\n",
        },
    )
    one = probe(tmp_path / "there", module_dirs=[str(tmp_path / "there"), str(own)])
    assert [run(one, "test.ping").value, run(one, "more.f").value] == ["mine", "more"]
    assert "not supported" in run(one, "test.info").value


def test_synced_types_are_those_in_extension_modules(tmp_path: Path) -> None:
    one = probe(tmp_path, module_dirs=[], extension_modules=str(tmp_path))
    assert run(one, "test.ping").value is True


def test_what_the_slots_take_is_known_without_running_them(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, "resources/probe/modules/test": "raise SystemExit\n" + "def ping(times: int = 1): ...\n"})
    texts = find_type("probe", {"module_dirs": [str(tmp_path)]}).function_texts()
    assert by_name(texts)["test.ping"] == "test.ping(times:int=1)"


def test_files_that_did_not_change_are_not_found_anew(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    opts = {"module_dirs": [str(tmp_path)]}
    found = find_type("probe", opts)
    assert find_type("probe", opts, found) is found
    write(tmp_path, {"resources/probe/modules/more": "def f():\n    pass\n"})
    assert find_type("probe", opts, found).function_texts() != found.function_texts()


def test_the_option_providers_is_not_about_resources(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = probe(tmp_path, providers={"pkg": "yumpkg"})
    assert run(one, "test.ping").value is True
    assert caplog.records == []


# -- A custom type that cannot be used


CUSTOM = "resources/dummy/__init__"
BROKEN = {
    "import no_such_library": "No module named 'no_such_library'",
    "def init(opts): pass": "lacks initialized(), discover(), grains()",
    "def __virtual__(): return False, 'no such device'": "no such device",
    "def init(:": "SyntaxError",
}


@pytest.mark.parametrize(("source", "why"), BROKEN.items())
def test_the_shipped_type_takes_the_place_of_a_custom_one_that_cannot_be_used(
    tmp_path: Path, source: str, why: str
) -> None:
    slot = {"resources/dummy/modules/test": "def ping(): return 'custom'"}
    opts = {"id": "m1", "cachedir": str(tmp_path), "module_dirs": [str(write(tmp_path, {CUSTOM: source, **slot}))]}
    loaded = load_type(find_type("dummy", opts), opts, {}, {"resources": {"dummy": {"count": 2}}}, minion={})
    assert f"{tmp_path}/{CUSTOM}.py cannot be used, and the shipped type takes its place" in loaded.instead_of
    assert why in loaded.instead_of
    loaded.init()
    first, _second = loaded.discover()
    with loaded.entered(first, {}):
        assert loaded.slots["test.ping"]() is True


def test_a_custom_type_of_a_name_of_its_own_has_no_such_substitute(tmp_path: Path) -> None:
    opts = {"id": "m1", "module_dirs": [str(write(tmp_path, {"resources/mine/__init__": "import no_such_library"}))]}
    with pytest.raises(TypeUnavailableError, match="no_such_library"):
        load_type(find_type("mine", opts), opts, {}, {}, minion={})


# -- Slots that every type has


def test_every_type_shows_its_grains(tmp_path: Path) -> None:
    opts = {"id": "m1", "module_dirs": [str(write(tmp_path, {"resources/probe/__init__": CONNECTION}))]}
    files = find_type("probe", opts)
    assert [name for name in by_name(files.function_texts()) if name.startswith("grains.")] == [
        "grains.get", "grains.item", "grains.items", "grains.ls",
    ]  # fmt: skip
    loaded = load_type(files, opts, {"os": "Debian"}, {}, minion={})
    with loaded.entered("p1", {"rid": "p1", "rack": {"row": 2}}):
        assert loaded.slots["grains.items"]() == {"rid": "p1", "rack": {"row": 2}}
        assert loaded.slots["grains.get"]("rack:row") == 2


def test_a_type_may_have_its_own_grains_slot(tmp_path: Path) -> None:
    files = {"resources/probe/__init__": CONNECTION, "resources/probe/modules/grains": "def items(): return 'own'"}
    opts = {"id": "m1", "module_dirs": [str(write(tmp_path, files))]}
    loaded = load_type(find_type("probe", opts), opts, {}, {}, minion={})
    assert loaded.slots["grains.items"]() == "own"
    assert "grains.ls" not in loaded.slots
