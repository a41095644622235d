"""Sync plug-ins from file_roots to the master's machine, for runners and ``salt.cmd``.

The files in ``salt://_runners``, ``salt://_modules`` and so on are copied to the master's extension_modules. Each type
is replaced as a whole in one step, or left unchanged with an error.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.decorators import note, same_parameters
from saltlite.errors import CommandExecutionError
from saltlite.model.files import MASTER_TYPES
from saltlite.plugins._plugin_sync import SyncRequest, raise_failed, sync

if TYPE_CHECKING:
    from saltlite.loader.hints import __file_client__, __opts__


def sync_runners(
    saltenv: str | list[str] = "base",
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


# What masters of Salt also sync. A script that syncs type by type goes on, and is told.


@same_parameters(sync_runners)
def sync_cache(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: drivers of the cache do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_cache``
    """
    return _nothing_to_sync("Drivers of the cache do not exist here")


@same_parameters(sync_runners)
def sync_eauth_tokens(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: stores of tokens do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_eauth_tokens``
    """
    return _nothing_to_sync("Stores of tokens do not exist here")


@same_parameters(sync_runners)
def sync_engines(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: engines do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_engines``
    """
    return _nothing_to_sync("Engines do not exist here")


@same_parameters(sync_runners)
def sync_fileserver(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: backends of the file server do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_fileserver``
    """
    return _nothing_to_sync("Backends of the file server do not exist here")


@same_parameters(sync_runners)
def sync_pillar(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: external pillars do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_pillar``
    """
    return _nothing_to_sync("External pillars do not exist here")


@same_parameters(sync_runners)
def sync_proxymodules(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: proxy minions do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_proxymodules``
    """
    return _nothing_to_sync("Proxy minions do not exist here")


@same_parameters(sync_runners)
def sync_queues(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: queues do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_queues``
    """
    return _nothing_to_sync("Queues do not exist here")


@same_parameters(sync_runners)
def sync_renderers(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: renderers of one's own do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_renderers``
    """
    return _nothing_to_sync("Renderers of one's own do not exist here")


@same_parameters(sync_runners)
def sync_roster(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: rosters do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_roster``
    """
    return _nothing_to_sync("Rosters do not exist here")


@same_parameters(sync_runners)
def sync_sdb(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: drivers of sdb do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_sdb``
    """
    return _nothing_to_sync("Drivers of sdb do not exist here")


@same_parameters(sync_runners)
def sync_serializers(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: serializers of one's own do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_serializers``
    """
    return _nothing_to_sync("Serializers of one's own do not exist here")


@same_parameters(sync_runners)
def sync_states(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: states do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_states``
    """
    return _nothing_to_sync("States do not exist here")


@same_parameters(sync_runners)
def sync_thorium(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: thorium do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_thorium``
    """
    return _nothing_to_sync("Thorium do not exist here")


@same_parameters(sync_runners)
def sync_tops(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: master tops do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_tops``
    """
    return _nothing_to_sync("Master tops do not exist here")


@same_parameters(sync_runners)
def sync_wheel(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: wheel functions of one's own do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_wheel``
    """
    return _nothing_to_sync("Wheel functions of one's own do not exist here")


@same_parameters(sync_runners)
def sync_wrapper(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: wrappers of salt-ssh do not exist here. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_wrapper``
    """
    return _nothing_to_sync("Wrappers of salt-ssh do not exist here")


@same_parameters(sync_runners)
def sync_executors(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: executors run on minions, whose function ``saltutil.sync_executors`` syncs them. A note says so.

    CLI Example: ``saltlite-run saltutil.sync_executors``
    """
    return _nothing_to_sync("Executors run on minions: use `saltlite TARGET saltutil.sync_executors`")


def _nothing_to_sync(why: str) -> list[str]:
    note(f"Nothing was synced. {why}.")
    return []


def sync_all(
    saltenv: str | list[str] = "base",
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
