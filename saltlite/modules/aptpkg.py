"""Packages of Debian and its derivatives, through apt and dpkg.

Every command is an argument list with ``--`` before names; no shell is involved. Names that start with a
hyphen are refused.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       apt-get, apt-cache, apt-mark, dpkg
:platform:      Debian
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError
from saltlite.modules import _apt

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__virtualname__ = "pkg"

__risk__ = {"upgrade": "upgrade-all", "remove": "remove", "purge": "remove", "autoremove": "remove"}

_LISTS = "/var/lib/apt/lists"


class _Listing(TypedDict, total=False):
    versions_as_list: bool
    removed: bool
    purge_desired: bool


class _Refreshing(TypedDict, total=False):
    cache_valid_time: float


class _Choice(_Refreshing, total=False):
    fromrepo: str


class _Latest(_Choice, total=False):
    refresh: bool


class _Upgrading(_Refreshing, total=False):
    force_conf_new: bool
    downloadonly: bool
    skip_verify: bool
    test: bool


class _Installing(_Upgrading, total=False):
    version: str
    reinstall: bool
    only_upgrade: bool
    install_recommends: bool


class _Info(TypedDict, total=False):
    attr: str | list[str]
    failhard: bool


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Debian":
        return False, "The apt execution module cannot be loaded: only works on Debian family systems."
    if shutil.which("apt-get") is None:
        return False, "The apt execution module cannot be loaded: apt-get is not installed."
    return __virtualname__


def list_pkgs(versions_as_list: bool = False, removed: bool = False, purge_desired: bool = False) -> dict[str, Any]:
    """
    The installed packages: ``{name: version}``, or ``{name: [versions]}`` with ``versions_as_list``.

    With ``removed`` those that were removed and not purged, with ``purge_desired`` those marked to be purged.

    CLI Example::

        saltlite '*' pkg.list_pkgs
        saltlite '*' pkg.list_pkgs versions_as_list=True
    """
    found = __salt__["lowpkg.list_pkgs"](removed=removed, purge_desired=purge_desired)
    return found if versions_as_list else {name: ",".join(versions) for name, versions in found.items()}


def list_installed(*names: str, **kwargs: Unpack[_Listing]) -> dict[str, str]:
    """
    The installed packages and their versions, or only the named ones; globs work.

    CLI Example::

        saltlite '*' pkg.list_installed
        saltlite '*' pkg.list_installed openssl 'python3*'
    """
    installed: dict[str, str] = list_pkgs(**_apt.take(kwargs, "versions_as_list", "removed", "purge_desired"))
    if not names:
        return installed
    return {
        name: version
        for name, version in installed.items()
        if any(fnmatch.fnmatchcase(name, str(wanted)) for wanted in names)
    }


def version(*names: str, **kwargs: Unpack[_Listing]) -> str | dict[str, str]:
    """
    The installed version of a package, or a dict of versions for several; an empty text for none. Globs work.

    CLI Example::

        saltlite '*' pkg.version openssl
        saltlite '*' pkg.version openssl curl 'libc*'
    """
    if not names:
        return ""
    installed = list_pkgs(**_apt.take(kwargs, "versions_as_list", "removed", "purge_desired"))
    found: dict[str, str] = {}
    for name in map(str, names):
        matching = [each for each in installed if fnmatch.fnmatchcase(each, name)]
        found.update({each: installed[each] for each in matching} or {name: ""})
    return next(iter(found.values())) if len(names) == 1 and len(found) == 1 else found


def latest_version(*names: str, refresh: bool = True, **kwargs: Unpack[_Choice]) -> str | dict[str, str]:
    """
    The version that an install or upgrade would bring, or an empty text when the package is up to date or
    unknown.

    Several names give a dict. ``refresh=False`` works with the package lists as they are;
    ``cache_valid_time=SECONDS`` refreshes only older ones; ``fromrepo`` names a release.

    CLI Example::

        saltlite '*' pkg.latest_version openssl
        saltlite '*' pkg.latest_version openssl curl refresh=False
    """
    options = _apt.take(kwargs, "cache_valid_time", "fromrepo")
    if not names:
        return ""
    if refresh:
        refresh_db(options["cache_valid_time"] or 0)
    wanted = [_apt.name(name) for name in names]
    release = ["-t", _apt.version(options["fromrepo"])] if options["fromrepo"] else []
    done = _apt.checked(_apt.run(["apt-cache", "-q", *release, "policy", "--", *wanted]))
    candidates: dict[str, tuple[str, str]] = {}
    for block in re.split(r"^(?=\S)", done.stdout, flags=re.MULTILINE):
        header, _, body = block.partition("\n")
        rows = dict(re.findall(r"^  (Installed|Candidate): (\S+)", body, re.MULTILINE))
        candidates[header.rstrip(":")] = (rows.get("Installed", "(none)"), rows.get("Candidate", "(none)"))
    latest = {name: _newer(*candidates.get(name, ("(none)", "(none)"))) for name in wanted}
    return latest[wanted[0]] if len(wanted) == 1 else latest


def available_version(*names: str, **kwargs: Unpack[_Latest]) -> str | dict[str, str]:
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


def version_cmp(pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int:
    """
    Compare two versions as dpkg does: -1, 0 or 1 when the first is older, equal or newer.

    CLI Example::

        saltlite '*' pkg.version_cmp '0.2.4-0ubuntu1' '0.2.4.1-0ubuntu1'
    """
    first, second = str(pkg1), str(pkg2)
    if ignore_epoch:
        first, second = first.rpartition(":")[2], second.rpartition(":")[2]
    return _apt.compare_versions(first, second)


def list_upgrades(refresh: bool = True, dist_upgrade: bool = True, **kwargs: Unpack[_Refreshing]) -> dict[str, str]:
    """
    The packages that an upgrade would change, with their new versions.

    CLI Example::

        saltlite '*' pkg.list_upgrades
        saltlite '*' pkg.list_upgrades refresh=False
    """
    options = _apt.take(kwargs, "cache_valid_time")
    if refresh:
        refresh_db(options["cache_valid_time"] or 0)
    done = _apt.apt_get(["--simulate", "dist-upgrade" if dist_upgrade else "upgrade"])
    return dict(re.findall(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+)", done.stdout, re.MULTILINE))


def refresh_db(cache_valid_time: float = 0, failhard: bool = False) -> dict[str, bool | None]:
    """
    Fetch the package lists: ``{source: True}`` for a new list, None for an unchanged one, False for a
    failure.

    Nothing is fetched when the lists are younger than ``cache_valid_time`` seconds; the result is then empty.
    ``failhard`` raises an error when a source fails.

    CLI Example::

        saltlite '*' pkg.refresh_db
    """
    if cache_valid_time and time.time() - os.stat(_LISTS).st_mtime < float(cache_valid_time):
        return {}
    done = _apt.run(["apt-get", "-q", "update"])
    _apt.refuse_locked(done)
    states: dict[str, bool | None] = {"Get": True, "Hit": None, "Ign": False, "Err": False}
    lines = re.findall(r"^(Get|Hit|Ign|Err):\d+ (.+?)(?: \[[^\]]*\])?$", done.stdout, re.MULTILINE)
    sources = {source: states[word] for word, source in lines}
    failed = [source for word, source in lines if word == "Err"]
    if failhard and (failed or done.returncode):
        raise CommandExecutionError(f"Some package lists were not fetched: {', '.join(failed) or _apt.reason(done)}")
    if done.returncode and not sources:
        raise CommandExecutionError(f"The package lists were not fetched: {_apt.reason(done)}")
    return sources


def install(
    name: str | None = None,
    refresh: bool = False,
    fromrepo: str | None = None,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    **kwargs: Unpack[_Installing],
) -> dict[str, dict[str, str]]:
    """
    Install packages: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package, or several parted by commas; ``version`` wants that version of it. ``pkgs`` is
    a list of names or of ``{name: version}``; ``sources`` a list of ``{name: /path/to/file.deb}``.
    ``fromrepo`` names a release. Further keyword arguments: ``reinstall``, ``downloadonly``,
    ``skip_verify`` (do not check signatures), ``only_upgrade``, ``force_conf_new``, ``install_recommends``
    (True) and ``cache_valid_time``. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install vim version=2:9.0.1378-2
        saltlite '*' pkg.install pkgs='[foo, {bar: 1.2.3}]'
        saltlite '*' pkg.install sources='[{foo: /srv/foo.deb}]'
    """
    given = _apt.take(kwargs, *_Installing.__annotations__)
    if refresh and not given["test"]:
        refresh_db(given["cache_valid_time"] or 0)
    targets = _apt.package_files(sources) if sources else _apt.targets(name, pkgs, given["version"])
    options = _apt.configuration_options(take_new=bool(given["force_conf_new"]))
    options += [option for key, option in _apt.OPTIONS.items() if given[key]]
    if given["install_recommends"] is False:
        options.append("--no-install-recommends")
    if fromrepo:
        options += ["-t", _apt.version(fromrepo)]
    return _change([*options, "--allow-downgrades", "install", "--", *targets], test=given["test"])


def upgrade(
    refresh: bool = True, dist_upgrade: bool = False, **kwargs: Unpack[_Upgrading]
) -> dict[str, dict[str, str]]:
    """
    Upgrade all packages; ``dist_upgrade`` may also add and remove some.

    Returns what ``install`` returns. Further keyword arguments: ``downloadonly``, ``skip_verify``,
    ``force_conf_new`` and ``cache_valid_time``. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade dist_upgrade=True
    """
    given = _apt.take(kwargs, *_Upgrading.__annotations__)
    if refresh and not given["test"]:
        refresh_db(given["cache_valid_time"] or 0)
    options = _apt.configuration_options(take_new=bool(given["force_conf_new"]))
    options += [_apt.OPTIONS[key] for key in ("downloadonly", "skip_verify") if given[key]]
    return _change([*options, "dist-upgrade" if dist_upgrade else "upgrade"], test=given["test"])


def remove(name: str | None = None, pkgs: list[Any] | None = None, test: bool = False) -> dict[str, dict[str, str]]:
    """
    Remove packages and leave their configuration files; those that are not installed are skipped.
    ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", "bar"]'
    """
    installed = list_pkgs()
    targets = [each for each in _apt.targets(name, pkgs) if each in installed]
    return _change(["remove", "--", *targets], test=test) if targets else {}


def purge(name: str | None = None, pkgs: list[Any] | None = None, test: bool = False) -> dict[str, dict[str, str]]:
    """
    Remove packages with their configuration files. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.purge vim
    """
    leftovers = list_pkgs(removed=True)
    known = {**leftovers, **list_pkgs()}
    targets = [each for each in _apt.targets(name, pkgs) if each in known]
    if not targets:
        return {}
    changes = _change(["purge", "--", *targets], test=test)
    gone = {each: {"old": leftovers[each], "new": ""} for each in targets if each in leftovers}
    return {**gone, **changes}


def autoremove(list_only: bool = False, purge: bool = False, test: bool = False) -> Any:
    """
    Remove packages that nothing needs any more. ``list_only`` and ``test=True`` only tell which: names, or changes.

    CLI Example::

        saltlite '*' pkg.autoremove
        saltlite '*' pkg.autoremove list_only=True
    """
    options = ["--purge"] if purge else []
    if list_only:
        done = _apt.apt_get(["--simulate", *options, "autoremove"])
        return re.findall(r"^(?:Remv|Purg) (\S+)", done.stdout, re.MULTILINE)
    return _change([*options, "autoremove"], test=test)


def hold(name: str | None = None, pkgs: list[Any] | None = None) -> dict[str, dict[str, Any]]:
    """
    Keep packages at their version: ``{name: {name, changes, result, comment}}``.

    CLI Example::

        saltlite '*' pkg.hold vim
        saltlite '*' pkg.hold pkgs='["foo", "bar"]'
    """
    return _mark(_apt.targets(name, pkgs), "hold")


def unhold(name: str | None = None, pkgs: list[Any] | None = None) -> dict[str, dict[str, Any]]:
    """
    Let packages be upgraded again: ``{name: {name, changes, result, comment}}``.

    CLI Example::

        saltlite '*' pkg.unhold vim
    """
    return _mark(_apt.targets(name, pkgs), "unhold")


def list_holds() -> list[str]:
    """
    The packages that are kept at their version.

    CLI Example::

        saltlite '*' pkg.list_holds
    """
    selections = _apt.checked(_apt.run(["dpkg", "--get-selections"])).stdout.splitlines()
    return [name for name, want in (line.split() for line in selections) if want == "hold"]


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


def info_installed(*names: str, **kwargs: Unpack[_Info]) -> dict[str, dict[str, str]]:
    """
    What is known of the named packages, or of all installed ones.

    ``attr`` limits the answer to some of version, arch, description, group, packager, url, source and size.
    ``failhard=False`` leaves out packages that are not installed, where otherwise an error is raised.

    CLI Example::

        saltlite '*' pkg.info_installed dpkg
        saltlite '*' pkg.info_installed dpkg openssl attr=version,arch
    """
    given = _apt.take(kwargs, "attr", "failhard")
    attributes = given["attr"]
    found: dict[str, dict[str, str]] = __salt__["lowpkg.info"](*names)
    missing = [name for name in names if not fnmatch.filter(found, name)]
    if missing and given["failhard"] is not False:
        raise CommandExecutionError(f"Not installed: {', '.join(missing)}")
    if not attributes:
        return found
    kept = attributes.split(",") if isinstance(attributes, str) else list(attributes)
    return {name: {key: row[key] for key in kept if key in row} for name, row in found.items()}


def _change(argv: Sequence[str], *, test: bool) -> dict[str, dict[str, str]]:
    """Run apt-get and compare the installed packages before and after; for a test ask it what it would do."""
    if test:
        return _apt.simulate(argv)
    before = list_pkgs()
    failure: CommandExecutionError | None = None
    try:
        _apt.apt_get(argv)
    except CommandExecutionError as error:
        failure = error
    after = list_pkgs()
    changes = {
        name: {"old": before.get(name, ""), "new": after.get(name, "")}
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }
    if failure is not None:
        done = f" Changed before it failed: {', '.join(changes)}." if changes else ""
        raise CommandExecutionError(f"{failure}{done}") from failure
    return changes


def _mark(names: Sequence[str], verb: str) -> dict[str, dict[str, Any]]:
    held = set(list_holds())
    report: dict[str, dict[str, Any]] = {}
    for name in names:
        old = "hold" if name in held else "install"
        new = "hold" if verb == "hold" else "install"
        report[name] = {
            "name": name,
            "changes": {},
            "result": True,
            "comment": f"Package {name} is already so.",
        }
        if old == new:
            continue
        done = _apt.run(["apt-mark", verb, "--", name])
        _apt.refuse_locked(done)
        if done.returncode:
            report[name].update(result=False, comment=_apt.reason(done))
        else:
            comment = f"Package {name} is now {'being held' if new == 'hold' else 'no longer held'}."
            report[name].update(changes={"old": old, "new": new}, comment=comment)
    return report


def _newer(installed: str, candidate: str) -> str:
    if candidate in {"(none)", installed}:
        return ""
    if installed == "(none)" or _apt.compare_versions(candidate, installed) > 0:
        return candidate
    return ""
