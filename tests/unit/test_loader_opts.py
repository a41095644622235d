"""`__opts__` of the files that users write: the whole configuration in Salt's words."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from saltlite.config.load import load_master, load_minion
from saltlite.config.opts import opts_of
from saltlite.loader.call import call
from saltlite.loader.executors import Executors
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.resource_types import ResourceType, find_type
from saltlite.loader.search_path import search_layers
from saltlite.minion.custom_grains import custom_grains
from saltlite.model.execution import Execution
from tests.support.modules import write

FOUND = {"os": "Debian", "id": "web1"}
PILLAR = {"role": "web"}
SEEN = "def f(): return __opts__"


@pytest.fixture
def opts(tmp_path: Path) -> dict[str, Any]:
    """The options of a minion whose plug-ins are in `tmp_path`/own."""
    (tmp_path / "minion").write_text(
        f"root_dir: {tmp_path}\nmodule_dirs: [{tmp_path}/own]\nmaster: ['gate.example:4600', other]\n"
        "grains: {fixed: 1}\nown.option: 3\n"
    )
    return opts_of(load_minion(str(tmp_path)).config, "web1")


def loader(opts: dict[str, Any], kind: str = "modules") -> Loader:
    return Loader(build_index(search_layers(opts, kind)), opts, FOUND, PILLAR)


def is_whole(seen: Any) -> bool:
    return seen["pillar"] == PILLAR and seen["grains"] == FOUND and seen["test"] is False


def test_a_module_sees_the_whole_configuration(tmp_path: Path, opts: dict[str, Any]) -> None:
    write(tmp_path, {"own/modules/m": SEEN})
    seen = loader(opts)["m.f"]()
    expected = {
        "pillar": PILLAR, "grains": FOUND, "test": False, "saltenv": None, "pillarenv": None, "file_client": "remote",
        "renderer": "jinja|yaml", "hash_type": "sha256", "state_output": "full", "__role": "minion", "id": "web1",
        "own.option": 3, "master": "gate.example", "master_list": ["gate.example", "other"], "master_port": 4600,
        "master_uri": "tcp://gate.example:4600", "config_dir": str(tmp_path), "conf_file": str(tmp_path / "minion"),
        "sock_dir": opts["data_dir"],
    }  # fmt: skip
    assert {name: seen[name] for name in expected} == expected
    assert set(opts) <= set(seen)


@pytest.mark.parametrize(
    ("master", "host", "uri"),
    [
        (["salt"], "salt", "tcp://salt:4515"),
        ("salt:1", "salt", "tcp://salt:1"),
        (["[::1]"], "::1", "tcp://[::1]:4515"),
        (["[::1]:7"], "::1", "tcp://[::1]:7"),
    ],
)
def test_the_master_is_a_host_as_in_salt(tmp_path: Path, master: Any, host: str, uri: str) -> None:
    write(tmp_path, {"own/modules/m": SEEN})
    seen = loader({"module_dirs": [str(tmp_path / "own")], "master": master, "port": 4515})["m.f"]()
    assert (seen["master"], seen["master_uri"]) == (host, uri)


def test_the_configuration_wins_over_salts_defaults(tmp_path: Path) -> None:
    write(tmp_path, {"own/modules/m": SEEN})
    seen = loader({"module_dirs": [str(tmp_path / "own")], "test": True, "saltenv": "dev"})["m.f"]()
    assert (seen["test"], seen["saltenv"]) == (True, "dev")


def test_a_refresh_is_seen_in_options_that_were_kept(tmp_path: Path, opts: dict[str, Any]) -> None:
    write(tmp_path, {"own/modules/m": "KEPT = __opts__\ndef f(): return KEPT['grains'], KEPT['pillar']"})
    here = loader(opts)
    here["m.f"]
    here.refresh({"os": "Arch"}, {"role": "db"})
    assert here["m.f"]() == ({"os": "Arch"}, {"role": "db"})


def test_options_of_a_module_lie_over_them_and_stay_current(tmp_path: Path, opts: dict[str, Any]) -> None:
    write(tmp_path, {"own/modules/m": "__opts__ = {'hash_type': 'md5'}\n" + SEEN, "own/modules/n": SEEN})
    here = loader(opts)
    seen = here["m.f"]()
    assert (seen["hash_type"], here["n.f"]()["hash_type"]) == ("md5", "sha256")
    here.refresh({"os": "Arch"}, PILLAR)
    assert seen["grains"] == {"os": "Arch"}


def test_init_and_virtual_get_them(tmp_path: Path, opts: dict[str, Any]) -> None:
    source = """
        SEEN = []
        def __init__(opts): SEEN.append(opts)
        def __virtual__():
            SEEN.append(__opts__)
            return True
        def f(): return SEEN
        """
    write(tmp_path, {"own/modules/m": source})
    assert all(map(is_whole, loader(opts)["m.f"]()))


def test_modules_and_utils_share_them(tmp_path: Path, opts: dict[str, Any]) -> None:
    files = {
        "own/modules/m": "def f():\n    __opts__['test'] = True\n    return __utils__['u.f']()",
        "own/utils/u": SEEN,
    }
    write(tmp_path, files)
    assert loader(opts)["m.f"]()["test"] is True


def test_they_are_copied_and_written_like_a_dict(tmp_path: Path, opts: dict[str, Any]) -> None:
    write(tmp_path, {"own/modules/m": SEEN})
    seen = loader(opts)["m.f"]()
    for made in (dict(seen), {**seen}, copy.copy(seen), copy.deepcopy(seen)):
        assert made == seen
        assert made is not seen
    assert json.loads(json.dumps(seen))["pillar"] == PILLAR


def test_shipped_modules_see_the_options_of_saltlite_alone(opts: dict[str, Any]) -> None:
    found = loader(opts)["config.items"]()
    assert found["grains"] == {"fixed": 1}
    assert "pillar" not in found


def test_custom_grains_see_the_grains_before_them(tmp_path: Path, opts: dict[str, Any]) -> None:
    write(tmp_path, {"own/grains/g": "def one(): return {'saw': __opts__['grains']['os'], 'role': __opts__['__role']}"})
    assert list(custom_grains(opts, FOUND)) == [{"saw": "Debian", "role": "minion"}]


def test_an_executor_gets_them_with_the_options_of_the_caller(tmp_path: Path, opts: dict[str, Any]) -> None:
    source = """
        SAFE_OPTS = {"level": int}
        def delay(opts, data): return 0.0
        def execute(opts, data, func, args, kwargs): return [opts["level"], opts["pillar"], __opts__["pillar"]]
        def finish(opts, data): opts["pillar"]["finished"] = True
        """
    write(tmp_path, {"own/executors/mine": source})
    here = loader(opts)
    chain = Executors(here).chain(Execution(["mine"], {"level": 7}), remote=False)
    assert call(here, "test.ping", (), {}, chain=chain).value == [
        7,
        {**PILLAR, "finished": True},
        {**PILLAR, "finished": True},
    ]


TYPE = """
    SEEN = {}
    def init(opts): SEEN["init"] = opts
    def initialized(): return True
    def discover(opts):
        SEEN["discover"] = opts
        return sorted(opts["pillar"].get("things", ()))
    def grains(): return {}
    def shutdown(opts): SEEN["shutdown"] = opts
    def seen(): return SEEN
    """


def test_a_resource_type_gets_them_and_so_do_its_slots(tmp_path: Path, opts: dict[str, Any]) -> None:
    slot = "def f(): return __resource_funcs__['probe.seen'](), __opts__"
    write(tmp_path, {"own/resources/probe/__init__": TYPE, "own/resources/probe/modules/m": slot})
    here = ResourceType(find_type("probe", opts), opts, FOUND, PILLAR, minion={})
    here.init()
    assert here.discover() == []
    here.refresh({**FOUND, "os": "Arch"}, {"things": ["a", "b"]})
    assert here.discover() == ["a", "b"]
    here.shutdown()
    seen, of_slot = here.slots["m.f"]()
    assert [one["pillar"] for one in (*seen.values(), of_slot)] == [{"things": ["a", "b"]}] * 4
    assert of_slot["grains"]["os"] == "Arch"
    assert of_slot["resource_type"] == "probe"


def test_a_runner_sees_the_configuration_of_the_master(tmp_path: Path) -> None:
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\nmodule_dirs: [{tmp_path}/own]\n")
    opts = opts_of(load_master(str(tmp_path)).config, "gate_master")
    write(tmp_path, {"own/runners/r": SEEN, "own/returners/t": SEEN})
    for fun, kind in (("r.f", "runners"), ("t.f", "returners")):
        seen = loader(opts, kind)[fun]()
        assert seen["__role"] == "master"
        assert seen["file_client"] == "local"
        assert seen["conf_file"] == str(tmp_path / "master")
        assert seen["sock_dir"] == opts["sock_dir"]
        assert is_whole(seen)
