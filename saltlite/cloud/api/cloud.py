"""`salt.utils.cloud` of drivers, and their `__utils__["cloud.…"]`.

Contract: Salt's functions of these names. Events, deployment and the cache of machines belong to the program that runs
the driver; these functions reach it through `saltlite.cloud.api.port`.
"""

from __future__ import annotations

import ipaddress
import logging
import string
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import yaml

from saltlite.cloud.api.config import get_cloud_config_value
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudException,
    SaltCloudExecutionFailure,
    SaltCloudExecutionTimeout,
    SaltCloudSystemExit,
)
from saltlite.cloud.api.port import cloud
from saltlite.cloud.rules.catalogue import minion_settings, selected_fields

log = logging.getLogger(__name__)

SSH_USERNAMES = ("root",)
"""The default login users."""


def fire_event(
    key: str,
    msg: str,
    tag: str,
    sock_dir: str = "",  # noqa: ARG001 - Salt's signature; the event bus is the master's
    args: Mapping[str, Any] | None = None,
    transport: str = "zeromq",  # noqa: ARG001 - as above
) -> None:
    """Fire an event with `args` and, under `key` (usually "event"), the text `msg`."""
    cloud().fire(tag, {key: msg, **(args or {})})


def filter_event(tag: str, data: Mapping[str, Any], defaults: Collection[str] = ()) -> dict[str, Any]:
    """The fields of `data` for events of this name (such as `creating`): `defaults`, and those that the option
    `filter_events` adds: `{creating: {keys: [image], use_defaults: false}}`.
    """
    wanted = (cloud().opts.get("filter_events") or {}).get(tag) or {}
    keys = [*wanted.get("keys", ()), *(defaults if wanted.get("use_defaults", True) else ())]
    return {key: data[key] for key in dict.fromkeys(keys) if key in data}


