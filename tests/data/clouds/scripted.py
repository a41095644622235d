"""
A driver as authors write them from "Writing Cloud Driver Modules": its machines are lines of a file, and folders with
a minion that runs as a process of this host. Its provider's settings say where (``folder``), and what goes wrong
(``trouble``).
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import sys
import time

import salt.config as config
import salt.utils.cloud
from salt.exceptions import SaltCloudSystemExit

log = logging.getLogger(__name__)

__virtualname__ = "scripted"


def __virtual__():
    if get_configured_provider() is False:
        return False
    return __virtualname__


def get_configured_provider():
    return config.is_provider_configured(
        __opts__,
        __active_provider_name__ or __virtualname__,
        ("folder",),
    )


def _setting(name, default=None):
    return config.get_cloud_config_value(
        name, get_configured_provider(), __opts__, default=default, search_global=False
    )


def _path():
    return os.path.join(_setting("folder"), "machines.json")


def _read():
    try:
        with open(_path()) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


@contextlib.contextmanager
def _changing():
    with open(_path() + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        machines = _read()
        yield machines
        with open(_path() + ".new", "w") as file:
            json.dump(machines, file)
        os.replace(_path() + ".new", _path())


def _fire(what, vm_, **more):
    __utils__["cloud.fire_event"](
        "event",
        what,
        "salt/cloud/{}/{}".format(vm_["name"], what),
        args=dict(__utils__["cloud.filter_event"](what, vm_, ["name", "profile", "provider", "driver"]), **more),
        sock_dir=__opts__["sock_dir"],
        transport=__opts__["transport"],
    )


def create(vm_):
    trouble = config.get_cloud_config_value("trouble", vm_, __opts__, default="")
    if not config.is_profile_configured(__opts__, __active_provider_name__, vm_["profile"], vm_=vm_):
        return False
    if vm_["size"] not in avail_sizes():
        raise SaltCloudSystemExit("there is no size {!r}".format(vm_["size"]))
    if trouble != "forgets-events":
        _fire("creating", vm_)
        if trouble == "twice":
            _fire("creating", vm_)
        _fire("requesting", vm_, kwargs=dict(vm_))
    if trouble == "refuses":
        raise SaltCloudSystemExit("the provider said no to key {}".format(_setting("api_key")))
    with _changing() as machines:
        machines[vm_["name"]] = {
            "id": len(machines) + 1,
            "image": vm_["image"],
            "size": None,
            "state": "running",
            "public_ips": "203.0.113.7",
            "private_ips": None,
            "extra": {"tags": vm_.get("tags")},
        }
    log.warning("made %s with %s", vm_["name"], vm_.get("ssh_password"))
    if trouble == "crash":
        raise RuntimeError("something with {}".format(vm_.get("ssh_password")))
    if trouble == "hang":
        open(os.path.join(_setting("folder"), "hangs"), "w").close()
        time.sleep(600)
    if trouble == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if vm_["deploy"]:
        if trouble != "forgets-events":
            _fire("deploying", vm_, **vm_)
        if trouble != "no-minion":
            _start_minion(vm_)
        while trouble == "late" and not os.path.exists(os.path.join(_setting("folder"), "go")):
            time.sleep(0.02)
        if trouble == "late":
            raise SaltCloudSystemExit("something else went wrong")
    if trouble != "forgets-events":
        _fire("created", vm_)
    return dict(machines[vm_["name"]], password=vm_.get("ssh_password"))


def _start_minion(vm_):
    folder = os.path.join(_setting("folder"), vm_["name"])
    os.makedirs(folder, exist_ok=True)
    index = os.path.join(_setting("folder"), "index")
    cache = os.path.join(folder, "var/cache/saltlite/minion/index")
    if os.path.exists(index) and not os.path.exists(cache):
        os.makedirs(cache, mode=0o700)
        shutil.copy2(index, os.path.join(cache, "modules"))
    conf = salt.utils.cloud.minion_config(__opts__, vm_)
    conf.update(root_dir=folder, user="root" if os.geteuid() == 0 else str(os.geteuid()))
    token = os.path.join(folder, "token")
    with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(vm_["join_token"])
    conf["join_token_file"] = token
    with open(os.path.join(folder, "minion"), "w") as file:
        file.write(salt.utils.cloud.salt_config_to_yaml(conf))
    program = os.path.join(os.path.dirname(sys.executable), "saltlite-minion")
    output = os.path.join(folder, "output")
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    # The minion outlives the command, so there is no object that wants to wait for it.
    pid = os.posix_spawn(program, [program, "-c", folder], os.environ, file_actions=streams, setsid=True)
    with _changing() as machines:
        machines[vm_["name"]]["pid"] = pid


def destroy(name, call=None):
    if call == "function":
        raise SaltCloudSystemExit("The destroy action must be called with -d, --destroy, -a or --action.")
    if _setting("trouble") == "will-not-destroy":
        raise SaltCloudSystemExit("the provider keeps {}".format(name))
    if _setting("trouble") == "hangs-in-destroy":
        open(os.path.join(_setting("folder"), "destroying"), "w").close()
        time.sleep(600)
    pid = _read()[name].get("pid")
    if pid:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        while os.path.exists("/proc/%d" % pid):
            with open("/proc/%d/stat" % pid) as file:
                if "Z" in file.read().rpartition(")")[2].split()[0]:
                    break
            time.sleep(0.02)
    with _changing() as machines:
        del machines[name]
    return {"destroyed": name}


def avail_images(call=None):
    if call == "action":
        raise SaltCloudSystemExit("The avail_images function must be called with -f or --function.")
    return {"Ubuntu 13.10 64-bit": {"id": "img-1"}}


def avail_sizes(call=None):
    if call == "action":
        raise SaltCloudSystemExit("The avail_sizes function must be called with -f or --function.")
    return {"small": {"ram": 1}, "large": {"ram": 16}}


def avail_locations(call=None):
    if call == "action":
        raise SaltCloudSystemExit("The avail_locations function must be called with -f or --function.")
    return {"here": {}}


def list_nodes(call=None):
    if call == "action":
        raise SaltCloudSystemExit("The list_nodes function must be called with -f or --function.")
    trouble = _setting("trouble")
    if trouble == "nonsense":
        return ["not", "a", "map"]
    if trouble == "down":
        raise OSError("connection refused by api with {}".format(_setting("api_key")))
    return _read()


def list_nodes_full(call=None):
    if call == "action":
        raise SaltCloudSystemExit("The list_nodes_full function must be called with -f or --function.")
    return _read()


def list_nodes_select(call=None):
    """
    Return a list of the VMs that are on the provider, with select fields
    """
    return salt.utils.cloud.list_nodes_select(
        list_nodes_full("function"), __opts__["query.selection"], call
    )


def _get_node(name):
    return list_nodes_full("function")[name]


def show_instance(name, call=None):
    """
    Show the details from EC2 concerning an AMI
    """
    if call != "action":
        raise SaltCloudSystemExit(
            "The show_instance action must be called with -a or --action."
        )

    return _get_node(name)


def query(params):
    return {"asked": params}


def show_image(kwargs, call=None):
    """
    Show the details from EC2 concerning an AMI
    """
    if call != "function":
        raise SaltCloudSystemExit(
            "The show_image action must be called with -f or --function."
        )

    params = {"ImageId.1": kwargs["image"], "Action": "DescribeImages"}
    result = query(params)
    log.info(result)

    return result


def stop(name, kwargs=None, call=None):
    if call != "action":
        raise SaltCloudSystemExit("The stop action must be called with -a or --action.")
    with _changing() as machines:
        machines[name]["state"] = "stopped"
    return {"stopped": name, "how": kwargs}
