"""Repositories: which packages and advisories they offer, and how they are configured."""

from __future__ import annotations

import logging
import os
import shutil
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages, _rpm

from . import dnf

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
    """The version that an install or upgrade would bring; an empty string if the package is up to date or unknown.

    Several names give a dict. ``refresh=False`` uses the package lists as they are. ``fromrepo`` searches only these
    repositories, ``enablerepo`` and ``disablerepo`` add or remove some; ``root`` is the folder of another system.

    CLI Example::

        saltlite '*' pkg.latest_version openssl
        saltlite '*' pkg.latest_version openssl curl fromrepo=updates-testing
        saltlite '*' pkg.available_version openssl
    """
    given = _packages.take(kwargs, *dnf.REPOSITORY_KEYS)
    if not names:
        return ""
    native = _rpm.native_architecture(__grains__)
    wanted = [_rpm.NAME_RULES.name(name) for name in names]
    if refresh:
        refresh_db(**kwargs)
    newest: dict[str, str] = {}
    for row in dnf.available(given, dnf.listing("available"), native, wanted):
        if _rpm.compare(row.version, newest.get(row.name, "")) > 0:
            newest[row.name] = row.version
    installed = _rpm.installed(native, dnf.root_of(given))
    found = {}
    for name in wanted:
        shown = _rpm.normalised(name, native)
        candidate = newest.get(shown, "")
        versions = [each.full_version for each in installed.get(shown, ())]
        found[name] = candidate if all(_rpm.compare(candidate, each) > 0 for each in versions) else ""

    return _packages.single(names, found)


available_version = latest_version


def upgrade_available(name: str, **kwargs: Unpack[_Latest]) -> bool:
    """Whether an upgrade of the package is available.

    CLI Example: ``saltlite '*' pkg.upgrade_available openssl``
    """
    return bool(latest_version(name, **kwargs))


def list_upgrades(refresh: bool = True, **kwargs: Unpack[_Repositories]) -> dict[str, str]:
    """The packages that an upgrade would change, with their new versions.

    CLI Example::

        saltlite '*' pkg.list_upgrades
        saltlite '*' pkg.list_upgrades refresh=False
        saltlite '*' pkg.list_updates
    """
    given = _packages.take(kwargs, *dnf.REPOSITORY_KEYS)
    if refresh:
        _expire(given)
    command = dnf.listing("updates" if dnf.program() == "yum" else "upgrades")
    rows = dnf.available(given, command, _rpm.native_architecture(__grains__))
    return {row.name: row.version for row in rows}


list_updates = list_upgrades


def list_repo_pkgs(*args: str, **kwargs: Unpack[_Offers]) -> dict[str, Any]:
    """The packages that repositories offer, with all their versions, newest first: ``{name: [versions]}``.

    Names and globs limit the result. ``byrepo=True`` gives ``{repository: {name: [versions]}}``; ``cacheonly=True``
    fetches nothing.

    CLI Example::

        saltlite '*' pkg.list_repo_pkgs bash 'samba*'
        saltlite '*' pkg.list_repo_pkgs 'samba*' fromrepo=base,updates byrepo=True
    """
    given = _packages.take(kwargs, *dnf.REPOSITORY_KEYS, "byrepo", "cacheonly")
    names = _rpm.checked_names(args)
    command = [*(["-C"] if given["cacheonly"] else []), "list", "--showduplicates"]
    rows = dnf.available(given, command, _rpm.native_architecture(__grains__), names)
    found = ((row.repo, row.name, row.version) for row in rows if _packages.matches(row.name, names))
    return _packages.offers(found, _rpm.compare, by_repository=given["byrepo"])


def refresh_db(check_update: bool = True, **kwargs: Unpack[_Repositories]) -> bool | None:
    """Fetch the package lists: True if upgrades are available, None if there are none, False if fetching failed.

    ``check_update=False`` only expires the lists, so that the next command fetches them, and returns True.

    CLI Example::

        saltlite '*' pkg.refresh_db
        saltlite '*' pkg.refresh_db repo=updates
    """
    given = _packages.take(kwargs, *dnf.REPOSITORY_KEYS)
    _expire(given)
    if not check_update:
        return True
    done = dnf.run(given, ["check-update"])
    if done.returncode not in (0, 100):
        log.error("The package lists were not fetched: %s", dnf.failed(done))
        return False
    return True if done.returncode else None


def clean_metadata(**kwargs: Unpack[_Repositories]) -> bool | None:
    """Alias of ``refresh_db``.

    CLI Example: ``saltlite '*' pkg.clean_metadata``
    """
    return refresh_db(**kwargs)


def _expire(given: dict[str, Any]) -> None:
    dnf.checked(dnf.run(given, ["clean", "expire-cache"]))


