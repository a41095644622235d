"""What changes packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _dnf, _packages, _rpm

from .available import list_downloaded, list_repo_pkgs, refresh_db
from .holding import hold, list_holds, unhold
from .installed import list_pkgs

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__risk__ = {
    "upgrade": "upgrade-all",
    "update": "upgrade-all",
    "remove": "remove",
    "purge": "remove",
    "autoremove": "remove",
}

_SIDE_BY_SIDE = ("kernel", "kernel-core", "kernel-devel", "kernel-modules", "kernel-modules-core", "kernel-headers")
"""Packages of which several versions are installed: an older one is an install, and no downgrade."""


class _Wanted(NamedTuple):
    """One package that is asked for: its name as it is shown, the version or an empty text, and what dnf is told."""

    name: str
    version: str
    target: str


class _Sources(TypedDict, total=False):
    repo: str | list[str]
    enablerepo: str | list[str]
    disablerepo: str | list[str]
    disableexcludes: str
    setopt: str | list[str]
    root: str
    installroot: str


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

    ``name`` is one package, or several parted by commas; ``version`` wants that version of it, which may have a ``*``
    or begin with ``<``, ``<=``, ``>`` or ``>=``. ``pkgs`` is a list of names or of ``{name: version}``; ``sources`` a
    list of ``{name: /path/to/file.rpm}``, or of URLs such as ``salt://file.rpm``. ``fromrepo`` takes from these
    repositories alone, ``enablerepo`` and ``disablerepo`` from more or fewer. An older version is a downgrade.

    Further keyword arguments: ``reinstall``, ``downloadonly``, ``skip_verify`` (do not check signatures),
    ``normalize=False`` (the name may end like an architecture), ``update_holds`` (also packages that are held; they are
    held again in their new version), ``disableexcludes``, ``setopt``, and ``root`` or
    ``installroot``, a folder that holds another system. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install vim version='>=9.0'
        saltlite '*' pkg.install pkgs='["foo", {"bar": "1.2.3-4.el9"}]' fromrepo=epel
        saltlite '*' pkg.install sources='[{"foo": "/srv/foo.rpm"}]'
    """
    given = {**_packages.take(kwargs, *_Installing.__annotations__, *_Sources.__annotations__), "fromrepo": fromrepo}
    if refresh and not given["test"]:
        refresh_db(check_update=False, **_repositories(given))
    if sources:
        fetch = partial(__salt__["cp.cache_file"], saltenv=given["saltenv"] or "base")
        wanted = [_of_file(path) for path in _packages.package_files(sources, fetch)]
    else:
        asked = _dnf.TARGETS.wanted(name, pkgs, given["version"])
        wanted = [_target(each, version, given) for each, version in asked.items()]
    options = [option for key, option in _OPTIONS.items() if given[key]]
    found = _commands(wanted, given)
    calls = [([*options, *_argv(command)], [each.target for each in several]) for command, several in found.items()]
    if given["test"]:
        return _planned(given, calls)

    def act() -> None:
        with _released([each.name for each in wanted] if given["update_holds"] else [], given):
            for command, names in calls:
                _dnf.change(given, command, names)

    changes = _packages.changed(_listing(given), act)
    if "reinstall" in found and not given["downloadonly"]:
        now = list_pkgs(root=_dnf.root_of(given) or None)
        again = [each.name for each in found["reinstall"] if each.name in now]
        changes = {**{name: {"old": now[name], "new": now[name]} for name in again}, **changes}
    return changes


@contextmanager
def _released(names: Sequence[str], given: Mapping[str, Any]) -> Iterator[None]:
    """Let those of the packages that are held be changed; they are held again afterwards, whatever happened."""
    root = _dnf.root_of(given)
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


_OPTIONS = {"skip_verify": "--nogpgcheck", "downloadonly": "--downloadonly"}
"""Keyword argument -> option of dnf and yum."""


def upgrade(
    name: str | None = None, pkgs: list[Any] | None = None, refresh: bool = True, **kwargs: Unpack[_Upgrading]
) -> dict[str, dict[str, str]]:
    """
    Upgrade all packages, or only the named ones. Returns what ``install`` returns.

    Further keyword arguments: those of ``install`` that say which repositories, ``skip_verify``, ``downloadonly``,
    ``minimal`` (to the first version that mends something) and ``obsoletes=False`` (do not replace packages by others).
    ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade name=openssl
        saltlite '*' pkg.upgrade minimal=True
    """
    given = _packages.take(kwargs, *_Upgrading.__annotations__, *_Sources.__annotations__)
    if refresh and not given["test"]:
        refresh_db(check_update=False, **_repositories(given))
    names = list(_dnf.TARGETS.wanted(name, pkgs))
    options = [option for key, option in _OPTIONS.items() if given[key]]
    if given["obsoletes"] is False:
        options.append("--setopt=obsoletes=0")
    command = [*options, "upgrade-minimal" if given["minimal"] else "upgrade"]
    if given["test"]:
        return _planned(given, [(command, names)])
    return _packages.changed(_listing(given), partial(_dnf.change, given, command, names))


