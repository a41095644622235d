"""Installed packages, everything that changes them, version locks, and groups of packages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages, _rpm

from . import dnf
from .repositories import list_downloaded, list_repo_pkgs, refresh_db

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__


__risk__ = {
    "upgrade": "upgrade-all", "update": "upgrade-all", "remove": "remove", "purge": "remove", "autoremove": "remove"
}  # fmt: skip

_SIDE_BY_SIDE = ("kernel", "kernel-core", "kernel-devel", "kernel-modules", "kernel-modules-core", "kernel-headers")
"""Packages of which several versions can be installed: installing an older one is not a downgrade."""


_OPTIONS = {"skip_verify": "--nogpgcheck", "downloadonly": "--downloadonly"}
"""Keyword argument -> option of dnf and yum."""


class _Wanted(NamedTuple):
    """One requested package: its normalized name, its version or an empty string, and the argument for dnf."""

    name: str
    version: str
    target: str


class _Root(TypedDict, total=False):
    root: str
    installroot: str


class _Sources(_Root, total=False):
    repo: str | list[str]
    enablerepo: str | list[str]
    disablerepo: str | list[str]
    disableexcludes: str
    setopt: str | list[str]


class _Upgrading(_Sources, total=False):
    fromrepo: str | list[str]
    skip_verify: bool
    downloadonly: bool
    minimal: bool
    obsoletes: bool
    dist_upgrade: bool
    test: bool


class _Installing(_Sources, total=False):
    version: str
    skip_verify: bool
    downloadonly: bool
    reinstall: bool
    normalize: bool
    update_holds: bool
    saltenv: str
    test: bool


class _Removing(_Sources, total=False):
    test: bool


def list_pkgs(
    versions_as_list: bool = False, removed: bool = False, purge_desired: bool = False, *,
    attr: str | list[str] | None = None, root: str | None = None,
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


# --- changes


def install(
    name: str | None = None, refresh: bool = False, fromrepo: str | list[str] | None = None,
    pkgs: list[Any] | None = None, sources: list[Any] | None = None, **kwargs: Unpack[_Installing],
) -> dict[str, dict[str, str]]:  # fmt: skip
    """Install packages: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package, or several separated by commas; ``version`` selects its version, which may contain ``*`` or
    begin with ``<``, ``<=``, ``>`` or ``>=``. ``pkgs`` is a list of names or of ``{name: version}``; ``sources`` is a
    list of ``{name: /path/to/file.rpm}``, or of URLs such as ``salt://file.rpm``. ``fromrepo`` uses only these
    repositories, ``enablerepo`` and ``disablerepo`` add or remove some. An older version is a downgrade.

    Further keyword arguments: ``reinstall``, ``downloadonly``, ``skip_verify`` (do not check signatures),
    ``normalize=False`` (the name may end like an architecture), ``update_holds`` (change held packages too, and hold
    their new versions), ``disableexcludes``, ``setopt``, and ``root`` or ``installroot``, the folder of another system.
    ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install vim version='>=9.0'
        saltlite '*' pkg.install pkgs='["foo", {"bar": "1.2.3-4.el9"}]' fromrepo=epel
        saltlite '*' pkg.install sources='[{"foo": "/srv/foo.rpm"}]'
    """
    given = {**_packages.take(kwargs, *_Installing.__annotations__), "fromrepo": fromrepo}
    _packages.require_target(name, pkgs, sources)
    if refresh and not given["test"]:
        refresh_db(check_update=False, **_repositories(given))
    if sources:
        fetch = partial(__salt__["cp.cache_file"], saltenv=given["saltenv"] or "base")
        wanted = [_of_file(path) for path in _packages.package_files(sources, fetch)]
    else:
        asked = dnf.TARGETS.requested(name, pkgs, given["version"])
        wanted = [_target(each, version, given) for each, version in asked.items()]
    options = [option for key, option in _OPTIONS.items() if given[key]]
    found = _commands(wanted, given)
    calls = [([*options, *_argv(command)], [each.target for each in several]) for command, several in found.items()]
    if given["test"]:
        return _planned(given, calls)

    def act() -> None:
        with _released([each.name for each in wanted] if given["update_holds"] else [], given):
            for command, names in calls:
                dnf.change(given, command, names)

    changes = _packages.changed(_listing(given), act)
    if "reinstall" in found and not given["downloadonly"]:
        now = list_pkgs(root=dnf.root_of(given) or None)
        again = [each.name for each in found["reinstall"] if each.name in now]
        changes = {**{name: {"old": now[name], "new": now[name]} for name in again}, **changes}
    return changes


@contextmanager
def _released(names: Sequence[str], given: Mapping[str, Any]) -> Iterator[None]:
    """Release those of the packages that are held, and hold them again afterwards, even after a failure."""
    root = dnf.root_of(given)
    held = sorted(set(list_holds(full=False, root=root)) & set(names)) if names else []
    if not held:
        yield
        return
    try:
        problems = [row["comment"] for row in unhold(pkgs=held, root=root).values() if not row["result"]]
        if problems:
            raise CommandExecutionError("; ".join(problems))
        yield
    finally:
        hold(pkgs=held, root=root)


def upgrade(
    name: str | None = None, pkgs: list[Any] | None = None, refresh: bool = True, **kwargs: Unpack[_Upgrading]
) -> dict[str, dict[str, str]]:
    """Upgrade all packages, or only the named ones. Returns what ``install`` returns.

    Further keyword arguments: the repository options of ``install``, ``skip_verify``, ``downloadonly``, ``minimal``
    (upgrade to the first version that fixes something) and ``obsoletes=False`` (do not replace packages by others).
    ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade name=openssl
        saltlite '*' pkg.upgrade minimal=True
        saltlite '*' pkg.update
    """
    given = _packages.take(kwargs, *_Upgrading.__annotations__)
    if refresh and not given["test"]:
        refresh_db(check_update=False, **_repositories(given))
    names = list(dnf.TARGETS.requested(name, pkgs))
    options = [option for key, option in _OPTIONS.items() if given[key]]
    if given["obsoletes"] is False:
        options.append("--setopt=obsoletes=0")
    command = [*options, "upgrade-minimal" if given["minimal"] else "upgrade"]
    if given["test"]:
        return _planned(given, [(command, names)])
    return _packages.changed(_listing(given), partial(dnf.change, given, command, names))


update = upgrade


def remove(
    name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Removing]
) -> dict[str, dict[str, str]]:
    """Remove packages, and packages that depend on them; those that are not installed are skipped.

    ``pkgs`` is a list of names or of ``{name: version}``, which removes only that version. ``root`` or ``installroot``
    is the folder of another system. ``test=True`` reports what would change, and changes nothing. ``purge`` does the
    same: rpm leaves only changed configuration files, as ``NAME.rpmsave``.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", {"kernel": "5.14.0-362.el9"}]'
        saltlite '*' pkg.purge vim
    """
    given = _packages.take(kwargs, *_Removing.__annotations__)
    present = list_pkgs(versions_as_list=True, root=dnf.root_of(given) or None)
    native = _rpm.native_architecture(__grains__)
    names = []
    for each, version in _rpm.NAME_RULES.requested(name, pkgs).items():
        shown = _rpm.normalised(each, native)
        if shown in present and (not version or version in present[shown]):
            names.append(_specified(each, version))
    if not names:
        return {}
    if given["test"]:
        return _planned(given, [(["remove"], names)])
    return _packages.changed(_listing(given), partial(dnf.change, given, ["remove"], names))


purge = remove


def autoremove(list_only: bool = False, **kwargs: Unpack[_Removing]) -> Any:
    """Remove packages that are no longer needed. ``list_only`` only returns their names, ``test=True`` the changes.

    CLI Example::

        saltlite '*' pkg.autoremove
        saltlite '*' pkg.autoremove list_only=True
    """
    given = _packages.take(kwargs, *_Removing.__annotations__)
    if list_only or given["test"]:
        planned = _planned(given, [(["autoremove"], [])])
        return sorted(planned) if list_only else planned
    return _packages.changed(_listing(given), partial(dnf.change, given, ["autoremove"]))


def _repositories(given: Mapping[str, Any]) -> Any:
    return {key: given[key] for key in dnf.REPOSITORY_KEYS if given.get(key)}


def _listing(given: Mapping[str, Any]) -> Any:
    """The listing to compare before and after: installed packages, or downloaded ones with `downloadonly`."""
    root = dnf.root_of(given) or None
    if given.get("downloadonly"):
        return lambda: {name: ",".join(sorted(versions)) for name, versions in list_downloaded(root).items()}
    return partial(list_pkgs, root=root)


def _of_file(path: str) -> _Wanted:
    name, epoch, version, release, arch = _rpm.of_package_file(path, ("NAME", "EPOCH", "VERSION", "RELEASE", "ARCH"))
    shown = _rpm.shown_name(name, arch, _rpm.native_architecture(__grains__))
    return _Wanted(shown, _rpm.full_version(epoch, version, release), path)


def _target(name: str, version: str, given: Mapping[str, Any]) -> _Wanted:
    """The argument for dnf for a name and a version. Raises CommandExecutionError if no version fits."""
    native = _rpm.native_architecture(__grains__)
    shown = name if given["normalize"] is False else _rpm.normalised(name, native)
    if not version:
        return _Wanted(shown, "", name)
    exact = version
    comparison = version[: len(version) - len(version.lstrip("<>="))]
    if comparison in ("<", "<=", ">", ">="):
        offered = list_repo_pkgs(name, **_repositories(given)).get(shown, [])
        bound = version[len(comparison) :]
        exact = next((each for each in offered if _fits(_rpm.compare(each, bound), comparison)), "")
        if not exact:
            known = ", ".join(offered) or "none"
            raise CommandExecutionError(f"No version of {name} is {version}; there are: {known}")
    exact = exact.lstrip("=")
    return _Wanted(shown, exact, _specified(name, exact))


def _fits(order: int, comparison: str) -> bool:
    return (order == 0 and "=" in comparison) or (order < 0 if "<" in comparison else order > 0)


def _specified(name: str, version: str) -> str:
    """`name-version`, with the architecture at the end if the name has one."""
    if not version:
        return name
    if dnf.program() == "yum":
        version = version.rpartition(":")[2]  # yum knows an epoch only together with an architecture
    bare, arch = _rpm.split_architecture(name)
    return f"{bare}-{version}.{arch}" if arch else f"{bare}-{version}"


def _commands(wanted: Sequence[_Wanted], given: Mapping[str, Any]) -> dict[str, list[_Wanted]]:
    """The requested packages by the command that installs them: install, downgrade or reinstall."""
    present = list_pkgs(versions_as_list=True, root=dnf.root_of(given) or None)
    found: dict[str, list[_Wanted]] = {}
    for each in wanted:
        versions = present.get(each.name, [])
        exact = bool(each.version) and "*" not in each.version
        if given["reinstall"] and any(not exact or not _rpm.compare(each.version, old) for old in versions):
            command = "reinstall"
        elif exact and each.name not in _SIDE_BY_SIDE and versions:
            older = all(_rpm.compare(each.version, old) < 0 for old in versions)
            command = "downgrade" if older else "install"
        else:
            command = "install"
        found.setdefault(command, []).append(each)
    return found


def _argv(command: str) -> list[str]:
    # Like pkg.install of Salt: install the newest version or fail, and replace conflicting packages.
    return [command, "--best", "--allowerasing"] if command == "install" and dnf.program() != "yum" else [command]


def _planned(given: Mapping[str, Any], commands: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, Any]:
    present = list_pkgs(root=dnf.root_of(given) or None)
    native = _rpm.native_architecture(__grains__)
    planned: dict[str, str] = {}
    for command, names in commands:
        planned |= dnf.plan(given, native, command, names)
    return {name: {"old": present.get(name, ""), "new": new} for name, new in sorted(planned.items())}


# --- groups


def group_list(root: str | None = None) -> dict[str, Any]:
    """The groups of packages, as ids (dnf5) or names (dnf, yum): ``{"installed": [], "available": [], "installed
    environments": [], "available environments": [], "available languages": {}}``.

    CLI Example: ``saltlite '*' pkg.group_list``
    """
    command = ["grouplist", "hidden"] if dnf.program() == "yum" else ["group", "list", "--hidden"]
    done = dnf.run({"root": root}, command)
    if done.returncode and "No group" not in done.stderr:
        raise dnf.failed(done)
    return dnf.read_groups(done.stdout)


def group_info(
    name: str, expand: bool = False, ignore_groups: list[str] | None = None, *, fromrepo: str | None = None,
    enablerepo: str | None = None, disablerepo: str | None = None, root: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The packages of a group: ``{mandatory, optional, default, conditional: [names], type, group, id, description}``.

    An environment contains groups; with ``expand`` the packages of all its groups are returned.

    CLI Example: ``saltlite '*' pkg.group_info 'Perl Support'``
    """
    given = {"fromrepo": fromrepo, "enablerepo": enablerepo, "disablerepo": disablerepo, "root": root}
    command = ["groupinfo"] if dnf.program() == "yum" else ["group", "info"]
    done = dnf.run(given, command, [dnf.checked_group(name)])
    found = dnf.read_group(done.stdout)
    if not found["group"] and not found["id"]:
        raise CommandExecutionError(f"There is no group {name!r}.")
    if not expand or found["type"] != "environment group":
        return found
    seen = ignore_groups if ignore_groups is not None else []
    packages: dict[str, set[str]] = {kind: set() for kind in dnf.KINDS}
    for member in (member for kind in dnf.KINDS for member in found[kind]):
        if member not in seen:
            seen.append(member)
            below = group_info(member, True, seen, **given)
            for kind in dnf.KINDS:
                packages[kind].update(below[kind])
    return {**found, **{kind: sorted(packages[kind]) for kind in dnf.KINDS}}


def group_diff(name: str, root: str | None = None) -> dict[str, dict[str, list[str]]]:
    """Which packages of a group are installed, for each of mandatory, optional, default and conditional: ``{kind:
    {"installed": [], "not installed": []}}``.

    CLI Example: ``saltlite '*' pkg.group_diff 'Perl Support'``
    """
    found = group_info(name, expand=True, root=root)
    return _packages.group_difference({kind: found[kind] for kind in dnf.KINDS}, list_pkgs(root=root))


def group_install(
    name: str | list[str], skip: str | Sequence[str] = (), include: str | Sequence[str] = (), *,
    root: str | None = None, test: bool = False,
) -> dict[str, dict[str, str]]:  # fmt: skip
    """Install the mandatory and default packages of a group, or of several separated by commas. Returns what
    ``install`` returns.

    ``skip`` excludes default packages, ``include`` adds others. ``test=True`` reports what would change.

    CLI Example::

        saltlite '*' pkg.group_install 'Group 1'
        saltlite '*' pkg.group_install 'Group 1,Group 2' skip='foo,bar' include='baz'
        saltlite '*' pkg.groupinstall 'Group 1'
    """
    groups = _packages.words(name)
    if not groups:
        raise SaltInvocationError("No groups were given.")
    found = [group_info(group, root=root) for group in groups]
    mandatory = [each for one in found for each in one["mandatory"]]
    default = [each for one in found for each in one["default"] if each not in _packages.words(skip)]
    present = list_pkgs(root=root)
    wanted = [each for each in dict.fromkeys([*mandatory, *default, *_packages.words(include)]) if each not in present]
    if not wanted:
        return {}
    return install(pkgs=wanted, test=test, root=root or "")


groupinstall = group_install


# --- version locks, through the plug-in versionlock


_PATTERN = r"\w+(?:[.-][^-]+)*"
_LOCKS_OF_DNF5 = "/etc/dnf/versionlock.toml"
_LOCK = r"^(?P<name>\S+?)-(?P<evr>(?:\d+:)?[^-\s]+-[^-\s]+)$"
_YUM_LOCK = r"^(?P<epoch>\d+):(?P<name>\S+)-(?P<evr>[^-\s]+-[^-\s]+)$"


def hold(
    name: str | None = None,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    test: bool = False,
    **kwargs: Unpack[_Root],
) -> dict[str, dict[str, Any]]:
    """Hold packages at their current version: ``{name: {name, changes, result, comment}}``. Needs the plug-in
    versionlock.

    ``sources`` is a list of ``{name: anything}``. ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.hold vim
        saltlite '*' pkg.hold pkgs='["foo", "bar"]'
    """
    given, names = _asked_locks(name, pkgs, sources, kwargs)
    held = set(_locks(given).values())
    asked = [] if test else [name for name in names if name not in held]
    problems = {each: _lock_problem(given, ["versionlock", "add"], [each]) for each in asked}
    if not all(problems.values()):  # dnf reports success for an unknown package
        now = set(_locks(given).values())
        lost = [each for each, problem in problems.items() if not problem and each not in now]
        problems |= {each: f"Package {each} is neither installed nor offered, and cannot be held." for each in lost}
    report: dict[str, dict[str, Any]] = {}
    for each in names:
        old = "hold" if each in held else ""
        report[each] = _packages.hold_report(each, old, "hold", problems.get(each, ""), test=test)
    return report


def unhold(
    name: str | None = None,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    test: bool = False,
    **kwargs: Unpack[_Root],
) -> dict[str, dict[str, Any]]:
    """Release held packages, so that upgrades change them again: ``{name: {name, changes, result, comment}}``.

    CLI Example: ``saltlite '*' pkg.unhold vim``
    """
    given, names = _asked_locks(name, pkgs, sources, kwargs)
    held = _locks(given)
    report: dict[str, dict[str, Any]] = {}
    for each in names:
        # yum removes a lock only by its full text, dnf also by the name of the package.
        locks = [lock for lock, locked in held.items() if locked == each]
        asked = locks if dnf.program() == "yum" else [each]
        problem = "" if not locks or test else _lock_problem(given, ["versionlock", "delete"], asked)
        report[each] = _packages.hold_report(each, "hold" if locks else "", "", problem, test=test)
    return report


def list_holds(pattern: str | None = None, full: bool = True, **kwargs: Unpack[_Root]) -> list[str]:
    """The held packages with their versions, or only their names with ``full=False``.

    ``pattern`` is a regular expression for the name.

    CLI Example::

        saltlite '*' pkg.list_holds
        saltlite '*' pkg.list_holds full=False
        saltlite '*' pkg.get_locked_packages
    """
    try:
        wanted = re.compile(_PATTERN if pattern is None else pattern)
    except re.error as error:
        raise CommandExecutionError(f"{pattern!r} is not a regular expression: {error}.") from error
    locks = _locks(_packages.take(kwargs, "root", "installroot"))
    found = {lock: name for lock, name in locks.items() if wanted.fullmatch(name)}
    return list(found) if full else list(dict.fromkeys(found.values()))


get_locked_packages = list_holds


def _locks(given: dict[str, Any]) -> dict[str, str]:
    """Lock -> name of the package."""
    if dnf.program() == "dnf5":
        return _locks_of_dnf5(_rpm.below(dnf.root_of(given), _LOCKS_OF_DNF5))
    done = dnf.run(given, ["versionlock", "list"])
    if done.returncode:
        if "versionlock" in done.stderr and re.search(r"[Nn]o such command", done.stderr):
            plugin = "yum-plugin-versionlock" if dnf.program() == "yum" else "python3-dnf-plugin-versionlock"
            raise CommandExecutionError(f"Packages cannot be held without {plugin}: install it first.")
        raise dnf.failed(done)
    found = {}
    for line in done.stdout.splitlines():
        bare = line.strip().removesuffix(".*").removeprefix("!")
        match = re.match(_YUM_LOCK if dnf.program() == "yum" else _LOCK, bare)
        if match:
            found[line.strip()] = match["name"]
    return found


def _locks_of_dnf5(path: str) -> dict[str, str]:
    """The locks of a single version; dnf5 can also lock ranges of versions, which are skipped."""
    import tomllib

    try:
        with open(path, "rb") as stream:
            rows = tomllib.load(stream).get("packages", [])
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise CommandExecutionError(f"{path} cannot be read: {error}") from error
    found = {}
    for row in rows:
        exact = [one["value"] for one in row.get("conditions", []) if (one["key"], one["comparator"]) == ("evr", "=")]
        for evr in exact[:1]:
            found[f"{row['name']}-{evr if ':' in evr else f'0:{evr}'}.*"] = str(row["name"])
    return found


def _lock_problem(given: dict[str, Any], command: list[str], names: list[str]) -> str:
    """Run a command; the reason if it fails, otherwise an empty string."""
    done = dnf.run(given, ["-y", *command], names)
    return str(dnf.failed(done)) if done.returncode else ""


def _asked_locks(name: Any, pkgs: Any, sources: Any, kwargs: _Root) -> tuple[dict[str, Any], list[str]]:
    """The root options, and the names of packages."""
    if sources:
        pkgs = [one for each in sources for one in (each if isinstance(each, dict) else [each])]
    return _packages.take(kwargs, *_Root.__annotations__), list(_rpm.NAME_RULES.requested(name, pkgs))
