"""The machines of one location, as the driver `ec2` finds them: by name, by id, and without those that are gone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure, SaltCloudNotFound, SaltCloudSystemExit
from saltlite.cloud.api.waiting import wait_until
from saltlite.cloud.drivers._ec2_api import Ec2, Ec2Error

GONE = frozenset({"shutting-down", "terminated"})
"""States that no machine comes back from. The API lists such machines for an hour."""
_THERE = ["pending", "running", "stopping", "stopped"]

ACTION_SECONDS = 300.0
INTERVAL_S = 2.0

_ID = re.compile(r"i-[0-9a-f]{8,17}\Z")
_NAME_WITH_ID = re.compile(r".* \((i-[0-9a-f]{8,17})\)\Z")


class Machines:
    """What can be asked about machines. Every method raises Ec2Error when the API refuses or does not answer."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2

    def by_name(self) -> dict[str, dict[str, Any]]:
        """The machines by their tag Name, or by id. Of several with one name the oldest has it, others "name (id)"."""
        found: dict[str, dict[str, Any]] = {}
        every = self._rows([{"Name": "instance-state-name", "Values": _THERE}])
        for machine in sorted(every, key=lambda machine: (str(machine.get("LaunchTime")), machine["InstanceId"])):
            name = _name(machine)
            found[name if name not in found else f"{name} ({machine['InstanceId']})"] = machine
        return found

    def find(self, name: str) -> dict[str, Any]:
        """The machine of a name as `by_name` has it, or of an id, which may be gone.

        Raises SaltCloudNotFound when there is none, SaltCloudSystemExit when several have that name.
        """
        numbered = _NAME_WITH_ID.match(name)
        identity = numbered[1] if numbered else name
        if _ID.match(identity):
            machine = self.get(identity)
            if machine is not None:
                return machine
        there = {"Name": "instance-state-name", "Values": _THERE}
        # The API takes `*` and `?` in a filter for patterns, so what it finds is looked at again.
        found = [
            machine for machine in self._rows([{"Name": "tag:Name", "Values": [name]}, there]) if _name(machine) == name
        ]
        if not found:
            raise SaltCloudNotFound(f"EC2 in {self._ec2.location} has no machine {name!r}; -Q shows those it has")
        if len(found) > 1:
            ids = ", ".join(machine["InstanceId"] for machine in found)
            raise SaltCloudSystemExit(f"several machines are called {name}: say which by its id, of {ids}")
        return found[0]

    def get(self, identity: str) -> dict[str, Any] | None:
        """The machine of an id, or None: the API may not know a new one for some seconds."""
        try:
            reservations = self._ec2.ask("describe_instances", InstanceIds=[identity])["Reservations"]
        except Ec2Error as error:
            if error.code in ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"):
                return None
            raise
        return next((machine for reservation in reservations for machine in reservation["Instances"]), None)

    def state(self, identity: str) -> str:
        """The state of a machine, `terminated` when nothing is known of it any more."""
        machine = self.get(identity)
        return "terminated" if machine is None else str(machine["State"]["Name"])

    def up(self, identity: str, wanted: str) -> dict[str, Any] | None:
        """The machine when it runs and has one of `public_ips` or `private_ips`; None when it does not yet.

        Raises SaltCloudExecutionFailure when it never will.
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
        """Have a machine come into a state by `start_instances` or `stop_instances`, and wait until it is there."""
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
        """Have the API refuse to terminate a machine, or not any more."""
        identity = self.find(name)["InstanceId"]
        self._ec2.ask("modify_instance_attribute", InstanceId=identity, DisableApiTermination={"Value": protected})
        return {"id": identity, "termination_protection": protected}

    def terminate(self, identity: str, hidden_s: float) -> None:
        """Have a machine terminated, and wait until that has begun; the API may not know it for `hidden_s` seconds."""
        wait_until(
            lambda: self._told_to_terminate(identity),
            f"EC2 in {self._ec2.location} knows no machine {identity}",
            seconds=hidden_s,
            interval_s=INTERVAL_S,
        )
        wait_until(
            lambda: True if self.state(identity) in GONE else None,
            f"Amazon was told to terminate {identity} and has not begun",
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
