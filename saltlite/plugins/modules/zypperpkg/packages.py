"""Installed packages, everything that changes them, and zypper's locks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _packages, _rpm

from . import repositories
from .repositories import list_downloaded, list_repo_pkgs, refresh_db

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__


def list_pkgs(
    versions_as_list: bool = False, root: str | None = None, *, removed: bool = False, purge_desired: bool = False,
    attr: str | list[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The installed packages: ``{name: version}``, or ``{name: [versions]}`` with ``versions_as_list``.

    Several versions of one package are separated by commas. Packages built for another architecture are named
    ``name.arch``. ``attr`` returns a list of attributes for each package: some of epoch, version, release, arch,
    install_date and install_date_time_t, or all. ``root`` is the folder of another system. rpm keeps no record of
    packages that are ``removed`` or ``purge_desired``.

    CLI Example::

        saltlite '*' pkg.list_pkgs
        saltlite '*' pkg.list_pkgs versions_as_list=True
        saltlite '*' pkg.list_pkgs attr=arch,install_date
    """
    if removed or purge_desired:
        return {}
    found = _rpm.installed(_rpm.native_architecture(__grains__), _rpm.root_folder(root))
    found.pop("gpg-pubkey", None)
    return _rpm.list_pkgs(found, versions_as_list, attr)


def list_installed(*names: str, versions_as_list: bool = False, root: str | None = None) -> dict[str, Any]:
    """The installed packages and their versions, or only the named ones; globs work.

    CLI Example::

        saltlite '*' pkg.list_installed
        saltlite '*' pkg.list_installed openssl 'python3*'
    """
    return _packages.select(list_pkgs(versions_as_list, root=root), names)


def version(*names: str, versions_as_list: bool = False, root: str | None = None) -> Any:
    """The installed version of a package, or a dict of versions for several; an empty string for none. Globs work.

    CLI Example::

        saltlite '*' pkg.version openssl
        saltlite '*' pkg.version openssl curl 'glibc*'
    """
    if not names:
        return ""
    asked = [_rpm.normalised(str(name), _rpm.native_architecture(__grains__)) for name in names]
    return _packages.versions(list_pkgs(versions_as_list, root=root), asked)


def normalize_name(name: str) -> str:
    """The name of a package without its architecture, if that is the architecture of this machine.

    CLI Example: ``saltlite '*' pkg.normalize_name zsh.x86_64``
    """
    return _rpm.normalised(str(name), _rpm.native_architecture(__grains__))


# --- locks


_FILE = "/etc/zypp/locks"


def hold(
    name: str | None = None, pkgs: list[Any] | None = None, root: str | None = None, test: bool = False
) -> dict[str, dict[str, Any]]:
    """Hold packages at their current version: ``{name: {name, changes, result, comment}}``.

    ``pkgs`` is a list of names or of ``{name: version}``, which locks only that version. ``test=True`` reports what
    would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.hold vim
        saltlite '*' pkg.hold pkgs='["foo", "bar"]'
    """
    locks = list_locks(root)
    report: dict[str, dict[str, Any]] = {}
    for each, version in _rpm.NAME_RULES.requested(name, pkgs).items():
        target = f"{each}={version.lstrip('=')}" if version else each
        problem = "" if each in locks or test else _problem(root, "addlock", target)
        report[each] = _packages.hold_report(each, "hold" if each in locks else "", "hold", problem, test=test)
    return report


def unhold(
    name: str | None = None, pkgs: list[Any] | None = None, root: str | None = None, test: bool = False
) -> dict[str, dict[str, Any]]:
    """Release held packages, so that upgrades change them again: ``{name: {name, changes, result, comment}}``.

    CLI Example: ``saltlite '*' pkg.unhold vim``
    """
    locks = list_locks(root)
    report: dict[str, dict[str, Any]] = {}
    for each, version in _rpm.NAME_RULES.requested(name, pkgs).items():
        locked = str(locks.get(each, {}).get("version", "")).lstrip("= ")
        problem = ""
        if each in locks and version and locked != version:
            problem = f"Package {each} is held in version {locked or 'any'}, not in {version}."
        elif each in locks and not test:
            problem = _problem(root, "removelock", f"{each}={locked}" if locked else each)
        report[each] = _packages.hold_report(each, "hold" if each in locks else "", "", problem, test=test)
    return report


