"""The EC2 API for the driver `ec2`: clients, pages, error messages, instances, and the request of a create."""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from saltlite.cloud.api.driver import require_one, text_of, uniquely_named, wait_until
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudExecutionFailure,
    SaltCloudNotFound,
)

PAGE = 250
"""Rows of one page. Most operations allow 1000, but answer more slowly."""
PAGES: Mapping[str, int] = {"describe_instance_types": 100}
"""Operations with a smaller maximum."""
ATTEMPTS = 5
CONNECT_SECONDS = 10
READ_SECONDS = 60

USE_CHAIN = "use-instance-role-credentials"
"""As `id` and `key`: use botocore's credential chain, which is the role of this machine, the environment or ~/.aws."""

_HINTS: Mapping[str, str] = {
    "AuthFailure": "are `id` and `key` of the provider right?",
    "IncorrectInstanceState": "look at its state with -Q",
    "InstanceLimitExceeded": "ask Amazon for more, or take another size",
    "InsufficientInstanceCapacity": "try another `availability_zone` or size",
    "InvalidAMIID.Malformed": "--list-images shows images",
    "InvalidAMIID.NotFound": "--list-images shows those of this location",
    "InvalidGroup.NotFound": "is `securitygroupid` one of this location and network?",
    "InvalidInstanceType": "--list-sizes shows the available sizes",
    "InvalidKeyPair.NotFound": "-f show_keypair PROVIDER keyname=NAME shows one; -f import_keypair adds one",
    "OperationNotPermitted": "if it is protected, -a disable_term_protect NAME removes the protection",
    "RequestExpired": "is the clock of this machine right?",
    "RequestLimitExceeded": "ask again in a minute, or more rarely",
    "SignatureDoesNotMatch": "is `key` of the provider right, and this machine's clock?",
    "Throttling": "ask again in a minute, or more rarely",
    "UnauthorizedOperation": "these credentials do not have the permission",
    "Unsupported": "does this `availability_zone` have this size?",
    "VcpuLimitExceeded": "ask Amazon for more, or take a smaller size",
}
"""What to do about an error, by its code."""

_THROTTLED = frozenset({"RequestLimitExceeded", "Throttling", "InsufficientInstanceCapacity"})
"""Refusals that have a 5xx status."""


