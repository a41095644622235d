"""The driver `digitalocean` against answers of its API, as files, by a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudException,
    SaltCloudExecutionFailure,
    SaltCloudNotFound,
    SaltCloudSystemExit,
)
from saltlite.cloud.api.rest import RestError
from saltlite.cloud.drivers import digitalocean
from tests.support.api import Answers, answering, recorded
from tests.support.cloud import Program, assert_six, loaded, machine

ANSWERS = Path(__file__).parents[1] / "data" / "digitalocean"
TOKEN = "dop_v1_0f3c-token-of-the-provider"
ID = "515486632"
SMALL: dict[str, Any] = {
    "size": "s-1vcpu-1gb",
    "image": "debian-12-x64",
    "location": "fra1",
    "ssh_key_names": "deploy",
    "wait_for_ip_interval": 0.01,
}

Account = Callable[[str], AbstractContextManager[tuple[Any, Program, Answers]]]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digitalocean, "INTERVAL_S", 0.01)


@pytest.fixture
def account() -> Account:
    """The driver, whose provider answers with the recorded answers of this name, all of which must be asked for."""

    @contextmanager
    def with_answers(name: str) -> Iterator[tuple[Any, Program, Answers]]:
        with answering(recorded(ANSWERS / f"{name}.json")) as answers:
            settings = {"personal_access_token": TOKEN, "api_root": f"{answers.address}/v2"}
            with loaded("digitalocean", settings) as (driver, program):
                yield driver, program, answers

    return with_answers


def test_a_machine_is_made_waited_for_and_deployed(account: Account, tmp_path: Path) -> None:
    key = tmp_path / "deploy"
    key.write_text("a private key", encoding="ascii")
    with account("create") as (driver, program, answers):
        made = driver.create(
            machine("digitalocean", "web1", **SMALL, ssh_key_file=str(key), tags=["web"], userdata="echo mellon")
        )
    asked = json.loads(next(asked.body for asked in answers.asked if asked.line == "POST /v2/droplets"))
    assert asked == {
        "name": "web1",
        "size": "s-1vcpu-1gb",
        "image": "debian-12-x64",
        "region": "fra1",
        "ssh_keys": [289794],
        "backups": False,
        "ipv6": False,
        "monitoring": False,
        "tags": ["web"],
        "user_data": "echo mellon",
    }
    assert made["id"] == ID
    assert made["public_ips"] == ["164.90.160.134", "2a03:b0c0:3:d0::1a5:1001"]
    assert [(vm_["ssh_host"], vm_["ssh_username"], vm_["key_filename"]) for vm_ in program.deployed] == [
        ("164.90.160.134", "root", str(key))
    ]


def test_the_events_of_a_machine_come_in_order_and_have_no_secret(account: Account) -> None:
    with account("create") as (driver, program, _):
        driver.create(machine("digitalocean", "web1", **SMALL, userdata="echo mellon"))
    assert program.tags() == [
        f"salt/cloud/web1/{event}" for event in ("creating", "requesting", "deploying", "created")
    ]
    assert dict(program.events)["salt/cloud/web1/requesting"]["kwargs"]["size"] == "s-1vcpu-1gb"
    assert "mellon" not in str(program.events)
    assert TOKEN not in str(program.events)


def test_the_id_of_a_new_machine_is_told_at_once(account: Account) -> None:
    with account("create") as (driver, program, _):
        driver.create(machine("digitalocean", "web1", **SMALL))
    assert program.told == [("web1", f"made {ID}")]


def test_the_token_goes_with_every_request(account: Account) -> None:
    with account("list") as (driver, _, answers):
        driver.list_nodes()
    assert {asked.headers["Authorization"] for asked in answers.asked} == {f"Bearer {TOKEN}"}


def test_a_snapshot_of_the_account_is_found_by_its_name(account: Account) -> None:
    with account("create") as (driver, _, answers):
        driver.create(machine("digitalocean", "web1", **{**SMALL, "image": "golden-web"}))
    asked = next(asked.body for asked in answers.asked if asked.line == "POST /v2/droplets")
    assert json.loads(asked)["image"] == 201458833


@pytest.mark.parametrize(
    ("answers", "settings", "sentence"),
    [
        ("create_errored", {}, r"DigitalOcean could not create web1 \(droplet 515486632\)"),
        ("create_unknown_size", {"size": "s-1vcpu-1g"}, r"no size 's-1vcpu-1g': is s-1vcpu-1gb meant\?"),
        ("create_unknown_image", {"image": "debian-12"}, r"no image 'debian-12': is debian-12-x64 meant\?"),
    ],
)
def test_a_machine_that_the_provider_does_not_make_is_explained(
    account: Account, answers: str, settings: dict[str, Any], sentence: str
) -> None:
    with account(answers) as (driver, program, _), pytest.raises(SaltCloudExecutionFailure, match=sentence):
        driver.create(machine("digitalocean", "web1", **{**SMALL, **settings}))
    assert program.deployed == []
    assert program.told == [("web1", f"made {ID}" if answers == "create_errored" else "refused")]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"size": None}, "web1 has no 'size'"),
        ({"image": ""}, "web1 has no 'image'"),
        ({"ssh_interface": "both"}, "'ssh_interface' of web1 must be public or private"),
        ({"ipv6": "perhaps"}, "'ipv6' of web1 must be True or False"),
        ({"userdata_file": "/none/such"}, "userdata_file /none/such cannot be read: No such file"),
        ({"ssh_key_file": "/none/such"}, "ssh_key_file names /none/such, and there is no such file"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_before_anything_is_asked(
    settings: dict[str, Any], sentence: str
) -> None:
    given = {**SMALL, "image": "195932981", "ssh_key_names": [], **settings}
    with (
        loaded("digitalocean", {"personal_access_token": TOKEN, "api_root": "http://127.0.0.1:1"}) as (driver, _),
        pytest.raises(SaltCloudConfigError, match=sentence),
    ):
        driver.create(machine("digitalocean", "web1", **given))


def test_a_listing_goes_on_over_its_pages_and_has_the_six_fields(account: Account) -> None:
    with account("list") as (driver, _, _):
        nodes = driver.list_nodes("function")
    assert_six(nodes)
    assert list(nodes) == ["stage", "web1", "db1", "odd", "web1 (3164777)"]
    assert nodes["db1"] == {
        "id": "3164459",
        "image": "golden-web",
        "size": "s-2vcpu-2gb",
        "state": "active",
        "private_ips": ["10.114.0.211"],
        "public_ips": ["164.90.160.211"],
    }


def test_a_full_listing_has_what_the_provider_says_and_the_six_fields(account: Account) -> None:
    with account("list") as (driver, _, _):
        full = driver.list_nodes_full()["web1"]
    assert full["region"]["slug"] == "fra1"
    assert full["id"] == "3164444"


def test_a_selection_has_the_fields_of_the_option(account: Account) -> None:
    with account("list") as (driver, _, _):
        assert driver.list_nodes_select()["stage"] == {"id": "3164412", "state": "off"}


def test_one_machine_is_shown(account: Account) -> None:
    with account("show") as (driver, _, _):
        assert driver.show_instance("web1", "action")["id"] == ID


@pytest.mark.parametrize(("answers", "name"), [("destroy", "web1"), ("destroy_by_id", f"web1 ({ID})")])
def test_a_machine_is_destroyed_and_gone(account: Account, answers: str, name: str) -> None:
    with account(answers) as (driver, program, _):
        assert driver.destroy(name, "action") == {"id": ID, "destroyed": True}
    assert program.tags() == [f"salt/cloud/{name}/destroying", f"salt/cloud/{name}/destroyed"]


def test_of_machines_that_share_a_name_none_is_destroyed(account: Account) -> None:
    with (
        account("destroy_ambiguous") as (driver, program, _),
        pytest.raises(SaltCloudSystemExit, match="give the id of one of them: 515486632, 515486633"),
    ):
        driver.destroy("web1")
    assert program.tags() == []


def test_a_machine_that_is_not_there_is_not_found(account: Account) -> None:
    with (
        account("destroy_unknown") as (driver, _, _),
        pytest.raises(SaltCloudNotFound, match="DigitalOcean has no droplet 'web1'; -Q shows"),
    ):
        driver.destroy("web1")


def test_an_action_is_waited_for(account: Account) -> None:
    with account("stop") as (driver, _, _):
        assert driver.stop("web1", "action")["state"] == "off"


def test_an_action_that_fails_says_so(account: Account) -> None:
    with (
        account("stop_errored") as (driver, _, _),
        pytest.raises(SaltCloudExecutionFailure, match="could not do shutdown on web1"),
    ):
        driver.stop("web1", "action")


def test_what_can_be_chosen_is_listed(account: Account) -> None:
    with account("choices") as (driver, _, _):
        assert list(driver.avail_locations()) == ["Frankfurt 1", "New York 3"]
        assert driver.avail_sizes()["s-2vcpu-2gb"]["memory"] == 2048
        assert list(driver.avail_images()) == ["debian-12-x64", "golden-web"]


def test_a_key_is_added_listed_and_removed(account: Account, tmp_path: Path) -> None:
    (tmp_path / "deploy.pub").write_text("ssh-ed25519 AAAA deploy@lab\n", encoding="ascii")
    (tmp_path / "deploy").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n", encoding="ascii")
    with account("keys") as (driver, _, answers):
        with pytest.raises(SaltCloudConfigError, match="is a private key, which is never sent"):
            driver.import_keypair({"keyname": "deploy", "file": str(tmp_path / "deploy")}, "function")
        driver.import_keypair({"keyname": "deploy", "file": str(tmp_path / "deploy.pub")}, "function")
        assert list(driver.list_keypairs("function")) == ["deploy"]
        assert driver.remove_key({"keyname": "deploy"}, "function") == {"keyname": "deploy", "removed": True}
    assert json.loads(answers.asked[0].body) == {"name": "deploy", "public_key": "ssh-ed25519 AAAA deploy@lab"}


def test_who_is_asked_too_often_is_asked_again(account: Account) -> None:
    with account("throttled") as (driver, _, answers):
        assert list(driver.list_nodes()) == ["web1"]
    assert len(answers.asked) == 2


def test_a_wrong_token_is_one_sentence_and_does_not_stand_in_it(account: Account) -> None:
    with (
        account("unauthorized") as (driver, _, _),
        pytest.raises(RestError, match=r"are the token and the account right.*Unable to authenticate") as caught,
    ):
        driver.list_nodes()
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("<html>welcome</html>", "that are no JSON: is its address right"),
        ("{}", "answers without 'droplets': is api_root"),
        ("[1]", "answers without 'droplets'"),
        ('{"droplets": "none"}', "answers without 'droplets'"),
    ],
)
def test_nonsense_is_one_sentence(body: str, sentence: str) -> None:
    with (
        answering([{"body": body}]) as answers,
        loaded("digitalocean", {"personal_access_token": TOKEN, "api_root": answers.address}) as (driver, _),
        pytest.raises(SaltCloudException, match=sentence),
    ):
        driver.list_nodes()


def test_a_listing_that_goes_in_circles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digitalocean, "PAGES_MAX", 3)
    page = {"droplets": [], "links": {"pages": {"next": "https://example.com/steal"}}}
    with (
        answering([{"body": page}] * 3) as answers,
        loaded("digitalocean", {"personal_access_token": TOKEN, "api_root": answers.address}) as (driver, _),
        pytest.raises(SaltCloudExecutionFailure, match="on more than 3 pages"),
    ):
        driver.list_nodes()


def test_a_provider_without_a_token_names_what_is_missing() -> None:
    with loaded("digitalocean", {}) as (driver, program):
        assert driver.__virtual__() is False
        assert program.missing_settings == {"lab:digitalocean": ["personal_access_token"]}


@pytest.mark.parametrize("function", ["show_instance", "start", "stop", "reboot"])
def test_an_action_refuses_to_be_a_function(function: str) -> None:
    with (
        loaded("digitalocean", {"personal_access_token": TOKEN}) as (driver, _),
        pytest.raises(SaltCloudSystemExit, match=f"The {function} action must be called with -a or --action"),
    ):
        getattr(driver, function)("web1", "function")