def update(
    name: str | None = None, pkgs: list[Any] | None = None, refresh: bool = True, **kwargs: Unpack[_Upgrading]
) -> dict[str, dict[str, str]]:
    """
    The same as ``upgrade``.

    CLI Example::

        saltlite '*' pkg.update
    """
    return upgrade(name, pkgs, refresh, **kwargs)


def remove(
    name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Removing]
) -> dict[str, dict[str, str]]:
    """
    Remove packages, and what needs them; those that are not installed are skipped.

    ``pkgs`` is a list of names or of ``{name: version}``, which removes that version alone. ``root`` or
    ``installroot`` is a folder that holds another system. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", {"kernel": "5.14.0-362.el9"}]'
    """
    given = _packages.take(kwargs, "test", *_Sources.__annotations__)
    present = list_pkgs(versions_as_list=True, root=_dnf.root_of(given) or None)
    native = _rpm.native_architecture(__grains__)
    names = []
    for each, version in _rpm.SPELLING.wanted(name, pkgs).items():
        shown = _rpm.normalised(each, native)
        if shown in present and (not version or version in present[shown]):
            names.append(_specified(each, version))
    if not names:
        return {}
    if given["test"]:
        return _planned(given, [(["remove"], names)])
    return _packages.changed(_listing(given), partial(_dnf.change, given, ["remove"], names))


def purge(
    name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Removing]
) -> dict[str, dict[str, str]]:
    """
    The same as ``remove``: rpm leaves no more than changed configuration files, as ``NAME.rpmsave``.

    CLI Example::

        saltlite '*' pkg.purge vim
    """
    return remove(name, pkgs, **kwargs)


def autoremove(list_only: bool = False, **kwargs: Unpack[_Removing]) -> Any:
    """
    Remove packages that nothing needs any more. ``list_only`` and ``test=True`` only tell which: names, or changes.

    CLI Example::

        saltlite '*' pkg.autoremove
        saltlite '*' pkg.autoremove list_only=True
    """
    given = _packages.take(kwargs, "test", *_Sources.__annotations__)
    if list_only or given["test"]:
        planned = _planned(given, [(["autoremove"], [])])
        return sorted(planned) if list_only else planned
    return _packages.changed(_listing(given), partial(_dnf.change, given, ["autoremove"]))


def _repositories(given: Mapping[str, Any]) -> Any:
    return {key: given[key] for key in _dnf.REPOSITORY_KEYS if given.get(key)}


def _listing(given: Mapping[str, Any]) -> Any:
    """What is compared before and after: what is installed, or with `downloadonly` what was downloaded."""
    root = _dnf.root_of(given) or None
    if given.get("downloadonly"):
        return lambda: {name: ",".join(sorted(versions)) for name, versions in list_downloaded(root).items()}
    return partial(list_pkgs, root=root)


def _of_file(path: str) -> _Wanted:
    name, epoch, version, release, arch = _rpm.of_package_file(path, ("NAME", "EPOCH", "VERSION", "RELEASE", "ARCH"))
    shown = _rpm.shown_name(name, arch, _rpm.native_architecture(__grains__))
    return _Wanted(shown, _rpm.full_version(epoch, version, release), path)


def _target(name: str, version: str, given: Mapping[str, Any]) -> _Wanted:
    """Raises CommandExecutionError when no version is as wanted."""
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
    """`name-version`, with the architecture at the end where the name has one."""
    if not version:
        return name
    if _dnf.program() == "yum":
        version = version.rpartition(":")[2]  # yum knows an epoch only together with an architecture
    bare, arch = _rpm.split_architecture(name)
    return f"{bare}-{version}.{arch}" if arch else f"{bare}-{version}"


def _commands(wanted: Sequence[_Wanted], given: Mapping[str, Any]) -> dict[str, list[_Wanted]]:
    """What is wanted by the command that brings it: install, downgrade or reinstall."""
    present = list_pkgs(versions_as_list=True, root=_dnf.root_of(given) or None)
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
    # As Salt's pkg.install: the newest version or an error, and packages that stand in its way give way.
    return [command, "--best", "--allowerasing"] if command == "install" and _dnf.program() != "yum" else [command]


def _planned(given: Mapping[str, Any], commands: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, Any]:
    present = list_pkgs(root=_dnf.root_of(given) or None)
    native = _rpm.native_architecture(__grains__)
    planned: dict[str, str] = {}
    for command, names in commands:
        planned |= _dnf.plan(given, native, command, names)
    return {name: {"old": present.get(name, ""), "new": new} for name, new in sorted(planned.items())}
