"""What repositories offer."""

from __future__ import annotations

import fnmatch
import logging
import os
import shutil
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _dnf, _packages, _rpm, _rpm_reports

from .installed import list_pkgs

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

log = logging.getLogger(__name__)


class _Repositories(TypedDict, total=False):
    fromrepo: str | list[str]
    repo: str | list[str]
    enablerepo: str | list[str]
    disablerepo: str | list[str]
    disableexcludes: str
    setopt: str | list[str]
    root: str
    installroot: str


class _Latest(_Repositories, total=False):
    refresh: bool


class _Offers(_Repositories, total=False):
    byrepo: bool
    cacheonly: bool


def latest_version(*names: str, refresh: bool = True, **kwargs: Unpack[_Repositories]) -> Any:
    """
    The version that an install or upgrade would bring, or an empty text when the package is up to date or unknown.

    Several names give a dict. ``refresh=False`` works with the package lists as they are. ``fromrepo`` looks into these
    repositories alone, ``enablerepo`` and ``disablerepo`` into more or fewer; ``root`` is a folder that holds another
    system.

    CLI Example::

        saltlite '*' pkg.latest_version openssl
        saltlite '*' pkg.latest_version openssl curl fromrepo=updates-testing
    """
    given = _packages.take(kwargs, *_dnf.REPOSITORY_KEYS)
    if not names:
        return ""
    native = _rpm.native_architecture(__grains__)
    wanted = [_rpm.SPELLING.name(name) for name in names]
    if refresh:
        refresh_db(**kwargs)
    newest: dict[str, str] = {}
    done = _dnf.run(given, _dnf.listing("available"), wanted)
    if done.returncode and not _dnf.no_match(done):
        raise _dnf.failed(done)
    for row in _dnf.read_list(done.stdout, native):
        if not row.installed and _rpm.compare(row.version, newest.get(row.name, "")) > 0:
            newest[row.name] = row.version
    installed = list_pkgs(versions_as_list=True, root=_dnf.root_of(given) or None)
    found = {}
    for name in wanted:
        shown = _rpm.normalised(name, native)
        candidate = newest.get(shown, "")
        found[name] = candidate if all(_rpm.compare(candidate, each) > 0 for each in installed.get(shown, ())) else ""
    return _packages.single(names, found)


def available_version(*names: str, **kwargs: Unpack[_Latest]) -> Any:
    """
    The same as ``latest_version``.

    CLI Example::

        saltlite '*' pkg.available_version openssl
    """
    return latest_version(*names, **kwargs)


def upgrade_available(name: str, **kwargs: Unpack[_Latest]) -> bool:
    """
    Whether an upgrade of the package is there.

    CLI Example::

        saltlite '*' pkg.upgrade_available openssl
    """
    return bool(latest_version(name, **kwargs))


def list_upgrades(refresh: bool = True, **kwargs: Unpack[_Repositories]) -> dict[str, str]:
    """
    The packages that an upgrade would change, with their new versions.

    CLI Example::

        saltlite '*' pkg.list_upgrades
        saltlite '*' pkg.list_upgrades refresh=False
    """
    given = _packages.take(kwargs, *_dnf.REPOSITORY_KEYS)
    if refresh:
        _expire(given)
    done = _dnf.run(given, _dnf.listing("updates" if _dnf.program() == "yum" else "upgrades"))
    if done.returncode and not _dnf.no_match(done):
        raise _dnf.failed(done)
    rows = _dnf.read_list(done.stdout, _rpm.native_architecture(__grains__))
    return {row.name: row.version for row in rows if not row.installed}


def list_updates(refresh: bool = True, **kwargs: Unpack[_Repositories]) -> dict[str, str]:
    """
    The same as ``list_upgrades``.

    CLI Example::

        saltlite '*' pkg.list_updates
    """
    return list_upgrades(refresh, **kwargs)


