"""What package modules of Salt share: lists of packages, the arguments of ``pkg.install``, versions.

The shipped providers of ``pkg`` do not need it; modules that were written for Salt call it.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_OPERATORS = {
    "==": (0,), "!=": (-1, 1), ">=": (0, 1), "<=": (-1, 0), ">": (1,), "<": (-1,),
}  # fmt: skip
_ATTRIBUTES = frozenset({"epoch", "version", "release", "arch", "install_date", "install_date_time_t"})


def pack_sources(sources: list[dict[str, str]], normalize: bool = True) -> dict[str, str]:
    """Return a list of maps from one package to its file as one map. ``normalize`` takes the architecture off names.

    CLI Example: ``saltlite '*' pkg_resource.pack_sources '[{foo: "salt://foo.deb"}, {bar: "salt://bar.deb"}]'``
    """
    every = _packages.sources_of(sources)
    if not all(isinstance(one, Mapping) and len(one) == 1 for one in every):
        raise SaltInvocationError("Sources are a list of maps from one package to its file, as in '[{foo: /a.deb}]'.")
    return {_named(name, normalize): place for one in every for name, place in one.items()}


def parse_targets(
    name: str | None = None, pkgs: list[Any] | None = None, sources: list[dict[str, str]] | None = None,
    saltenv: str = "base", normalize: bool = True, *, version: str | None = None,
    advisory_ids: list[str] | None = None, **_kwargs: Any,
) -> tuple[Any, str | None]:  # fmt: skip
    """Return what arguments of ``pkg.install`` name, and where it comes from: packages with versions and
    ``repository``, or paths and ``file``; both ``None`` without any. Files of masters and web servers are fetched.

    CLI Example: ``saltlite '*' pkg_resource.parse_targets vim``
    """
    if pkgs and sources:
        raise SaltInvocationError('Only one of "pkgs" and "sources" can be used.')
    if advisory_ids is not None:
        if pkgs:
            raise SaltInvocationError('Cannot use "advisory_ids" and "pkgs" at the same time')
        return advisory_ids or [name], "advisory"
    if pkgs:
        return _packed(pkgs, normalize=normalize), "repository"
    if sources:
        return [_local(*one, saltenv) for one in pack_sources(sources, normalize).items()], "file"
    if name:
        return {_named(one, normalize): version for one in str(name).split(",")}, "repository"
    return None, None


def version(*names: str, versions_as_list: bool = False, **kwargs: Any) -> Any:
    """Return the version of an installed package, or a map of those of several; names may have ``*``. It is empty for a
    package that is not installed.

    CLI Example::

        saltlite '*' pkg_resource.version vim
        saltlite '*' pkg_resource.version 'python*'
    """
    found: dict[str, Any] = {}
    given = {name: value for name, value in kwargs.items() if not name.startswith("__")}
    installed = __salt__["pkg.list_pkgs"](versions_as_list=True, **given) if names else {}
    for name in names:
        matches = fnmatch.filter(installed, name) if "*" in name else [name]
        found.update((each, installed.get(each, [])) for each in matches)
    if not versions_as_list:
        stringify(found)
    if len(found) == 1 and not any("*" in name for name in names):
        return next(iter(found.values()))
    return found


def add_pkg(pkgs: dict[str, list[str]], name: str, pkgver: str) -> None:
    """Add a version to a map of packages, in place.

    CLI Example: ``saltlite '*' pkg_resource.add_pkg '{}' bind 9``
    """
    pkgs.setdefault(name, []).append(pkgver)


def sort_pkglist(pkgs: dict[str, Iterable[str]]) -> None:
    """Sort the versions in a map of packages, each once, in place.

    CLI Example: ``saltlite '*' pkg_resource.sort_pkglist '{vim: ["3.45", "2.13"]}'``
    """
    for name, versions in pkgs.items():
        pkgs[name] = sorted(set(versions))


def stringify(pkgs: dict[str, Any]) -> None:
    """Join the versions of each package in a map with commas, in place.

    CLI Example: ``saltlite '*' pkg_resource.stringify '{vim: ["7.127"]}'``
    """
    for name, versions in pkgs.items():
        pkgs[name] = ",".join(versions)


def version_clean(verstr: str) -> str:
    """Return a version without what ``pkg.version_clean`` takes off, if the provider of ``pkg`` has that function.

    CLI Example: ``saltlite '*' pkg_resource.version_clean 2:1.2-3``
    """
    clean = "pkg.version_clean" in __salt__
    return str(__salt__["pkg.version_clean"](verstr)) if verstr and clean else verstr


def version_compare(ver1: str, oper: str, ver2: str, ignore_epoch: bool = False) -> bool:
    """Compare two versions of packages as this system does: ``==``, ``!=``, ``>=``, ``<=``, ``>`` or ``<``.

    CLI Example: ``saltlite '*' pkg_resource.version_compare 3.5 '<=' 2.4``
    """
    if oper not in _OPERATORS:
        raise SaltInvocationError(f"{oper!r:.20} is not one of {' '.join(_OPERATORS)}.")
    result = __salt__["pkg.version_cmp"](str(ver1), str(ver2), ignore_epoch=ignore_epoch)
    if result is None:
        raise CommandExecutionError(f"{ver1!r:.80} and {ver2!r:.80} cannot be compared.")
    return result in _OPERATORS[oper]


def check_extra_requirements(pkgname: str, pkgver: str) -> bool:
    """Return what ``pkg.check_extra_requirements`` says, True if the provider of ``pkg`` has no such function.

    CLI Example: ``saltlite '*' pkg_resource.check_extra_requirements vim '>=8'``
    """
    asks = pkgver and "pkg.check_extra_requirements" in __salt__
    return bool(__salt__["pkg.check_extra_requirements"](pkgname, pkgver)) if asks else True


def format_pkg_list(
    packages: dict[str, list[dict[str, Any]]], versions_as_list: bool, attr: list[str] | str | None
) -> dict[str, Any]:
    """Return packages in the form that ``pkg.list_pkgs`` was asked for: with versions as text or list, or with ``attr``
    (a list, or ``all``) as maps of attributes.

    CLI Example::

        saltlite '*' pkg_resource.format_pkg_list '{vim: [{epoch: "", version: "8", release: "1"}]}' False None
    """
    if not attr:
        found: dict[str, Any] = {
            name: [format_version(one["epoch"], one["version"], one["release"]) for one in rows]
            for name, rows in packages.items()
        }
        if not versions_as_list:
            stringify(found)
        return found
    wanted = _ATTRIBUTES if attr == "all" else _ATTRIBUTES & {*attr, "version", "arch"}
    shown: dict[str, Any] = {}
    for name, rows in packages.items():
        parts: dict[str, Any] = (
            __salt__["pkg.parse_arch"](name) if "pkg.parse_arch" in __salt__ else {"name": name, "arch": None}
        )
        kept = [{key: row[key] for key in wanted if key in row} for row in rows]
        is_of_arch = parts["name"] and any(row.get("arch") == parts["arch"] for row in kept)
        shown.setdefault(str(parts["name"]) if is_of_arch else name, []).extend(kept)
    return shown


def format_version(epoch: str | int | None, version: str, release: str | None) -> str:
    """Return a version as one text: ``epoch:version-release``.

    CLI Example: ``saltlite '*' pkg_resource.format_version 2 1.2 3``
    """
    return (f"{epoch}:" if epoch else "") + str(version) + (f"-{release}" if release else "")


def _named(name: str, normalize: bool) -> str:
    return str(__salt__["pkg.normalize_name"](name)) if normalize and "pkg.normalize_name" in __salt__ else str(name)


def _packed(pkgs: Any, *, normalize: bool) -> dict[str, str | None]:
    """Package -> version; a list has names, and maps from names to versions."""
    found: dict[str, str | None] = {}
    for one in pkgs.split(",") if isinstance(pkgs, str) else pkgs:
        for name, wanted in (one if isinstance(one, Mapping) else {one: None}).items():
            found[_named(str(name), normalize)] = None if wanted is None else str(wanted)
    return found


def _local(name: str, place: str, saltenv: str) -> str:
    """The path of a package's file on this minion."""
    if not __salt__["config.valid_fileproto"](place):
        if not os.path.isabs(place):
            raise SaltInvocationError(f"Path {place} for package {name} is either not absolute or an invalid protocol")
        return place
    cached = __salt__["cp.cache_file"](place, saltenv)
    if not cached:
        raise CommandExecutionError(f"Unable to cache source {place} for package {name}")
    return str(cached)
