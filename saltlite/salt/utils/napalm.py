"""`salt.utils.napalm`: network devices by the library NAPALM, whose settings a minion has in option `napalm`."""

from __future__ import annotations

import copy
import importlib
import logging
import traceback
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from saltlite.salt import output
from saltlite.salt.utils.args import clean_kwargs
from saltlite.salt.utils.platform import is_proxy as _is_proxy_process

log = logging.getLogger(__name__)

_UNKNOWN = "[unspecified hostname]"
_LEAST = 2


def _library(name: str = "napalm") -> Any:
    """The library or a module of it, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def __getattr__(name: str) -> Any:
    if name == "HAS_NAPALM":
        return _library() is not None
    raise AttributeError(f"saltlite has no salt.utils.napalm.{name}; install Salt beside saltlite, or do without it")


def is_proxy(opts: Mapping[str, Any]) -> bool:
    """Whether this is a proxy minion of NAPALM."""
    return _is_proxy_process() and opts.get("proxy", {}).get("proxytype") == "napalm"


def is_always_alive(opts: Mapping[str, Any]) -> Any:
    """Whether the connection of the proxy minion stays open."""
    return opts.get("proxy", {}).get("always_alive", True)


def is_minion(opts: Mapping[str, Any]) -> bool:
    """Whether this is a minion that has settings of NAPALM."""
    return not _is_proxy_process() and "napalm" in opts


def not_always_alive(opts: Mapping[str, Any]) -> bool:
    """Whether each call opens a connection."""
    return (is_proxy(opts) and not is_always_alive(opts)) or is_minion(opts)


def virtual(opts: Mapping[str, Any], virtualname: str, filename: str) -> Any:
    """The name of a module that needs NAPALM, or (False, a sentence)."""
    library = _library()
    version = str(getattr(library, "__version__", "0")).split(".")[0]
    if library is not None and int(version) >= _LEAST and (is_proxy(opts) or is_minion(opts)):
        return virtualname
    return (
        False,
        f'"{virtualname}" ({filename}) cannot be loaded: NAPALM is not installed: ``pip install napalm``',
    )


def call(napalm_device: Any, method: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call a method of the device; `{"out": …, "result": …, "comment": …}`.

    Keywords that are None are omitted. A connection that was closed is opened once more.
    """
    opts = napalm_device.get("__opts__", {})
    retry = kwargs.pop("__retry", True)
    if kwargs.get("force_reconnect", False):
        opts["proxy"].update(**kwargs)
        napalm_device = get_device(opts)
    given = {name: value for name, value in kwargs.items() if value is not None}
    try:
        if not napalm_device.get("UP", False):
            raise ConnectionError("not connected")  # noqa: TRY301 - it is a failure like those of the device
        out = getattr(napalm_device.get("DRIVER"), method)(*args, **given)
    except Exception as error:  # noqa: BLE001 - supervision point: the library of a device may raise anything
        closed = getattr(_library("napalm.base.exceptions"), "ConnectionClosedException", ())
        if retry and isinstance(error, closed):
            call(napalm_device, "close", __retry=False)
            call(napalm_device, "open", __retry=False)
            return call(napalm_device, method, *args, __retry=False, **given)
        comment = _failure(napalm_device, method, error)
        log.error("%s\n%s", comment, traceback.format_exc())
        return {"out": {}, "result": False, "comment": comment, "traceback": traceback.format_exc()}
    finally:
        if opts and not_always_alive(opts) and napalm_device.get("CLOSE", True):
            napalm_device["DRIVER"].close()
    return {"out": out, "result": True, "comment": ""}


def _failure(device: Any, method: str, error: Exception) -> str:
    if isinstance(error, NotImplementedError):
        return f"{method} is not implemented for the NAPALM {device.get('DRIVER_NAME')} driver!"
    where = f"{device.get('HOSTNAME', _UNKNOWN)}{_port(device)}"
    return f'Cannot execute "{method}" on {where} as {device.get("USERNAME", "")}. Reason: {error}!'


def _port(device: Any) -> str:
    port = device.get("OPTIONAL_ARGS", {}).get("port")
    return f":{port}" if port else ""


def get_device_opts(opts: Any, salt_obj: Any = None) -> dict[str, Any]:
    """The settings of the device under one name each."""
    own = opts.get("proxy", {}) if is_proxy(opts) else opts.get("napalm", {})
    if opts.get("proxy") or opts.get("napalm"):
        opts["multiprocessing"] = own.get("multiprocessing", False)
    if not own:
        log.error("Incorrect minion config. Please specify at least the napalm driver name!")

    def first(*names: str) -> Any:
        return next((own[name] for name in names if own.get(name)), None)

    optional = own.get("optional_args", {})
    always_alive = own.get("always_alive", True)
    optional.setdefault("config_lock", False)
    if always_alive:
        optional.setdefault("keepalive", 5)
    return {
        "HOSTNAME": first("host", "hostname", "fqdn", "ip"),
        "USERNAME": first("username", "user"),
        "DRIVER_NAME": first("driver", "os"),
        "PASSWORD": first("passwd", "password", "pass") or "",
        "TIMEOUT": own.get("timeout", 60),
        "OPTIONAL_ARGS": optional,
        "ALWAYS_ALIVE": always_alive,
        "PROVIDER": own.get("provider"),
        "UP": False,
    }


