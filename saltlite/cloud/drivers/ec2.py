"""Machines of Amazon EC2, by botocore (`pip install 'saltlite[cloud]'`).

A provider; one for each location:

    my-ec2:
      driver: ec2
      id: AKIA…                           # with `key` and, for temporary credentials, `token`;
      key: …                              # `use-instance-role-credentials` as both: the credentials of Amazon's tools
      location: eu-central-1              # us-east-1 is the default
      endpoint: https://…                 # a compatible API
      owner: [self, amazon]               # whose images are listed and found by name

A profile; `size` and `image` must be given:

    small:
      provider: my-ec2
      size: t3.micro                      # --list-sizes
      image: ami-0123456789abcdef0        # or a name such as debian-12-amd64-*: the newest of `owner`
      keyname: deploy                     # the key pair that may log in …
      private_key: /etc/saltlite/deploy   # … and its private half
      ssh_username: admin                 # by default guessed from the name of the image
      ssh_interface: public_ips           # or private_ips: the address to log in to
      securitygroup: [ssh, web]           # by name; `securitygroupid` by id
      subnetid: subnet-…
      availability_zone: eu-central-1a
      iam_profile: deploy                 # name or ARN of an instance profile
      tag: {role: web}
      userdata_file: /etc/saltlite/first-boot   # or `userdata`, the text itself
      block_device_mappings: [{DeviceName: /dev/xvda, Ebs.VolumeSize: 20}]
      network_interfaces: [{DeviceIndex: 0, SubnetId: …, Groups: [sg-…], AssociatePublicIpAddress: True}]
      ebs_optimized: False                # also termination_protection
      tenancy: default                    # also placementgroup
      wait_for_ip_timeout: 600            # seconds; `wait_for_ip_interval` (2) between two polls

Machines that are terminated or shutting down are not listed, and their names are free. Several machines may have one
name: the oldest is listed under it, the others as "name (id)". Every machine can also be named by its id.

Contract: Amazon EC2 API of 2016-11-15; option names as in Salt's driver.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.cloud.api import cloud, config
from saltlite.cloud.api.driver import (
    asking_for,
    interface_of,
    made,
    needed,
    no_action,
    no_function,
    only_action,
    only_function,
    private_key_file,
    public_key,
    tell,
    wait_until,
)
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudException,
    SaltCloudNotFound,
    SaltCloudSystemExit,
)
from saltlite.cloud.drivers._ec2_api import INTERVAL_S, Ec2, Machines, connect, image_of, request_of, six, username_of

if TYPE_CHECKING:
    from saltlite.loader.hints import __active_provider_name__, __opts__

LOCATION = "us-east-1"
OWNERS = ("self", "amazon")
HIDDEN_SECONDS = 30.0
"""How long the API may not know a machine that was just created."""

_made: dict[tuple[str, str], str] = {}
"""Name and location -> id of a machine that is being created: a rollback must not wait until it is listed by name."""


def __virtual__() -> str | bool:
    """Whether a provider of this driver is configured."""
    return "ec2" if get_configured_provider() is not False else False


def get_configured_provider() -> Any:
    """The first provider with all required settings, or False."""
    return config.is_provider_configured(__opts__, __active_provider_name__ or "ec2", ("id", "key"))


def avail_locations(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The regions that are enabled for these credentials.

    CLI Example: ``saltlite-cloud --list-locations my-ec2``
    """
    no_action("avail_locations", "--list-locations", call)
    regions = _ec2().ask("describe_regions")["Regions"]
    return {region["RegionName"]: {"name": region["RegionName"], "endpoint": region["Endpoint"]} for region in regions}


def avail_images(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, dict[str, Any]]:
    """The images of `owner` by id; with -f, `owner=` overrides the setting.

    CLI Example::

        saltlite-cloud --list-images my-ec2
        saltlite-cloud -f avail_images my-ec2 owner=self
    """
    no_action("avail_images", "--list-images", call)
    rows = _ec2().rows("describe_images", "Images", Owners=_owners((kwargs or {}).get("owner")))
    return {image["ImageId"]: image for image in rows}


