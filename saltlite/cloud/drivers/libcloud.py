"""Machines of any provider that Apache Libcloud supports (`pip install 'saltlite[cloud]'`).

A provider:

    my-rack:
      driver: libcloud
      libcloud_provider: linode           # its name in libcloud, as in `libcloud.compute.types.Provider`
      key: …                              # the first argument of libcloud's driver: a key, a token, a user name
      secret: …                           # the second one, if any
      region: eu-central                  # also host, port, if the driver has these arguments
      libcloud_options: {api_version: 4}  # other arguments of the driver, by name

A profile; `size` and `image` must be given, by name or id:

    small:
      provider: my-rack
      size: Nanode 1GB                    # --list-sizes
      image: Debian 12                    # --list-images
      location: Frankfurt, DE             # --list-locations; if the provider needs one
      ssh_public_key: /etc/saltlite/deploy.pub  # the key that may log in, if the provider accepts one
      private_key: /etc/saltlite/deploy   # its private half
      ssh_username: root                  # also `password`, if the provider accepts one
      ssh_interface: public               # or `private`: the address to log in to
      create_options: {ex_tags: [web]}    # other arguments of create_node of libcloud's driver, by name
      wait_for_ip_timeout: 600            # seconds; `wait_for_ip_interval` (2) between two polls

Contract: Apache Libcloud 3.8, its standard compute API.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.cloud.api import cloud, config, libcloudfuncs, port
from saltlite.cloud.api.driver import (
    asking_for,
    interface_of,
    nearest,
    no_action,
    private_key_file,
    public_key,
    tell,
    wait_until,
)
from saltlite.cloud.api.driver import made as note_made
from saltlite.cloud.api.exceptions import SaltCloudConfigError, SaltCloudExecutionFailure, SaltCloudNotFound
from saltlite.cloud.api.libcloud_calls import asking, full
from saltlite.cloud.rules.catalogue import text_field
from saltlite.salt.utils.functools import namespaced_function

if TYPE_CHECKING:
    from saltlite.loader.hints import __active_provider_name__, __opts__

INTERVAL_S = 2.0
WAIT_S = 600.0

_connections = threading.local()
"""libcloud's drivers hold a connection and are not thread-safe."""
_made: dict[str, str] = {}
"""Name -> id of machines that this process has created: some providers rename them."""

get_size = namespaced_function(libcloudfuncs.get_size, globals())
get_image = namespaced_function(libcloudfuncs.get_image, globals())
get_location = namespaced_function(libcloudfuncs.get_location, globals())
avail_locations = namespaced_function(libcloudfuncs.avail_locations, globals())
avail_images = namespaced_function(libcloudfuncs.avail_images, globals())
avail_sizes = namespaced_function(libcloudfuncs.avail_sizes, globals())
script = namespaced_function(libcloudfuncs.script, globals())
destroy = namespaced_function(libcloudfuncs.destroy, globals())
reboot = namespaced_function(libcloudfuncs.reboot, globals())
list_nodes = namespaced_function(libcloudfuncs.list_nodes, globals())
list_nodes_full = namespaced_function(libcloudfuncs.list_nodes_full, globals())
list_nodes_select = namespaced_function(libcloudfuncs.list_nodes_select, globals())
show_instance = namespaced_function(libcloudfuncs.show_instance, globals())


def __virtual__() -> bool | tuple[bool, str]:
    """Whether a provider of this driver is configured, and libcloud is installed."""
    if importlib.util.find_spec("libcloud") is None:
        return False, "it needs Apache Libcloud: pip install 'saltlite[cloud]'"
    return get_configured_provider() is not False


def get_configured_provider() -> Any:
    """The first provider with all required settings, or False."""
    return config.is_provider_configured(__opts__, __active_provider_name__ or "libcloud", ("libcloud_provider", "key"))


def get_conn() -> Any:
    """libcloud's driver for the current provider, one for each thread. Raises SaltCloudConfigError."""
    provider = get_configured_provider()
    if not provider:
        raise SaltCloudConfigError("the provider lacks 'libcloud_provider' or 'key', which the driver libcloud needs")
    known = vars(_connections).setdefault("known", {})
    # A forked process must not use its parent's connections.
    wanted = repr((os.getpid(), sorted((str(key), repr(value)) for key, value in provider.items())))
    if wanted not in known:
        known[wanted] = _connected(provider)
    return known[wanted]


def get_node(conn: Any, name: str) -> Any:
    """libcloud's object of the machine with this id or name, or that was created here under this name."""
    try:
        return libcloudfuncs.get_node(conn, _made.get(name, name))
    except SaltCloudNotFound:
        if _made.pop(name, None) is None:
            raise
    return libcloudfuncs.get_node(conn, name)


