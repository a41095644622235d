"""Functions for drivers based on Apache Libcloud: `salt.cloud.libcloudfuncs`.

    from salt.cloud.libcloudfuncs import *
    import salt.utils.functools

    get_size = salt.utils.functools.namespaced_function(get_size, globals())

A driver makes copies of these functions whose global names are those of the driver. So `get_conn`, `__opts__` and every
replaced function are the driver's. Contract: "Writing Cloud Driver Modules".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.cloud.api import libcloud_calls as _libcloud

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__

    def get_conn() -> Any:
        """The driver's own: its libcloud driver, connected."""


def get_size(conn: Any, vm_: Mapping[str, Any]) -> Any:
    """libcloud's object of the size of a machine."""
    return _libcloud.chosen(conn, "sizes", vm_, __opts__)


def get_image(conn: Any, vm_: Mapping[str, Any]) -> Any:
    """libcloud's object of the image of a machine."""
    return _libcloud.chosen(conn, "images", vm_, __opts__)


def get_location(conn: Any, vm_: Mapping[str, Any]) -> Any:
    """libcloud's object of the location of a machine."""
    return _libcloud.chosen(conn, "locations", vm_, __opts__)


def get_node(conn: Any, name: str) -> Any:
    """libcloud's object of the machine with this name or id. Raises SaltCloudNotFound."""
    return _libcloud.machine(conn, name)


def avail_locations(conn: Any = None, call: str | None = None) -> dict[str, dict[str, Any]]:
    """The locations of the provider, by name."""
    _libcloud.no_action("avail_locations", "--list-locations", call)
    return _libcloud.choices(conn or get_conn(), "locations")


def avail_images(conn: Any = None, call: str | None = None) -> dict[str, dict[str, Any]]:
    """The images of the provider, by name."""
    _libcloud.no_action("avail_images", "--list-images", call)
    return _libcloud.choices(conn or get_conn(), "images")


def avail_sizes(conn: Any = None, call: str | None = None) -> dict[str, dict[str, Any]]:
    """The sizes of the provider, by name."""
    _libcloud.no_action("avail_sizes", "--list-sizes", call)
    return _libcloud.choices(conn or get_conn(), "sizes")


def script(vm_: Mapping[str, Any]) -> _libcloud.ScriptText:
    """The deploy script: a text that is also its own attribute `script`."""
    return _libcloud.ScriptText(_libcloud.os_script(str(vm_.get("script") or ""), vm_, __opts__))


def destroy(name: str, conn: Any = None, call: str | None = None) -> bool:
    """Destroy a machine. Raises SaltCloudNotFound, SaltCloudExecutionFailure."""
    _libcloud.no_function("destroy", "-d or --destroy", call)
    conn = conn or get_conn()
    machine = get_node(conn, name)
    _libcloud.tell("destroying", "destroying instance", {"name": name})
    _libcloud.done(conn, "destroy_node", machine)
    _libcloud.tell("destroyed", "destroyed instance", {"name": name})
    return True


def reboot(name: str, conn: Any = None, call: str | None = None) -> bool:
    """Reboot a machine. Raises SaltCloudNotFound, SaltCloudExecutionFailure."""
    _libcloud.no_function("reboot", "-a reboot", call)
    conn = conn or get_conn()
    _libcloud.done(conn, "reboot_node", get_node(conn, name))
    return True


def list_nodes(conn: Any = None, call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with the six fields."""
    _libcloud.no_action("list_nodes", "-Q or --query", call)
    return {name: _libcloud.six(machine) for name, machine in _libcloud.machines(conn or get_conn()).items()}


def list_nodes_full(conn: Any = None, call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with all their fields and the six fields."""
    _libcloud.no_action("list_nodes_full", "-F or --full-query", call)
    return {name: _libcloud.full(machine) for name, machine in _libcloud.machines(conn or get_conn()).items()}


def list_nodes_select(conn: Any = None, call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with the fields of the option `query.selection`."""
    _libcloud.no_action("list_nodes_select", "-S or --select-query", call)
    return _libcloud.list_nodes_select(list_nodes_full(conn, "function"), __opts__["query.selection"], call)


def show_instance(name: str, call: str | None = None) -> dict[str, Any]:
    """All fields of one machine. Raises SaltCloudNotFound."""
    _libcloud.only_action("show_instance", call)
    return _libcloud.full(get_node(get_conn(), name))
