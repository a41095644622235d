"""The driver `libcloud`, and `libcloudfuncs`, with the provider of libcloud that only exists in memory."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudExecutionFailure,
    SaltCloudNotFound,
    SaltCloudSystemExit,
)
from tests.support.cloud import Program, assert_six, loaded, machine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("libcloud") is None, reason="needs Apache Libcloud: pip install 'saltlite[cloud]'"
)

SMALL = {"size": "Small", "image": "Ubuntu 9.10"}
_numbers = itertools.count(1)

Driver = tuple[Any, Program]


@pytest.fixture
def dummy() -> Iterator[Driver]:
    """The driver with a provider of its own for each test; it begins with the machines dummy-1 and dummy-2."""
    with loaded("libcloud", {"libcloud_provider": "DUMMY", "key": f"creds-{next(_numbers)}"}) as driver:
        yield driver


def test_a_machine_is_made_listed_shown_and_destroyed(dummy: Driver) -> None:
    driver, program = dummy
    made = driver.create(machine("libcloud", "web1", **SMALL))
    assert made["id"] == "3"
    assert program.deployed[0]["ssh_host"] == made["public_ips"][0]
    assert driver.show_instance("web1", "action")["id"] == "3"
    assert sorted(driver.list_nodes_min()) == ["dummy-1", "dummy-2", "dummy-3", "web1"]
    assert driver.destroy("web1", call="action") is True
    assert list(driver.list_nodes()) == ["dummy-1", "dummy-2"]


def test_the_events_of_a_machine_come_in_order(dummy: Driver) -> None:
    driver, program = dummy
    driver.create(machine("libcloud", "web1", **SMALL, password="mellon"))
    driver.destroy("web1")
    assert program.tags() == [
        f"salt/cloud/web1/{event}"
        for event in ("creating", "requesting", "deploying", "created", "destroying", "destroyed")
    ]
    assert dict(program.events)["salt/cloud/web1/requesting"]["kwargs"] == {"name": "web1", "size": "1", "image": "1"}
    assert "mellon" not in str(program.events)


def test_the_name_of_a_machine_that_was_destroyed_can_be_used_again(dummy: Driver) -> None:
    driver, _ = dummy
    driver.create(machine("libcloud", "web1", **SMALL))
    driver.destroy("web1")
    with pytest.raises(SaltCloudNotFound, match="Dummy Node Provider has no machine 'web1'"):
        driver.destroy("web1")
    assert driver.create(machine("libcloud", "web1", **SMALL))["id"] == "3"


def test_every_listing_has_the_six_fields_where_the_provider_gives_none_of_them(dummy: Driver) -> None:
    driver, _ = dummy
    nodes = driver.list_nodes(call="function")
    assert_six(nodes)
    assert nodes["dummy-1"] == {
        "id": "1",
        "image": "",
        "size": "",
        "state": "running",
        "private_ips": [],
        "public_ips": ["127.0.0.1"],
    }
    full = driver.list_nodes_full()["dummy-1"]
    assert full["extra"] == {"foo": "bar"}
    assert "driver" not in full
    assert driver.list_nodes_select() == {name: {"id": one["id"], "state": one["state"]} for name, one in nodes.items()}


def test_what_can_be_chosen_is_listed_as_data(dummy: Driver) -> None:
    driver, _ = dummy
    assert driver.avail_sizes()["Small"]["ram"] == 128
    assert driver.avail_images()["Ubuntu 9.10"]["id"] == "1"
    assert driver.avail_locations()["Paul's Room"]["country"] == "US"


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"size": "Smal"}, SaltCloudNotFound, r"has no size 'Smal': is Small meant\?"),
        ({"image": "zzz"}, SaltCloudNotFound, "has no image 'zzz'; --list-images shows"),
        ({"location": "Mars"}, SaltCloudNotFound, "has no location 'Mars'"),
        ({"size": None}, SaltCloudConfigError, "web1 has no 'size'"),
        ({"create_options": {"speed": 3}}, SaltCloudConfigError, "does not take the settings of web1: .*speed"),
        ({"create_options": [1]}, SaltCloudConfigError, "'create_options' of web1 must be a map"),
        ({"ssh_interface": "both"}, SaltCloudConfigError, "'ssh_interface' of web1"),
        ({"private_key": "/none"}, SaltCloudConfigError, "private_key names /none, and there is no such file"),
        ({"ssh_public_key": "/none"}, SaltCloudConfigError, "this provider accepts no key"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_nothing_is_made(
    dummy: Driver, settings: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    driver, _ = dummy
    with pytest.raises(error, match=sentence):
        driver.create(machine("libcloud", "web1", **{**SMALL, **settings}))
    assert len(driver.list_nodes()) == 2


def test_a_password_that_the_provider_makes_up_is_used_returned_and_concealed(
    dummy: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, program = dummy
    conn = driver.get_conn()
    create = conn.create_node

    def with_password(**asked: Any) -> Any:
        made = create(**asked)
        made.extra["password"] = "mellon"
        return made

    monkeypatch.setattr(conn, "create_node", with_password)
    made = driver.create(machine("libcloud", "web1", **SMALL))
    assert made["password"] == "mellon"
    assert program.deployed[0]["password"] == "mellon"
    assert program.concealed == ["mellon"]


def test_a_key_goes_to_a_provider_that_takes_one(
    dummy: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    driver, _ = dummy
    conn, keys = driver.get_conn(), []
    create = conn.create_node

    def with_key(auth: Any, **asked: Any) -> Any:
        keys.append(auth.pubkey)
        return create(**asked)

    monkeypatch.setattr(conn, "features", {"create_node": ["ssh_key"]})
    monkeypatch.setattr(conn, "create_node", with_key)
    (tmp_path / "deploy.pub").write_text("ssh-ed25519 AAAA deploy@lab\n", encoding="ascii")
    driver.create(machine("libcloud", "web1", **SMALL, ssh_public_key=str(tmp_path / "deploy.pub")))
    assert keys == ["ssh-ed25519 AAAA deploy@lab"]


def test_a_provider_that_is_none_of_libclouds_is_named_with_the_nearest() -> None:
    with (
        loaded("libcloud", {"libcloud_provider": "linod", "key": "k"}) as (driver, _),
        pytest.raises(SaltCloudConfigError, match=r"libcloud knows no provider 'linod': is linode meant\?"),
    ):
        driver.list_nodes()


def test_settings_that_the_provider_does_not_take_are_told() -> None:
    settings = {"libcloud_provider": "dummy", "key": "k", "libcloud_options": {"speed": 3}}
    with (
        loaded("libcloud", settings) as (driver, _),
        pytest.raises(SaltCloudConfigError, match=r"driver dummy does not take these settings: .*speed"),
    ):
        driver.list_nodes()


def test_what_goes_wrong_in_libcloud_is_one_sentence(dummy: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    import libcloud.common.types as kinds
    import requests.exceptions

    # Its classes have no types.
    faults: Any = importlib.import_module("libcloud.common.exceptions")
    driver, _ = dummy
    conn = driver.get_conn()
    for error, sentence in (
        (kinds.InvalidCredsError("no"), "rejects these credentials"),
        (kinds.MalformedResponseError("no", body="<html>"), "answers nonsense"),
        (faults.RateLimitReachedError(), "limits the rate of requests to list machines"),
        (faults.BaseHTTPError(500, "went\nwrong"), "refuses to list machines: .*went wrong"),
        (kinds.LibcloudError("no", conn), "refuses to list machines"),
        (requests.exceptions.ConnectionError("refused"), "cannot be reached to list machines: refused"),
        (TimeoutError("timed out"), "cannot be reached to list machines: timed out"),
    ):

        def fail(error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(conn, "list_nodes", fail)
        with pytest.raises(SaltCloudExecutionFailure, match=f"^Dummy Node Provider .*{sentence}") as caught:
            driver.list_nodes()
        assert "\n" not in str(caught.value)


def test_what_libcloud_cannot_do_at_a_provider_is_told(dummy: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, _ = dummy

    def lacking(_machine: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(driver.get_conn(), "reboot_node", lacking)
    with pytest.raises(SaltCloudSystemExit, match="libcloud cannot reboot dummy-1 at Dummy Node Provider"):
        driver.reboot("dummy-1", call="action")


def test_a_machine_that_is_not_destroyed_is_told_and_no_event_says_that_it_was(
    dummy: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, program = dummy
    monkeypatch.setattr(driver.get_conn(), "destroy_node", lambda _machine: False)
    with pytest.raises(SaltCloudExecutionFailure, match="does not say that it could destroy dummy-1"):
        driver.destroy("dummy-1")
    assert program.tags() == ["salt/cloud/dummy-1/destroying"]


def test_a_function_that_is_called_in_the_wrong_way_names_the_right_one(dummy: Driver) -> None:
    driver, _ = dummy
    with pytest.raises(SaltCloudSystemExit, match="must be called with -a or --action"):
        driver.show_instance("dummy-1", "function")
    with pytest.raises(SaltCloudSystemExit, match="or with --list-sizes"):
        driver.avail_sizes(call="action")
    with pytest.raises(SaltCloudSystemExit, match="with -d or --destroy"):
        driver.destroy("dummy-1", call="function")
