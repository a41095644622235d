"""Existing machines: an ssh login is enough to make one a minion.

A provider needs only the setting `driver`; a profile says how to log in, or a map does so for each machine:

    my-hosts:
      driver: saltify
      minion: {master: 192.0.2.1}

    shop:
      provider: my-hosts
      ssh_host: 192.0.2.7             # by default the name of the machine
      ssh_username: root
      key_filename: /etc/saltlite/shop  # or `password`
      sudo: True                      # `saltlite/cloud/deploy/settings.py` has all settings

The machine itself stays: `destroy` removes only what the deployment made. For that, the driver records the settings of
the deployment, without secrets. Login settings of the profile are read again, because they may have changed, and so are
passwords; a password that only a map had must be moved to the profile. The first host key of a machine is pinned, also
for a later minion of the same name.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from saltlite.cloud.api import config
from saltlite.cloud.api.cloud import bootstrap, is_public_ip
from saltlite.cloud.api.driver import no_action, no_function, only_action, tell
from saltlite.cloud.api.exceptions import (
    SaltCloudException,
    SaltCloudExecutionFailure,
    SaltCloudExecutionTimeout,
    SaltCloudNotFound,
    SaltCloudPasswordError,
)
from saltlite.cloud.api.port import Capabilities, cloud

if TYPE_CHECKING:
    from saltlite.loader.hints import __active_provider_name__, __opts__

CAPABILITIES = Capabilities(needs_image=False, needs_size=False, has_login=False, lists_at_once=True)
LOOK_S = 2.0
"""Seconds to wait for the ssh port of a machine in a listing."""
LOOKS_MAX = 64
"""Machines that are checked at the same time."""
LOGIN_S = 15.0
"""The default time limit of a login in seconds: an existing machine should answer."""
LOGIN_TRIES = 1

_WHO = ("name", "profile", "provider", "driver")
_PLACES = (
    "deploy", "install", "install_dir", "minion", "minion_dir", "python", "script", "ssh_host", "ssh_host_key",
    "ssh_known_hosts", "ssh_port", "tmp_dir",
)  # fmt: skip
"""Settings that are recorded as they were at the deployment."""
_LOGIN = (
    "key_filename", "private_key", "ssh_agent", "ssh_key_file", "ssh_keyfile", "ssh_options", "ssh_username", "sudo",
)  # fmt: skip
"""Settings that are recorded if the profile does not have the same value: they came from a map or a global option."""
_OF_THE_MINION = ("id", "user", "root_dir", "pki_dir", "data_dir", "cachedir", "log_file")
"""Recorded options of the minion: its identity and its folders."""
_SECRETS = ("key_passphrase", "password", "ssh_password", "sudo_password")
"""Settings that are never recorded."""


def __virtual__() -> str | bool:
    """Whether a provider of this driver is configured."""
    return "saltify" if get_configured_provider() is not False else False


def get_configured_provider() -> Any:
    """The first provider of this driver, or False."""
    return config.is_provider_configured(__opts__, __active_provider_name__ or "saltify", ())


def avail_locations(call: str | None = None) -> dict[str, Any]:
    """None: existing machines have no selectable location.

    CLI Example: ``saltlite-cloud --list-locations my-hosts``
    """
    no_action("avail_locations", "--list-locations", call)
    return {}


def avail_images(call: str | None = None) -> dict[str, Any]:
    """The profiles of this provider.

    CLI Example: ``saltlite-cloud --list-images my-hosts``
    """
    no_action("avail_images", "--list-images", call)
    profiles = __opts__.get("profiles") or {}
    return {
        name: {"profile": name}
        for name, profile in profiles.items()
        if str(profile.get("provider", "")).partition(":")[0] == _alias()
    }


def avail_sizes(call: str | None = None) -> dict[str, Any]:
    """None: existing machines have no selectable size.

    CLI Example: ``saltlite-cloud --list-sizes my-hosts``
    """
    no_action("avail_sizes", "--list-sizes", call)
    return {}


def list_nodes(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines that were made minions, with the six fields. `state` says whether the ssh port answers.

    CLI Example: ``saltlite-cloud -Q``
    """
    no_action("list_nodes", "-Q or --query", call)
    return {name: _six(record, address) for name, (record, address) in _looked_at(_records()).items()}


