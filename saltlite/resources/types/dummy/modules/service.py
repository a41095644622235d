"""Services of dummy resources.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saltlite.loader.hints import __resource_funcs__


def get_all() -> list[str]:
    """
    The names of all services, sorted.

    CLI Example: ``saltlite dummy-1 service.get_all``
    """
    names: list[str] = __resource_funcs__["dummy.service_list"]()
    return names


def status(name: str) -> bool:
    """
    Whether a service runs.

    CLI Example: ``saltlite dummy-1 service.status apache``
    """
    runs: bool = __resource_funcs__["dummy.service_status"](name)["comment"] == "running"
    return runs


def start(name: str) -> bool:
    """
    Start a service; a new name becomes a service.

    CLI Example: ``saltlite dummy-1 service.start samba``
    """
    runs: bool = __resource_funcs__["dummy.service_start"](name) == "running"
    return runs


def stop(name: str) -> bool:
    """
    Stop a service.

    CLI Example: ``saltlite dummy-1 service.stop apache``
    """
    rests: bool = __resource_funcs__["dummy.service_stop"](name) == "stopped"
    return rests


def restart(name: str) -> bool:
    """
    Start a service that is there, whether it ran or not.

    CLI Example: ``saltlite dummy-1 service.restart apache``
    """
    done: bool = __resource_funcs__["dummy.service_restart"](name)
    return done