def bootstrap(vm_: dict[str, Any], opts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Make the machine at its `ssh_host` a minion; returns what was done, by name."""
    program = cloud()
    return program.bootstrap(vm_, program.opts if opts is None else opts)


_SETTINGS_OF_ARGUMENTS: Mapping[str, str] = {
    "username": "ssh_username",
    "minion_conf": "minion",
    "timeout": "deploy_timeout",
    "maxtries": "wait_for_passwd_maxtries",
    "has_ssh_agent": "ssh_agent",
    "known_hosts_file": "ssh_known_hosts",
}
"""Argument of `deploy_script` -> the setting of that meaning."""

_MEANINGLESS = frozenset({
    # The minion makes its own key, and reports to its master itself.
    "minion_pem", "minion_pub", "preseed_minion_keys", "cloud_grains", "start_action", "master_sign_pub_file",
    # Each step has its own time limit and folder, there is no terminal, and nothing is copied file by file.
    "deploy_command", "display_ssh_output", "force_minion_config", "make_minion", "parallel", "ssh_timeout", "tty",
    # This program's own configuration.
    "conf_file", "opts", "sock_dir", "vm_",
})  # fmt: skip
"""Arguments of `deploy_script` that change nothing here."""

_IMPOSSIBLE: Mapping[str, str] = {
    "make_master": "a master is not installed by `saltlite cloud`",
    "make_syndic": "there are no syndics",
    "gateway": "write `ssh_options: [ProxyJump=GATEWAY]`",
}
"""Arguments of `deploy_script` that are refused, with the reason or the way out."""


def deploy_script(
    host: str,
    port: int = 22,
    *,
    script: object = None,
    vm_: Mapping[str, Any] | None = None,
    opts: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> bool:
    """`bootstrap` in the form of older drivers, with the settings as single arguments.

    `script` is a name, a path, the text of a script, or an object with that text as `script`, as libcloud has it.
    Raises SaltCloudConfigError for arguments that cannot be obeyed.
    """
    for name, why in _IMPOSSIBLE.items():
        if kwargs.pop(name, None):
            raise SaltCloudConfigError(f"deploy_script was called with {name}, which is not possible: {why}")
    given = {
        _SETTINGS_OF_ARGUMENTS.get(name, name): value
        for name, value in kwargs.items()
        if value is not None and name not in _MEANINGLESS
    }
    if given.get("ssh_known_hosts") == "/dev/null":
        del given["ssh_known_hosts"]  # host keys are always checked
    if not given.get("keep_tmp"):
        given.pop("keep_tmp", None)  # the setting of the machine stays
    if kwargs.get("make_minion") is False:
        given["deploy"] = False
    machine = {**(vm_ or {}), **given, "ssh_host": host, "ssh_port": port}
    if script:
        machine["script"] = _setting_of_script(str(getattr(script, "script", script)), machine)
    bootstrap(machine, opts)
    return True


def _setting_of_script(text: str, vm_: Mapping[str, Any]) -> str:
    """The setting `script` from whose file `os_script` has read this text, or else the text itself."""
    named = str(vm_.get("script") or "")
    return next((one for one in (named, "") if cloud().script({**vm_, "script": one}) == text), text)


def deploy_windows(host: str, **_kwargs: Any) -> bool:
    """Always refused: there is no minion for Windows."""
    raise SaltCloudSystemExit(
        f"{host} is a Windows machine, and saltlite has no minion for Windows: create it with --no-deploy"
    )


def validate_windows_cred(
    host: str, username: str = "Administrator", password: str = "", retries: int = 10, retry_delay: int = 1
) -> bool:
    """Always refused, as `deploy_windows`."""
    if password:
        cloud().conceal(password)
    raise SaltCloudSystemExit(
        f"the login of {username} to {host} cannot be checked ({retries} tries every {retry_delay} s): "
        "saltlite does not connect to Windows; create the machine with --no-deploy"
    )


def list_nodes_select(
    nodes: Mapping[str, Mapping[str, Any]], selection: Sequence[str] | str | None, call: str | None = None
) -> dict[str, dict[str, Any]]:
    """The fields of these machines in `selection`, which is the option `query.selection`."""
    if call == "action":
        raise SaltCloudSystemExit("The list_nodes_select function must be called with -f or --function.")
    if "error" in nodes:
        raise SaltCloudSystemExit(f"the machines could not be listed: {nodes['error']}")
    fields = [selection] if isinstance(selection, str) else list(selection or ())
    return {name: selected_fields(details, fields) for name, details in nodes.items()}


def wait_for_ip(
    update_callback: Callable[..., Any],
    update_args: Sequence[Any] | None = None,
    update_kwargs: Mapping[str, Any] | None = None,
    timeout: float = 300,
    interval: float = 5,
    interval_multiplier: float = 1,
    max_failures: int = 10,
) -> Any:
    """Call `update_callback` until it returns a true value, such as an address; returns that.

    False from the callback is a failure, the `max_failures`th of which is an error; None means "not yet". `timeout` and
    `interval` are seconds. Raises SaltCloudExecutionFailure, SaltCloudExecutionTimeout.
    """
    ends, failures = time.monotonic() + timeout, 0
    while True:
        data = update_callback(*(update_args or ()), **(update_kwargs or {}))
        if data:
            return data
        if data is False:
            failures += 1
            if failures >= max_failures:
                raise SaltCloudExecutionFailure(f"the machine got no address: {failures} requests failed")
        if time.monotonic() + interval > ends:
            raise SaltCloudExecutionTimeout(f"the machine got no address in {timeout:g} s")
        time.sleep(interval)
        interval *= interval_multiplier


def wait_for_fun(fun: Callable[..., Any], timeout: float = 900, interval: float = 1, **kwargs: Any) -> Any:
    """Call `fun` until it returns a true value, and return that; False after `timeout` seconds. Errors are retried."""
    ends = time.monotonic() + timeout
    while True:
        try:
            answer = fun(**kwargs)
        except Exception as error:  # noqa: BLE001 - supervision point: by Salt's contract it may fail at first
            log.debug("Waiting for %s: %s: %s", getattr(fun, "__name__", fun), type(error).__name__, error)
            answer = None
        if answer:
            return answer
        if time.monotonic() + interval > ends:
            return False
        time.sleep(interval)


def gen_keys(keysize: int = 2048) -> tuple[str, str]:
    """Always refused: the private key of a minion never leaves that minion."""
    raise SaltCloudSystemExit(
        f"a minion makes its own key, so no key of {keysize} bits is made here: it joins by the token in "
        "vm_['join_token']"
    )


def minion_config(opts: Mapping[str, Any], vm_: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the minion on this machine."""
    return minion_settings(vm_, opts)


def salt_config_to_yaml(configuration: Mapping[str, Any], line_break: str = "\n") -> str:
    """The text of a configuration file."""
    text: str = yaml.safe_dump(dict(configuration), default_flow_style=False, line_break=line_break)
    return text


def os_script(
    os_: str, vm_: Mapping[str, Any] | None = None, opts: Mapping[str, Any] | None = None, minion: str = ""
) -> str:
    """The text of the deploy script `os_`; "" is the built-in one."""
    if opts is not None or minion:
        log.debug("The configuration is uploaded beside the script %s, not inside it.", os_)
    return cloud().script({**(vm_ or {}), **({"script": os_} if os_ else {})})


def cache_node(node: Mapping[str, Any], provider: str, opts: Mapping[str, Any] | None = None) -> None:
    """Cache one machine of `alias:driver`; its name is in the field `name`."""
    if opts is None or opts.get("update_cachedir", True):
        cloud().remember(provider, {str(node["name"]): node})


def cache_node_list(
    nodes: Mapping[str, Mapping[str, Any]], provider: str, opts: Mapping[str, Any] | None = None
) -> None:
    """Cache these machines of `alias:driver`."""
    if opts is None or opts.get("update_cachedir", True):
        cloud().remember(provider, nodes)


def delete_minion_cachedir(minion_id: str, provider: str, opts: Mapping[str, Any] | None = None) -> None:
    """Drop a machine of `alias:driver` from the cache."""
    if opts is None or opts.get("update_cachedir", True):
        cloud().forget(provider, minion_id)


def is_public_ip(ip: str) -> bool:
    """Whether the address is globally reachable. Raises SaltCloudException for an invalid address."""
    try:
        return ipaddress.ip_address(ip).is_global
    except ValueError as error:
        raise SaltCloudException(f"{ip!r} is not an address") from error


def ssh_usernames(
    vm_: Mapping[str, Any], opts: Mapping[str, Any], default_users: Sequence[str] | None = None
) -> list[str]:
    """The login users to try: `ssh_username` (a name or a list), or else `default_users` and root."""
    given = get_cloud_config_value("ssh_username", vm_, opts) or ()
    names = [given] if isinstance(given, str) else list(given)
    others = (*(default_users or ()), *SSH_USERNAMES) if not names else ()
    return list(dict.fromkeys([*names, *others]))


def userdata_template(opts: Mapping[str, Any], vm_: Mapping[str, Any], userdata: str | None) -> str | None:
    """The user data, unchanged. Templates are refused: they would be code that runs with the caller's rights."""
    if get_cloud_config_value("userdata_template", vm_, opts, default=None):
        raise SaltCloudConfigError("userdata_template is not supported; write the final user data")
    return userdata


def check_name(name: str, safe_chars: str) -> None:
    """Raises SaltCloudException if a machine's name has a character outside of `safe_chars`, such as `a-z0-9-`."""
    allowed = _characters(safe_chars)
    odd = sorted(set(name) - allowed)
    if odd:
        raise SaltCloudException(
            f"{name!r} has {', '.join(map(repr, odd))}; this provider takes names of [{safe_chars}]"
        )


def _characters(ranges: str) -> set[str]:
    every = string.printable
    found: set[str] = set()
    index = 0
    while index < len(ranges):
        if ranges[index + 1 : index + 2] == "-" and index + 2 < len(ranges):
            found.update(one for one in every if ranges[index] <= one <= ranges[index + 2])
            index += 3
        else:
            found.add(ranges[index])
            index += 1
    return found