class Ec2Error(SaltCloudExecutionFailure):
    """A failed request. `code` is the API's error code, "" without an answer; `unclear`: the request may have been
    carried out nevertheless.
    """

    def __init__(self, text: str, code: str = "", *, unclear: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.unclear = unclear


class Ec2:
    """The API of one location with one set of credentials. It is thread-safe."""

    def __init__(self, client: Any, location: str) -> None:
        self._client = client
        self.location = location

    def ask(self, operation: str, **params: Any) -> dict[str, Any]:
        """Call a method of botocore's client, such as `run_instances`.

        Raises Ec2Error, or SaltCloudConfigError for an invalid parameter.
        """
        with _Translated(self.location, operation):
            answer: dict[str, Any] = getattr(self._client, operation)(**params)
        answer.pop("ResponseMetadata", None)
        return answer

    def rows(self, operation: str, key: str, **params: Any) -> Iterator[dict[str, Any]]:
        """All rows of a listing, page by page. Raises as `ask` does."""
        with _Translated(self.location, operation):
            pages = self._client.get_paginator(operation).paginate(
                PaginationConfig={"PageSize": PAGES.get(operation, PAGE)}, **params
            )
            for page in pages:
                yield from page.get(key) or ()


class _Translated:
    """A block that translates botocore's errors."""

    def __init__(self, location: str, operation: str) -> None:
        self._location = location
        self._operation = "".join(word.capitalize() for word in operation.split("_"))

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        import botocore.exceptions  # noqa: PLC0415 - half of a tenth of a second, for who uses this driver only
        import botocore.parsers  # noqa: PLC0415 - as above

        match error:
            case botocore.exceptions.ClientError():
                raise self._refused(error.response.get("Error") or {}, error) from None
            case botocore.exceptions.ParamValidationError():
                text = " ".join(str(error).split())
                raise SaltCloudConfigError(f"EC2 has no such form of {self._operation}: {text}") from None
            case botocore.exceptions.BotoCoreError():
                raise Ec2Error(self._unanswered(error), unclear=_may_be_done(error)) from None
            case botocore.parsers.ResponseParserError():
                text = f"EC2 in {self._location} answers {self._operation} with nonsense"
                raise Ec2Error(f"{text}: is `endpoint` the address of its API?", unclear=True) from None

    def _refused(self, error_fields: Mapping[str, Any], error: Any) -> Ec2Error:
        code = str(error_fields.get("Code") or "")
        text = str(error_fields.get("Message") or "").strip().rstrip(".")
        status = (error.response.get("ResponseMetadata") or {}).get("HTTPStatusCode", 0)
        if not code or code.isdigit():
            said_so = f"{text or 'an answer that is not from EC2'} (HTTP {status or code})"
            return Ec2Error(
                f"EC2 in {self._location} refuses {self._operation}: {said_so}; is `endpoint` right, and EC2 up?",
                code,
                unclear=status >= 500,
            )
        hint = _HINTS.get(code, "it has an internal error: try again later" if status >= 500 else "")
        sentence = f"EC2 in {self._location} refuses {self._operation}: {text or code} ({code})"
        unclear = status >= 500 and code not in _THROTTLED
        return Ec2Error(f"{sentence}; {hint}" if hint else sentence, code, unclear=unclear)

    def _unanswered(self, error: Exception) -> str:
        import botocore.exceptions  # noqa: PLC0415 - as above

        where = f"EC2 in {self._location}"
        match error:
            case botocore.exceptions.NoCredentialsError() | botocore.exceptions.PartialCredentialsError():
                return f"there are no credentials for {where}: give the provider `id` and `key`"
            case botocore.exceptions.SSLError():
                return f"{where} shows a certificate that is not trusted here; nothing was sent"
            case botocore.exceptions.ReadTimeoutError():
                return f"{where} did not answer {self._operation} within {READ_SECONDS} s"
            case botocore.exceptions.ConnectionError() | botocore.exceptions.HTTPClientError():
                return f"{where} cannot be reached: {_first_line(error)}"
        return f"{where} could not be asked for {self._operation}: {_first_line(error)}"


def _may_be_done(error: Exception) -> bool:
    """Whether a request may have arrived that was not answered."""
    import botocore.exceptions  # noqa: PLC0415 - as above

    never = (
        botocore.exceptions.EndpointConnectionError,
        botocore.exceptions.ConnectTimeoutError,
        botocore.exceptions.SSLError,
        botocore.exceptions.ProxyConnectionError,
    )
    return isinstance(error, botocore.exceptions.HTTPClientError) and not isinstance(error, never)


_clients: dict[tuple[object, ...], Ec2] = {}
"""By process, too: one that was forked off must not use its parent's connections."""
_making = threading.Lock()


def connect(settings: Mapping[str, str]) -> Ec2:
    """The API for `id`, `key`, `token`, `location` and `endpoint` of a provider, each a text; made once.

    Raises SaltCloudConfigError when botocore is not there, or cannot make a client of that.
    """
    wanted = tuple(settings.get(key, "") for key in ("id", "key", "token", "location", "endpoint"))
    known = (os.getpid(), *wanted)
    with _making:
        if known not in _clients:
            _clients[known] = Ec2(_client(*wanted), settings["location"])
        return _clients[known]


def _client(identity: str, key: str, token: str, location: str, endpoint: str) -> Any:
    try:
        import botocore.config  # noqa: PLC0415 - a tenth of a second, for who uses this driver only
        import botocore.exceptions  # noqa: PLC0415 - as above
        import botocore.session  # noqa: PLC0415 - as above
    except ImportError:
        raise SaltCloudConfigError("the driver ec2 needs botocore: pip install 'saltlite[cloud]'") from None
    credentials = {}
    if USE_CHAIN not in (identity, key):
        credentials = {"aws_access_key_id": identity, "aws_secret_access_key": key, "aws_session_token": token or None}
    session = botocore.session.get_session()
    # Moments stay texts, in ISO 8601: reading them was a third of the time of a listing.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    if endpoint and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    try:
        return session.create_client(
            "ec2",
            region_name=location,
            **credentials,
            endpoint_url=endpoint or None,
            config=botocore.config.Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                max_pool_connections=50,
            ),
        )
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise SaltCloudConfigError(f"EC2 cannot be asked with these settings: {_first_line(error)}") from None