def get_device(opts: Any, salt_obj: Any = None) -> dict[str, Any]:
    """The settings of the device and, as DRIVER, an open connection. Raises NAPALM's ConnectionException."""
    device = get_device_opts(opts, salt_obj=salt_obj)
    base = importlib.import_module("napalm.base")
    provider = (_library(device["PROVIDER"]) if device["PROVIDER"] else None) or base
    driver = provider.get_network_driver(device["DRIVER_NAME"])
    refused = base.exceptions.ConnectionException
    try:
        device["DRIVER"] = driver(
            device["HOSTNAME"] or "",
            device["USERNAME"] or "",
            device["PASSWORD"],
            timeout=device["TIMEOUT"],
            optional_args=device["OPTIONAL_ARGS"],
        )
        device["DRIVER"].open()
    except refused as error:
        where = f"{device['HOSTNAME'] or _UNKNOWN}{_port(device)}"
        message = f"Cannot connect to {where} as {device['USERNAME'] or ''}."
        log.error("%s %s", message, error)
        raise refused(message) from error
    device["UP"] = True
    return device


def proxy_napalm_wrap(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function has an open device in the global name `napalm_device`; `inherit_napalm_device=` gives it one."""

    @wraps(func)
    def with_device(*args: Any, **kwargs: Any) -> Any:
        space: Any = func.__globals__
        opts = copy.deepcopy(dict(space.get("__opts__") or {}))
        reconnect = kwargs.get("force_reconnect", False)
        if reconnect:
            opts["proxy"].update(**kwargs)
        if not is_proxy(opts):
            opts["napalm"] = _minion_settings(space["__salt__"], clean_kwargs(**kwargs))
        if is_proxy(opts) and is_always_alive(opts) and not reconnect:
            space["napalm_device"] = space["__proxy__"]["napalm.get_device"]()
        elif kwargs.get("inherit_napalm_device") and not (is_proxy(opts) and is_always_alive(opts)):
            space["napalm_device"] = kwargs["inherit_napalm_device"]
        else:
            refused = getattr(_library("napalm.base.exceptions"), "ConnectionException", ConnectionError)
            try:
                space["napalm_device"] = get_device(opts, salt_obj=space.get("__salt__"))
            except refused as error:
                return f"{error}. See log for details."
        if not_always_alive(opts):
            space["napalm_device"]["__opts__"] = opts
        found = func(*args, **kwargs)
        if reconnect:
            call(space["napalm_device"], "close", __retry=False)
        return found

    return with_device


def _minion_settings(functions: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The minion's settings, those of the call and, over both, those that the inventory has of the host."""
    settings = {**functions["config.get"]("napalm", {}), **given}
    inventory = functions["config.get"]("napalm_inventory", {})
    host = next((settings[name] for name in ("host", "hostname", "fqdn", "ip") if settings.get(name)), None)
    return {**settings, **(inventory.get(host, {}) if isinstance(inventory, dict) else {})}


def default_ret(name: str) -> dict[str, Any]:
    """What a state returns that has done nothing."""
    return {"name": name, "changes": {}, "result": False, "comment": ""}


def loaded_ret(
    ret: dict[str, Any],
    loaded: Mapping[str, Any],
    test: bool,
    debug: bool,
    compliance_report: bool = False,
    opts: Any = None,
) -> dict[str, Any]:
    """What a state returns for a configuration that was loaded into the device."""
    wanted = {"diff": True, "commit_id": True, "compliance_report": compliance_report, "loaded_config": debug}
    changes = {name: loaded[name] for name, is_wanted in wanted.items() if is_wanted and name in loaded}
    ret["comment"] = loaded["comment"]
    for name, title in (("diff", "Configuration diff"), ("loaded_config", "Loaded config")):
        if changes.get(name):
            ret["comment"] += f"\n\n{title}:\n\n{changes[name]}"
    if changes.get("compliance_report"):
        shown = output.string_format(changes["compliance_report"], "nested", opts=opts)
        ret["comment"] += f"\n\nCompliance report:\n\n{shown}"
    if not loaded.get("result", False):
        return ret
    if loaded.get("already_configured", True):
        ret.update(result=True, changes={})
    elif test:
        ret["result"] = None
    else:
        ret.update(result=True, changes=changes, comment=f"Configuration changed!\n{loaded['comment']}")
    return ret
