"""What the driver `ec2` asks for to create a machine, made of the settings of its profile."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from saltlite.cloud.api.exceptions import SaltCloudConfigError, SaltCloudNotFound
from saltlite.cloud.api.files import text_of
from saltlite.cloud.drivers._ec2_api import Ec2, Ec2Error, nested

USERNAMES = (("ubuntu", "ubuntu"), ("debian", "admin"), ("fedora", "fedora"), ("centos", "centos"), ("rocky", "rocky"))
"""A word in an image's name, and who logs in to such machines."""
USERNAME = "ec2-user"


class Setting(Protocol):
    """A look-up of one setting of a machine."""

    def __call__(self, key: str, default: Any = None, /) -> Any: ...


def request_of(name: str, setting: Setting, ec2: Ec2, image: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of RunInstances.

    Raises SaltCloudConfigError that names the setting, SaltCloudNotFound for what the location does not have.
    """
    asked: dict[str, Any] = {
        "ImageId": image["ImageId"],
        "InstanceType": _size(name, setting, ec2),
        "MinCount": 1,
        "MaxCount": 1,
        # A request that is sent again after a broken connection makes no second machine.
        "ClientToken": uuid.uuid4().hex,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": _tags(name, setting("tag"))}],
    }
    for key, field in (("keyname", "KeyName"), ("block_device_mappings", "BlockDeviceMappings")):
        if setting(key):
            asked[field] = setting(key)
    if "BlockDeviceMappings" in asked:
        asked["BlockDeviceMappings"] = [nested(each) for each in asked["BlockDeviceMappings"]]
    for key, field in (("ebs_optimized", "EbsOptimized"), ("termination_protection", "DisableApiTermination")):
        if not isinstance(setting(key, False), bool):
            raise SaltCloudConfigError(f"{key!r} of {name} must be True or False, not {setting(key)!r}")
        if setting(key, False):
            asked[field] = True
    profile = setting("iam_profile")
    if profile:
        asked["IamInstanceProfile"] = {"Arn" if str(profile).startswith("arn:") else "Name": str(profile)}
    places = {"AvailabilityZone": "availability_zone", "Tenancy": "tenancy", "GroupName": "placementgroup"}
    placement = {field: str(setting(key)) for field, key in places.items() if setting(key)}
    if placement:
        asked["Placement"] = placement
    user_data = _user_data(setting)
    if user_data:
        asked["UserData"] = user_data
    return {**asked, **_network(name, setting, ec2)}


def image_of(name: str, setting: Setting, ec2: Ec2, owners: Sequence[str]) -> dict[str, Any]:
    """The image of a machine. One that is named is looked for among those of `owners` only, for anybody may give any
    name to an image. Raises SaltCloudNotFound.
    """
    wanted = str(_must(name, setting, "image"))
    if wanted.startswith("ami-"):
        found = ec2.ask("describe_images", ImageIds=[wanted])["Images"]
    else:
        named = [{"Name": "name", "Values": [wanted]}, {"Name": "state", "Values": ["available"]}]
        found = list(ec2.rows("describe_images", "Images", Owners=list(owners), Filters=named))
    if not found:
        raise SaltCloudNotFound(
            f"there is no image {wanted!r} of {', '.join(owners)} in {ec2.location}; --list-images shows all"
        )
    newest: dict[str, Any] = max(found, key=lambda image: str(image.get("CreationDate") or ""))
    return newest


def username_of(image: Mapping[str, Any]) -> str:
    """Who logs in to machines of this image, as far as its name tells."""
    said = f"{image.get('Name')} {image.get('Description')}".lower()
    return next((username for word, username in USERNAMES if word in said), USERNAME)


def _must(name: str, setting: Setting, key: str) -> Any:
    value = setting(key)
    if not value:
        raise SaltCloudConfigError(f"{name} has no {key!r}: its profile must say one, of --list-{key}s")
    return value


def _size(name: str, setting: Setting, ec2: Ec2) -> str:
    """The size of a machine. It is looked up, for the sake of a sentence before anything is asked for."""
    size = str(_must(name, setting, "size"))
    try:
        ec2.ask("describe_instance_types", InstanceTypes=[size])
    except Ec2Error as error:
        if error.code != "UnauthorizedOperation":  # not all who may make machines may look up sizes
            raise
    return size


def _tags(name: str, given: Any) -> list[dict[str, str]]:
    if given is not None and not isinstance(given, Mapping):
        raise SaltCloudConfigError(f"'tag' of {name} must be a map of names and values, not {given!r}")
    tags = {**{str(key): str(value) for key, value in (given or {}).items()}, "Name": name}
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _user_data(setting: Setting) -> str:
    path = setting("userdata_file")
    return text_of(str(path), "userdata_file") if path else str(setting("userdata") or "")


def _network(name: str, setting: Setting, ec2: Ec2) -> dict[str, Any]:
    groups = [str(group) for group in _listed(setting("securitygroupid"))]
    subnet = setting("subnetid")
    names = [str(group) for group in _listed(setting("securitygroup"))]
    interfaces = setting("network_interfaces")
    if interfaces:
        if groups or names or subnet:
            raise SaltCloudConfigError(
                f"{name} has network_interfaces: subnets and security groups stand in them, and nowhere else"
            )
        return {"NetworkInterfaces": [nested(each) for each in interfaces]}
    if names:
        groups += _group_ids(names, str(subnet or ""), ec2)
    network: dict[str, Any] = {"SecurityGroupIds": groups} if groups else {}
    return {**network, "SubnetId": str(subnet)} if subnet else network


def _group_ids(names: Sequence[str], subnet: str, ec2: Ec2) -> list[str]:
    """The ids of security groups, in the network of the subnet, or in that which is the default one."""
    if subnet:
        network = ec2.ask("describe_subnets", SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    else:
        vpcs = ec2.ask("describe_vpcs", Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
        if not vpcs:
            raise SaltCloudConfigError(f"{ec2.location} has no network that is the default: give a 'subnetid'")
        network = vpcs[0]["VpcId"]
    filters = [{"Name": "vpc-id", "Values": [network]}, {"Name": "group-name", "Values": list(names)}]
    known = {
        group["GroupName"]: group["GroupId"]
        for group in ec2.rows("describe_security_groups", "SecurityGroups", Filters=filters)
    }
    missing = [name for name in names if name not in known]
    if missing:
        raise SaltCloudNotFound(f"the network {network} has no security group {missing[0]!r}")
    return [known[name] for name in names]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