def list_holds(pattern: str | None = None, full: bool = True, root: str | None = None) -> list[str]:
    """The installed packages that are held, with their versions, or only their names with ``full=False``.

    ``pattern`` is a regular expression for the beginning of the name.

    CLI Example::

        saltlite '*' pkg.list_holds
        saltlite '*' pkg.list_holds full=False
    """
    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise CommandExecutionError(f"{pattern!r} is not a regular expression: {error}.") from error
    locked = [name for name, lock in list_locks(root).items() if lock.get("type", "package") == "package"]
    if not locked:
        return []
    known = _rpm.info([], root=_rpm.root_folder(root), attr="edition,epoch", all_versions=True)
    found = []
    for name, rows in _packages.select(known, locked).items():
        for row in rows:
            evr = row["edition"].rpartition(":")[2]
            shown = f"{name}-{row.get('epoch', '0')}:{evr}.*" if full else name
            if wanted.match(shown) and shown not in found:
                found.append(shown)
    return found


def list_locks(root: str | None = None) -> dict[str, dict[str, str]]:
    """The locks: ``{name: {type, match_type, case_sensitive, ...}}``; a name may be a glob.

    CLI Example: ``saltlite '*' pkg.list_locks``
    """
    path = _rpm.below(_rpm.root_folder(root), _FILE)
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            blocks = re.split(r"\n\s*\n", stream.read())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}") from error
    found: dict[str, dict[str, str]] = {}
    for block in blocks:
        row = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block.splitlines())}
        row.pop("", None)
        if "solvable_name" in row:
            found[row.pop("solvable_name")] = row
    return found


def clean_locks(root: str | None = None) -> dict[str, int]:
    """Remove locks that match no package: ``{"removed": count}``.

    CLI Example: ``saltlite '*' pkg.clean_locks``
    """
    before = len(list_locks(root))
    if before:
        repositories.run(root, ["cleanlocks"]).checked()
    return {"removed": before - len(list_locks(root))}


def _problem(root: str | None, command: str, target: str) -> str:
    """Run a command; the reason if it fails, otherwise an empty string."""
    answer = repositories.run(root, [command], [target])
    return str(answer.failed()) if answer.done.returncode else ""