def list_downloaded(root: str | None = None) -> dict[str, Any]:
    """The downloaded package files: ``{name: {version: {path, size, creation_date_time, creation_date_time_t}}}``.

    CLI Example: ``saltlite '*' pkg.list_downloaded``
    """
    folder = _rpm.root_folder(root)
    places = [_rpm.below(folder, f"/var/cache/{each}") for each in ("libdnf5", "dnf", "yum")]
    return _rpm.downloaded(places, _rpm.native_architecture(__grains__))


def list_patches(refresh: bool = False, **kwargs: Unpack[_Repositories]) -> dict[str, Any]:
    """The advisories of the repositories for installed packages: ``{id: {"installed": bool, "summary": [packages]}}``.

    CLI Example: ``saltlite '*' pkg.list_patches``
    """
    given = _packages.take(kwargs, *dnf.REPOSITORY_KEYS)
    if refresh:
        _expire(given)
    if dnf.program() == "dnf5":
        return {**_advisories(given, ["advisory", "list", "--all"]), **list_installed_patches(**kwargs)}
    return _advisories(given, ["updateinfo", "list", "all" if dnf.program() == "yum" else "--all"])


def list_installed_patches(**kwargs: Unpack[_Repositories]) -> dict[str, Any]:
    """The advisories whose packages are all installed, in the format of ``list_patches``.

    CLI Example: ``saltlite '*' pkg.list_installed_patches``
    """
    if dnf.program() == "dnf5":  # it does not mark installed advisories
        found = _advisories(_packages.take(kwargs, *dnf.REPOSITORY_KEYS), ["advisory", "list", "--installed"])
        return {name: {**row, "installed": True} for name, row in found.items()}
    return {name: row for name, row in list_patches(**kwargs).items() if row["installed"]}


def _advisories(given: dict[str, Any], command: list[str]) -> dict[str, Any]:
    return dnf.read_advisories(dnf.checked(dnf.run(given, command)).stdout)


def services_need_restart(root: str | None = None) -> list[str]:
    """The services that still run files which an upgrade has replaced. Needs dnf and systemd.

    CLI Example: ``saltlite '*' pkg.services_need_restart``
    """
    if root:
        raise SaltInvocationError("Services run on the machine itself, not in a root folder.")
    if dnf.program() == "yum" or not os.path.isdir("/run/systemd/system"):
        raise CommandExecutionError("dnf and systemd are needed to find services that run replaced files.")
    done = dnf.run({}, ["needs-restarting", "--services"])
    if done.returncode and not done.stdout.strip():  # dnf5 also returns 1 if there are such services
        raise dnf.failed(done)
    return sorted({line.removesuffix(".service") for line in done.stdout.split()})


def download(*packages: str, **kwargs: Unpack[_Repositories]) -> dict[str, str]:
    """Download packages without installing them: ``{name: path}``. dnf needs its plug-in ``download``.

    A message under ``_error`` lists the names that were not found.

    CLI Example: ``saltlite '*' pkg.download httpd``
    """
    given = _packages.take(kwargs, *dnf.REPOSITORY_KEYS)
    if not packages:
        raise SaltInvocationError("No packages were given.")
    names = [_rpm.NAME_RULES.name(name) for name in packages]
    native = _rpm.native_architecture(__grains__)
    folder = _rpm.below(dnf.root_of(given), f"/var/cache/{dnf.program()}/packages")
    os.makedirs(folder, exist_ok=True)
    bare = {name: _rpm.normalised(name, native) for name in names}
    for known, versions in _rpm.downloaded([folder], native).items():
        for row in versions.values() if known in bare.values() else ():
            os.unlink(row["path"])  # an older download must not pass for one of this call
    if dnf.program() == "yum":
        if shutil.which("yumdownloader") is None:
            raise CommandExecutionError("yumdownloader is not installed: the package yum-utils has it.")
        done = _packages.run(["yumdownloader", "-q", *dnf.options(given), f"--destdir={folder}", "--", *names])
    else:
        # Otherwise dnf downloads nothing if one of the names is unknown.
        lenient = ["--setopt=strict=0"] if dnf.program() == "dnf" else ["--skip-unavailable"]
        done = dnf.run(given, ["download", *lenient, f"--destdir={folder}"], names)
    rows = _rpm.downloaded([folder], native)
    found: dict[str, str] = {}
    for name in names:
        if bare[name] in rows:
            found[name] = rows[bare[name]][max(rows[bare[name]], key=_rpm.version_key)]["path"]
    if not found and done.returncode:
        raise dnf.failed(done)
    if not found:
        raise CommandExecutionError(f"No repository offers {', '.join(names)}.")
    lost = [name for name in names if name not in found]
    if lost:
        found["_error"] = f"Not downloaded: {', '.join(lost)}"
    return found


def diff(*paths: str, **kwargs: Unpack[_Repositories]) -> dict[str, str]:
    """How installed files differ from those of the newest version of their packages: ``{path: difference}``.

    The packages are downloaded. The difference may also be ``Unchanged``, ``Not managed``, or ``N/A`` for a missing
    file.

    CLI Example: ``saltlite '*' pkg.diff /etc/httpd/conf/httpd.conf /etc/sudoers``
    """
    return _rpm.differences(paths, dnf.root_of(kwargs), lambda package: download(package, **kwargs)[package])