def list_nodes_full(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with their records and the six fields.

    CLI Example: ``saltlite-cloud -F``
    """
    no_action("list_nodes_full", "-F or --full-query", call)
    return {name: {**record, **_six(record, address)} for name, (record, address) in _looked_at(_records()).items()}


def list_nodes_min(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The names of the machines, without a connection to any."""
    no_action("list_nodes_min", "-Q or --query", call)
    return {name: {"id": name, "state": "known"} for name in _records()}


def list_nodes_select(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with the fields of `query.selection`.

    CLI Example: ``saltlite-cloud -S``
    """
    from saltlite.cloud.api.cloud import list_nodes_select as selected  # noqa: PLC0415 - the name is this function's

    return selected(list_nodes_full("function"), __opts__["query.selection"], call)


def show_instance(name: str, call: str | None = None) -> dict[str, Any]:
    """The record of one machine, and the six fields.

    CLI Example: ``saltlite-cloud -a show_instance web1``
    """
    only_action("show_instance", call)
    record = _find(name)
    return {**record, **_six(record, _address(record))}


def create(vm_: dict[str, Any]) -> dict[str, Any]:
    """Make an existing machine a minion. Raises SaltCloudException.

    CLI Example: ``saltlite-cloud -p shop web1``
    """
    tell("creating", "starting create", vm_)
    _prepare(vm_)
    where = {"ssh_host": vm_["ssh_host"], "ssh_port": vm_.get("ssh_port", 22)}
    tell("requesting", "requesting instance", vm_, where)
    # Recorded before the deployment, so that a failed one can be undone.
    _remember(vm_)
    try:
        done = bootstrap(vm_, __opts__)
    except SaltCloudException as error:
        if not getattr(error, "left", ()):
            _forget(vm_["name"])
        raise
    _remember(vm_, deployed=bool(done.get("deployed")))
    tell("created", "created instance", vm_)
    record = _find(vm_["name"])
    return {**_six(record, _address(record)), **done}


def destroy(name: str, call: str | None = None) -> dict[str, Any]:
    """Remove what the deployment made on the machine, which itself stays.

    CLI Example: ``saltlite-cloud -d web1``
    """
    no_function("destroy", "-d or --destroy", call)
    record = _find(name)
    tell("destroying", "destroying instance", {"name": name})
    if config.get_cloud_config_value("remove_config_on_destroy", record, __opts__, default=True):
        _retire(record)
    _forget(name)
    tell("destroyed", "destroyed instance", {"name": name})
    return {"id": name, "destroyed": True}


def script(vm_: Mapping[str, Any]) -> str:
    """The text of the deploy script."""
    return cloud().script(vm_)


# -- the records of machines


def _alias() -> str:
    return str(__active_provider_name__).partition(":")[0]


def _folder() -> str:
    return os.path.join(str(__opts__["cachedir"]), "saltify", _alias())


def _prepare(vm_: dict[str, Any]) -> None:
    """Set the defaults for an existing machine."""
    vm_.setdefault("ssh_host", vm_["name"])
    vm_.setdefault("ssh_timeout", LOGIN_S)
    vm_.setdefault("wait_for_passwd_maxtries", LOGIN_TRIES)
    vm_.setdefault("ssh_known_hosts", os.path.join(_folder(), f"{vm_['name']}.known_hosts"))


def _settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """The current settings of profile and provider, and global passwords."""
    provider = get_configured_provider() or {}
    profile = (__opts__.get("profiles") or {}).get(record.get("profile")) or {}
    everywhere = {name: __opts__[name] for name in _SECRETS if __opts__.get(name)}
    return {**everywhere, **provider, **profile}


def _retire(record: dict[str, Any]) -> None:
    """Remove the minion from the machine. Raises SaltCloudException."""
    vm_ = {**_settings(record), **record}
    _prepare(vm_)
    lost = [name for name in record.get("not_kept", ()) if not vm_.get(name)]
    try:
        left = cloud().retire(vm_, __opts__)
    except SaltCloudPasswordError as error:
        if not lost:
            raise
        hint = f"it was made with {', '.join(lost)} of a map: add that to the profile {record.get('profile')}"
        raise SaltCloudPasswordError(f"{error} {hint}") from error
    except SaltCloudExecutionTimeout as error:
        hint = "if it is gone for good, set remove_config_on_destroy: False to drop its record"
        raise SaltCloudExecutionTimeout(f"{error} {hint}") from error
    if left:
        raise SaltCloudExecutionFailure(
            f"{vm_['name']}: this could not be removed: {', '.join(left)}; try again, or set "
            "remove_config_on_destroy: False to drop its record only"
        )


def _remember(vm_: Mapping[str, Any], *, deployed: bool = False) -> None:
    """Record a machine. `deployed`: the deployment has succeeded, so the machine has the list of what was made."""
    says = _settings(vm_)
    kept = {name: vm_[name] for name in (*_WHO, *_PLACES) if vm_.get(name) is not None}
    kept |= {name: vm_[name] for name in _LOGIN if vm_.get(name) is not None and vm_[name] != says.get(name)}
    if "\n" in str(kept.get("private_key", "")):
        del kept["private_key"]  # the key itself
    kept["minion"] = {name: one for name, one in (kept.get("minion") or {}).items() if name in _OF_THE_MINION}
    kept["not_kept"] = [name for name in _SECRETS if vm_.get(name) and not says.get(name)]
    kept["deployed"] = deployed
    os.makedirs(_folder(), mode=0o700, exist_ok=True)
    path = _path(vm_["name"])
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(kept, file, default=str)
    os.replace(f"{path}.new", path)


def _forget(name: str) -> None:
    if os.path.exists(_path(name)):
        os.unlink(_path(name))


def _path(name: str) -> str:
    return os.path.join(_folder(), f"{name}.json")


def _records() -> dict[str, dict[str, Any]]:
    """Name -> record."""
    if not os.path.isdir(_folder()):
        return {}
    found = {}
    for entry in sorted(os.listdir(_folder())):
        if entry.endswith(".json"):
            with open(os.path.join(_folder(), entry), encoding="utf-8") as file:
                found[entry.removesuffix(".json")] = json.load(file)
    return found


def _find(name: str) -> dict[str, Any]:
    record = _records().get(name)
    if record is None:
        raise SaltCloudNotFound(f"{name} was not made a minion by the provider {_alias()}; -Q shows those that were")
    return record


# -- listings


def _looked_at(records: Mapping[str, dict[str, Any]]) -> dict[str, tuple[dict[str, Any], str]]:
    """Name -> record, and the address at which the ssh port answers, or ""; all machines are checked in parallel."""
    if not records:
        return {}
    with ThreadPoolExecutor(min(LOOKS_MAX, len(records))) as pool:
        addresses = list(pool.map(_address, records.values()))
    return {name: (record, address) for (name, record), address in zip(records.items(), addresses, strict=True)}


def _address(record: Mapping[str, Any]) -> str:
    try:
        with socket.create_connection((record["ssh_host"], int(record.get("ssh_port", 22))), LOOK_S) as connection:
            return str(connection.getpeername()[0])
    except OSError:
        return ""


def _six(record: Mapping[str, Any], address: str) -> dict[str, Any]:
    public = bool(address) and is_public_ip(address)
    return {
        "id": str(record["name"]),
        "image": str(record.get("profile", "")),
        "size": "",
        "state": "running" if address else "unreachable",
        "private_ips": [address] if address and not public else [],
        "public_ips": [address] if public else [],
    }
