"""Send events to the master's event log, for ``saltlite events``, hooks and returners.

Tags of a minion are prefixed with its name: ``event.send app/deployed`` on ``web1`` becomes
``minion/web1/app/deployed``. So no minion can send events in the name of others. The data has ``id``, the original
``tag``, and ``data``.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __events__, __file_client__, __grains__, __opts__, __pillar__

_TIMEOUT_S = 60.0
_REFRESHES = {
    "module_refresh": "modules",
    "grains_refresh": "grains",
    "pillar_refresh": "pillar",
    "resource_refresh": "resources",
}
"""Tag of an event on Salt's minion -> what it refreshes."""


def send(  # noqa: PLR0913, PLR0917, RUF100 - Salt's signature
    tag: str,
    data: dict[str, Any] | None = None,
    preload: dict[str, Any] | None = None,
    with_env: bool | list[str] = False,  # noqa: FBT001, FBT002, RUF100 - Salt's signature
    with_grains: bool | list[str] = False,  # noqa: FBT001, FBT002, RUF100 - as above
    with_pillar: bool | list[str] = False,  # noqa: FBT001, FBT002, RUF100 - as above
    with_env_opts: bool = False,  # noqa: FBT001, FBT002, RUF100 - as above
    timeout: float = _TIMEOUT_S,
    **kwargs: Any,
) -> bool:
    """Send an event to the master, and return ``True`` when it is in the event log.

    Its data are the keyword arguments, overlaid by ``data``. ``with_env``, ``with_grains`` and ``with_pillar`` add the
    environment of the minion's process, its grains and its pillar: all, or those in a list. ``with_env_opts`` adds
    ``saltenv`` and ``pillarenv``. Everyone who may read events sees them.

    A minion may send 50 events at once, then ten per second, of 32 KiB each; more wait for up to ``timeout`` seconds.
    After a lost connection an event may be sent twice.

    CLI Example::

        saltlite '*' event.send app/deployed '{version: 1.2}'
        saltlite '*' event.send app/deployed version=1.2 with_grains='[os, osrelease]'
        saltlite-call event.send app/deployed version=1.2
    """
    found: dict[str, Any] = {}
    if with_env:
        found["environ"] = _chosen(os.environ, with_env, "")
    if with_grains:
        found["grains"] = _chosen(__grains__, with_grains, "")
    if with_pillar:
        found["pillar"] = _chosen(__pillar__, with_pillar, {})
    if with_env_opts:
        found["saltenv"] = __opts__.get("saltenv", "base")
        found["pillarenv"] = __opts__.get("pillarenv")
    found.update((name, value) for name, value in kwargs.items() if not name.startswith("__pub_"))
    if data is not None and not isinstance(data, Mapping):
        raise SaltInvocationError("The data of an event is a map, as in '{version: 1.2}'.")
    return fire_master({**found, **(data or {})}, tag, preload, timeout)


def fire_master(
    data: dict[str, Any] | str, tag: str, preload: dict[str, Any] | None = None, timeout: float = _TIMEOUT_S
) -> bool:
    """Send an event to the master like ``event.send``, with only this data: a map or a text.

    CLI Example::

        saltlite '*' event.fire_master '{version: 1.2}' app/deployed
        saltlite '*' event.fire_master 'version 1.2 is there' app/deployed
    """
    if preload:
        raise SaltInvocationError("The master says itself whose event it is: leave preload away.")
    if not isinstance(data, Mapping | str):
        raise SaltInvocationError("The data of an event is a text or a map, as in '{version: 1.2}'.")
    if not hasattr(__events__, "send"):
        raise CommandExecutionError("This call has no master to send events to.")
    __events__.send(tag, data, timeout)
    return True


def fire(data: dict[str, Any] | str, tag: str, timeout: float | None = None) -> bool:
    """Alias of ``event.fire_master``. In Salt the event stays on the minion, but here the master's event log is the
    only one.

    Salt's tags ``module_refresh``, ``grains_refresh``, ``pillar_refresh`` and ``resource_refresh`` make the minion do
    that, and are no events. The call returns when it is done. ``saltlite-call`` asks the minion that runs here.

    CLI Example::

        saltlite '*' event.fire '{version: 1.2}' app/deployed
        saltlite '*' event.fire '{}' resource_refresh
        saltlite-call event.fire '{}' resource_refresh
    """
    if tag in _REFRESHES:
        if not hasattr(__file_client__, "sync"):
            raise CommandExecutionError("This call runs without a minion, so there is nothing to refresh.")
        __file_client__.refresh(_REFRESHES[tag])
        return True
    return fire_master(data, tag, timeout=_TIMEOUT_S if timeout is None else timeout)


def _chosen(where: Mapping[str, Any], wanted: bool | list[str], missing: Any) -> dict[str, Any]:  # noqa: FBT001, RUF100 - Salt's value
    if isinstance(wanted, list):
        return {name: where.get(name, missing) for name in wanted}
    return dict(where)
