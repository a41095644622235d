"""Packages of Alpine Linux, through apk.

What is installed is read from apk's own database. Most functions take ``root``, the absolute path of another root that
they work on.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       apk
:platform:      Alpine Linux
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.plugins.modules import _apk, _packages
from saltlite.plugins.modules._packages import Changes

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__virtualname__ = "pkg"

__risk__ = {"upgrade": "upgrade-all", "remove": "remove", "purge": "remove"}


class _Rooted(TypedDict, total=False):
    root: str | None


class _Listing(_Rooted, total=False):
    removed: bool
    purge_desired: bool


class _Latest(_Rooted, total=False):
    refresh: bool


class _Installing(_Rooted, total=False):
    version: str
    skip_verify: bool
    test: bool


class _Changing(_Rooted, total=False):
    test: bool


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Alpine":
        return False, "The apk execution module cannot be loaded: only works on Alpine Linux."
    if shutil.which("apk") is None:
        return False, "The apk execution module cannot be loaded: apk is not installed."
    return __virtualname__


def list_pkgs(versions_as_list: bool = False, **kwargs: Unpack[_Listing]) -> dict[str, Any]:
    """
    The installed packages: ``{name: version}``, or ``{name: [versions]}`` with ``versions_as_list``.

    apk keeps nothing of packages that are gone: ``removed`` and ``purge_desired`` give an empty dict.

    CLI Example::

        saltlite '*' pkg.list_pkgs
        saltlite '*' pkg.list_pkgs versions_as_list=True
    """
    given = _packages.take(kwargs, *_Listing.__annotations__)
    if given["removed"] or given["purge_desired"]:
        return {}
    return _packages.listed({one.name: [one.version] for one in _apk.installed(given["root"])}, versions_as_list)


def list_installed(*names: str, **kwargs: Unpack[_Rooted]) -> dict[str, str]:
    """
    The installed packages and their versions, or only the named ones; globs work.

    CLI Example::

        saltlite '*' pkg.list_installed
        saltlite '*' pkg.list_installed openssl 'py3-*'
    """
    return _packages.select(list_pkgs(**_rooted(kwargs)), names)


def version(*names: str, **kwargs: Unpack[_Rooted]) -> str | dict[str, str]:
    """
    The installed version of a package, or a dict of versions for several; an empty text for none. Globs work.

    CLI Example::

        saltlite '*' pkg.version openssl
        saltlite '*' pkg.version openssl curl 'lib*'
    """
    found: str | dict[str, str] = _packages.versions(list_pkgs(**_rooted(kwargs)), names)
    return found


def latest_version(*names: str, refresh: bool = True, root: str | None = None) -> str | dict[str, str]:
    """
    The version that an install or upgrade would bring, or an empty text when the package is up to date or unknown.

    Several names give a dict. ``refresh=False`` works with the package lists as they are. What is offered by tagged
    repositories only does not count.

    CLI Example::

        saltlite '*' pkg.latest_version openssl
        saltlite '*' pkg.latest_version openssl curl refresh=False
    """
    wanted = [_apk.SPELLING.name(name) for name in names]
    if not wanted:
        return ""
    if refresh:
        refresh_db(root=root)
    installed = list_pkgs(root=root)
    offers = _offers(_apk.apk(["policy", *wanted], root).stdout)
    latest = {name: _newest(installed.get(name, ""), offers.get(name, [])) for name in wanted}
    found: str | dict[str, str] = _packages.single(wanted, latest)
    return found


def available_version(*names: str, refresh: bool = True, root: str | None = None) -> str | dict[str, str]:
    """
    The same as ``latest_version``.

    CLI Example::

        saltlite '*' pkg.available_version openssl
    """
    return latest_version(*names, refresh=refresh, root=root)


def upgrade_available(name: str, **kwargs: Unpack[_Latest]) -> bool:
    """
    Whether an upgrade of the package is there.

    CLI Example::

        saltlite '*' pkg.upgrade_available openssl
    """
    given = _packages.take(kwargs, *_Latest.__annotations__)
    return bool(latest_version(name, refresh=given["refresh"] is not False, root=given["root"]))


def list_upgrades(refresh: bool = True, root: str | None = None) -> dict[str, str]:
    """
    The packages that an upgrade would change, with their new versions.

    CLI Example::

        saltlite '*' pkg.list_upgrades
        saltlite '*' pkg.list_upgrades refresh=False
    """
    if refresh:
        refresh_db(root=root)
    steps = _apk.steps(_apk.apk(["upgrade", "--simulate"], root).stdout)
    return {name: change["new"] for name, change in steps.items() if change["new"]}


def version_cmp(pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int:
    """
    Compare two versions as apk does: -1, 0 or 1 when the first is older, equal or newer.

    Versions of Alpine Linux have no epoch: ``ignore_epoch`` is taken as other systems take it, and means nothing.

    CLI Example::

        saltlite '*' pkg.version_cmp 1.2.4-r1 1.2.4-r10
    """
    del ignore_epoch
    return _apk.compare(str(pkg1), str(pkg2))


def refresh_db(root: str | None = None) -> bool:
    """
    Fetch the package lists; True, or an error that says what was not fetched.

    CLI Example::

        saltlite '*' pkg.refresh_db
    """
    _apk.apk(["update"], root)
    return True


def install(
    name: str | None = None,
    refresh: bool = False,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    **kwargs: Unpack[_Installing],
) -> Changes:
    """
    Install packages, or upgrade them: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package, or several parted by commas; ``version`` wants that version of it. ``pkgs`` is a list of
    names or of ``{name: version}``; a version may begin with ``<``, ``<=``, ``>=``, ``>`` or ``~``. ``sources`` is a
    list of ``{name: /path/to/file.apk}``, of the minion or of the file server; ``skip_verify=True`` takes files that
    nobody has signed. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install pkgs='["foo", {"bar": "~1.2"}]'
        saltlite '*' pkg.install sources='[{"foo": "salt://foo-1.0-r0.apk"}]' skip_verify=True
    """
    given = _packages.take(kwargs, *_Installing.__annotations__)
    options = ["--allow-untrusted"] if given["skip_verify"] else []
    if sources:
        targets = _packages.package_files(sources, __salt__["cp.cache_file"])
    else:
        targets = _apk.targets(_apk.SPELLING.wanted(name, pkgs, given["version"]))
    if not targets:
        return {}
    if refresh and not given["test"]:
        refresh_db(root=given["root"])
    return _change(["add", "--upgrade", *options], targets, root=given["root"], test=given["test"])


def upgrade(
    name: str | None = None,
    pkgs: list[Any] | None = None,
    refresh: bool = True,
    **kwargs: Unpack[_Changing],
) -> Changes:
    """
    Upgrade all packages, or the named ones. Returns what ``install`` returns.

    ``refresh=False`` works with the package lists as they are. ``test=True`` tells what would change, and changes
    nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade vim refresh=False
    """
    given = _packages.take(kwargs, *_Changing.__annotations__)
    targets = _apk.targets(_apk.SPELLING.wanted(name, pkgs))
    if refresh and not given["test"]:
        refresh_db(root=given["root"])
    argv = ["add", "--upgrade"] if targets else ["upgrade"]
    return _change(argv, targets, root=given["root"], test=given["test"])


def remove(name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Changing]) -> Changes:
    """
    Remove packages, and what only they needed; those that are not installed are skipped. Changed configuration files
    stay. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", "bar"]'
    """
    return _remove(["del"], _apk.SPELLING.wanted(name, pkgs), kwargs)


def purge(name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Changing]) -> Changes:
    """
    Remove packages with their configuration files. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.purge vim
    """
    return _remove(["del", "--purge"], _apk.SPELLING.wanted(name, pkgs), kwargs)


def file_list(*packages: str, **kwargs: Unpack[_Rooted]) -> dict[str, Any]:
    """
    The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example::

        saltlite '*' pkg.file_list busybox
    """
    found = file_dict(*packages, **kwargs)
    files = {path for paths in found["packages"].values() for path in paths}
    return {"errors": found["errors"], "files": sorted(files)}


def file_dict(*packages: str, **kwargs: Unpack[_Rooted]) -> dict[str, Any]:
    """
    The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example::

        saltlite '*' pkg.file_dict busybox
    """
    wanted = [_apk.SPELLING.name(name) for name in packages]
    every = {one.name: one.files for one in _apk.installed(_rooted(kwargs)["root"])}
    errors = [f"Package {name} is not installed." for name in wanted if name not in every]
    found = {name: files for name, files in every.items() if not wanted or name in wanted}
    return {"errors": errors, "packages": found}


def owner(*paths: str, **kwargs: Unpack[_Rooted]) -> str | dict[str, str]:
    """
    Which package a file belongs to, or a dict for several files; an empty text for none.

    CLI Example::

        saltlite '*' pkg.owner /bin/busybox
        saltlite '*' pkg.owner /bin/busybox /etc/passwd
    """
    wanted = [_packages.path(path) for path in paths]
    owners = {path: one.name for one in _apk.installed(_rooted(kwargs)["root"]) for path in one.files}
    found = {path: owners.get(path, "") for path in wanted}
    return found[wanted[0]] if len(wanted) == 1 else found if wanted else ""


def _change(argv: Sequence[str], targets: Sequence[str], *, root: str | None, test: Any) -> Changes:
    """Run a transaction and compare the installed packages before and after; for a test ask apk for its steps."""
    if test:
        return _apk.steps(_apk.apk([argv[0], "--simulate", *argv[1:], "--", *targets], root).stdout)
    return _packages.changed(lambda: list_pkgs(root=root), lambda: _apk.apk([*argv, "--", *targets], root))


def _remove(argv: Sequence[str], wanted: dict[str, str], kwargs: _Changing) -> Changes:
    given = _packages.take(kwargs, *_Changing.__annotations__)
    installed = list_pkgs(root=given["root"])
    there = [name for name in wanted if name in installed]
    return _change(argv, there, root=given["root"], test=given["test"]) if there else {}


def _rooted(kwargs: _Rooted) -> dict[str, Any]:
    return _packages.take(kwargs, "root")


def _offers(policy: str) -> dict[str, list[str]]:
    """The versions of each package that repositories without a tag have."""
    found: dict[str, list[str]] = {}
    name = version = ""
    for line in policy.splitlines():
        if line.endswith(" policy:") and not line.startswith(" "):
            name = line.removesuffix(" policy:")
        elif line.startswith("    "):
            place = line.strip()
            is_repository = not place.startswith("@") and not re.search(r"(^|/)apk/db/installed$", place)
            if is_repository and version not in found.setdefault(name, []):
                found[name].append(version)
        elif line.startswith("  "):
            version = line.strip().removesuffix(":")
    return found


def _newest(installed: str, offers: list[str]) -> str:
    best = installed
    for offer in offers:
        if not best or (offer not in (best, installed) and _apk.compare(offer, best) > 0):
            best = offer
    return best if best != installed else ""
