"""The command `saltlite-cloud` with machines of EC2, by an API on loopback and a real master."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.ec2_api import IMAGE, ec2_api, empty, needs_moto
from tests.support.fleet import Fleet, Said

# The API on loopback loads its tables of machines with the first question of each kind, which takes it seconds.
pytestmark = [pytest.mark.e2e, needs_moto, pytest.mark.timeout(180)]

KEY = "planted-key-of-the-provider-31337"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ec2_api(tmp_path_factory.mktemp("moto")) as address:
        yield address


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> Iterator[Fleet]:
    """A master, and beside its configuration that of a provider."""
    fleet = Fleet(tmp_path_factory.mktemp("cloud"))
    folder = fleet.folder / "master"
    folder.mkdir(exist_ok=True)
    provider = {
        "driver": "ec2",
        "id": "AKIAIOSFODNN7EXAMPLE",
        "key": KEY,
        "location": "eu-west-1",
        "endpoint": endpoint,
    }
    small = {"provider": "my-ec2", "image": IMAGE, "size": "t3.micro", "ssh_timeout": 1}
    for name, options in (
        ("cloud", {"root_dir": str(folder / "root"), "query.selection": ["id", "state"]}),
        ("cloud.providers", {"my-ec2": provider}),
        ("cloud.profiles", {"small": small, "huge": {**small, "size": "t3.huge"}}),
    ):
        (folder / name).write_text(json.dumps(options), encoding="utf-8")
    try:
        fleet.start_master()
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def fleet(master: Fleet, endpoint: str) -> Fleet:
    """The same for each test, without machines."""
    empty(endpoint)
    return master


def cloud(fleet: Fleet, *words: str) -> Said:
    return fleet.cli("cloud", "--out", "json", *words)


def nodes(fleet: Fleet) -> dict[str, dict[str, Any]]:
    said: dict[str, dict[str, Any]] = cloud(fleet, "-Q").json()["my-ec2"]["ec2"]
    return said


def test_a_machine_goes_through_its_life_by_command_lines(fleet: Fleet) -> None:
    said = cloud(fleet, "-p", "small", "web1", "--no-deploy")
    assert said.code == 0, said
    first = nodes(fleet)["web1"]
    assert set(first) == {"id", "image", "size", "state", "private_ips", "public_ips"}
    assert cloud(fleet, "-S").json()["my-ec2"]["ec2"] == {"web1": {"id": first["id"], "state": "running"}}
    assert cloud(fleet, "-F").json()["my-ec2"]["ec2"]["web1"]["Placement"]["AvailabilityZone"]
    shown = cloud(fleet, "-a", "show_instance", "web1").json()
    assert shown["my-ec2"]["ec2"]["web1"]["InstanceId"] == first["id"]
    assert cloud(fleet, "-a", "stop", "web1", "-y").code == 0
    assert nodes(fleet)["web1"]["state"] == "stopped"
    assert cloud(fleet, "-a", "start", "web1", "-y").code == 0
    assert cloud(fleet, "-a", "set_tags", "web1", "role=web", "-y").code == 0
    assert cloud(fleet, "-d", "web1", "-y").code == 0
    assert nodes(fleet) == {}
    assert cloud(fleet, "-p", "small", "web1", "--no-deploy").code == 0
    assert nodes(fleet)["web1"]["id"] != first["id"]


def test_what_a_provider_offers_is_listed_and_shown(fleet: Fleet) -> None:
    assert IMAGE in cloud(fleet, "--list-images", "my-ec2").json()["my-ec2"]["ec2"]
    assert "eu-west-1" in cloud(fleet, "--list-locations", "my-ec2").json()["my-ec2"]["ec2"]
    said = cloud(fleet, "-f", "show_image", "my-ec2", f"image={IMAGE}")
    assert said.json()["my-ec2"]["ec2"]["ImageId"] == IMAGE


def test_the_driver_keeps_the_contract_of_drivers(fleet: Fleet) -> None:
    assert cloud(fleet, "-p", "small", "web1", "--no-deploy").code == 0
    said = fleet.cli("cloud-check", "--out", "json", "my-ec2").json()
    assert [one for one in said["tests"] if one["result"] != "good"] == []


def test_a_name_that_is_taken_is_not_made_twice(fleet: Fleet) -> None:
    assert cloud(fleet, "-p", "small", "web1", "--no-deploy").code == 0
    said = cloud(fleet, "-p", "small", "web1", "--no-deploy")
    assert said.code != 0
    assert "web1" in said.err
    assert len(nodes(fleet)) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-p", "huge", "web1"), "t3.huge"),
        (("-a", "show_instance", "none-such"), "none-such"),
        (("-f", "show_instance", "my-ec2"), "must be called with -a or --action"),
        (("-f", "show_keypair", "my-ec2", "keyname=none-such"), "-f import_keypair"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_no_success(fleet: Fleet, words: tuple[str, ...], sentence: str) -> None:
    said = cloud(fleet, *words)
    assert said.code not in (0, None)
    assert sentence in said.err
    assert nodes(fleet) == {}


def test_a_machine_that_nobody_can_log_in_to_is_taken_back_and_no_secret_is_told(fleet: Fleet) -> None:
    said = cloud(fleet, "-p", "small", "web1")
    assert said.code != 0
    assert nodes(fleet) == {}
    keys = fleet.keys()
    assert "web1" not in keys
    assert cloud(fleet, "--unfinished").json() == {}
    with fleet.store() as store:
        events = str([(event.tag, event.data) for event in store.events(0, 10**6)])
    assert "salt/cloud/web1/requesting" in events
    assert KEY not in events + said.out + said.err
