"""What is installed, and what is known of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _apt, _packages, _restarts

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__


class _Listing(TypedDict, total=False):
    versions_as_list: bool
    removed: bool
    purge_desired: bool


class _Info(TypedDict, total=False):
    attr: str | list[str]
    failhard: bool


def list_pkgs(versions_as_list: bool = False, removed: bool = False, purge_desired: bool = False) -> dict[str, Any]:
    """
    The installed packages: ``{name: version}``, or ``{name: [versions]}`` with ``versions_as_list``.

    With ``removed`` those that were removed and not purged, with ``purge_desired`` those marked to be purged.

    CLI Example::

        saltlite '*' pkg.list_pkgs
        saltlite '*' pkg.list_pkgs versions_as_list=True
    """
    found: dict[str, Any] = __salt__["lowpkg.list_pkgs"](removed=removed, purge_desired=purge_desired)
    return {name: [version] for name, version in found.items()} if versions_as_list else found


def list_installed(*names: str, **kwargs: Unpack[_Listing]) -> dict[str, str]:
    """
    The installed packages and their versions, or only the named ones; globs work.

    CLI Example::

        saltlite '*' pkg.list_installed
        saltlite '*' pkg.list_installed openssl 'python3*'
    """
    return _packages.select(list_pkgs(**_packages.take(kwargs, *_Listing.__annotations__)), names)


def version(*names: str, **kwargs: Unpack[_Listing]) -> str | dict[str, str]:
    """
    The installed version of a package, or a dict of versions for several; an empty text for none. Globs work.

    CLI Example::

        saltlite '*' pkg.version openssl
        saltlite '*' pkg.version openssl curl 'libc*'
    """
    installed = list_pkgs(**_packages.take(kwargs, *_Listing.__annotations__))
    found: str | dict[str, str] = _packages.versions(installed, names)
    return found


def list_holds() -> list[str]:
    """
    The packages that are kept at their version.

    CLI Example::

        saltlite '*' pkg.list_holds
    """
    return get_selections(state="hold")["hold"]


def get_selections(pattern: str | None = None, state: str | None = None) -> dict[str, list[str]]:
    """
    What is wanted of each package that dpkg knows: ``{"install": [names], "hold": …, "deinstall": …, "purge": …}``.

    ``pattern`` is a name or a glob; ``state`` limits the answer to one of these.

    CLI Example::

        saltlite '*' pkg.get_selections
        saltlite '*' pkg.get_selections 'openssh*' state=hold
    """
    asked = [_packages.path(pattern)] if pattern else []
    done = _apt.checked(_packages.run(["dpkg", "--get-selections", "--", *asked]))
    found: dict[str, list[str]] = {}
    for name, want in (line.split() for line in done.stdout.splitlines()):
        found.setdefault(want, []).append(name)
    return {state: found.get(state, [])} if state else found


def owner(*paths: str) -> str | dict[str, str]:
    """
    Which package a file belongs to, or a dict for several files; an empty text for none.

    CLI Example::

        saltlite '*' pkg.owner /usr/bin/apt-get
        saltlite '*' pkg.owner /usr/bin/apt-get /usr/bin/basename
    """
    if not paths:
        return ""
    found: dict[str, str] = __salt__["lowpkg.owner"](*paths)
    return found[paths[0]] if len(paths) == 1 else found


def which(path: str) -> str | bool | None:
    """
    Which package a file belongs to: its name, None for no package, False for a path that does not exist.

    CLI Example::

        saltlite '*' pkg.which /usr/bin/apt-get
    """
    place = _packages.path(path)
    if not os.path.isabs(place) or not os.path.lexists(place):
        return False
    found = owner(place)
    return str(found) if found else None


def file_list(*packages: str) -> dict[str, Any]:
    """
    The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example::

        saltlite '*' pkg.file_list hostname
    """
    found: dict[str, Any] = __salt__["lowpkg.file_list"](*packages)
    return found


def file_dict(*packages: str) -> dict[str, Any]:
    """
    The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example::

        saltlite '*' pkg.file_dict hostname
    """
    found: dict[str, Any] = __salt__["lowpkg.file_dict"](*packages)
    return found


def info_installed(*names: str, **kwargs: Unpack[_Info]) -> dict[str, dict[str, Any]]:
    """
    What is known of the named packages, or of all installed ones.

    ``attr`` limits the answer to some of name, version, arch, architecture, description, group, packager, url, source,
    size, install_date and install_date_time_t.
    ``failhard=False`` leaves out packages that are not installed, where otherwise an error is raised.

    CLI Example::

        saltlite '*' pkg.info_installed dpkg
        saltlite '*' pkg.info_installed dpkg openssl attr=version,arch
    """
    given = _packages.take(kwargs, *_Info.__annotations__)
    found: dict[str, dict[str, Any]] = __salt__["lowpkg.info"](*names, failhard=False)
    missing = [name for name in names if not _packages.select(found, [name])]
    if missing and given["failhard"] is not False:
        raise CommandExecutionError(f"Not installed: {', '.join(missing)}")
    return _packages.some_attributes(found, given["attr"])


def parse_arch(name: str) -> dict[str, str | None]:
    """
    The name and the architecture that a package name holds: ``{"name": …, "arch": …}``, None for no architecture.

    CLI Example::

        saltlite '*' pkg.parse_arch zsh:amd64
    """
    bare, colon, arch = str(name).rpartition(":")
    return {"name": bare, "arch": arch} if colon else {"name": arch, "arch": None}


def normalize_name(name: str) -> str:
    """
    The package name without the architecture, where that is the machine's own.

    CLI Example::

        saltlite '*' pkg.normalize_name zsh:amd64
    """
    parts = parse_arch(name)
    own = (None, __grains__.get("osarch"), "all", "any")
    return str(parts["name"]) if parts["arch"] in own else str(name)


def services_need_restart() -> list[str]:
    """
    The services whose processes still run programs or libraries that an upgrade has replaced.

    CLI Example::

        saltlite '*' pkg.services_need_restart
    """
    return _restarts.services()
