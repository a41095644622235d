"""Plug-ins and data that come from the master."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.model.files import BASE_ENV

if TYPE_CHECKING:
    from saltlite.loader.hints import __file_client__, __opts__

_SYNCED = ("executors", "grains", "interfaces", "modules", "output", "resources", "utils")
"""Types of plug-ins."""

_COPIES = ("files", "localfiles")
"""Folders of `cachedir` with copies of files."""


def sync_modules(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the execution modules in ``salt://_modules``; the names of those that changed, as ``modules.lumberjack``.

    ``saltenv`` is one environment or several (``base`` by default), ``extmod_whitelist`` and ``extmod_blacklist`` are
    names of modules. With ``refresh`` the minion looks at its modules at once.

    CLI Example::

        saltlite '*' saltutil.sync_modules
        saltlite '*' saltutil.sync_modules saltenv=dev extmod_blacklist=lumberjack
    """
    return _sync("modules", saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_grains(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the grains in ``salt://_grains``, as ``sync_modules``; with ``refresh`` all grains are found anew.

    CLI Example::

        saltlite '*' saltutil.sync_grains
    """
    return _sync("grains", saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_executors(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the executors in ``salt://_executors``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_executors
    """
    return _sync("executors", saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_interfaces(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the module interfaces in ``salt://_interfaces``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_interfaces
    """
    return _sync("interfaces", saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_resources(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the resource types in ``salt://_resources``, as ``sync_modules``; with ``refresh`` resources are looked for.

    CLI Example::

        saltlite '*' saltutil.sync_resources
    """
    return _sync("resources", saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_output(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the outputters in ``salt://_output``, for ``saltlite-call``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_output
    """
    return _sync("output", saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_outputters(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    The same as ``sync_output``.

    CLI Example::

        saltlite '*' saltutil.sync_outputters
    """
    return _sync("output", saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_utils(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the files in ``salt://_utils``, which modules reach as ``__utils__``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_utils
    """
    return _sync("utils", saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_all(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: dict[str, Any] | None = None,
    extmod_blacklist: dict[str, Any] | None = None,
    *,
    report: bool = False,
) -> dict[str, Any]:
    """
    Bring the plug-ins of every type; type -> the names of those that changed.

    The lists are dicts here, type -> names. With ``report`` each type has ``synced``, ``removed`` and ``failed``
    (name -> why; then nothing of that type was changed) instead.

    CLI Example::

        saltlite '*' saltutil.sync_all
        saltlite '*' saltutil.sync_all report=True
    """
    allowed, barred = extmod_whitelist or {}, extmod_blacklist or {}
    found = {kind: _synced(kind, saltenv, allowed.get(kind), barred.get(kind)) for kind in _SYNCED}
    if refresh:
        _refresh_after([kind for kind, said in found.items() if said["synced"] or said["removed"]])
    if report:
        return found
    failed = {name: why for said in found.values() for name, why in said["failed"].items()}
    if failed:
        raise CommandExecutionError(_why_failed(failed))
    return {kind: said["synced"] for kind, said in found.items()}


def refresh_modules() -> bool:
    """
    Have the minion look at its modules, and tell the master what they offer; True when it has.

    CLI Example::

        saltlite '*' saltutil.refresh_modules
    """
    _client().refresh("modules")
    return True


def refresh_grains(refresh_pillar: bool = True) -> bool:
    """
    Have the minion find its grains anew, and tell the master; True when the next job will see them.

    With ``refresh_pillar`` the pillar, which may depend on them, is fetched after that.

    CLI Example::

        saltlite '*' saltutil.refresh_grains
    """
    _client().refresh("grains")
    if refresh_pillar:
        _client().refresh("pillar")
    return True


def refresh_pillar(wait: bool = True, timeout: float = 30) -> bool:  # noqa: ARG001 - Salt's signature
    """
    Have the minion fetch its pillar anew, and register its resources again where they follow from it.

    True when that is done, and the next job will see it. ``wait`` and ``timeout`` are there because Salt has
    them, and change nothing.

    CLI Example::

        saltlite '*' saltutil.refresh_pillar
    """
    _client().refresh("pillar")
    return True


def pillar_refresh(wait: bool = True, timeout: float = 30) -> bool:
    """
    The same as ``refresh_pillar``, by its older name.

    CLI Example::

        saltlite '*' saltutil.pillar_refresh
    """
    return refresh_pillar(wait, timeout)


def refresh_resources() -> bool:
    """
    Have the minion look for its resources and their grains, and register them; True when the master has the resources.

    Grains that take longer than a second are registered as they come.

    CLI Example::

        saltlite '*' saltutil.refresh_resources
    """
    _client().refresh("resources")
    return True


def list_extmods() -> dict[str, list[str]]:
    """
    The plug-ins that were brought, by type.

    CLI Example::

        saltlite '*' saltutil.list_extmods
    """
    folder = str(_option("extension_modules"))
    found = {}
    for kind in _SYNCED:
        with contextlib.suppress(FileNotFoundError):
            names = {name.partition(".")[0] for name in os.listdir(os.path.join(folder, kind))}
            found[kind] = sorted(name for name in names if name and not name.startswith("__"))
    return {kind: names for kind, names in found.items() if names}


def clear_cache(days: int = -1) -> bool:
    """
    Remove the copies of files that ``cp`` keeps; those only that are older than ``days``, where it is given.

    Plug-ins that were brought, kept returns and grains are no part of that.

    CLI Example::

        saltlite '*' saltutil.clear_cache
        saltlite '*' saltutil.clear_cache days=7
    """
    oldest = time.time() - days * 86400 if days >= 0 else None
    for folder in _COPIES:
        for above, _, names in os.walk(os.path.join(str(_option("cachedir")), folder)):
            for name in names:
                _drop(os.path.join(above, name), oldest)
    return True


def _drop(path: str, oldest: float | None) -> None:
    try:
        if oldest is None or os.lstat(path).st_mtime < oldest:
            os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be removed: {error.strerror}.") from error


def _option(name: str) -> Any:
    if name not in __opts__:
        raise CommandExecutionError(f"This call has no minion behind it, so it has no {name}.")
    return __opts__[name]


def _sync(kind: str, saltenv: Any, refresh: bool, allowed: Any, barred: Any) -> list[str]:
    said = _synced(kind, saltenv, allowed, barred)
    if said["failed"]:
        raise CommandExecutionError(_why_failed(said["failed"]))
    if refresh and (said["synced"] or said["removed"]):
        _refresh_after([kind])
    names: list[str] = said["synced"]
    return names


def _synced(kind: str, saltenv: Any, allowed: Any, barred: Any) -> dict[str, Any]:
    """`synced`, `removed` and `failed` of one type."""
    only, never = _names(allowed), _names(barred)

    def chosen(name: str) -> bool:
        mine = {name, name.partition(".")[0]}
        return not mine & never and (not only or bool(mine & only))

    envs = _names_in_order(saltenv) or [BASE_ENV]
    try:
        report = _client().sync(kind, envs, clean=__opts__.get("clean_dynamic_modules", True), chosen=chosen)
    except OSError as error:
        raise CommandExecutionError(f"The plug-ins cannot be written: {error.strerror} ({error.filename})") from error
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error
    return {"synced": report.synced, "removed": report.removed, "failed": report.failed}


def _refresh_after(kinds: Sequence[str]) -> None:
    if "grains" in kinds:
        _client().refresh("grains")
    if kinds:
        _client().refresh("modules")
    if "resources" in kinds:
        _client().refresh("resources")


def _why_failed(failed: dict[str, str]) -> str:
    reasons = "; ".join(f"{name}: {why}" for name, why in failed.items())
    return f"Nothing was changed, because not all could be fetched. {reasons}"


def _names(given: Any) -> set[str]:
    return set(_names_in_order(given))


def _names_in_order(given: Any) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given or []
    return [str(name).strip() for name in listed]


def _client() -> Any:
    if not hasattr(__file_client__, "sync"):
        raise CommandExecutionError("This call has no minion behind it, so there is nothing to sync with.")
    return __file_client__
