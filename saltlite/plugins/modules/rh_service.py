"""Services of Red Hat and its derivatives, and of old SUSE, on machines with init scripts.

On machines with systemd another module provides ``service``. Upstart jobs are not supported: ``limit=upstart`` finds
none.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       service, chkconfig
:platform:      RedHat, Suse
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _programs, _services

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__func_alias__ = {"reload_": "reload"}

__virtualname__ = "service"

_RUNLEVEL = "3"
"""The default of servers, also for machines without a runlevel."""

_SYSTEMD_SINCE = {
    "XenServer": 7, "XCP-ng": 7, "RedHat": 7, "CentOS": 7, "ScientificLinux": 7, "OEL": 7, "CloudLinux": 7,
    "Fedora": 15, "SUSE": 12,
}  # fmt: skip
"""Name of the system -> its first release with systemd."""

_OTHERS = {"Amazon", "ALT", "SUSE  Enterprise Server", "McAfee  OS Server", "VirtuozzoLinux"}
_LEVEL = re.compile(r"([0-6]):(on|off)")


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    system = str(__grains__.get("os", ""))
    if system not in _SYSTEMD_SINCE and system not in _OTHERS:
        return False, "The rh_service execution module cannot be loaded: only works on Red Hat and old SUSE systems."
    if _services.booted():
        return False, "The rh_service execution module cannot be loaded: only works on machines without systemd."
    release = int((re.findall(r"[0-9]+", str(__grains__.get("osrelease", ""))) or ["0"])[0])
    if system in _SYSTEMD_SINCE and release >= _SYSTEMD_SINCE[system]:
        return False, f"The rh_service execution module cannot be loaded: {system} {release} is run by systemd."
    return __virtualname__


def get_all(limit: str = "") -> list[str]:
    """All services that chkconfig lists and that have an init script, sorted.

    CLI Example::

        saltlite '*' service.get_all
        saltlite '*' service.get_all limit=sysvinit
    """
    return sorted(_starting(limit))


def get_enabled(limit: str = "") -> list[str]:
    """The services that start at boot, sorted.

    CLI Example: ``saltlite '*' service.get_enabled``
    """
    return sorted(name for name, starts in _starting(limit).items() if starts)


def get_disabled(limit: str = "") -> list[str]:
    """The services that do not start at boot, sorted.

    CLI Example: ``saltlite '*' service.get_disabled``
    """
    return sorted(name for name, starts in _starting(limit).items() if not starts)


def available(name: str, limit: str = "") -> bool:
    """Whether a service exists.

    CLI Example: ``saltlite '*' service.available sshd``
    """
    return limit.lower() != "upstart" and _services.service_name(name) in _services.scripts()


def missing(name: str, limit: str = "") -> bool:
    """Whether a service does not exist.

    CLI Example: ``saltlite '*' service.missing sshd``
    """
    return not available(name, limit)


def start(name: str) -> bool:
    """Start a service.

    CLI Example: ``saltlite '*' service.start sshd``
    """
    return _services.act(name, "start")


def stop(name: str) -> bool:
    """Stop a service.

    CLI Example: ``saltlite '*' service.stop sshd``
    """
    return _services.act(name, "stop")


def restart(name: str) -> bool:
    """Restart a service.

    CLI Example: ``saltlite '*' service.restart sshd``
    """
    return _services.act(name, "restart")


def reload_(name: str) -> bool:
    """Make a service reload its configuration.

    CLI Example: ``saltlite '*' service.reload sshd``
    """
    return _services.act(name, "reload")


def run(name: str, action: str) -> bool:
    """Run an action of an init script.

    CLI Example: ``saltlite '*' service.run httpd graceful``
    """
    return _services.act(name, action)


def status(name: str, sig: str | None = None) -> bool | dict[str, bool]:
    """Whether a service runs, according to its init script; by name for a glob.

    With ``sig``, whether a process has this text in its command line.

    CLI Example::

        saltlite '*' service.status sshd
        saltlite '*' service.status 'ss*'
    """
    if sig:
        return bool(__salt__["status.pid"](sig))
    return _services.statuses(name, get_all)


def enable(name: str) -> bool:
    """Enable a service to start at boot.

    CLI Example: ``saltlite '*' service.enable sshd``
    """
    return _turn(name, "on")


def disable(name: str) -> bool:
    """Disable a service at boot; it is not stopped.

    CLI Example: ``saltlite '*' service.disable sshd``
    """
    return _turn(name, "off")


def enabled(name: str) -> bool:
    """Whether a service starts at boot.

    CLI Example: ``saltlite '*' service.enabled sshd``
    """
    return _services.service_name(name) in get_enabled()


def disabled(name: str) -> bool:
    """Whether a service does not start at boot.

    CLI Example: ``saltlite '*' service.disabled sshd``
    """
    return not enabled(name)


def delete(name: str) -> bool:
    """Remove a service from chkconfig, with the links that start it; its script is kept.

    CLI Example: ``saltlite '*' service.delete sshd``
    """
    _programs.checked(["chkconfig", "--del", _services.service_name(name)])
    return True


def _starting(limit: str) -> dict[str, bool]:
    """Name of each service -> whether the current runlevel starts it."""
    if limit.lower() == "upstart":
        return {}
    level = _services.runlevel(_RUNLEVEL)
    scripts = set(_services.scripts())
    found: dict[str, bool] = {}
    for line in _programs.checked(["chkconfig", "--list"]).stdout.splitlines():
        name, _, rest = line.strip().partition("\t") if "\t" in line else line.strip().partition(" ")
        levels = dict(_LEVEL.findall(rest))
        if name.strip() in scripts and levels:
            found[name.strip()] = levels.get(level) == "on"
    return found


def _turn(name: str, state: str) -> bool:
    service = _services.service_name(name)
    if service not in _services.scripts():
        raise CommandExecutionError(f"There is no service '{service}' on this minion")
    if _programs.run(["chkconfig", "--list", service]).retcode:
        _programs.checked(["chkconfig", "--add", service])
    _programs.checked(["chkconfig", service, state])
    return True