def list_repo_pkgs(*args: str, **kwargs: Unpack[_Offers]) -> dict[str, Any]:
    """
    The packages that repositories offer, with all their versions, the newest first: ``{name: [versions]}``.

    Names and globs limit the answer. ``byrepo=True`` gives ``{repository: {name: [versions]}}``; ``cacheonly=True``
    fetches nothing.

    CLI Example::

        saltlite '*' pkg.list_repo_pkgs bash 'samba*'
        saltlite '*' pkg.list_repo_pkgs 'samba*' fromrepo=base,updates byrepo=True
    """
    given = _packages.take(kwargs, *_dnf.REPOSITORY_KEYS, "byrepo", "cacheonly")
    names = _rpm.checked_names(args)
    done = _dnf.run(given, [*(["-C"] if given["cacheonly"] else []), "list", "--showduplicates"], names)
    if done.returncode and not _dnf.no_match(done):
        raise _dnf.failed(done)
    offered: dict[str, dict[str, set[str]]] = {}
    for row in _dnf.read_list(done.stdout, _rpm.native_architecture(__grains__)):
        if not row.installed and (not names or any(fnmatch.fnmatchcase(row.name, each) for each in names)):
            offered.setdefault(row.repo, {}).setdefault(row.name, set()).add(row.version)
    if given["byrepo"]:
        return {repo: {name: _newest_first(found) for name, found in rows.items()} for repo, rows in offered.items()}
    joined: dict[str, set[str]] = {}
    for rows in offered.values():
        for name, found in rows.items():
            joined.setdefault(name, set()).update(found)
    return {name: _newest_first(found) for name, found in joined.items()}


def _newest_first(versions: set[str]) -> list[str]:
    return sorted(versions, key=_rpm.version_key, reverse=True)


def refresh_db(check_update: bool = True, **kwargs: Unpack[_Repositories]) -> bool | None:
    """
    Fetch the package lists: True when there are upgrades, None when there are none, False when fetching failed.

    ``check_update=False`` only forgets the lists, so that they are fetched when they are needed next, and gives True.

    CLI Example::

        saltlite '*' pkg.refresh_db
        saltlite '*' pkg.refresh_db repo=updates
    """
    given = _packages.take(kwargs, *_dnf.REPOSITORY_KEYS)
    _expire(given)
    if not check_update:
        return True
    done = _dnf.run(given, ["check-update"])
    if done.returncode not in (0, 100):
        log.error("The package lists were not fetched: %s", _dnf.failed(done))
        return False
    return True if done.returncode else None


def clean_metadata(**kwargs: Unpack[_Repositories]) -> bool | None:
    """
    The same as ``refresh_db``.

    CLI Example::

        saltlite '*' pkg.clean_metadata
    """
    return refresh_db(**kwargs)


def _expire(given: dict[str, Any]) -> None:
    _dnf.checked(_dnf.run(given, ["clean", "expire-cache"]))


def list_downloaded(root: str | None = None) -> dict[str, Any]:
    """
    The package files that were downloaded and are still there: ``{name: {version: {path, size, creation_date_time,
    creation_date_time_t}}}``.

    CLI Example::

        saltlite '*' pkg.list_downloaded
    """
    folder = _rpm.root_folder(root)
    places = [_rpm.below(folder, f"/var/cache/{each}") for each in ("libdnf5", "dnf", "yum")]
    return _rpm_reports.downloaded(places, _rpm.native_architecture(__grains__))


def list_patches(refresh: bool = False, **kwargs: Unpack[_Repositories]) -> dict[str, Any]:
    """
    The advisories that repositories have for what is installed: ``{id: {"installed": bool, "summary": [packages]}}``.

    CLI Example::

        saltlite '*' pkg.list_patches
    """
    given = _packages.take(kwargs, *_dnf.REPOSITORY_KEYS)
    if refresh:
        _expire(given)
    if _dnf.program() == "dnf5":
        return {**_advisories(given, ["advisory", "list", "--all"]), **list_installed_patches(**kwargs)}
    return _advisories(given, ["updateinfo", "list", "all" if _dnf.program() == "yum" else "--all"])


def list_installed_patches(**kwargs: Unpack[_Repositories]) -> dict[str, Any]:
    """
    The advisories whose packages are all installed, as ``list_patches`` gives them.

    CLI Example::

        saltlite '*' pkg.list_installed_patches
    """
    if _dnf.program() == "dnf5":  # it marks nothing
        found = _advisories(_packages.take(kwargs, *_dnf.REPOSITORY_KEYS), ["advisory", "list", "--installed"])
        return {name: {**row, "installed": True} for name, row in found.items()}
    return {name: row for name, row in list_patches(**kwargs).items() if row["installed"]}