def list_nodes_min(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The used names, and the names of machines created here to which the provider gave another.

    CLI Example: ``saltlite-cloud -f list_nodes_min my-rack``
    """
    no_action("list_nodes_min", "-f list_nodes_min", call)
    known = {name: {"id": one["id"], "state": one["state"]} for name, one in list_nodes().items()}
    by_id = {one["id"]: one for one in known.values()}
    return {**known, **{name: by_id[identity] for name, identity in _made.items() if identity in by_id}}


def create(vm_: dict[str, Any]) -> dict[str, Any]:
    """Create a machine and make it a minion. Raises SaltCloudException.

    CLI Example: ``saltlite-cloud -p small web1``
    """
    tell("creating", "starting create", vm_)
    conn = get_conn()
    interface = interface_of(vm_, __opts__)
    key_file = _setting(vm_, "private_key")
    if key_file:
        vm_["key_filename"] = private_key_file(key_file, "private_key")
    asked = _request(vm_, conn)
    shown = {
        key: str(getattr(asked[key], "id", asked[key])) for key in ("name", "size", "image", "location") if key in asked
    }
    tell("requesting", "requesting instance", vm_, {"kwargs": shown})
    with asking_for(vm_):
        try:
            with asking(conn, f"create {vm_['name']}"):
                made = conn.create_node(**asked)
        except (TypeError, ValueError) as error:
            raise SaltCloudConfigError(f"{conn.name} does not take the settings of {vm_['name']}: {error}") from None
    identity = text_field(made.id)
    _made[vm_["name"]] = identity
    note_made(vm_, identity)
    machine = wait_until(
        lambda: _up(conn, identity, interface),
        f"{vm_['name']} ({made.id}) does not run with a {interface} address",
        seconds=float(_setting(vm_, "wait_for_ip_timeout", WAIT_S)),
        interval_s=float(_setting(vm_, "wait_for_ip_interval", INTERVAL_S)),
    )
    vm_["ssh_host"] = getattr(machine, f"{interface}_ips")[0]
    password = (made.extra or {}).get("password")
    if password:
        # Some providers generate a password, and return it only here.
        port.cloud().conceal(str(password))
        vm_["password"] = str(password)
    done = cloud.bootstrap(vm_, __opts__)
    tell("created", "created instance", vm_, {"instance_id": identity})
    return {**done, **full(machine), **({"password": password} if password else {})}


def _connected(provider: Mapping[str, Any]) -> Any:
    import libcloud.compute.providers  # noqa: PLC0415 - takes 0.25 s, and only this driver needs it
    import libcloud.compute.types  # noqa: PLC0415 - as above

    name = str(provider["libcloud_provider"]).lower()
    known = {
        str(value).lower(): value for value in vars(libcloud.compute.types.Provider).values() if isinstance(value, str)
    }
    try:
        kind: Any = libcloud.compute.providers.get_driver(known.get(name, name))
    except (AttributeError, ImportError):
        raise SaltCloudConfigError(f"libcloud knows no provider {name!r}{nearest(name, known)}") from None
    options = {key: provider[key] for key in ("region", "host", "port") if provider.get(key) is not None}
    given = [provider["key"], *([provider["secret"]] if provider.get("secret") is not None else [])]
    try:
        with asking(kind, "connect"):
            return kind(*given, **options, **(provider.get("libcloud_options") or {}))
    except (TypeError, ValueError) as error:
        raise SaltCloudConfigError(f"libcloud's driver {name} does not take these settings: {error}") from None


def _request(vm_: Mapping[str, Any], conn: Any) -> dict[str, Any]:
    """The arguments of create_node. Raises SaltCloudConfigError, SaltCloudNotFound."""
    asked: dict[str, Any] = {"name": vm_["name"], "size": get_size(conn, vm_), "image": get_image(conn, vm_)}
    if _setting(vm_, "location"):
        asked["location"] = get_location(conn, vm_)
    auth = _auth(vm_, (conn.features or {}).get("create_node") or ())
    if auth is not None:
        asked["auth"] = auth
    more = _setting(vm_, "create_options") or {}
    if not isinstance(more, Mapping):
        raise SaltCloudConfigError(f"'create_options' of {vm_['name']} must be a map, not {more!r}")
    return {**asked, **more}


def _auth(vm_: Mapping[str, Any], features: Any) -> Any:
    """The key or password of the new machine, if the provider accepts one."""
    import libcloud.compute.base  # noqa: PLC0415 - as above

    path, password = _setting(vm_, "ssh_public_key"), _setting(vm_, "password")
    if path and "ssh_key" in features:
        return libcloud.compute.base.NodeAuthSSHKey(public_key(str(path)))
    if path:
        raise SaltCloudConfigError(f"'ssh_public_key' of {vm_['name']} cannot be used: this provider accepts no key")
    if password and "password" in features:
        return libcloud.compute.base.NodeAuthPassword(str(password))
    return None


def _up(conn: Any, identity: str, interface: str) -> Any:
    """The machine if it runs and has an address, else None."""
    with asking(conn, "list machines"):
        found = next((machine for machine in conn.list_nodes() if text_field(machine.id) == identity), None)
    if found is None:
        return None
    if found.state in ("error", "terminated"):
        raise SaltCloudExecutionFailure(f"{conn.name} could not create {found.name} ({identity}): it is {found.state}")
    return found if found.state == "running" and getattr(found, f"{interface}_ips") else None


def _setting(vm_: Mapping[str, Any], key: str, default: Any = None) -> Any:
    return config.get_cloud_config_value(key, vm_, __opts__, default=default, search_global=False)
