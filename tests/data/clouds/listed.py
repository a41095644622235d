from salt.cloud.libcloudfuncs import *  # pylint: disable=W0614,W0401
import salt.utils.functools
import salt.config as config
import salt.utils.cloud

get_size = salt.utils.functools.namespaced_function(get_size, globals())
get_image = salt.utils.functools.namespaced_function(get_image, globals())
avail_locations = salt.utils.functools.namespaced_function(avail_locations, globals())
avail_images = salt.utils.functools.namespaced_function(avail_images, globals())
avail_sizes = salt.utils.functools.namespaced_function(avail_sizes, globals())
script = salt.utils.functools.namespaced_function(script, globals())
destroy = salt.utils.functools.namespaced_function(destroy, globals())
list_nodes = salt.utils.functools.namespaced_function(list_nodes, globals())
list_nodes_full = salt.utils.functools.namespaced_function(list_nodes_full, globals())
list_nodes_select = salt.utils.functools.namespaced_function(
    list_nodes_select, globals()
)
show_instance = salt.utils.functools.namespaced_function(show_instance, globals())

_connections = []


def __virtual__():
    return get_configured_provider() is not False


def get_configured_provider():
    return config.is_provider_configured(
        __opts__, __active_provider_name__ or "listed", ("creds",)
    )


def get_conn():
    if not _connections:
        from libcloud.compute.drivers.dummy import DummyNodeDriver

        _connections.append(DummyNodeDriver(get_configured_provider()["creds"]))
    return _connections[0]


def create(vm_):
    conn = get_conn()
    __utils__["cloud.fire_event"](
        "event",
        "starting create",
        "salt/cloud/{}/creating".format(vm_["name"]),
        args=__utils__["cloud.filter_event"](
            "creating", vm_, ["name", "profile", "provider", "driver"]
        ),
    )
    made = conn.create_node(
        name=vm_["name"], size=get_size(conn, vm_), image=get_image(conn, vm_)
    )
    vm_["ssh_host"] = made.public_ips[0]
    return {"id": made.id, **salt.utils.cloud.bootstrap(vm_, __opts__)}
