"""Bring plug-ins from file_roots to this machine, the master's, where runners and ``salt.cmd`` find them.

They are the files in ``salt://_runners``, ``salt://_modules`` and so on, and go to the master's extension_modules: the
whole new set of a type takes the place of the old one in one step, or nothing is changed and it is said why.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from saltlite.loader.hints import __file_client__

_TYPES = ("clouds", "grains", "interfaces", "modules", "output", "returners", "runners", "utils")


def sync_runners(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the runners in ``salt://_runners``, and return the names of those that changed.

    ``saltenv`` is one or several environments; with a whitelist only those names are brought, and none of a blacklist.
    What is not among them is removed.

    CLI Example::

        saltlite-run saltutil.sync_runners
        saltlite-run saltutil.sync_runners saltenv=dev extmod_whitelist=tour
    """
    return _sync("runners", saltenv, extmod_whitelist, extmod_blacklist)


def sync_modules(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the execution modules in ``salt://_modules``, for ``salt.cmd``; as ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_modules
    """
    return _sync("modules", saltenv, extmod_whitelist, extmod_blacklist)


def sync_clouds(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the drivers of clouds in ``salt://_clouds``, for ``saltlite cloud``; as ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_clouds
    """
    return _sync("clouds", saltenv, extmod_whitelist, extmod_blacklist)


def sync_grains(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the grains in ``salt://_grains``; as ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_grains
    """
    return _sync("grains", saltenv, extmod_whitelist, extmod_blacklist)


def sync_interfaces(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the module interfaces in ``salt://_interfaces``; as ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_interfaces
    """
    return _sync("interfaces", saltenv, extmod_whitelist, extmod_blacklist)


def sync_output(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the outputters in ``salt://_output``, for ``--out``; as ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_output
    """
    return _sync("output", saltenv, extmod_whitelist, extmod_blacklist)


def sync_returners(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the returners in ``salt://_returners``, which the master uses when it is started again; as ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_returners
    """
    return _sync("returners", saltenv, extmod_whitelist, extmod_blacklist)


def sync_utils(
    saltenv: str | list[str] = "base",
    extmod_whitelist: str | list[str] | None = None,
    extmod_blacklist: str | list[str] | None = None,
) -> list[str]:
    """
    Bring the files in ``salt://_utils``, which plug-ins reach as ``__utils__``; as ``sync_runners``.

    CLI Example::

        saltlite-run saltutil.sync_utils
    """
    return _sync("utils", saltenv, extmod_whitelist, extmod_blacklist)


def sync_all(
    saltenv: str | list[str] = "base",
    extmod_whitelist: dict[str, Any] | None = None,
    extmod_blacklist: dict[str, Any] | None = None,
) -> dict[str, list[str]]:
    """
    Bring the plug-ins of every type; type -> the names of those that changed. The lists are dicts, type -> names.

    CLI Example::

        saltlite-run saltutil.sync_all
    """
    allowed, barred = extmod_whitelist or {}, extmod_blacklist or {}
    return {kind: _sync(kind, saltenv, allowed.get(kind), barred.get(kind)) for kind in _TYPES}


def _sync(kind: str, saltenv: Any, allowed: Any, barred: Any) -> list[str]:
    if not hasattr(__file_client__, "sync"):
        raise CommandExecutionError("There is no place for plug-ins: set extension_modules of the master.")
    chosen = _chooser(_names(allowed), _names(barred))
    try:
        report = __file_client__.sync(kind, _names(saltenv), clean=True, chosen=chosen)
    except OSError as error:
        raise CommandExecutionError(f"The plug-ins cannot be written: {error.strerror} ({error.filename})") from error
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error
    if report.failed:
        reasons = "; ".join(f"{name}: {why}" for name, why in report.failed.items())
        raise CommandExecutionError(f"Nothing was changed, because not all could be read. {reasons}")
    names: list[str] = report.synced
    return names


def _chooser(allowed: list[str], barred: list[str]) -> Callable[[str], bool]:
    def chosen(name: str) -> bool:
        mine = {name, name.partition(".")[0]}
        return mine.isdisjoint(barred) and (not allowed or not mine.isdisjoint(allowed))

    return chosen


def _names(given: Any) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given or []
    return [str(name).strip() for name in listed]
