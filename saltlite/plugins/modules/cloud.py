"""Create, destroy and list cloud machines from a minion with their configuration, usually the master's host.

Each function runs ``saltlite cloud``. The minion's option ``cloud.config_dir`` names its configuration folder, by
default ``/etc/saltlite``. Job returns are stored, so a provider's answer about a new machine, which may hold a
password, is reduced to plain fields. The runner ``cloud.profile`` returns it in full.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       a master on the same host, to make machines that become minions
:platform:      Linux
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __opts__, __salt__

__risk__ = {"destroy": "destroy"}

_CONFIG_DIR = "/etc/saltlite"
_FIELDS = ("id", "image", "size", "state", "private_ips", "public_ips")
_ERRORS = "errors"
"""Key for errors as lines, in place of a provider."""
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*\Z")
_QUERIES = {"list_nodes": "-Q", "list_nodes_full": "-F", "list_nodes_select": "-S"}


def __virtual__() -> bool | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if not os.path.exists(os.path.join(_config_dir(), "cloud.providers")):
        return False, f"there is no {_config_dir()}/cloud.providers on this minion"
    return True


def list_sizes(provider: str = "all") -> dict[str, Any]:
    """Return the available machine sizes.

    CLI Example: ``saltlite master1 cloud.list_sizes my-provider``
    """
    return _run(f"--list-sizes={provider}")


def list_images(provider: str = "all") -> dict[str, Any]:
    """Return the available images.

    CLI Example: ``saltlite master1 cloud.list_images my-provider``
    """
    return _run(f"--list-images={provider}")


def list_locations(provider: str = "all") -> dict[str, Any]:
    """Return the available locations.

    CLI Example: ``saltlite master1 cloud.list_locations my-provider``
    """
    return _run(f"--list-locations={provider}")


def query(query_type: str = "list_nodes") -> dict[str, Any]:
    """Return the machines of all providers: id, image, size, state, addresses.

    CLI Example::

        saltlite master1 cloud.query
        saltlite master1 cloud.query list_nodes_full
    """
    if query_type not in _QUERIES:
        raise SaltInvocationError(f"query_type is one of {', '.join(_QUERIES)}, and not {query_type!r}")
    return _run(_QUERIES[query_type])


def full_query() -> dict[str, Any]:
    """Return the machines with all their details.

    CLI Example: ``saltlite master1 cloud.full_query``
    """
    return _run("-F")


def select_query() -> dict[str, Any]:
    """Return the machines with the fields of ``query.selection``.

    CLI Example: ``saltlite master1 cloud.select_query``
    """
    return _run("-S")


def has_instance(name: str) -> bool:
    """Return whether a provider has a machine with this name.

    CLI Example: ``saltlite master1 cloud.has_instance web1``
    """
    return get_instance(name) is not None


def get_instance(name: str) -> dict[str, Any] | None:
    """Return the six fields of one machine, or ``None``.

    CLI Example: ``saltlite master1 cloud.get_instance web1``
    """
    for alias, drivers in _run("-Q").items():
        for machines in drivers.values() if alias != _ERRORS else ():
            if name in machines:
                found: dict[str, Any] = machines[name]
                return found
    return None


def profile(name: str, names: str | list[str], parallel: bool = False) -> dict[str, Any]:
    """Create machines from a profile. Each is returned with its six fields and whether it has become a minion.

    CLI Example: ``saltlite master1 cloud.profile small web1,web2 parallel=True``
    """
    found = _run(f"--profile={name}", "-y", *(["-P"] if parallel else []), "--", *_names(names))
    return {
        machine: {field: reply[field] for field in (*_FIELDS, "deployed") if field in reply}
        if isinstance(reply, dict)
        else reply
        for machine, reply in found.items()
    }


def destroy(names: str | list[str]) -> dict[str, Any]:
    """Destroy machines, and delete the keys of their minions.

    CLI Example: ``saltlite master1 cloud.destroy web1,web2``
    """
    return _run("-d", "-y", "--", *_names(names))


def action(fun: str, names: str | list[str], provider: str = "all", **kwargs: str | int | bool) -> dict[str, Any]:
    """Call an action of a driver on machines, such as ``stop``, but not ``destroy``. Settings may not name files.

    CLI Example: ``saltlite master1 cloud.action stop web1``
    """
    return _run(
        f"--action={fun}", "--foreign", "-y", f"--provider={provider}", "--", *_names(names), *_settings(kwargs)
    )


def function(fun: str, provider: str, **kwargs: str | int | bool) -> dict[str, Any]:
    """Call a function of a driver for a provider.

    CLI Example: ``saltlite master1 cloud.function show_image my-provider image=ami-1``
    """
    return _run(f"--function={fun}", "--foreign", "--", provider, *_settings(kwargs))


def _config_dir() -> str:
    return str(__opts__.get("cloud.config_dir") or _CONFIG_DIR)


def _run(*words: str) -> dict[str, Any]:
    # -I: import nothing from the folders of this process.
    argv = [sys.executable, "-I", "-m", "saltlite", "cloud", "-c", _config_dir(), "--out", "json", *words]
    reply = __salt__["cmd.run_all"](argv, python_shell=False, ignore_retcode=True, redirect_stderr=False)
    if reply["retcode"] and not reply["stdout"].strip():
        raise CommandExecutionError(reply["stderr"].strip() or f"saltlite cloud ended with {reply['retcode']}")
    try:
        found = json.loads(reply["stdout"] or "{}")
    except ValueError:
        raise CommandExecutionError(f"saltlite cloud printed no JSON: {reply['stderr'].strip()}") from None
    if not isinstance(found, dict):
        raise CommandExecutionError("saltlite cloud printed no JSON object")
    if reply["retcode"]:
        __context__["retcode"] = reply["retcode"]
        found[_ERRORS] = reply["stderr"].strip().splitlines()
    return found


def _names(names: str | list[str]) -> list[str]:
    found = [str(name).strip() for name in (names.split(",") if isinstance(names, str) else names)]
    found = [name for name in found if name]
    if not found:
        raise SaltInvocationError("say which machines: names with commas between them, or a list")
    if wrong := [name for name in found if "=" in name]:
        raise SaltInvocationError(f"{wrong[0]!r} cannot be the name of a machine")
    return found


def _settings(kwargs: dict[str, str | int | bool]) -> list[str]:
    given = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    if wrong := [key for key in given if not _SETTING.match(key)]:
        raise SaltInvocationError(f"{wrong[0]!r} cannot be the name of a setting")
    return [f"{key}={json.dumps(value) if not isinstance(value, str) else value}" for key, value in given.items()]
