"""Sync plug-ins from file_roots to the master's machine, for runners and ``salt.cmd``.

The files in ``salt://_runners``, ``salt://_modules`` and so on are copied to the master's extension_modules. Each type
is replaced as a whole in one step, or left unchanged with an error.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.decorators import same_parameters
from saltlite.errors import CommandExecutionError
from saltlite.model.files import MASTER_TYPES
from saltlite.plugins._plugin_sync import SyncRequest, noting, raise_failed, sync

if TYPE_CHECKING:
    from saltlite.loader.hints import __file_client__, __opts__


def sync_runners(
    saltenv: str | list[str] | None = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
    refresh: bool = True,
) -> list[str]:
    """Sync the runners in ``salt://_runners``, and return the names of those that changed.

    ``saltenv`` is one or several environments. ``extmod_whitelist`` and ``extmod_blacklist`` override the options of
    these names: globs, as a list, a text with commas, or a map from types to lists. ``refresh`` has no effect: the next
    runner uses the new plug-ins.

    Other plug-ins are removed; a note and the log name them. If the lists exclude everything in file_roots, the call
    fails without changes, unless ``extmod_empty`` or the option of that name is True.

    CLI Example::

        saltlite-run saltutil.sync_runners
        saltlite-run saltutil.sync_runners saltenv=dev extmod_whitelist=tour
    """
    lists = extmod_whitelist, extmod_blacklist
    return _sync("runners", saltenv, *lists, extmod_empty=extmod_empty, refresh=refresh)["runners"]


@same_parameters(sync_runners)
def sync_modules(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the execution modules in ``salt://_modules`` for ``salt.cmd``, like ``sync_runners``.

    CLI Example: ``saltlite-run saltutil.sync_modules``
    """
    return _sync("modules", *args, **kwargs)["modules"]


@same_parameters(sync_runners)
def sync_clouds(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the cloud drivers in ``salt://_clouds`` for ``saltlite cloud``, like ``sync_runners``.

    CLI Example: ``saltlite-run saltutil.sync_clouds``
    """
    return _sync("clouds", *args, **kwargs)["clouds"]


@same_parameters(sync_runners)
def sync_grains(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the grains in ``salt://_grains``, like ``sync_runners``.

    CLI Example: ``saltlite-run saltutil.sync_grains``
    """
    return _sync("grains", *args, **kwargs)["grains"]


@same_parameters(sync_runners)
def sync_interfaces(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the module interfaces in ``salt://_interfaces``, like ``sync_runners``.

    CLI Example: ``saltlite-run saltutil.sync_interfaces``
    """
    return _sync("interfaces", *args, **kwargs)["interfaces"]


@same_parameters(sync_runners)
def sync_output(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the outputters in ``salt://_output`` for ``--out``, like ``sync_runners``.

    CLI Example: ``saltlite-run saltutil.sync_output``
    """
    return _sync("output", *args, **kwargs)["output"]


@same_parameters(sync_runners)
def sync_pillar(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the external pillars in ``salt://_pillar``, like ``sync_runners``. The next evaluation uses them.

    CLI Example: ``saltlite-run saltutil.sync_pillar``
    """
    return _sync("pillar", *args, **kwargs)["pillar"]


@same_parameters(sync_runners)
def sync_returners(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the returners in ``salt://_returners``, like ``sync_runners``. The master loads them at its next start.

    CLI Example: ``saltlite-run saltutil.sync_returners``
    """
    return _sync("returners", *args, **kwargs)["returners"]


@same_parameters(sync_runners)
def sync_utils(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the files in ``salt://_utils``, which plug-ins reach as ``__utils__``, like ``sync_runners``.

    CLI Example: ``saltlite-run saltutil.sync_utils``
    """
    return _sync("utils", *args, **kwargs)["utils"]


# Plug-in types of Salt's masters that the master of saltlite does not have. Scripts that sync each type keep working.

_NOT_SYNCED = {
    "sync_cache": "Cache drivers do not exist here",
    "sync_eauth_tokens": "Token stores do not exist here",
    "sync_engines": "Engines do not exist here",
    "sync_fileserver": "File server backends do not exist here",
    "sync_proxymodules": "Proxy minions do not exist here",
    "sync_queues": "Queues do not exist here",
    "sync_renderers": "Custom renderers do not exist here",
    "sync_roster": "Rosters do not exist here",
    "sync_sdb": "SDB drivers do not exist here",
    "sync_serializers": "Custom serializers do not exist here",
    "sync_states": "States run on minions: each run takes salt://_states itself, where Salt is installed beside",
    "sync_thorium": "Thorium does not exist here",
    "sync_tops": "Master tops do not exist here",
    "sync_wheel": "Custom wheel functions do not exist here",
    "sync_wrapper": "Wrappers of salt-ssh do not exist here",
    "sync_executors": "Executors run on minions: use `saltlite TARGET saltutil.sync_executors`",
}
"""Function -> the sentence of its note."""


@same_parameters(sync_runners)
def _sync_nothing(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: the master has no plug-ins of this type. A note says so.

    CLI Example::

        saltlite-run saltutil.sync_cache
        saltlite-run saltutil.sync_eauth_tokens
        saltlite-run saltutil.sync_engines
        saltlite-run saltutil.sync_fileserver
        saltlite-run saltutil.sync_proxymodules
        saltlite-run saltutil.sync_queues
        saltlite-run saltutil.sync_renderers
        saltlite-run saltutil.sync_roster
        saltlite-run saltutil.sync_sdb
        saltlite-run saltutil.sync_serializers
        saltlite-run saltutil.sync_states
        saltlite-run saltutil.sync_thorium
        saltlite-run saltutil.sync_tops
        saltlite-run saltutil.sync_wheel
        saltlite-run saltutil.sync_wrapper
        saltlite-run saltutil.sync_executors
    """
    return []


# The assignment declares the names for readers of the source, the update adds the notes.
sync_cache = sync_eauth_tokens = sync_engines = sync_fileserver = sync_proxymodules = _sync_nothing
sync_queues = sync_renderers = sync_roster = sync_sdb = sync_serializers = sync_states = sync_thorium = _sync_nothing
sync_tops = sync_wheel = sync_wrapper = sync_executors = _sync_nothing
globals().update(noting(_sync_nothing, _NOT_SYNCED))


def sync_all(
    saltenv: str | list[str] | None = "base",
    extmod_whitelist: dict[str, Any] | None = None,
    extmod_blacklist: dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
    refresh: bool = True,
) -> dict[str, list[str]]:
    """Sync the plug-ins of every type; type -> the names of those that changed. The lists map types to globs.

    CLI Example: ``saltlite-run saltutil.sync_all``
    """
    return _sync("", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty=extmod_empty, refresh=refresh)


def _sync(
    kind: str, saltenv: Any = "base", extmod_whitelist: Any = None, extmod_blacklist: Any = None, *,
    extmod_empty: bool | None = None, refresh: bool = True,  # noqa: ARG001 - Salt's signature
) -> dict[str, list[str]]:  # fmt: skip
    request = SyncRequest(kind, saltenv, extmod_whitelist, extmod_blacklist, extmod_empty)
    reports = sync(_client, __opts__, MASTER_TYPES, request)
    raise_failed(reports, MASTER_TYPES, "read")
    return {kind: report.synced for kind, report in reports.items()}


def _client() -> Any:
    if not hasattr(__file_client__, "sync"):
        raise CommandExecutionError("There is no place for plug-ins: set extension_modules of the master.")
    return __file_client__