def nested(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """`{"Ebs.VolumeSize": 20}` as `{"Ebs": {"VolumeSize": 20}}`; the dotted form is common in configurations."""
    made: dict[str, Any] = {}
    for key, value in mapping.items():
        *above, last = str(key).split(".")
        place = made
        for word in above:
            place = place.setdefault(word, {})
        place[last] = nested(value) if isinstance(value, Mapping) else value
    return made


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# -- instances: found by name or id, without those that are terminated

GONE = frozenset({"shutting-down", "terminated"})
"""Final states. The API lists such machines for an hour."""
_THERE = ["pending", "running", "stopping", "stopped"]

ACTION_SECONDS = 300.0
INTERVAL_S = 2.0

_ID = re.compile(r"i-[0-9a-f]{8,17}\Z")
_NAME_WITH_ID = re.compile(r".* \((i-[0-9a-f]{8,17})\)\Z")


class Machines:
    """The machines of one location. Every method raises Ec2Error when the API refuses or does not answer."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2

    def by_name(self) -> dict[str, dict[str, Any]]:
        """The machines by their tag Name, or by id. Of several with one name the oldest gets it, others "name (id)"."""
        every = self._rows([{"Name": "instance-state-name", "Values": _THERE}])
        oldest_first = sorted(every, key=lambda machine: (str(machine.get("LaunchTime")), machine["InstanceId"]))
        return uniquely_named((_name(machine), machine["InstanceId"], machine) for machine in oldest_first)

    def find(self, name: str) -> dict[str, Any]:
        """The machine with this name, as in `by_name`, or with this id, even if it is gone. Raises SaltCloudNotFound,
        and SaltCloudSystemExit when several have that name.
        """
        numbered = _NAME_WITH_ID.match(name)
        identity = numbered[1] if numbered else name
        if _ID.match(identity):
            machine = self.get(identity)
            if machine is not None:
                return machine
        there = {"Name": "instance-state-name", "Values": _THERE}
        # The API treats `*` and `?` in a filter as wildcards, so the names are compared again.
        found = [
            machine for machine in self._rows([{"Name": "tag:Name", "Values": [name]}, there]) if _name(machine) == name
        ]
        if not found:
            raise SaltCloudNotFound(f"EC2 in {self._ec2.location} has no machine {name!r}; -Q shows those it has")
        require_one(name, (machine["InstanceId"] for machine in found))
        return found[0]

    def get(self, identity: str) -> dict[str, Any] | None:
        """The machine with this id, or None. The API may not know a new machine for some seconds."""
        try:
            reservations = self._ec2.ask("describe_instances", InstanceIds=[identity])["Reservations"]
        except Ec2Error as error:
            if error.code in ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"):
                return None
            raise
        return next((machine for reservation in reservations for machine in reservation["Instances"]), None)

    def state(self, identity: str) -> str:
        """The state of a machine; `terminated` if the API no longer knows it."""
        machine = self.get(identity)
        return "terminated" if machine is None else str(machine["State"]["Name"])

    def up(self, identity: str, wanted: str) -> dict[str, Any] | None:
        """The machine if it runs and has an address in `wanted` (`public_ips` or `private_ips`), else None.

        Raises SaltCloudExecutionFailure if it was terminated.
        """
        machine = self.get(identity)
        if machine is None:
            return None
        state = machine["State"]["Name"]
        if state in GONE:
            why = (machine.get("StateReason") or {}).get("Message") or "no reason is given"
            raise SaltCloudExecutionFailure(f"Amazon terminates {_name(machine)} ({identity}) at its start: {why}")
        return machine if state == "running" and six(machine)[wanted] else None

    def move(self, name: str, operation: str, state: str) -> dict[str, Any]:
        """Call `start_instances` or `stop_instances`, and wait until the machine has this state."""
        identity = self.find(name)["InstanceId"]
        self._ec2.ask(operation, InstanceIds=[identity])
        wait_until(
            lambda: True if self.state(identity) == state else None,
            f"{name} ({identity}) is not {state}",
            seconds=ACTION_SECONDS,
            interval_s=INTERVAL_S,
        )
        return {"id": identity, "state": state}

    def protect(self, name: str, protected: bool) -> dict[str, Any]:
        """Switch the termination protection of a machine on or off."""
        identity = self.find(name)["InstanceId"]
        self._ec2.ask("modify_instance_attribute", InstanceId=identity, DisableApiTermination={"Value": protected})
        return {"id": identity, "termination_protection": protected}

    def terminate(self, identity: str, hidden_s: float) -> None:
        """Terminate a machine, and wait until that has begun. The API may not know it yet for `hidden_s` seconds."""
        wait_until(
            lambda: self._told_to_terminate(identity),
            f"EC2 in {self._ec2.location} knows no machine {identity}",
            seconds=hidden_s,
            interval_s=INTERVAL_S,
        )
        wait_until(
            lambda: True if self.state(identity) in GONE else None,
            f"Amazon was asked to terminate {identity} and has not begun",
            seconds=ACTION_SECONDS,
            interval_s=INTERVAL_S,
        )

    def _told_to_terminate(self, identity: str) -> bool | None:
        try:
            self._ec2.ask("terminate_instances", InstanceIds=[identity])
        except Ec2Error as error:
            if error.code == "InvalidInstanceID.NotFound":
                return None
            raise
        return True

    def _rows(self, filters: list[dict[str, Any]]) -> list[dict[str, Any]]:
        reservations = self._ec2.rows("describe_instances", "Reservations", Filters=filters)
        return [machine for reservation in reservations for machine in reservation.get("Instances") or ()]


def six(machine: Mapping[str, Any]) -> dict[str, Any]:
    """The six fields that every listing of machines has."""
    private, public = [machine.get("PrivateIpAddress")], [machine.get("PublicIpAddress")]
    for interface in machine.get("NetworkInterfaces") or ():
        for address in interface.get("PrivateIpAddresses") or ():
            private.append(address.get("PrivateIpAddress"))
            public.append((address.get("Association") or {}).get("PublicIp"))
        public += [address.get("Ipv6Address") for address in interface.get("Ipv6Addresses") or ()]
    return {
        "id": str(machine.get("InstanceId") or ""),
        "image": str(machine.get("ImageId") or ""),
        "size": str(machine.get("InstanceType") or ""),
        "state": str((machine.get("State") or {}).get("Name") or ""),
        "private_ips": list(dict.fromkeys(str(address) for address in private if address)),
        "public_ips": list(dict.fromkeys(str(address) for address in public if address)),
    }


def _name(machine: Mapping[str, Any]) -> str:
    tags = {tag["Key"]: tag["Value"] for tag in machine.get("Tags") or ()}
    return str(tags.get("Name") or machine["InstanceId"])


# -- the request of a create, made from the settings of a profile

USERNAMES = (("ubuntu", "ubuntu"), ("debian", "admin"), ("fedora", "fedora"), ("centos", "centos"), ("rocky", "rocky"))
"""A word in an image's name, and who logs in to such machines."""
USERNAME = "ec2-user"


class Setting(Protocol):
    """A look-up of one setting of a machine."""

    def __call__(self, key: str, default: Any = None, /) -> Any: ...


def request_of(name: str, setting: Setting, ec2: Ec2, image: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of RunInstances. Raises SaltCloudConfigError for an invalid setting, and SaltCloudNotFound for one
    that the location does not have.
    """
    asked: dict[str, Any] = {
        "ImageId": image["ImageId"],
        "InstanceType": _size(name, setting, ec2),
        "MinCount": 1,
        "MaxCount": 1,
        # Makes the request idempotent: botocore repeats it after a broken connection.
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
    """The image of a machine. A name is looked up only among the images of `owners`, because anyone may publish an
    image under any name. Raises SaltCloudNotFound.
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
    """The login user of machines with this image, guessed from its name and description."""
    description = f"{image.get('Name')} {image.get('Description')}".lower()
    return next((username for word, username in USERNAMES if word in description), USERNAME)


def _must(name: str, setting: Setting, key: str) -> Any:
    value = setting(key)
    if not value:
        raise SaltCloudConfigError(f"{name} has no {key!r}: set one of --list-{key}s in its profile")
    return value


def _size(name: str, setting: Setting, ec2: Ec2) -> str:
    """The size of a machine. It is looked up, so that a wrong one is reported before anything is created."""
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
                f"{name} has network_interfaces: put its subnet and security groups there, and nowhere else"
            )
        return {"NetworkInterfaces": [nested(each) for each in interfaces]}
    if names:
        groups += _group_ids(names, str(subnet or ""), ec2)
    network: dict[str, Any] = {"SecurityGroupIds": groups} if groups else {}
    return {**network, "SubnetId": str(subnet)} if subnet else network


def _group_ids(names: Sequence[str], subnet: str, ec2: Ec2) -> list[str]:
    """The ids of security groups in the network of the subnet, or in the default network."""
    if subnet:
        network = ec2.ask("describe_subnets", SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    else:
        vpcs = ec2.ask("describe_vpcs", Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
        if not vpcs:
            raise SaltCloudConfigError(f"{ec2.location} has no default network: set 'subnetid'")
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
