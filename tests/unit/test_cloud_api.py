"""What drivers import, under our names and under Salt's."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from saltlite.cloud.api import cloud, config, port
from saltlite.cloud.api.driver import uniquely_named
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudException,
    SaltCloudExecutionFailure,
    SaltCloudExecutionTimeout,
    SaltCloudSystemExit,
)
from saltlite.cloud.api.libcloud_calls import ScriptText, six
from saltlite.cloud.api.port import Capabilities
from saltlite.cloud.program.drivers import Drivers
from saltlite.cloud.rules.catalogue import Provider, Settings
from saltlite.salt.utils.functools import namespaced_function
from tests.support.cloud import Program
from tests.support.modules import loader_over, write

OPTS: dict[str, Any] = {
    "providers": {"lab": {"local": {"id": "x", "driver": "local", "size": "small", "minion": {"a": 1, "b": 1}}}},
    "profiles": {"p": {"provider": "lab:local", "profile": "p", "size": "large"}},
    "image": "any",
    "filter_events": {"requesting": {"keys": ["image"]}, "created": {"keys": ["id"], "use_defaults": False}},
}


@pytest.fixture
def program() -> Iterator[Program]:
    made = Program(OPTS)
    with port.running(made):
        yield made


@pytest.mark.parametrize(
    ("vm_", "name", "value"),
    [
        ({"size": "own", "profile": "p", "provider": "lab:local"}, "size", "own"),
        ({"profile": "p", "provider": "lab:local"}, "size", "large"),
        ({"provider": "lab:local"}, "size", "small"),
        ({"driver": "local"}, "size", "small"),
        (None, "image", "any"),
        ({"size": None, "provider": "lab"}, "size", "small"),
        ({"provider": "lab", "minion": {"a": 2}}, "minion", {"a": 2, "b": 1}),
        ({"provider": "lab"}, "nobody", "default"),
    ],
)
def test_a_setting_is_looked_up_from_the_machine_outwards(vm_: dict[str, Any] | None, name: str, value: Any) -> None:
    assert config.get_cloud_config_value(name, vm_, OPTS, default="default") == value


def test_a_setting_of_all_is_not_looked_up_where_that_is_not_wanted() -> None:
    assert config.get_cloud_config_value("image", {}, OPTS, default=1, search_global=False) == 1


def test_what_was_looked_up_can_be_changed_without_harm() -> None:
    config.get_cloud_config_value("minion", {"provider": "lab"}, OPTS)["a"] = 99
    assert OPTS["providers"]["lab"]["local"]["minion"]["a"] == 1


@pytest.mark.parametrize("name", ["lab:local", "local", "other"])
def test_a_provider_with_all_settings_is_found_by_alias_driver_or_another_name_of_it(name: str) -> None:
    found = config.is_provider_configured(OPTS, name, ("id",), aliases=("local",) if name == "other" else ())
    assert found
    assert found["id"] == "x"


def test_a_provider_that_lacks_a_setting_is_false_and_the_setting_is_noted(program: Program) -> None:
    assert config.is_provider_configured(OPTS, "lab:local", ("id", "key", "secret")) is False
    assert program.missing_settings == {"lab:local": ["key", "secret"]}


def test_a_profile_needs_an_image_and_a_size_unless_its_driver_has_none(program: Program) -> None:
    opts = {"providers": {"e": {"ec2": {}}}, "profiles": {"p": {"provider": "e:ec2", "size": "s"}}}
    assert config.is_profile_configured(opts, "e:ec2", "p") is False
    assert program.missing_settings == {"profile p": ["image"]}
    assert config.is_profile_configured(opts, "e:ec2", "p", vm_={"image": "i"}) is True
    assert config.is_profile_configured(OPTS, "lab:local", "p") is True


def test_an_event_has_its_text_and_its_fields(program: Program) -> None:
    vm_ = {"name": "a", "image": "i", "id": 1, "password": "x"}
    cloud.fire_event(
        "event", "starting", "salt/cloud/a/requesting", args=cloud.filter_event("requesting", vm_, ["name"])
    )
    assert program.events == [("salt/cloud/a/requesting", {"event": "starting", "name": "a", "image": "i"})]
    assert cloud.filter_event("created", vm_, ["name"]) == {"id": 1}
    assert cloud.filter_event("other", vm_, ["name", "gone"]) == {"name": "a"}


def test_functions_that_need_a_program_say_so_without_one() -> None:
    with pytest.raises(SaltCloudSystemExit, match="saltlite cloud"):
        cloud.fire_event("event", "x", "salt/cloud/a/x")


def test_list_nodes_select_has_the_wanted_fields_and_refuses_to_be_an_action() -> None:
    machines = {"a": {"id": "1", "state": "up", "extra": {"b": 2}}}
    assert cloud.list_nodes_select(machines, ["id", "extra:b"]) == {"a": {"id": "1", "extra:b": 2}}
    with pytest.raises(SaltCloudSystemExit, match="-f or --function"):
        cloud.list_nodes_select(machines, ["id"], "action")


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("saltlite.cloud.api.cloud.time.monotonic", lambda: self.now)
        monkeypatch.setattr("saltlite.cloud.api.cloud.time.sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def test_an_address_is_waited_for_until_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, answers = Clock(monkeypatch), iter([None, False, None, "10.0.0.1"])
    found = cloud.wait_for_ip(lambda a, b: next(answers), update_args=(1,), update_kwargs={"b": 2}, interval=2)
    assert (found, clock.now) == ("10.0.0.1", 6)


def test_waiting_for_an_address_ends_after_its_time_or_its_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    with pytest.raises(SaltCloudExecutionTimeout):
        cloud.wait_for_ip(lambda: None, timeout=10, interval=3)
    with pytest.raises(SaltCloudExecutionFailure, match="3 requests"):
        cloud.wait_for_ip(lambda: False, max_failures=3)


def test_errors_of_what_is_waited_for_are_not_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def answer(name: str) -> str:
        if clock.now < 3:
            raise OSError("not yet")
        return name

    assert cloud.wait_for_fun(answer, timeout=10, name="web1") == "web1"
    clock.now = 0
    assert cloud.wait_for_fun(answer, timeout=1, name="web1") is False


def test_older_drivers_deploy_by_single_settings(program: Program) -> None:
    assert cloud.deploy_script("10.0.0.9", port=2222, name="a", username="me", key_filename="/k", script=None) is True
    assert program.deployed == [
        {"name": "a", "ssh_username": "me", "key_filename": "/k", "ssh_host": "10.0.0.9", "ssh_port": 2222}
    ]


def test_the_text_that_os_script_returned_stands_for_the_setting_it_was_read_from(program: Program) -> None:
    vm_ = {"name": "a", "script": "mine"}
    for given in (cloud.os_script("mine", vm_), ScriptText(cloud.os_script("mine", vm_)), "#!/bin/sh\n# another\n"):
        cloud.deploy_script("10.0.0.9", vm_=vm_, script=given)
    assert [one["script"] for one in program.deployed] == ["mine", "mine", "#!/bin/sh\n# another\n"]
    assert ScriptText("x").script == "x"


def test_arguments_that_the_configuration_of_this_program_answers_do_not_reach_the_machine(program: Program) -> None:
    cloud.deploy_script(
        "10.0.0.9", name="a", keep_tmp=False, start_action=None, parallel=False, minion_pem="", tty=True,
        known_hosts_file="/dev/null", ssh_timeout=15, maxtries=3, make_minion=False, make_master=False,
    )  # fmt: skip
    assert program.deployed == [
        {"name": "a", "wait_for_passwd_maxtries": 3, "deploy": False, "ssh_host": "10.0.0.9", "ssh_port": 22}
    ]


@pytest.mark.parametrize(
    ("given", "way_out"), [("make_master", "a master is not"), ("make_syndic", "no syndics"), ("gateway", "ProxyJump")]
)
def test_a_deployment_that_cannot_be_is_refused_with_the_way_out(program: Program, given: str, way_out: str) -> None:
    arguments: dict[str, Any] = {"name": "a", given: True}
    with pytest.raises(SaltCloudConfigError, match=way_out):
        cloud.deploy_script("10.0.0.9", **arguments)
    assert program.deployed == []


@pytest.mark.parametrize(
    "refused",
    [
        lambda: cloud.deploy_windows("w1", username="x"),
        lambda: cloud.validate_windows_cred("w1", "Administrator", "pw"),
        lambda: cloud.gen_keys(2048),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_way_out(program: Program, refused: Any) -> None:
    with pytest.raises(SaltCloudSystemExit, match=r"--no-deploy|join_token"):
        refused()


@pytest.mark.parametrize(
    ("vm_", "names"),
    [
        ({}, ["ec2-user", "root"]),
        ({"ssh_username": "me"}, ["me"]),
        ({"ssh_username": ["me", "you"]}, ["me", "you"]),
    ],
)
def test_who_logs_in_is_the_one_that_is_configured_else_those_of_the_driver(
    vm_: Mapping[str, Any], names: list[str]
) -> None:
    assert cloud.ssh_usernames(vm_, {}, ["ec2-user"]) == names


def test_addresses_are_public_or_not_or_none() -> None:
    assert cloud.is_public_ip("8.8.8.8")
    assert not cloud.is_public_ip("10.1.2.3")
    with pytest.raises(SaltCloudException, match="not an address"):
        cloud.is_public_ip("web1")


def test_names_are_checked_against_ranges_of_characters() -> None:
    cloud.check_name("web-1", "a-z0-9-")
    with pytest.raises(SaltCloudException, match="'_'"):
        cloud.check_name("web_1", "a-z0-9-")


def test_templates_in_user_data_are_refused() -> None:
    assert cloud.userdata_template({}, {}, "#!/bin/sh") == "#!/bin/sh"
    with pytest.raises(SaltCloudConfigError, match="userdata_template"):
        cloud.userdata_template({}, {"userdata_template": "jinja"}, "x")


def test_what_is_known_of_machines_is_kept_unless_that_is_off(program: Program) -> None:
    cloud.cache_node({"name": "a", "id": 1}, "lab:local", OPTS)
    cloud.cache_node_list({"b": {"id": 2}}, "lab:local", {"update_cachedir": False})
    assert set(program.remembered["lab:local"]) == {"a"}
    cloud.delete_minion_cachedir("a", "lab:local", OPTS)
    assert program.remembered["lab:local"] == {}


def test_a_namespaced_function_sees_the_names_of_the_file_that_takes_it(tmp_path: Path) -> None:
    first = loader_over(
        write(tmp_path / "a", {"lender": "WORD = 'lender'\ndef _who(): return WORD\ndef f(x=1): return _who(), x"})
    )
    borrowed = first["lender.f"]
    space: dict[str, Any] = {"WORD": "taker", "__name__": "taker"}
    taken = namespaced_function(borrowed, space)
    assert taken() == ("lender", 1), "what the function calls is of its own file"
    own = namespaced_function(eval("lambda: WORD", {"WORD": "lender"}), space)  # noqa: S307 - a function of other globals
    assert own() == "taker"
    assert taken.__module__ == "taker"


def test_an_id_that_is_none_is_no_text() -> None:
    assert uniquely_named([("a", None, 1), ("a", None, 2), ("a", 7, 3)]) == {"a": 1, "a (2)": 2, "a (7)": 3}
    node = SimpleNamespace(id=None, image=None, size=None, state="running", extra={}, private_ips=[], public_ips=None)
    assert six(node)["id"] == ""


def test_a_driver_imports_salts_names(tmp_path: Path) -> None:
    source = """