def avail_sizes(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The sizes of the location, with virtual CPUs and memory in MiB.

    CLI Example: ``saltlite-cloud --list-sizes my-ec2``
    """
    no_action("avail_sizes", "--list-sizes", call)
    return {
        size["InstanceType"]: {
            "id": size["InstanceType"],
            "vcpus": (size.get("VCpuInfo") or {}).get("DefaultVCpus"),
            "memory": (size.get("MemoryInfo") or {}).get("SizeInMiB"),
            "architectures": (size.get("ProcessorInfo") or {}).get("SupportedArchitectures") or [],
        }
        for size in _ec2().rows("describe_instance_types", "InstanceTypes")
    }


def list_availability_zones(call: str | None = None) -> dict[str, str]:
    """The zones of the location, and their states.

    CLI Example: ``saltlite-cloud -f list_availability_zones my-ec2``
    """
    only_function("list_availability_zones", call)
    zones = _ec2().ask("describe_availability_zones")["AvailabilityZones"]
    return {zone["ZoneName"]: zone["State"] for zone in zones}


def list_nodes(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with the six fields.

    CLI Example: ``saltlite-cloud -Q``
    """
    no_action("list_nodes", "-Q or --query", call)
    return {name: six(machine) for name, machine in _machines().by_name().items()}


def list_nodes_full(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with all their fields and the six fields.

    CLI Example: ``saltlite-cloud -F``
    """
    no_action("list_nodes_full", "-F or --full-query", call)
    return {name: {**machine, **six(machine)} for name, machine in _machines().by_name().items()}


def list_nodes_select(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with the fields of `query.selection`.

    CLI Example: ``saltlite-cloud -S``
    """
    no_action("list_nodes_select", "-S or --select-query", call)
    return cloud.list_nodes_select(list_nodes_full("function"), __opts__["query.selection"], call)


def list_nodes_min(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The used names, including those of machines created here that the API does not list yet.

    CLI Example: ``saltlite-cloud -f list_nodes_min my-ec2``
    """
    no_action("list_nodes_min", "-f list_nodes_min", call)
    location = _ec2().location
    fresh = {
        name: {"id": identity, "state": "pending"} for (name, where), identity in _made.items() if where == location
    }
    return {**fresh, **{name: {"id": one["id"], "state": one["state"]} for name, one in list_nodes().items()}}


def show_instance(name: str, call: str | None = None) -> dict[str, Any]:
    """All fields of one machine.

    CLI Example: ``saltlite-cloud -a show_instance web1``
    """
    only_action("show_instance", call)
    machine = _machines().find(name)
    return {**machine, **six(machine)}


def start(name: str, call: str | None = None) -> dict[str, Any]:
    """Start a stopped machine, and wait until it runs.

    CLI Example: ``saltlite-cloud -a start web1``
    """
    only_action("start", call)
    return _machines().move(name, "start_instances", "running")


def stop(name: str, call: str | None = None) -> dict[str, Any]:
    """Stop a machine, and wait until it is stopped.

    CLI Example: ``saltlite-cloud -a stop web1``
    """
    only_action("stop", call)
    return _machines().move(name, "stop_instances", "stopped")


def reboot(name: str, call: str | None = None) -> dict[str, Any]:
    """Reboot a machine. The API does not report when that is done.

    CLI Example: ``saltlite-cloud -a reboot web1``
    """
    only_action("reboot", call)
    machine = _machines().find(name)
    _ec2().ask("reboot_instances", InstanceIds=[machine["InstanceId"]])
    return {"id": machine["InstanceId"], "reboot": True}


def get_tags(name: str, call: str | None = None) -> dict[str, str]:
    """The tags of a machine.

    CLI Example: ``saltlite-cloud -a get_tags web1``
    """
    only_action("get_tags", call)
    return {tag["Key"]: tag["Value"] for tag in _machines().find(name).get("Tags") or ()}


def set_tags(name: str, kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, str]:
    """Set tags of a machine, except `Name`, by which the machine is found.

    CLI Example: ``saltlite-cloud -a set_tags web1 role=web stage=test``
    """
    only_action("set_tags", call)
    tags = {str(key): str(value) for key, value in (kwargs or {}).items()}
    if not tags or "Name" in tags:
        raise SaltCloudSystemExit("set_tags needs TAG=VALUE behind the names, and takes every tag but Name")
    identity = _machines().find(name)["InstanceId"]
    _ec2().ask("create_tags", Resources=[identity], Tags=[{"Key": key, "Value": tags[key]} for key in tags])
    return get_tags(identity, "action")


def del_tags(name: str, kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, str]:
    """Remove the tags `tags`, separated by commas.

    CLI Example: ``saltlite-cloud -a del_tags web1 tags=role,stage``
    """
    only_action("del_tags", call)
    tags = [tag.strip() for tag in needed(kwargs, "tags", "del_tags").split(",")]
    if "Name" in tags:
        raise SaltCloudSystemExit("the tag Name cannot be removed: the machine is found by it")
    identity = _machines().find(name)["InstanceId"]
    _ec2().ask("delete_tags", Resources=[identity], Tags=[{"Key": tag} for tag in tags if tag])
    return get_tags(identity, "action")


def enable_term_protect(name: str, call: str | None = None) -> dict[str, Any]:
    """Protect a machine from termination.

    CLI Example: ``saltlite-cloud -a enable_term_protect web1``
    """
    only_action("enable_term_protect", call)
    return _machines().protect(name, True)


def disable_term_protect(name: str, call: str | None = None) -> dict[str, Any]:
    """Remove the termination protection of a machine.

    CLI Example: ``saltlite-cloud -a disable_term_protect web1``
    """
    only_action("disable_term_protect", call)
    return _machines().protect(name, False)


def get_console_output(name: str, call: str | None = None) -> dict[str, Any]:
    """The console output of a machine, such as the fingerprints of its host keys.

    CLI Example: ``saltlite-cloud -a get_console_output web1``
    """
    only_action("get_console_output", call)
    identity = _machines().find(name)["InstanceId"]
    answer = _ec2().ask("get_console_output", InstanceId=identity)
    return {"id": identity, "output": str(answer.get("Output") or "")}


def show_image(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """All fields of the image with the id `image`.

    CLI Example: ``saltlite-cloud -f show_image my-ec2 image=ami-0123456789abcdef0``
    """
    only_function("show_image", call)
    image = needed(kwargs, "image", "show_image")
    found = _ec2().ask("describe_images", ImageIds=[image])["Images"]
    if not found:
        raise SaltCloudNotFound(f"there is no image {image} in {_ec2().location}; --list-images shows those of `owner`")
    shown: dict[str, Any] = found[0]
    return shown


def show_keypair(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """The fields of the key pair `keyname`.

    CLI Example: ``saltlite-cloud -f show_keypair my-ec2 keyname=deploy``
    """
    only_function("show_keypair", call)
    name = needed(kwargs, "keyname", "show_keypair")
    shown: dict[str, Any] = _ec2().ask("describe_key_pairs", KeyNames=[name])["KeyPairs"][0]
    return shown


def create_keypair(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """Create the key pair `keyname`; its private half is written to the new file `file`, readable only by its owner.

    CLI Example: ``saltlite-cloud -f create_keypair my-ec2 keyname=deploy file=/etc/saltlite/deploy``
    """
    only_function("create_keypair", call)
    name, path = needed(kwargs, "keyname", "create_keypair"), needed(kwargs, "file", "create_keypair")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise SaltCloudSystemExit(f"the new private key cannot be written to {path}: {error.strerror}") from None
    with open(handle, "w", encoding="ascii") as file:
        try:
            pair = _ec2().ask("create_key_pair", KeyName=name)
        except SaltCloudException:
            os.unlink(path)
            raise
        file.write(pair.pop("KeyMaterial"))
    return {**pair, "file": path}


def import_keypair(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """Import the public key in `file` as the key pair `keyname`.

    CLI Example: ``saltlite-cloud -f import_keypair my-ec2 keyname=deploy file=/etc/saltlite/deploy.pub``
    """
    only_function("import_keypair", call)
    name, path = needed(kwargs, "keyname", "import_keypair"), needed(kwargs, "file", "import_keypair")
    public = public_key(path)
    return _ec2().ask("import_key_pair", KeyName=name, PublicKeyMaterial=public.encode())


def delete_keypair(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """Delete the key pair `keyname`; existing machines keep the key.

    CLI Example: ``saltlite-cloud -f delete_keypair my-ec2 keyname=deploy``
    """
    only_function("delete_keypair", call)
    name = needed(kwargs, "keyname", "delete_keypair")
    # The API also confirms the deletion of an unknown name.
    _ec2().ask("describe_key_pairs", KeyNames=[name])
    _ec2().ask("delete_key_pair", KeyName=name)
    return {"keyname": name, "deleted": True}


def create(vm_: dict[str, Any]) -> dict[str, Any]:
    """Create a machine and make it a minion. Raises SaltCloudException.

    CLI Example: ``saltlite-cloud -p small web1``
    """
    tell("creating", "starting create", vm_)
    wanted = f"{interface_of(vm_, __opts__)}_ips"
    ec2 = _ec2()
    if (location := _setting(vm_, "location", LOCATION)) != ec2.location:
        raise SaltCloudConfigError(
            f"the location of {vm_['name']} is {location}, but that of its provider is {ec2.location}: "
            "configure one provider for each location"
        )
    cloud.userdata_template(__opts__, vm_, None)  # raises if the setting is used
    setting = functools.partial(_setting, vm_)
    if setting("private_key"):
        vm_["key_filename"] = private_key_file(setting("private_key"), "private_key")
    image = image_of(vm_["name"], setting, ec2, _owners(setting("owner")))
    asked = request_of(vm_["name"], setting, ec2, image)
    shown = {key: value for key, value in asked.items() if key != "UserData"}
    tell("requesting", "requesting instance", vm_, {"kwargs": shown})
    with asking_for(vm_):
        identity = ec2.ask("run_instances", **asked)["Instances"][0]["InstanceId"]
    _made[vm_["name"], ec2.location] = identity
    made(vm_, identity)
    machine = wait_until(
        lambda: _machines().up(identity, wanted),
        f"{vm_['name']} ({identity}) does not run with one of {wanted}",
        seconds=float(setting("wait_for_ip_timeout", 600)),
        interval_s=float(setting("wait_for_ip_interval", INTERVAL_S)),
    )
    vm_["ssh_host"] = six(machine)[wanted][0]
    vm_["ssh_username"] = setting("ssh_username") or username_of(image)
    vm_["sudo"] = setting("sudo", vm_["ssh_username"] != "root")
    done = cloud.bootstrap(vm_, __opts__)
    tell("created", "created instance", vm_, {"instance_id": identity})
    _made.pop((vm_["name"], ec2.location))
    return {**done, **machine, **six(machine)}


def destroy(name: str, call: str | None = None) -> dict[str, Any]:
    """Terminate a machine, and wait until its name is free. `block_device_mappings` decides about its disks.

    CLI Example: ``saltlite-cloud -d web1``
    """
    no_function("destroy", "-d or --destroy", call)
    ec2 = _ec2()
    fresh = _made.get((name, ec2.location))
    identity = fresh or _machines().find(name)["InstanceId"]
    tell("destroying", "destroying instance", {"name": name})
    _machines().terminate(identity, HIDDEN_SECONDS if fresh else 0)
    _made.pop((name, ec2.location), None)
    tell("destroyed", "destroyed instance", {"name": name})
    return {"id": identity, "destroyed": True}


def script(vm_: Mapping[str, Any]) -> str:
    """The text of the deploy script."""
    return cloud.os_script(str(_setting(vm_, "script", "")), vm_, __opts__)


def _provider() -> Mapping[str, Any]:
    """The settings of the current provider. Raises SaltCloudConfigError without credentials."""
    provider = get_configured_provider()
    if not provider:
        raise SaltCloudConfigError("the provider has no 'id' or no 'key', which the driver ec2 needs")
    settings: Mapping[str, Any] = provider
    return settings


def _ec2() -> Ec2:
    """The API with the credentials of the current provider."""
    provider = _provider()
    settings = {key: str(provider[key]) for key in ("id", "key", "token", "location", "endpoint") if provider.get(key)}
    return connect({"location": LOCATION, **settings})


def _machines() -> Machines:
    return Machines(_ec2())


def _owners(given: Any) -> list[str]:
    """The owners of images: `given`, or the provider's setting."""
    owners = given or _provider().get("owner") or OWNERS
    return [str(owner).strip() for owner in (owners.split(",") if isinstance(owners, str) else owners)]


def _setting(vm_: Mapping[str, Any], key: str, default: Any = None) -> Any:
    return config.get_cloud_config_value(key, vm_, __opts__, default=default, search_global=False)
