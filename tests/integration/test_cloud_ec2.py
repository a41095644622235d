"""The driver `ec2` against moto's EC2, a real HTTP server on loopback."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
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
from saltlite.cloud.drivers import _ec2_api
from tests.support.cloud import Program, assert_six, loaded, machine
from tests.support.ec2_api import AMAZON, IMAGE, UBUNTU, ec2_api, empty, needs_moto

pytestmark = needs_moto

SECRET = "wJalrXUtnFEMI-secret-of-the-provider"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an EC2 API."""
    with ec2_api(tmp_path_factory.mktemp("moto")) as address:
        yield address


Driver = tuple[Any, Program]


@pytest.fixture
def ec2(endpoint: str) -> Iterator[Driver]:
    """The driver, with one provider."""
    settings = {
        "id": f"AKIA{time.monotonic_ns()}"[:20],
        "key": SECRET,
        "location": "eu-central-1",
        "endpoint": endpoint,
    }
    with loaded("ec2", settings) as driver:
        yield driver


@pytest.fixture(autouse=True)
def _left_empty(endpoint: str) -> None:
    """Each test begins without machines."""
    empty(endpoint)


def test_a_machine_is_made_listed_shown_stopped_started_and_destroyed(ec2: Driver) -> None:
    driver, _ = ec2
    made = driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    assert list(driver.list_nodes("function")) == ["web1"]
    assert driver.show_instance("web1", "action")["InstanceId"] == made["id"]
    assert driver.stop("web1", "action")["state"] == "stopped"
    assert driver.list_nodes()["web1"]["state"] == "stopped"
    assert driver.start("web1", "action")["state"] == "running"
    assert driver.reboot("web1", "action")["reboot"] is True
    assert driver.destroy("web1", "action") == {"id": made["id"], "destroyed": True}
    assert driver.list_nodes() == {}


def test_every_listing_has_the_six_fields(ec2: Driver) -> None:
    driver, program = ec2
    driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    nodes = driver.list_nodes()
    assert_six(nodes)
    assert nodes["web1"]["size"] == "t3.micro"
    assert nodes["web1"]["public_ips"] == [program.deployed[0]["ssh_host"]]
    full = driver.list_nodes_full("function")["web1"]
    assert full["Placement"]["AvailabilityZone"].startswith("eu-central-1")
    assert {key: full[key] for key in nodes["web1"]} == nodes["web1"]
    assert driver.list_nodes_select("function") == {"web1": {"id": nodes["web1"]["id"], "state": "running"}}


def test_the_name_of_a_machine_that_was_destroyed_can_be_used_again(ec2: Driver) -> None:
    driver, _ = ec2
    first = driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    driver.destroy("web1")
    second = driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    assert second["id"] != first["id"]
    assert driver.show_instance("web1", "action")["id"] == second["id"]
    assert driver.show_instance(first["id"], "action")["state"] == "terminated"


def test_the_events_of_a_machine_come_in_order_and_have_no_user_data(ec2: Driver) -> None:
    driver, program = ec2
    driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro", userdata="#!/bin/sh\necho mellon"))
    driver.destroy("web1")
    assert program.tags() == [
        f"salt/cloud/web1/{event}"
        for event in ("creating", "requesting", "deploying", "created", "destroying", "destroyed")
    ]
    requesting = dict(program.events)["salt/cloud/web1/requesting"]
    assert requesting["kwargs"]["InstanceType"] == "t3.micro"
    assert "mellon" not in str(program.events)
    assert SECRET not in str(program.events)


