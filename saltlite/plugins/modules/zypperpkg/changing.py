"""What changes packages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _packages, _rpm, _zypper

from .available import list_downloaded, list_repo_pkgs, refresh_db
from .installed import list_pkgs

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__risk__ = {"upgrade": "upgrade-all", "remove": "remove", "purge": "remove"}

_REPOSITORIES_SKIPPED = 106
"""What zypper returns when it did its work, but a repository could not be read. Contract: zypper(8), exit codes."""


class _Installing(TypedDict, total=False):
    downloadonly: bool
    skip_verify: bool
    version: str
    ignore_repo_failure: bool
    no_recommends: bool
    root: str
    resolve_capabilities: bool
    reinstall: bool
    saltenv: str
    test: bool


class _Upgrading(TypedDict, total=False):
    dryrun: bool
    dist_upgrade: bool
    fromrepo: str | list[str]
    novendorchange: bool
    skip_verify: bool
    no_recommends: bool
    root: str
    test: bool


def install(
    name: str | None = None,
    refresh: bool = False,
    fromrepo: str | list[str] | None = None,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    **kwargs: Unpack[_Installing],
) -> dict[str, dict[str, str]]:
    """
    Install packages: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package, or several parted by commas, and may be a pattern or patch as in ``pattern:base``;
    ``version`` wants that version of it, which may have a ``*`` or begin with ``<``, ``<=``, ``>`` or ``>=``. ``pkgs``
    is a list of names or of ``{name: version}``; ``sources`` a list of ``{name: /path/to/file.rpm}``, or of URLs such
    as ``salt://file.rpm``. ``fromrepo`` takes from these repositories alone. An older version is a downgrade.

    Further keyword arguments: ``reinstall``, ``downloadonly``, ``skip_verify`` (do not check signatures),
    ``no_recommends``, ``resolve_capabilities`` (a name may be what a package provides), ``ignore_repo_failure``, and
    ``root``, a folder that holds another system. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install vim version='>=9.0'
        saltlite '*' pkg.install pkgs='["foo", {"bar": "1.2.3-4"}]' no_recommends=True
        saltlite '*' pkg.install sources='[{"foo": "/srv/foo.rpm"}]'
    """
    given = _packages.take(kwargs, *_Installing.__annotations__)
    root = given["root"]
    if refresh and not given["test"]:
        refresh_db(root=root)
    if sources:
        fetch = partial(__salt__["cp.cache_file"], saltenv=given["saltenv"] or "base")
        targets = _packages.package_files(sources, fetch)
    else:
        asked = _zypper.TARGETS.wanted(name, pkgs, given["version"])
        targets = [_specified(each, version, root) for each, version in asked.items()]
    command = [*(["--no-gpg-checks"] if given["skip_verify"] else []), "install", "--auto-agree-with-licenses"]
    command.append("--capability" if given["resolve_capabilities"] else "--name")
    if sources or given["version"] or pkgs:
        command.append("--oldpackage")
    if sources and given["skip_verify"]:
        command.append("--allow-unsigned-rpm")
    command += [option for key, option in _OPTIONS.items() if given[key]]
    command += [part for alias in _zypper.repositories(fromrepo) for part in ("--from", alias)]
    also = (_REPOSITORIES_SKIPPED,) if given["ignore_repo_failure"] else ()
    if given["test"]:
        return _planned(root, command, targets)
    listing = partial(_downloaded if given["downloadonly"] else list_pkgs, root=root)
    changes = _packages.changed(listing, lambda: _zypper.run(root, command, targets).checked(*also))
    if given["reinstall"] and not sources:
        now = list_pkgs(root=root)
        again = {each: {"old": now[each], "new": now[each]} for each in asked if each in now}
        changes = {**again, **changes}
    return changes


_OPTIONS = {"downloadonly": "--download-only", "no_recommends": "--no-recommends", "reinstall": "--force"}
"""Keyword argument -> option of `zypper install`."""


def upgrade(
    name: str | None = None, pkgs: list[Any] | None = None, refresh: bool = True, **kwargs: Unpack[_Upgrading]
) -> dict[str, dict[str, str]]:
    """
    Upgrade all packages, or only the named ones; ``dist_upgrade`` may also add, remove and downgrade some.

    Returns what ``install`` returns. Further keyword arguments: ``fromrepo``, ``skip_verify``, ``root``, and with
    ``dist_upgrade`` also ``novendorchange`` and ``no_recommends``. ``test=True`` (or ``dryrun=True``) tells what would
    change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade name=openssl
        saltlite '*' pkg.upgrade dist_upgrade=True fromrepo='["MyRepoName"]' novendorchange=True
    """
    given = _packages.take(kwargs, *_Upgrading.__annotations__)
    root, whole = given["root"], bool(given["dist_upgrade"])
    dry = given["test"] or given["dryrun"]
    if refresh and not dry:
        refresh_db(root=root)
    command = ["--no-gpg-checks"] if given["skip_verify"] else []
    command += ["dist-upgrade" if whole else "update", "--auto-agree-with-licenses"]
    selector = "--from" if whole else "--repo"
    command += [part for alias in _zypper.repositories(given["fromrepo"]) for part in (selector, alias)]
    if whole and given["novendorchange"]:
        command.append("--no-allow-vendor-change")
    if whole and given["no_recommends"]:
        command.append("--no-recommends")
    names = [] if whole else list(_zypper.TARGETS.wanted(name, pkgs))
    if dry:
        return _planned(root, command, names)
    return _packages.changed(partial(list_pkgs, root=root), lambda: _zypper.run(root, command, names).checked())


def remove(
    name: str | None = None, pkgs: list[Any] | None = None, root: str | None = None, test: bool = False
) -> dict[str, dict[str, str]]:
    """
    Remove packages, and what needs them; those that are not installed are skipped.

    ``pkgs`` is a list of names or of ``{name: version}``, which removes that version alone. ``root`` is a folder that
    holds another system. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", {"kernel-default": "6.4.0-150600.21.3"}]'
    """
    present = list_pkgs(versions_as_list=True, root=root)
    native = _rpm.native_architecture(__grains__)
    targets = []
    for each, version in _zypper.TARGETS.wanted(name, pkgs).items():
        versions = present.get(_rpm.normalised(each, native), [])
        kind, colon, _ = each.partition(":")
        if (versions and (not version or version in versions)) or (colon and kind != "package"):
            targets.append(f"{each}={version}" if version else each)
    if not targets:
        return {}
    if test:
        return _planned(root, ["remove"], targets)
    return _packages.changed(partial(list_pkgs, root=root), lambda: _zypper.run(root, ["remove"], targets).checked())


def purge(
    name: str | None = None, pkgs: list[Any] | None = None, root: str | None = None, test: bool = False
) -> dict[str, dict[str, str]]:
    """
    The same as ``remove``: rpm leaves no more than changed configuration files, as ``NAME.rpmsave``.

    CLI Example::

        saltlite '*' pkg.purge vim
    """
    return remove(name, pkgs, root, test)


def _specified(name: str, version: str, root: str | None) -> str:
    """`name=version` or `name>=version`. Raises CommandExecutionError when no version is as wanted."""
    if "*" in version:
        offered = list_repo_pkgs(name, root=root).get(name, [])
        wanted = version.lstrip("=")
        found = next((each for each in offered if _packages.select({each: ""}, [wanted])), None)
        if found is None:
            raise CommandExecutionError(f"No version of {name} is {version}; there are: {', '.join(offered) or 'none'}")
        version = found
    if not version:
        return name
    return f"{name}{version}" if version[0] in "<>=" else f"{name}={version}"


def _downloaded(root: str | None) -> dict[str, str]:
    return {name: ",".join(sorted(versions)) for name, versions in list_downloaded(root).items()}


def _planned(root: str | None, command: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    present = list_pkgs(root=root)
    planned = _zypper.run(root, [*command, "--dry-run"], names).checked().planned()
    return {name: {"old": present.get(name, ""), "new": new} for name, new in sorted(planned.items())}