import salt.config as config
import salt.utils.cloud
import salt.utils.functools
from salt.exceptions import SaltCloudExecutionFailure, SaltCloudNotFound, SaltCloudSystemExit

def f():
    return config.is_provider_configured(__opts__, "lab:local", ("id",)), salt.utils.cloud.is_public_ip("8.8.8.8")

def g():
    raise SaltCloudSystemExit("no")
"""
    loader = loader_over(write(tmp_path, {"m": source}), opts=OPTS)
    settings, public = loader["m.f"]()
    assert (settings["id"], public) == ("x", True)
    with pytest.raises(SaltCloudSystemExit, match="no"):
        loader["m.g"]()


ROOT = Path(cloud.__file__).parents[1]


def test_no_part_of_the_program_names_a_driver() -> None:
    drivers = {path.stem for path in (ROOT / "drivers").glob("[a-z]*.py")}
    files = [path for part in ("api", "deploy", "program", "rules") for path in (ROOT / part).glob("*.py")]
    named = {
        (path.name, item.value)
        for path in files
        for item in ast.walk(ast.parse(path.read_text()))
        if isinstance(item, ast.Constant) and item.value in drivers
    }
    assert named == set()


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [("", Capabilities()), ("CAPABILITIES = Capabilities(needs_size=False)", Capabilities(needs_size=False))],
)
def test_a_driver_declares_what_it_can(declaration: str, expected: Capabilities, tmp_path: Path) -> None:
    text = f"from saltlite.cloud.api.port import Capabilities\n{declaration}\ndef create(vm_): pass\n"
    write(tmp_path, {"clouds/mine": text})
    drivers = Drivers({"module_dirs": [str(tmp_path)], "extension_modules": "", "cachedir": str(tmp_path)})
    assert drivers.of(Provider("lab", "mine", Settings({"driver": "mine"}))).capabilities == expected
    assert drivers.of(Provider("lab", "none", Settings({"driver": "none"}))).capabilities == Capabilities()