def test_what_a_profile_says_arrives_at_the_machine(ec2: Driver, tmp_path: Path) -> None:
    driver, program = ec2
    api = driver._ec2()
    group = api.ask("create_security_group", GroupName="web", Description="web")["GroupId"]
    api.ask("create_key_pair", KeyName="deploy")
    (tmp_path / "deploy").write_text("a private key", encoding="ascii")
    (tmp_path / "first-boot").write_text("#!/bin/sh\ntrue\n", encoding="utf-8")
    driver.create(
        machine(
            "ec2",
            "web1",
            image=IMAGE,
            size="t3.small",
            keyname="deploy",
            securitygroup=["web"],
            availability_zone="eu-central-1b",
            tag={"role": "web"},
            userdata_file=str(tmp_path / "first-boot"),
            block_device_mappings=[{"DeviceName": "/dev/sda1", "Ebs.VolumeSize": 20}],
            ssh_interface="private_ips",
            private_key=str(tmp_path / "deploy"),
        )
    )
    shown = driver.show_instance("web1", "action")
    assert shown["KeyName"] == "deploy"
    assert [each["GroupId"] for each in shown["SecurityGroups"]] == [group]
    assert shown["Placement"]["AvailabilityZone"] == "eu-central-1b"
    assert driver.get_tags("web1", "action") == {"role": "web", "Name": "web1"}
    asked = {"InstanceId": shown["id"], "Attribute": "userData"}
    assert (
        base64.b64decode(api.ask("describe_instance_attribute", **asked)["UserData"]["Value"]) == b"#!/bin/sh\ntrue\n"
    )
    volume = shown["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    assert api.ask("describe_volumes", VolumeIds=[volume])["Volumes"][0]["Size"] == 20
    assert program.deployed[0]["ssh_host"] == shown["private_ips"][0]
    assert program.deployed[0]["key_filename"] == str(tmp_path / "deploy")


def test_a_machine_that_is_protected_is_not_destroyed_and_the_way_out_is_named(ec2: Driver) -> None:
    driver, _ = ec2
    driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    driver.enable_term_protect("web1", "action")
    with pytest.raises(SaltCloudException, match="-a disable_term_protect NAME"):
        driver.destroy("web1")
    driver.disable_term_protect("web1", "action")
    assert driver.destroy("web1")["destroyed"] is True


def test_who_logs_in_follows_from_the_image_unless_the_profile_says(ec2: Driver) -> None:
    driver, program = ec2
    driver.create(machine("ec2", "a", image=UBUNTU, size="t3.micro"))
    driver.create(machine("ec2", "b", image=UBUNTU, size="t3.micro", ssh_username="root"))
    assert [(vm_["ssh_username"], vm_["sudo"]) for vm_ in program.deployed] == [("ubuntu", True), ("root", False)]


def test_the_newest_image_of_a_name_is_taken(ec2: Driver) -> None:
    driver, _ = ec2
    driver.create(machine("ec2", "web1", image="ubuntu/24.04-*", size="t3.micro"))
    assert driver.list_nodes()["web1"]["image"] == UBUNTU


def test_an_image_that_is_named_is_looked_for_among_trusted_owners_only(ec2: Driver) -> None:
    driver, _ = ec2
    with pytest.raises(SaltCloudNotFound, match=f"no image 'ubuntu.*' of {AMAZON}"):
        driver.create(machine("ec2", "web1", image="ubuntu/24.04-*", size="t3.micro", owner=[AMAZON]))


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"image": "ami-00000000"}, SaltCloudException, "ami-00000000.*does not exist.*--list-images"),
        ({"size": "t3.tiny"}, SaltCloudException, r"t3\.tiny.*--list-sizes"),
        ({"size": None}, SaltCloudConfigError, "web1 has no 'size'"),
        ({"image": None}, SaltCloudConfigError, "web1 has no 'image'"),
        ({"securitygroup": "none-such"}, SaltCloudNotFound, "no security group 'none-such'"),
        ({"subnetid": "subnet-0"}, SaltCloudException, "subnet-0.*does not exist"),
        ({"availability_zone": "mars-1a"}, SaltCloudException, "mars-1a"),
        ({"tag": "web"}, SaltCloudConfigError, "'tag' of web1 must be a map"),
        ({"ebs_optimized": "perhaps"}, SaltCloudConfigError, "'ebs_optimized' of web1 must be True or False"),
        ({"ssh_interface": "both"}, SaltCloudConfigError, "'ssh_interface' of web1"),
        ({"location": "us-west-2"}, SaltCloudConfigError, "one provider for each location"),
        ({"block_device_mappings": [{"Disk": 1}]}, SaltCloudConfigError, 'no such form of RunInstances.*"Disk"'),
        (
            {"private_key": "/none/such"},
            SaltCloudConfigError,
            "private_key names /none/such, and there is no such file",
        ),
        ({"userdata_file": "/none/such"}, SaltCloudConfigError, "userdata_file /none/such cannot be read"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_nothing_is_made(
    ec2: Driver, settings: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    driver, _ = ec2
    with pytest.raises(error, match=sentence):
        driver.create(machine("ec2", "web1", **{"image": IMAGE, "size": "t3.micro", **settings}))
    assert driver.list_nodes() == {}


def test_a_machine_that_amazon_does_not_list_yet_has_its_name_and_can_be_destroyed(
    ec2: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made here must be found when it has to be taken back at once."""
    driver, program = ec2

    def fail(*_: object) -> dict[str, Any]:
        raise SaltCloudExecutionFailure("nobody can log in")

    monkeypatch.setattr(program, "bootstrap", fail)
    with pytest.raises(SaltCloudExecutionFailure, match="nobody can log in"):
        driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    there = driver.list_nodes()["web1"]["id"]
    with monkeypatch.context() as patched:
        patched.setattr(_ec2_api.Machines, "by_name", lambda _self: {})
        patched.setattr(_ec2_api.Machines, "find", lambda _self, name: pytest.fail(f"{name} is looked for"))
        assert driver.list_nodes_min() == {"web1": {"id": there, "state": "pending"}}
        assert driver.destroy("web1") == {"id": there, "destroyed": True}
    assert driver.list_nodes_min() == {}


def test_machines_that_share_a_name_are_told_apart_by_their_ids(ec2: Driver) -> None:
    driver, _ = ec2
    for _ in range(2):
        driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    first, second = driver.list_nodes()
    assert first == "web1"
    with pytest.raises(SaltCloudSystemExit, match="several machines are called web1"):
        driver.destroy("web1")
    driver.destroy(second)
    assert list(driver.list_nodes()) == ["web1"]


def test_a_name_with_a_star_in_it_is_that_name_and_no_pattern(ec2: Driver) -> None:
    driver, _ = ec2
    driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    with pytest.raises(SaltCloudNotFound, match=r"no machine 'web\*'"):
        driver.destroy("web*")


def test_tags_are_set_and_removed_and_the_name_stays(ec2: Driver) -> None:
    driver, _ = ec2
    driver.create(machine("ec2", "web1", image=IMAGE, size="t3.micro"))
    assert driver.set_tags("web1", {"stage": "test", "n": 1}, "action") == {"Name": "web1", "stage": "test", "n": "1"}
    assert driver.del_tags("web1", {"tags": "n, stage"}, "action") == {"Name": "web1"}
    with pytest.raises(SaltCloudSystemExit, match="every tag but Name"):
        driver.set_tags("web1", {"Name": "web2"}, "action")


def test_a_key_pair_is_made_into_a_file_for_nobody_else_to_read(ec2: Driver, tmp_path: Path) -> None:
    driver, _ = ec2
    path = tmp_path / "deploy"
    made = driver.create_keypair({"keyname": "deploy", "file": str(path)}, "function")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE KEY" in path.read_text(encoding="ascii")
    assert "PRIVATE KEY" not in str(made)
    assert driver.show_keypair({"keyname": "deploy"}, "function")["KeyName"] == "deploy"
    with pytest.raises(SaltCloudSystemExit, match="File exists"):
        driver.create_keypair({"keyname": "other", "file": str(path)}, "function")
    with pytest.raises(SaltCloudConfigError, match="is a private key, which is never sent"):
        driver.import_keypair({"keyname": "other", "file": str(path)}, "function")
    assert driver.delete_keypair({"keyname": "deploy"}, "function")["deleted"] is True
    with pytest.raises(SaltCloudException, match="-f import_keypair"):
        driver.delete_keypair({"keyname": "deploy"}, "function")


def test_a_key_pair_that_amazon_refuses_leaves_no_file(ec2: Driver, tmp_path: Path) -> None:
    driver, _ = ec2
    driver.create_keypair({"keyname": "deploy", "file": str(tmp_path / "a")}, "function")
    with pytest.raises(SaltCloudException, match="already exists"):
        driver.create_keypair({"keyname": "deploy", "file": str(tmp_path / "b")}, "function")
    assert not (tmp_path / "b").exists()


def test_images_sizes_locations_and_zones_are_listed(ec2: Driver) -> None:
    driver, _ = ec2
    assert driver.avail_images()[IMAGE]["ImageId"] == IMAGE
    assert driver.show_image({"image": IMAGE}, "function")["ImageId"] == IMAGE
    assert driver.avail_sizes()["t3.micro"]["memory"] == 1024
    assert "eu-central-1" in driver.avail_locations()
    assert driver.list_availability_zones("function")["eu-central-1a"] == "available"


@pytest.mark.parametrize(
    ("function", "arguments", "sentence"),
    [
        ("show_instance", ("web1", "function"), "The show_instance action must be called with -a or --action."),
        ("start", ("web1",), "The start action must be called with -a or --action."),
        ("destroy", ("web1", "function"), "The destroy action must be called with -d or --destroy, -a or --action."),
        ("show_image", ({"image": "x"}, "action"), "The show_image function must be called with -f or --function."),
        (
            "list_nodes",
            ("action",),
            "The list_nodes function must be called with -f or --function, or with -Q or --query.",
        ),
        (
            "avail_sizes",
            ("action",),
            "The avail_sizes function must be called with -f or --function, or with --list-sizes.",
        ),
        ("show_keypair", ({}, "function"), "show_keypair needs keyname=VALUE behind the names"),
    ],
)
def test_a_function_that_is_called_in_the_wrong_way_names_the_right_one(
    ec2: Driver, function: str, arguments: tuple[Any, ...], sentence: str
) -> None:
    driver, _ = ec2
    with pytest.raises(SaltCloudSystemExit) as caught:
        getattr(driver, function)(*arguments)
    assert str(caught.value) == sentence


def test_a_listing_goes_on_over_its_pages(ec2: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, _ = ec2
    asked = {"ImageId": IMAGE, "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1}
    for _ in range(12):
        driver._ec2().ask("run_instances", **asked)
    monkeypatch.setattr(_ec2_api, "PAGE", 5)
    assert len(driver.list_nodes()) == 12


def test_five_hundred_machines_are_listed_with_little_effort(ec2: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as many machines take at most twenty times the CPU; the first list also loads what later ones use."""
    driver, _ = ec2
    monkeypatch.setattr(_ec2_api, "PAGE", 25)  # moto counts requests to run machines, Amazon machines

    def listed(count: int) -> float:
        begin = time.process_time()
        nodes = driver.list_nodes()
        took = time.process_time() - begin
        assert_six(nodes)
        assert len(nodes) == count
        return took

    for number in range(1, 51):
        driver._ec2().ask("run_instances", ImageId=IMAGE, InstanceType="t3.micro", MinCount=10, MaxCount=10)
        if number == 5:
            fifty = min(listed(50) for _ in range(3))
    assert min(listed(500) for _ in range(3)) < 20 * fifty
