"""Services of Debian and its derivatives on machines with init scripts.

On machines with systemd another module provides ``service``.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       service, update-rc.d
:platform:      Debian
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from saltlite.plugins.modules import _programs, _services

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__func_alias__ = {"reload_": "reload"}

__virtualname__ = "service"

_RUNLEVEL = "2"
"""Debian's default, also for containers without a runlevel."""


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Debian":
        return False, "The debian_service module could not be loaded: only works on Debian family systems."
    if _services.booted():
        return False, "The debian_service module could not be loaded: only works on machines that systemd does not run."
    if not os.path.isdir("/etc/init.d"):
        return False, "The debian_service module could not be loaded: only works on machines with init scripts."
    return __virtualname__


def get_all() -> list[str]:
    """All services, sorted.

    CLI Example: ``saltlite '*' service.get_all``
    """
    return sorted({*_services.scripts(), *get_enabled()})


def get_enabled() -> list[str]:
    """The services that start at boot, sorted.

    CLI Example: ``saltlite '*' service.get_enabled``
    """
    return sorted(_services.started(_services.runlevel(_RUNLEVEL)))


def get_disabled() -> list[str]:
    """The services that do not start at boot, sorted.

    CLI Example: ``saltlite '*' service.get_disabled``
    """
    return sorted({*_services.scripts()} - {*get_enabled()})


def available(name: str) -> bool:
    """Whether a service exists.

    CLI Example: ``saltlite '*' service.available sshd``
    """
    return _services.service_name(name) in get_all()


def missing(name: str) -> bool:
    """Whether a service does not exist.

    CLI Example: ``saltlite '*' service.missing sshd``
    """
    return not available(name)


def start(name: str) -> bool:
    """Start a service.

    CLI Example: ``saltlite '*' service.start ssh``
    """
    return _services.act(name, "start")


def stop(name: str) -> bool:
    """Stop a service.

    CLI Example: ``saltlite '*' service.stop ssh``
    """
    return _services.act(name, "stop")


def restart(name: str) -> bool:
    """Restart a service.

    CLI Example: ``saltlite '*' service.restart ssh``
    """
    return _services.act(name, "restart")


def reload_(name: str) -> bool:
    """Make a service reload its configuration.

    CLI Example: ``saltlite '*' service.reload ssh``
    """
    return _services.act(name, "reload")


def force_reload(name: str) -> bool:
    """Make a service reload its configuration, or restart it if it cannot.

    CLI Example: ``saltlite '*' service.force_reload ssh``
    """
    return _services.act(name, "force-reload")


def run(name: str, action: str) -> bool:
    """Run an action of an init script.

    CLI Example: ``saltlite '*' service.run postgresql reload``
    """
    return _services.act(name, action)


def status(name: str, sig: str | None = None) -> bool | dict[str, bool]:
    """Whether a service runs, according to its init script; by name for a glob.

    With ``sig``, whether a process has this text in its command line.

    CLI Example::

        saltlite '*' service.status ssh
        saltlite '*' service.status 'ss*'
    """
    if sig:
        return bool(__salt__["status.pid"](sig))
    return _services.statuses(name, get_all)


def enable(name: str) -> bool:
    """Enable a service to start at boot.

    CLI Example: ``saltlite '*' service.enable ssh``
    """
    service = _services.service_name(name)
    _programs.checked(["update-rc.d", service, "defaults"])
    _programs.checked(["update-rc.d", service, "enable"])
    return True


def disable(name: str) -> bool:
    """Disable a service at boot; it is not stopped.

    CLI Example: ``saltlite '*' service.disable ssh``
    """
    _programs.checked(["update-rc.d", _services.service_name(name), "disable"])
    return True


def delete(name: str) -> bool:
    """Remove the links that start and stop a service; its script is kept.

    CLI Example: ``saltlite '*' service.delete ssh``
    """
    _programs.checked(["update-rc.d", "-f", _services.service_name(name), "remove"])
    return True


def enabled(name: str) -> bool:
    """Whether a service starts at boot.

    CLI Example: ``saltlite '*' service.enabled ssh``
    """
    return _services.service_name(name) in get_enabled()


def disabled(name: str) -> bool:
    """Whether a service exists and does not start at boot.

    CLI Example: ``saltlite '*' service.disabled ssh``
    """
    return _services.service_name(name) in get_disabled()