# --- changes


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
    name: str | None = None, refresh: bool = False, fromrepo: str | list[str] | None = None,
    pkgs: list[Any] | None = None, sources: list[Any] | None = None, **kwargs: Unpack[_Installing],
) -> dict[str, dict[str, str]]:  # fmt: skip
    """Install packages: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package, or several separated by commas, or a pattern or patch such as ``pattern:base``; ``version``
    selects its version, which may contain ``*`` or begin with ``<``, ``<=``, ``>`` or ``>=``. ``pkgs`` is a list of
    names or of ``{name: version}``; ``sources`` is a list of ``{name: /path/to/file.rpm}``, or of URLs such as
    ``salt://file.rpm``. ``fromrepo`` uses only these repositories. An older version is a downgrade.

    Further keyword arguments: ``reinstall``, ``downloadonly``, ``skip_verify`` (do not check signatures),
    ``no_recommends``, ``resolve_capabilities`` (a name may be a capability), ``ignore_repo_failure``, and ``root``, the
    folder of another system. ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install vim version='>=9.0'
        saltlite '*' pkg.install pkgs='["foo", {"bar": "1.2.3-4"}]' no_recommends=True
        saltlite '*' pkg.install sources='[{"foo": "/srv/foo.rpm"}]'
    """
    given = _packages.take(kwargs, *_Installing.__annotations__)
    root = given["root"]
    _packages.require_target(name, pkgs, sources)
    if refresh and not given["test"]:
        refresh_db(root=root)
    if sources:
        fetch = partial(__salt__["cp.cache_file"], saltenv=given["saltenv"] or "base")
        targets = _packages.package_files(sources, fetch)
    else:
        asked = repositories.TARGETS.requested(name, pkgs, given["version"])
        targets = [_specified(each, version, root) for each, version in asked.items()]
    command = [*(["--no-gpg-checks"] if given["skip_verify"] else []), "install", "--auto-agree-with-licenses"]
    command.append("--capability" if given["resolve_capabilities"] else "--name")
    if sources or given["version"] or pkgs:
        command.append("--oldpackage")
    if sources and given["skip_verify"]:
        command.append("--allow-unsigned-rpm")
    command += [option for key, option in _OPTIONS.items() if given[key]]
    command += [part for alias in repositories.repositories(fromrepo) for part in ("--from", alias)]
    also = (_REPOSITORIES_SKIPPED,) if given["ignore_repo_failure"] else ()
    if given["test"]:
        return _planned(root, command, targets)
    listing = partial(_downloaded if given["downloadonly"] else list_pkgs, root=root)
    changes = _packages.changed(listing, lambda: repositories.run(root, command, targets).checked(*also))
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
    """Upgrade all packages, or only the named ones; ``dist_upgrade`` may also add, remove and downgrade some.

    Returns what ``install`` returns. Further keyword arguments: ``fromrepo``, ``skip_verify``, ``root``, and with
    ``dist_upgrade`` also ``novendorchange`` and ``no_recommends``. ``test=True`` (or ``dryrun=True``) reports what
    would change, and changes nothing.

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
    command += [part for alias in repositories.repositories(given["fromrepo"]) for part in (selector, alias)]
    if whole and given["novendorchange"]:
        command.append("--no-allow-vendor-change")
    if whole and given["no_recommends"]:
        command.append("--no-recommends")
    names = [] if whole else list(repositories.TARGETS.requested(name, pkgs))
    if dry:
        return _planned(root, command, names)
    return _packages.changed(partial(list_pkgs, root=root), lambda: repositories.run(root, command, names).checked())


def remove(
    name: str | None = None, pkgs: list[Any] | None = None, root: str | None = None, test: bool = False
) -> dict[str, dict[str, str]]:
    """Remove packages, and packages that depend on them; those that are not installed are skipped.

    ``pkgs`` is a list of names or of ``{name: version}``, which removes only that version. ``root`` is the folder of
    another system. ``test=True`` reports what would change, and changes nothing. ``purge`` does the same: rpm leaves
    only changed configuration files, as ``NAME.rpmsave``.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", {"kernel-default": "6.4.0-150600.21.3"}]'
        saltlite '*' pkg.purge vim
    """
    present = list_pkgs(versions_as_list=True, root=root)
    native = _rpm.native_architecture(__grains__)
    targets = []
    for each, version in repositories.TARGETS.requested(name, pkgs).items():
        versions = present.get(_rpm.normalised(each, native), [])
        kind, colon, _ = each.partition(":")
        if (versions and (not version or version in versions)) or (colon and kind != "package"):
            targets.append(f"{each}={version}" if version else each)
    if not targets:
        return {}
    if test:
        return _planned(root, ["remove"], targets)
    return _packages.changed(
        partial(list_pkgs, root=root), lambda: repositories.run(root, ["remove"], targets).checked()
    )


purge = remove


def _specified(name: str, version: str, root: str | None) -> str:
    """`name=version` or `name>=version`. Raises CommandExecutionError if no version fits."""
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
    planned = repositories.run(root, [*command, "--dry-run"], names).checked().planned()
    return {name: {"old": present.get(name, ""), "new": new} for name, new in sorted(planned.items())}
