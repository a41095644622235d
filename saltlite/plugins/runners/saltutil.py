"""Bring plug-ins from file_roots to this machine, the master's, where runners and ``salt.cmd`` find them.

They are the files in ``salt://_runners``, ``salt://_modules`` and so on, and go to the master's extension_modules: the
whole new set of a type takes the place of the old one in one step, or nothing is changed and it is said why.

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
    """Bring the runners in ``salt://_runners``, and return the names of those that changed.

    ``saltenv`` is one or several environments. With a whitelist only those names are brought, and none of a blacklist:
    globs, as a list, a text with commas, or a map from types to lists, as the options of these names are, whose place
    they take.

    What is not among them is removed; a note and the log name it. When the lists leave out all that file_roots have,
    nothing is changed and the call fails, unless ``extmod_empty``, or the option of that name, is True.

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
    """Bring the execution modules in ``salt://_modules``, for ``salt.cmd``; as ``sync_runners``.

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
    """Bring the drivers of clouds in ``salt://_clouds``, for ``saltlite cloud``; as ``sync_runners``.

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
    """Bring the grains in ``salt://_grains``; as ``sync_runners``.

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
    """Bring the module interfaces in ``salt://_interfaces``; as ``sync_runners``.

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
    """Bring the outputters in ``salt://_output``, for ``--out``; as ``sync_runners``.

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
    """Bring the returners in ``salt://_returners``, which the master uses when it is started again; as
    ``sync_runners``.

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
    """Bring the files in ``salt://_utils``, which plug-ins reach as ``__utils__``; as ``sync_runners``.

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
    """Bring the plug-ins of every type; type -> the names of those that changed. The lists are maps, type -> globs.

    CLI Example::

        saltlite-run saltutil.sync_all
    """
    wish = _Wish("", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty)
    chosen = _filter(wish)
    reports = {kind: _synced(kind, wish, chosen) for kind in MASTER_TYPES}
    _raise_failed({name: why for report in reports.values() for name, why in report.failed.items()})
    return {kind: report.synced for kind, report in reports.items()}


class _Wish(NamedTuple):
    """What a sync was asked for; `kind` is "" for all types."""

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
    # A program may have given anything: only true is true here.
    may_empty = (__opts__.get("extmod_empty") if wish.may_empty is None else wish.may_empty) is True
    rules = SyncRules(chosen=chosen.chooser(kind), may_empty=may_empty, removing=_say_removed)
    try:
        return __file_client__.sync(kind, _names(wish.saltenv) or [BASE_ENV], rules)
    except OSError as error:
        raise CommandExecutionError(f"The plug-ins cannot be written: {error.strerror} ({error.filename})") from error
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _say_removed(names: Sequence[str]) -> None:
    """Before it is done. The return stays what it is in Salt, the names of those that were brought."""
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
