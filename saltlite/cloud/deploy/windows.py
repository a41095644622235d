"""Windows machines: what a deployment to one would be given. There is no minion for Windows, so none is carried out.

Settings, as Salt calls them:

    win_installer               file of an installer, here; with it, or with win_username, it is a Windows machine
    win_username, win_password  who logs in; Administrator
    use_winrm                   true; by WinRM (`winrm_port`, 5986; `winrm_use_ssl`, `winrm_verify_ssl`, true), else by
                                SMB (`smb_port`, 445)
    win_deploy_auth_retries     10; how often a login is tried, for credentials that a provider has ready late
    win_deploy_auth_retry_delay 1; seconds between them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudConfigError
from saltlite.cloud.deploy.readings import Readings

MARKS = ("win_installer", "win_username")
"""Settings that make a machine a Windows machine."""

_PORT_MAX = 65_535


def is_windows(vm_: Mapping[str, Any]) -> bool:
    """Whether the settings are those of a Windows machine."""
    return any(vm_.get(name) for name in MARKS)


def parameters(vm_: Mapping[str, Any]) -> dict[str, Any]:
    """What a deployment to this Windows machine is given. Raises SaltCloudConfigError that names a setting."""
    read = Readings(vm_)
    winrm = read.flag("use_winrm", default=True)
    way = {
        "use_winrm": winrm,
        "winrm_port": read.whole("winrm_port", 5986, _PORT_MAX),
        "winrm_use_ssl": read.flag("winrm_use_ssl", default=True),
        "winrm_verify_ssl": read.flag("winrm_verify_ssl", default=True),
        "smb_port": read.whole("smb_port", 445, _PORT_MAX),
    }
    return {
        "name": read.name,
        "host": read.text("ssh_host", "salt_host"),
        "win_installer": read.text("win_installer"),
        "username": read.text("win_username", default="Administrator"),
        "password": read.text("win_password"),
        "auth_retries": read.whole("win_deploy_auth_retries", 10, 1000),
        "auth_retry_delay": read.seconds("win_deploy_auth_retry_delay", 1.0, 3600.0),
        "port": way["winrm_port"] if winrm else way["smb_port"],
        **way,
    }


def refuse(vm_: Mapping[str, Any]) -> SaltCloudConfigError:
    """The error for a deployment to a Windows machine, after its settings were read as if there were one."""
    given = parameters(vm_)
    how = f"{'WinRM' if given['use_winrm'] else 'SMB'} port {given['port']}"
    return SaltCloudConfigError(
        f"{given['name']}: this is a Windows machine ({how} as {given['username']}), and there is no minion for "
        "Windows: create it with `deploy: false` or --no-deploy"
    )