def _advisories(given: dict[str, Any], command: list[str]) -> dict[str, Any]:
    return _dnf.read_advisories(_dnf.checked(_dnf.run(given, command)).stdout)


def services_need_restart(root: str | None = None) -> list[str]:
    """
    The services that still run what an upgrade has replaced. dnf and systemd have to be there.

    CLI Example::

        saltlite '*' pkg.services_need_restart
    """
    if root:
        raise SaltInvocationError("Services run on the machine itself, not in a root folder.")
    if _dnf.program() == "yum" or not os.path.isdir("/run/systemd/system"):
        raise CommandExecutionError("dnf and systemd are needed to tell which services run what was replaced.")
    done = _dnf.run({}, ["needs-restarting", "--services"])
    if done.returncode and not done.stdout.strip():  # dnf5 also says 1 when there are some
        raise _dnf.failed(done)
    return sorted({line.removesuffix(".service") for line in done.stdout.split()})


def download(*packages: str, **kwargs: Unpack[_Repositories]) -> dict[str, str]:
    """
    Download packages without installing them: ``{name: path}``. dnf needs its plug-in ``download`` for it.

    Names that could not be found stand in one sentence under ``_error``.

    CLI Example::

        saltlite '*' pkg.download httpd
    """
    given = _packages.take(kwargs, *_dnf.REPOSITORY_KEYS)
    if not packages:
        raise SaltInvocationError("No packages were given.")
    names = [_rpm.SPELLING.name(name) for name in packages]
    native = _rpm.native_architecture(__grains__)
    folder = _rpm.below(_dnf.root_of(given), f"/var/cache/{_dnf.program()}/packages")
    os.makedirs(folder, exist_ok=True)
    bare = {name: _rpm.normalised(name, native) for name in names}
    for known, versions in _rpm_reports.downloaded([folder], native).items():
        for row in versions.values() if known in bare.values() else ():
            os.unlink(row["path"])  # what was there before is not what this call brings
    if _dnf.program() == "yum":
        if shutil.which("yumdownloader") is None:
            raise CommandExecutionError("yumdownloader is not installed: the package yum-utils has it.")
        done = _packages.run(["yumdownloader", "-q", *_dnf.options(given), f"--destdir={folder}", "--", *names])
    else:
        # Without it dnf brings nothing when it does not know one of the names.
        lenient = ["--setopt=strict=0"] if _dnf.program() == "dnf" else ["--skip-unavailable"]
        done = _dnf.run(given, ["download", *lenient, f"--destdir={folder}"], names)
    rows = _rpm_reports.downloaded([folder], native)
    found: dict[str, str] = {}
    for name in names:
        if bare[name] in rows:
            found[name] = rows[bare[name]][max(rows[bare[name]], key=_rpm.version_key)]["path"]
    if not found:
        raise _dnf.failed(done) if done.returncode else CommandExecutionError(f"Nobody offers {', '.join(names)}.")
    lost = [name for name in names if name not in found]
    if lost:
        found["_error"] = f"Not downloaded: {', '.join(lost)}"
    return found


def diff(*paths: str, **kwargs: Unpack[_Repositories]) -> dict[str, str]:
    """
    How installed files differ from those of the newest version of their packages: ``{path: difference}``.

    The packages are downloaded for it. A path may also be ``Unchanged``, ``Not managed``, or ``N/A`` where nothing is.

    CLI Example::

        saltlite '*' pkg.diff /etc/httpd/conf/httpd.conf /etc/sudoers
    """
    folder = _dnf.root_of(kwargs)
    found = {}
    for path in paths:
        package = _rpm.owners(path, folder).partition(",")[0]
        if not package:
            found[path] = "Not managed" if os.path.exists(_rpm.below(folder, path)) else "N/A"
            continue
        file = download(package, **kwargs)[package]
        found[path] = _rpm_reports.difference(file, path, folder) or "Unchanged"
    return found
