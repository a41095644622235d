"""
A driver whose ``create()`` follows the steps of "Writing Cloud Driver Modules" by itself, from the request to
``salt.utils.cloud.deploy_script``, as drivers did before there was ``bootstrap``. Its machine is the host of its
provider (``ssh_host``, ``ssh_port``).
"""

import salt.config as config
import salt.utils.cloud
from salt.exceptions import SaltCloudSystemExit

_MACHINES = {}


def __virtual__():
    return get_configured_provider() is not False


def get_configured_provider():
    return config.is_provider_configured(
        __opts__,
        __active_provider_name__ or "flow",
        ("ssh_host",),
    )


def script(vm_):
    minion = salt.utils.cloud.minion_config(__opts__, vm_)
    return salt.utils.cloud.os_script(
        config.get_cloud_config_value("script", vm_, __opts__),
        vm_,
        __opts__,
        salt.utils.cloud.salt_config_to_yaml(minion),
    )


def create(vm_):
    def setting(name, default=None):
        return config.get_cloud_config_value(name, vm_, __opts__, default=default)

    def fire(what, args):
        __utils__["cloud.fire_event"](
            "event",
            what,
            "salt/cloud/{}/{}".format(vm_["name"], what),
            args=args,
            sock_dir=__opts__["sock_dir"],
            transport=__opts__["transport"],
        )

    who = {key: vm_[key] for key in ("name", "profile", "provider")}
    fire("creating", who)

    kwargs = {"name": vm_["name"], "image": setting("image"), "size": setting("size")}
    fire("requesting", dict(who, kwargs=kwargs))
    _MACHINES[vm_["name"]] = {
        "id": "1",
        "image": kwargs["image"],
        "size": kwargs["size"],
        "state": "running",
        "private_ips": [],
        "public_ips": [setting("ssh_host")],
    }

    deploy_kwargs = {
        "opts": __opts__,
        "vm_": vm_,
        "host": setting("ssh_host"),
        "port": setting("ssh_port", 22),
        "username": setting("ssh_username", "root"),
        "password": setting("password"),
        "key_filename": setting("private_key"),
        "script": script(vm_),
        "name": vm_["name"],
        "tmp_dir": setting("tmp_dir", "/tmp/.saltcloud"),
        "deploy_command": setting("deploy_command"),
        "start_action": __opts__["start_action"],
        "parallel": __opts__["parallel"],
        "sock_dir": __opts__["sock_dir"],
        "conf_file": __opts__["conf_file"],
        "minion_pem": vm_["priv_key"],
        "minion_pub": vm_["pub_key"],
        "keep_tmp": __opts__["keep_tmp"],
        "preseed_minion_keys": vm_.get("preseed_minion_keys"),
        "script_args": setting("script_args"),
        "script_env": setting("script_env"),
        "minion_conf": salt.utils.cloud.minion_config(__opts__, vm_),
        "sudo": setting("sudo", False),
        "sudo_password": setting("sudo_password"),
        "tty": setting("tty", True),
        "display_ssh_output": setting("display_ssh_output", True),
        "ssh_timeout": 15,
        "maxtries": 3,
        "make_master": setting("make_master", False),
        "win_installer": setting("win_installer"),
        "win_username": setting("win_username"),
    }
    private = ("opts", "vm_", "password", "minion_pem", "minion_pub", "sudo_password", "minion_conf", "script_env")
    fire("deploying", dict(who, kwargs={key: one for key, one in deploy_kwargs.items() if key not in private}))
    if deploy_kwargs["win_installer"]:
        deployed = salt.utils.cloud.deploy_windows(**deploy_kwargs)
    else:
        deployed = salt.utils.cloud.deploy_script(**deploy_kwargs)

    fire("created", who)
    return dict(_MACHINES[vm_["name"]], deployed=deployed)


def destroy(name, call=None):
    if call == "function":
        raise SaltCloudSystemExit("The destroy action must be called with -d, --destroy, -a or --action.")
    return bool(_MACHINES.pop(name, None))


def get_conn():
    return _MACHINES


def list_nodes(call=None):
    return get_conn()


def list_nodes_full(conn=None, call=None):
    return conn or get_conn()


def list_nodes_select(conn=None, call=None):
    """
    Return a list of the VMs that are on the provider, with select fields
    """
    if not conn:
        conn = get_conn()  # pylint: disable=E0602

    return salt.utils.cloud.list_nodes_select(
        list_nodes_full(conn, "function"), __opts__["query.selection"], call
    )
