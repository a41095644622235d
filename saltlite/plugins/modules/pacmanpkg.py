"""Packages of Arch Linux and its derivatives, through pacman.

Most functions take ``root``, the absolute path of another root folder to work on. Its own ``etc/pacman.conf`` is used
if there is one. File paths are relative to that root.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       pacman, vercmp
:platform:      Arch Linux
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _packages
from saltlite.plugins.modules._packages import Changes

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__


NAME_RULES = _packages.NameRules(
    names=re.compile(r"[A-Za-z0-9@_+][A-Za-z0-9@._+-]*", re.ASCII),
    versions=re.compile(r"(?:[<>]=?|=)?[A-Za-z0-9][A-Za-z0-9.+:_~-]*", re.ASCII),
)
"""A version may begin with a comparison, as in `>=1.2-1`."""

UNASKED = ("--noconfirm", "--noprogressbar")
PLAN = ("--print", "--print-format", "%n %v")
"""Options of a transaction that is to be reported, and not done."""

_REASON = re.compile(r"^error: |breaks dependency|unable to satisfy dependency|in conflict|exists in filesystem")
_LOCK = re.compile(r"you can remove (/.*)$", re.MULTILINE)


def _pacman(arguments: Sequence[str], root: str | None) -> subprocess.CompletedProcess[str]:
    """Run pacman. Raises CommandNotFoundError, and SaltInvocationError for an invalid root."""
    return _packages.run(["pacman", *_place(root), *arguments])


def _checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """`done` if it succeeded; otherwise raises CommandExecutionError."""
    if done.returncode == 0:
        return done
    if "you cannot perform this operation unless you are root" in done.stderr:
        raise _packages.not_root()
    lock = _LOCK.search(done.stderr) if "unable to lock database" in done.stderr else None
    if lock is not None:
        raise CommandExecutionError(_locked(lock[1]))
    lines = [line.strip() for line in f"{done.stderr}\n{done.stdout}".splitlines()]
    reasons = [line.removeprefix("error: ").removeprefix(":: ") for line in lines if _REASON.search(line)]
    raise _packages.failure(done, reasons)


def _listing(arguments: Sequence[str], root: str | None) -> str:
    """The output of a query; pacman fails silently if there is nothing to list, which is not an error."""
    done = _pacman(arguments, root)
    return done.stdout if done.returncode == 1 and not done.stderr else _checked(done).stdout


def _fetched_lists(root: str | None) -> dict[str, tuple[int, int]]:
    """Repository -> modification time and inode of its package list; (0, 0) if it was never fetched."""
    _place(root)  # raises for an invalid root
    options = [*_configuration(root), *(["--rootdir", root] if root else [])]
    names = _checked(_packages.run(["pacman-conf", *options, "--repo-list"])).stdout.split()
    folder = _checked(_packages.run(["pacman-conf", *options, "DBPath"])).stdout.strip()
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            known = os.stat(os.path.join(folder, "sync", f"{name}.db"))
            found[name] = (known.st_mtime_ns, known.st_ino)
    return {name: found.get(name, (0, 0)) for name in names}


def _targets(wanted: dict[str, str]) -> list[str]:
    """The arguments for the requested packages: `name`, or `name` with a condition on its version."""
    return [
        f"{name}{version}" if version[:1] in ("<", ">", "=") else f"{name}={version}" if version else name
        for name, version in wanted.items()
    ]


def _compare(first: str, second: str) -> int:
    """-1, 0 or 1 if the first version is older, equal or newer."""
    done = _packages.run(["vercmp", NAME_RULES.version(first), NAME_RULES.version(second)])
    if done.returncode:
        raise _packages.failure(done, [])
    number = int(done.stdout)
    return (number > 0) - (number < 0)


def _place(root: str | None) -> list[str]:
    """The options that select another root, and its configuration."""
    if root is None:
        return []
    place = _packages.root_folder(root)
    options = ["--root", place, "--cachedir", os.path.join(place, "var/cache/pacman/pkg")]
    options += ["--hookdir", os.path.join(place, "etc/pacman.d/hooks")]
    return [*options, *_configuration(place)]


def _configuration(root: str | None) -> list[str]:
    own = os.path.join(root or "/", "etc/pacman.conf")
    return ["--config", own] if root and os.path.isfile(own) else []


def _locked(path: str) -> str:
    holder = _packages.lock_holder(path)
    way_out = "try again when that has ended"
    if not holder:
        way_out = f"no process of this machine has it open, so remove {path} if it was left behind"
    return f"The package database is locked by another package manager{holder}: {way_out}."


__virtualname__ = "pkg"

__risk__ = {"upgrade": "upgrade-all", "remove": "remove", "purge": "remove"}

_GROUP_PARTS = ("mandatory", "optional", "default", "conditional")
"""Kinds of membership that groups of other package managers have; all packages of a group are `default` here."""


class _Rooted(TypedDict, total=False):
    root: str | None


class _Listing(_Rooted, total=False):
    removed: bool
    purge_desired: bool


class _Latest(_Rooted, total=False):
    refresh: bool


class _Installing(_Rooted, total=False):
    version: str
    test: bool


class _Removing(_Rooted, total=False):
    test: bool


class _Offers(_Rooted, total=False):
    fromrepo: str
    byrepo: bool
    refresh: bool


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Arch":
        return False, "The pacman execution module cannot be loaded: only works on Arch family systems."
    if shutil.which("pacman") is None:
        return False, "The pacman execution module cannot be loaded: pacman is not installed."
    return __virtualname__


def list_pkgs(versions_as_list: bool = False, **kwargs: Unpack[_Listing]) -> dict[str, Any]:
    """The installed packages: ``{name: version}``, or ``{name: [versions]}`` with ``versions_as_list``.

    pacman keeps no record of removed packages: ``removed`` and ``purge_desired`` give an empty dict.

    CLI Example::

        saltlite '*' pkg.list_pkgs
        saltlite '*' pkg.list_pkgs versions_as_list=True
        saltlite '*' pkg.list_pkgs root=/mnt
    """
    given = _packages.take(kwargs, *_Listing.__annotations__)
    if given["removed"] or given["purge_desired"]:
        return {}
    rows = _rows(_listing(["-Q"], given["root"]))
    return _packages.listed({name: [version] for name, version in rows}, versions_as_list)


def list_installed(*names: str, **kwargs: Unpack[_Rooted]) -> dict[str, str]:
    """The installed packages and their versions, or only the named ones; globs work.

    CLI Example::

        saltlite '*' pkg.list_installed
        saltlite '*' pkg.list_installed openssl 'python-*'
    """
    return _packages.select(list_pkgs(**_rooted(kwargs)), names)


def version(*names: str, **kwargs: Unpack[_Rooted]) -> Any:
    """The installed version of a package, or a dict of versions for several; an empty string for none. Globs work.

    CLI Example::

        saltlite '*' pkg.version openssl
        saltlite '*' pkg.version openssl curl 'linux*'
    """
    return _packages.versions(list_pkgs(**_rooted(kwargs)), names)


def latest_version(*names: str, refresh: bool = False, root: str | None = None) -> Any:
    """The version that an install or upgrade would bring; an empty string if the package is up to date or unknown.

    Several names give a dict. ``refresh=True`` fetches the package lists first.

    CLI Example::

        saltlite '*' pkg.latest_version openssl
        saltlite '*' pkg.latest_version openssl curl refresh=True
        saltlite '*' pkg.available_version openssl
    """
    wanted = [NAME_RULES.name(name) for name in names]
    if not wanted:
        return ""
    if refresh:
        refresh_db(root=root)
    installed = list_pkgs(root=root)
    offered: dict[str, str] = {}
    for _, name, offer in _offers(root):
        offered.setdefault(name, offer)  # repositories come in the order in which pacman prefers them
    latest = {name: _newer(installed.get(name, ""), offered.get(name, "")) for name in wanted}
    return _packages.single(wanted, latest)


available_version = latest_version


def upgrade_available(name: str, **kwargs: Unpack[_Latest]) -> bool:
    """Whether an upgrade of the package is available.

    CLI Example: ``saltlite '*' pkg.upgrade_available openssl``
    """
    given = _packages.take(kwargs, *_Latest.__annotations__)
    return bool(latest_version(name, refresh=bool(given["refresh"]), root=given["root"]))


def list_upgrades(refresh: bool = True, root: str | None = None) -> dict[str, str]:
    """The packages that an upgrade would change, with their new versions.

    ``refresh=False`` uses the package lists as they are.

    CLI Example::

        saltlite '*' pkg.list_upgrades
        saltlite '*' pkg.list_upgrades refresh=False
    """
    if refresh:
        refresh_db(root=root)
    return dict(_rows(_listing(["-Su", *PLAN], root)))


def version_cmp(pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int:
    """Compare two versions as pacman does: -1, 0 or 1 when the first is older, equal or newer.

    CLI Example: ``saltlite '*' pkg.version_cmp 1.0-1 1:0.9-1``
    """
    return _packages.compare(_compare, pkg1, pkg2, ignore_epoch)


def refresh_db(root: str | None = None) -> dict[str, bool | None]:
    """Fetch the package lists: ``{repository: True}`` for a new list, False for one that was up to date.

    CLI Example: ``saltlite '*' pkg.refresh_db``
    """
    # The output of pacman depends on its version and the terminal, so the files are compared.
    before = _fetched_lists(root)
    _checked(_pacman(["-Sy", *UNASKED], root))
    return {name: known != before.get(name) for name, known in _fetched_lists(root).items()}


def install(
    name: str | None = None, refresh: bool = False, sysupgrade: bool | None = None, pkgs: list[Any] | None = None,
    sources: list[Any] | None = None, **kwargs: Unpack[_Installing],
) -> Changes:  # fmt: skip
    """Install packages: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package or group, or several separated by commas; ``version`` selects its version. ``pkgs`` is a
    list of names or of ``{name: version}``; a version may begin with ``<``, ``<=``, ``>=`` or ``>``. ``sources`` is a
    list of ``{name: /path/to/file.pkg.tar.zst}``, with paths of the minion or URLs of the file server. ``refresh``
    fetches the package lists and upgrades everything, because Arch does not support partial upgrades;
    ``sysupgrade=False`` prevents the upgrade. ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install pkgs='["foo", {"bar": ">=1.2.3-4"}]'
        saltlite '*' pkg.install sources='[{"foo": "salt://foo-1.0-1-any.pkg.tar.zst"}]'
    """
    given = _packages.take(kwargs, *_Installing.__annotations__)
    test, root = given["test"], given["root"]
    if sources:
        argv = ["-U", "--needed", "--", *_packages.package_files(sources, __salt__["cp.cache_file"])]
    else:
        whole = refresh if sysupgrade is None else sysupgrade
        options = [option for option, wanted in (("-y", refresh and not test), ("-u", whole)) if wanted]
        if not whole:
            _packages.require_target(name, pkgs, sources)
        named = _targets(NAME_RULES.requested(name, pkgs, given["version"]))
        if not named and not whole:
            return {}
        argv = ["-S", *options, "--needed", "--", *named]
    return _change(argv, root=root, test=test)


def upgrade(refresh: bool = True, root: str | None = None, test: bool = False) -> Changes:
    """Upgrade all packages. Returns what ``install`` returns.

    ``refresh=False`` uses the package lists as they are. ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade refresh=False
    """
    return _change(["-Su", *(["-y"] if refresh and not test else [])], root=root, test=test)


def remove(name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Removing]) -> Changes:
    """Remove packages; those that are not installed are skipped. ``test=True`` reports what would change.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", "bar"]'
    """
    return _remove("-R", NAME_RULES.requested(name, pkgs), kwargs)


def purge(name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Removing]) -> Changes:
    """Remove packages, all packages that depend on them, their unneeded dependencies, and their configuration files.

    ``test=True`` reports what would change, and changes nothing.

    CLI Example: ``saltlite '*' pkg.purge vim``
    """
    return _remove("-Rnsc", NAME_RULES.requested(name, pkgs), kwargs)


def file_list(*packages: str, **kwargs: Unpack[_Rooted]) -> dict[str, Any]:
    """The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example: ``saltlite '*' pkg.file_list bash``
    """
    return _packages.file_list(file_dict(*packages, **kwargs))


def file_dict(*packages: str, **kwargs: Unpack[_Rooted]) -> dict[str, Any]:
    """The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example: ``saltlite '*' pkg.file_dict bash``
    """
    root = _rooted(kwargs)["root"]
    installed = list_pkgs(root=root)
    wanted = [NAME_RULES.name(name) for name in packages]
    errors = [f"Package {name} is not installed." for name in wanted if name not in installed]
    there = [name for name in wanted if name in installed]
    found: dict[str, list[str]] = {name: [] for name in there}
    if there or not wanted:
        above = (root or "").rstrip("/")
        for name, path in _rows(_listing(["-Ql", "--", *there], root)):
            found.setdefault(name, []).append(path.removeprefix(above))
    return {"errors": errors, "packages": found}


def owner(*paths: str, **kwargs: Unpack[_Rooted]) -> Any:
    """The package that a file belongs to, or a dict for several files; an empty string for none.

    CLI Example::

        saltlite '*' pkg.owner /usr/bin/pacman
        saltlite '*' pkg.owner /usr/bin/pacman /usr/bin/bash
    """
    root = _rooted(kwargs)["root"]
    found: dict[str, str] = {}
    for path in paths:
        place = _packages.path(path)
        inside = os.path.join(root, place.lstrip("/")) if root and os.path.isabs(place) else place
        done = _pacman(["-Qqo", "--", inside], root)
        found[path] = ",".join(done.stdout.split()) if done.returncode == 0 else ""
    return found[paths[0]] if len(paths) == 1 else found if paths else ""


def group_list(root: str | None = None) -> dict[str, list[str]]:
    """The groups of packages by state: ``installed``, ``partially_installed`` and ``available``.

    CLI Example: ``saltlite '*' pkg.group_list``
    """
    there = _groups(["-Sgg"], root)
    installed = _groups(["-Qg"], root)
    found: dict[str, list[str]] = {"installed": [], "partially_installed": [], "available": []}
    for group, members in sorted(there.items()):
        have = members & installed.get(group, set())
        part = "installed" if have == members else "partially_installed" if have else "available"
        found[part].append(group)
    return found


def group_info(name: str, root: str | None = None) -> dict[str, list[str]]:
    """The packages of a group: ``{"mandatory": [], "optional": [], "default": [names], "conditional": []}``.

    CLI Example: ``saltlite '*' pkg.group_info xorg``
    """
    members = _groups(["-Sgg", "--", NAME_RULES.name(name)], root)
    return {part: sorted(members.get(name, ())) if part == "default" else [] for part in _GROUP_PARTS}


def group_diff(name: str, root: str | None = None) -> dict[str, dict[str, list[str]]]:
    """Which packages of a group are installed: ``{"default": {"installed": [], "not installed": []}, …}``.

    CLI Example: ``saltlite '*' pkg.group_diff xorg``
    """
    return _packages.group_difference(group_info(name, root=root), list_pkgs(root=root))


def list_repo_pkgs(*args: str, **kwargs: Unpack[_Offers]) -> dict[str, Any]:
    """The packages that repositories offer: ``{name: [versions]}``, newest first. Names may be globs.

    ``fromrepo`` selects repositories, separated by commas. ``byrepo=True`` gives ``{repository: {name: [versions]}}``.
    ``refresh=True`` fetches the package lists first.

    CLI Example::

        saltlite '*' pkg.list_repo_pkgs bash
        saltlite '*' pkg.list_repo_pkgs 'python-*' fromrepo=core,extra byrepo=True
    """
    given = _packages.take(kwargs, *_Offers.__annotations__)
    if given["refresh"]:
        refresh_db(root=given["root"])
    chosen = _packages.words(given["fromrepo"])
    rows = (row for row in _offers(given["root"]) if not chosen or row[0] in chosen)
    found = (row for row in rows if _packages.matches(row[1], args))
    return _packages.offers(found, _compare, by_repository=given["byrepo"])


def _change(argv: Sequence[str], *, root: str | None, test: Any) -> Changes:
    """Run a transaction and compare the installed packages before and after; for a test ask pacman for its plan."""
    if not test:
        return _packages.changed(lambda: list_pkgs(root=root), lambda: _checked(_pacman([*UNASKED, *argv], root)))
    plan = _rows(_listing([*PLAN, *argv], root))
    installed = list_pkgs(root=root)
    gone = argv[0].startswith("-R")
    after = {**installed, **dict(plan)} if not gone else {k: v for k, v in installed.items() if k not in dict(plan)}
    return _packages.difference(installed, after)


def _remove(option: str, wanted: dict[str, str], kwargs: _Removing) -> Changes:
    given = _packages.take(kwargs, *_Removing.__annotations__)
    installed = list_pkgs(root=given["root"])
    there = [name for name in wanted if name in installed]
    return _change([option, "--", *there], root=given["root"], test=given["test"]) if there else {}


def _rooted(kwargs: _Rooted) -> dict[str, Any]:
    return _packages.take(kwargs, "root")


def _rows(output: str) -> list[tuple[str, str]]:
    """The first word and the rest of each line."""
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in output.splitlines()) if rest]


def _offers(root: str | None) -> list[tuple[str, str, str]]:
    """Repository, name and version of every package that repositories offer."""
    lines = _listing(["-Sl"], root).splitlines()
    return [(words[0], words[1], words[2]) for words in map(str.split, lines) if len(words) > 2]


def _groups(arguments: Sequence[str], root: str | None) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for group, name in _rows(_listing(arguments, root)):
        found.setdefault(group, set()).add(name)
    return found


def _newer(installed: str, offer: str) -> str:
    return offer if offer and offer != installed and (not installed or _compare(offer, installed) > 0) else ""