_FOLDERS = ("/etc/yum.repos.d", "/etc/yum/repos.d", "/etc/distro.repos.d")
_CONFIGURATIONS = ("/etc/dnf/dnf.conf", "/etc/yum.conf", "/etc/yum/yum.conf")
_LINKS = ("baseurl", "mirrorlist", "metalink")


def list_repos(basedir: str | list[str] | None = None, root: str | None = None) -> dict[str, Any]:
    """The configured repositories: ``{id: {"file": path, name, baseurl, enabled, ...}}``, all values as strings.

    ``basedir`` is the folder or folders of repository files; ``root`` is the folder of another system.

    CLI Example::

        saltlite '*' pkg.list_repos
        saltlite '*' pkg.list_repos basedir=/srv/repos.d
    """
    return _rpm.read_repositories(_folders(basedir, root))


def get_repo(repo: str, basedir: str | list[str] | None = None, root: str | None = None) -> dict[str, Any]:
    """The configuration of a repository; an empty dict if there is none.

    CLI Example: ``saltlite '*' pkg.get_repo epel``
    """
    found = list_repos(basedir, root).get(str(repo), {})
    return {key: value for key, value in found.items() if key != "file"}


def del_repo(repo: str, basedir: str | list[str] | None = None, root: str | None = None, test: bool = False) -> str:
    """Remove a repository from its file, or the file if it has no other. ``test=True`` changes nothing.

    CLI Example: ``saltlite '*' pkg.del_repo epel``
    """
    path, emptied = _rpm.delete_repository(_folders(basedir, root), repo, test=test)
    return (
        f"File {path} containing repo {repo} has been removed"
        if emptied
        else f"Repo {repo} has been removed from {path}"
    )


def mod_repo(
    repo: str, basedir: str | list[str] | None = None, root: str | None = None, test: bool = False, **kwargs: Any
) -> dict[str, Any]:
    """Change or add a repository, and return the content of its file: ``{path: {id: {key: value}}}``. ``test=True``
    writes nothing.

    Keyword arguments are settings of dnf and yum; an empty one removes the setting. A new repository needs ``name`` and
    exactly one of ``baseurl``, ``mirrorlist`` and ``metalink``.

    CLI Example::

        saltlite '*' pkg.mod_repo epel enabled=1 gpgcheck=1
        saltlite '*' pkg.mod_repo mine name='My packages' baseurl=https://example.org/el9 gpgcheck=0
        saltlite '*' pkg.mod_repo mine baseurl= mirrorlist=https://example.org/mirrors
    """
    _rpm.checked_repository(repo)
    given = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    values = {key: None if value in (None, "", [], {}) else value for key, value in given.items()}
    links = [link for link in _LINKS if values.get(link)]
    if len(links) > 1:
        raise SaltInvocationError(f"Only one of {', '.join(_LINKS)} can be given.")
    if "name" in values and values["name"] is None:
        raise SaltInvocationError("The name of a repository cannot be removed.")
    known = list_repos(basedir, root)
    before = known.get(repo, {})
    if not before and ("name" not in values or not links):
        raise SaltInvocationError(
            f"There is no repository {repo}: a new one needs name and one of {', '.join(_LINKS)}."
        )
    if links:
        values |= {link: None for link in _LINKS if link not in links}
    elif any(link in values for link in _LINKS) and not any(before.get(link) for link in _LINKS if link not in values):
        raise SaltInvocationError(f"A repository needs one of {', '.join(_LINKS)}.")
    path = str(before.get("file") or os.path.join(_folder_for_new(basedir, root), f"{repo}.repo"))
    text = _rpm.changed_repository(path, repo, values)
    if not test:
        _rpm.save_repositories(path, text)
    return {path: _rpm.stanzas_of(text)}


def _folders(basedir: str | list[str] | None, root: str | None) -> list[str]:
    """The folders of repository files that dnf or yum is configured to use."""
    if basedir:
        return _packages.words(basedir)
    import configparser

    folder = _rpm.root_folder(root)
    for path in _CONFIGURATIONS:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        try:
            parser.read(_rpm.below(folder, path))
        except configparser.Error as error:
            raise CommandExecutionError(f"{path} cannot be understood: {error.message}") from error
        named = parser.get("main", "reposdir", fallback="")
        if named:
            return [_rpm.below(folder, each) for each in named.replace(",", " ").split()]
    return [_rpm.below(folder, each) for each in _FOLDERS]


def _folder_for_new(basedir: str | list[str] | None, root: str | None) -> str:
    folders = _folders(basedir, root)
    found = next((each for each in folders if os.path.isdir(each)), None)
    if found is None:
        raise SaltInvocationError(f"There is no folder for repositories: none of {', '.join(folders)} exists.")
    return found
