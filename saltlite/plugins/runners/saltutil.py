"""Sync plug-ins from file_roots to the master's machine, for runners and ``salt.cmd``.

The files in ``salt://_runners``, ``salt://_modules`` and so on are copied to the master's extension_modules. Each type
is replaced as a whole in one step, or left unchanged with an error.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.decorators.notes import note
from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.model.extmods import MASTER_TYPES, ExtmodFilter, SyncRules, names_text, read_filter
from saltlite.model.files import BASE_ENV

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.loader.hints import __file_client__, __opts__

log = logging.getLogger(__name__)


def sync_runners(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Sync the runners in ``salt://_runners``, and return the names of those that changed.

    ``saltenv`` is one or several environments. ``extmod_whitelist`` and ``extmod_blacklist`` override the options of
    these names: globs, as a list, a text with commas, or a map from types to lists.

    Other plug-ins are removed; a note and the log name them. If the lists exclude everything in file_roots, the call
    fails without changes, unless ``extmod_empty`` or the option of that name is True.

    CLI Example::

        saltlite-run saltutil.sync_runners
        saltlite-run saltutil.sync_runners saltenv=dev extmod_whitelist=tour
    """
    return _sync(_Wish("runners", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))


def sync_modules(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Sync the execution modules in ``salt://_modules`` for ``salt.cmd``, like ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_modules
    """
    return _sync(_Wish("modules", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))


def sync_clouds(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Sync the cloud drivers in ``salt://_clouds`` for ``saltlite cloud``, like ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_clouds
    """
    return _sync(_Wish("clouds", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))


def sync_grains(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Sync the grains in ``salt://_grains``, like ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_grains
    """
    return _sync(_Wish("grains", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))


def sync_interfaces(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Sync the module interfaces in ``salt://_interfaces``, like ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_interfaces
    """
    return _sync(_Wish("interfaces", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))


def sync_output(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Sync the outputters in ``salt://_output`` for ``--out``, like ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_output
    """
    return _sync(_Wish("output", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))


def sync_returners(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Sync the returners in ``salt://_returners``, like ``sync_runners``. The master loads them at its next start.

    CLI Example::

        saltlite-run saltutil.sync_returners
    """
    return _sync(_Wish("returners", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))


def sync_utils(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Sync the files in ``salt://_utils``, which plug-ins reach as ``__utils__``, like ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_utils
    """
    return _sync(_Wish("utils", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))


def sync_all(
    saltenv: str | list[str] = "base",
    extmod_whitelist: dict[str, Any] | None = None,
    extmod_blacklist: dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> dict[str, list[str]]:
    """Sync the plug-ins of every type; type -> the names of those that changed. The lists map types to globs.

    CLI Example::

        saltlite-run saltutil.sync_all
    """
    wish = _Wish("", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty)
    chosen = _filter(wish)
    reports = {kind: _synced(kind, wish, chosen) for kind in MASTER_TYPES}
    _raise_failed({name: why for report in reports.values() for name, why in report.failed.items()})
    return {kind: report.synced for kind, report in reports.items()}


class _Wish(NamedTuple):
    """The arguments of a sync; `kind` is "" for all types."""

    kind: str
    saltenv: Any
    whitelist: Any
    blacklist: Any
    may_empty: bool | None


def _sync(wish: _Wish) -> list[str]:
    report = _synced(wish.kind, wish, _filter(wish))
    _raise_failed(report.failed)
    names: list[str] = report.synced
    return names


def _filter(wish: _Wish) -> ExtmodFilter:
    try:
        return read_filter(__opts__, MASTER_TYPES, wish.kind, wish.whitelist, wish.blacklist)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _synced(kind: str, wish: _Wish, chosen: ExtmodFilter) -> Any:
    if not hasattr(__file_client__, "sync"):
        raise CommandExecutionError("There is no place for plug-ins: set extension_modules of the master.")
    # Only True counts; a program may have passed anything.
    may_empty = (__opts__.get("extmod_empty") if wish.may_empty is None else wish.may_empty) is True
    rules = SyncRules(chosen=chosen.chooser(kind), may_empty=may_empty, removing=_say_removed)
    try:
        return __file_client__.sync(kind, _names(wish.saltenv) or [BASE_ENV], rules)
    except OSError as error:
        raise CommandExecutionError(f"The plug-ins cannot be written: {error.strerror} ({error.filename})") from error
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _say_removed(names: Sequence[str]) -> None:
    """Report removals in advance, because the return lists only the synced names, as in Salt."""
    text = f"plug-ins that are removed here: {names_text(names)}"
    log.warning("%s", text)
    note(text)


def _raise_failed(failed: dict[str, str]) -> None:
    sentences = [why for name, why in failed.items() if name in MASTER_TYPES]
    reasons = "; ".join(f"{name}: {why}" for name, why in failed.items() if name not in MASTER_TYPES)
    if reasons:
        sentences.append(f"Nothing was changed, because not all could be read. {reasons}")
    if sentences:
        raise CommandExecutionError(" ".join(sentences))


def _names(given: Any) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given or []
    return [str(name).strip() for name in listed]
