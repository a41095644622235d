"""Plug-ins and data that come from the master."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saltlite.decorators.notes import note
from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.model.extmods import MINION_TYPES, ExtmodFilter, SyncRules, names_text, read_filter
from saltlite.model.files import BASE_ENV

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __file_client__, __opts__

log = logging.getLogger(__name__)

_COPIES = ("files", "localfiles")
"""Folders of `cachedir` with copies of files."""


def sync_modules(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """
    Bring the execution modules in ``salt://_modules``; the names of those that changed, as ``modules.lumberjack``.

    ``saltenv`` is one environment or several (``base`` by default). ``extmod_whitelist`` and ``extmod_blacklist`` are
    globs of names: a list, a text with commas, or a map from types to lists, as the options of these names are, whose
    place they take. With ``refresh`` the minion looks at its modules at once.

    What the master does not have any more, or the lists leave out, is removed; a note beside the return and the log
    name it. When the lists leave out all that the master has, nothing is changed and the call fails, unless
    ``extmod_empty``, or the option of that name, is True.

    CLI Example::

        saltlite '*' saltutil.sync_modules
        saltlite '*' saltutil.sync_modules saltenv=dev extmod_blacklist=lumberjack
        saltlite '*' saltutil.sync_modules extmod_whitelist='{modules: [plain, "web*"]}'
    """
    return _sync(_Wish("modules", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_grains(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """
    Bring the grains in ``salt://_grains``, as ``sync_modules``; with ``refresh`` all grains are found anew.

    CLI Example::

        saltlite '*' saltutil.sync_grains
    """
    return _sync(_Wish("grains", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_executors(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """
    Bring the executors in ``salt://_executors``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_executors
    """
    return _sync(_Wish("executors", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_interfaces(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """
    Bring the module interfaces in ``salt://_interfaces``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_interfaces
    """
    return _sync(_Wish("interfaces", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_resources(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """
    Bring the resource types in ``salt://_resources``, as ``sync_modules``; with ``refresh`` resources are looked for.

    CLI Example::

        saltlite '*' saltutil.sync_resources
    """
    return _sync(_Wish("resources", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_output(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """
    Bring the outputters in ``salt://_output``, for ``saltlite-call``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_output
    """
    return _sync(_Wish("output", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_outputters(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """
    The same as ``sync_output``.

    CLI Example::

        saltlite '*' saltutil.sync_outputters
    """
    return _sync(_Wish("output", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_utils(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """
    Bring the files in ``salt://_utils``, which modules reach as ``__utils__``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_utils
    """
    return _sync(_Wish("utils", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_all(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: dict[str, Any] | None = None,
    extmod_blacklist: dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
    report: bool = False,
) -> dict[str, Any]:
    """
    Bring the plug-ins of every type; type -> the names of those that changed.

    The lists are maps here, type -> globs of names. With ``report`` each type has ``synced``, ``removed`` and
    ``failed`` (name -> why; then nothing of that type was changed) instead.

    CLI Example::

        saltlite '*' saltutil.sync_all
        saltlite '*' saltutil.sync_all report=True
    """
    wish = _Wish("", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty)
    chosen = _filter(wish)
    found = {kind: _synced(kind, wish, chosen) for kind in MINION_TYPES}
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


def refresh_resources() -> dict[str, Any]:
    """
    Have the minion look for its resources and their grains, register them, and tell how that went.

    ``types`` has of each resource type whether it was ``loaded`` and ``initialised``, how many resources were ``found``
    and how many it ``was`` in the look before, and the ``error`` that kept it from that, if any. Where nothing was
    found, ``looked_at`` says which keys of the pillar declare resources. ``kept_back`` is what the master did not take,
    or keeps although it was not found. With an error of a type, or anything kept back, the return code is 1.

    Grains that take longer than a second are registered as they come.

    CLI Example::

        saltlite '*' saltutil.refresh_resources
    """
    told: dict[str, Any] = _client().refresh("resources")
    if told["kept_back"] or any("error" in one for one in told["types"].values()):
        __context__["retcode"] = 1
    return told if told["looked_at"] else {name: value for name, value in told.items() if name != "looked_at"}


def list_extmods() -> dict[str, list[str]]:
    """
    The plug-ins that were brought, by type.

    CLI Example::

        saltlite '*' saltutil.list_extmods
    """
    folder = str(_option("extension_modules"))
    found = {}
    for kind in MINION_TYPES:
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


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a sync was asked for; `kind` is "" for all types."""

    kind: str
    saltenv: Any
    whitelist: Any
    blacklist: Any
    may_empty: bool | None


def _sync(wish: _Wish, refresh: bool) -> list[str]:
    said = _synced(wish.kind, wish, _filter(wish))
    if said["failed"]:
        raise CommandExecutionError(_why_failed(said["failed"]))
    if refresh and (said["synced"] or said["removed"]):
        _refresh_after([wish.kind])
    names: list[str] = said["synced"]
    return names


def _filter(wish: _Wish) -> ExtmodFilter:
    try:
        return read_filter(__opts__, MINION_TYPES, wish.kind, wish.whitelist, wish.blacklist)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _synced(kind: str, wish: _Wish, chosen: ExtmodFilter) -> dict[str, Any]:
    """`synced`, `removed` and `failed` of one type."""
    # A program may have given anything: only true is true here.
    may_empty = (__opts__.get("extmod_empty") if wish.may_empty is None else wish.may_empty) is True
    clean = __opts__.get("clean_dynamic_modules", True)
    rules = SyncRules(clean, chosen.chooser(kind), may_empty, _say_removed)
    envs = _names_in_order(wish.saltenv) or [BASE_ENV]
    try:
        report = _client().sync(kind, envs, rules)
    except OSError as error:
        raise CommandExecutionError(f"The plug-ins cannot be written: {error.strerror} ({error.filename})") from error
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error
    return {"synced": report.synced, "removed": report.removed, "failed": report.failed}


def _say_removed(names: Sequence[str]) -> None:
    """Before it is done. The return stays what it is in Salt, the names of those that were brought."""
    text = f"plug-ins that are removed here: {names_text(names)}"
    log.warning("%s", text)
    note(text)


def _refresh_after(kinds: Sequence[str]) -> None:
    if "grains" in kinds:
        _client().refresh("grains")
    if kinds:
        _client().refresh("modules")
    if "resources" in kinds:
        _client().refresh("resources")


def _why_failed(failed: dict[str, str]) -> str:
    """The sentences of types that were left alone; after them, which files could not be fetched."""
    sentences = [why for name, why in failed.items() if name in MINION_TYPES]
    reasons = "; ".join(f"{name}: {why}" for name, why in failed.items() if name not in MINION_TYPES)
    fetched = [f"Nothing was changed, because not all could be fetched. {reasons}"] if reasons else []
    return " ".join([*sentences, *fetched])


def _names_in_order(given: Any) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given or []
    return [str(name).strip() for name in listed]


def _client() -> Any:
    if not hasattr(__file_client__, "sync"):
        raise CommandExecutionError("This call has no minion behind it, so there is nothing to sync with.")
    return __file_client__
