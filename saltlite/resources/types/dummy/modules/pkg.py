"""Packages of dummy resources.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saltlite.loader.hints import __resource_funcs__

Changes = dict[str, dict[str, str]]


def list_pkgs() -> dict[str, str]:
    """
    The installed packages: ``{name: version}``.

    CLI Example: ``saltlite dummy-1 pkg.list_pkgs``
    """
    packages: dict[str, str] = __resource_funcs__["dummy.package_list"]()
    return packages


def version(*names: str) -> str | dict[str, str]:
    """
    The installed version of a package, or a dict of versions for several; an empty text for none.

    CLI Example: ``saltlite dummy-1 pkg.version apache``
    """
    installed = list_pkgs()
    found = {name: installed.get(name, "") for name in names}
    return next(iter(found.values())) if len(found) == 1 else found


def install(name: str, version: str = "1.0") -> Changes:
    """
    Install a package: ``{name: {"old": version, "new": version}}``, or nothing when it was there.

    CLI Example: ``saltlite dummy-1 pkg.install vim version=9.1``
    """
    before = list_pkgs()
    __resource_funcs__["dummy.package_install"](name, str(version))
    return _changes(before)


def remove(name: str) -> Changes:
    """
    Remove a package; what changed, as ``install`` tells it.

    CLI Example: ``saltlite dummy-1 pkg.remove tinc``
    """
    before = list_pkgs()
    __resource_funcs__["dummy.package_remove"](name)
    return _changes(before)


def upgrade() -> Changes:
    """
    Raise the version of every package by one; what changed, as ``install`` tells it.

    CLI Example: ``saltlite dummy-1 pkg.upgrade``
    """
    before = list_pkgs()
    __resource_funcs__["dummy.upgrade"]()
    return _changes(before)


def _changes(before: dict[str, str]) -> Changes:
    after = list_pkgs()
    return {
        name: {"old": before.get(name, ""), "new": after.get(name, "")}
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    }
