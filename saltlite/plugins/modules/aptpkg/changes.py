"""What changes installed packages, and what is wanted of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules import _apt, _packages
from saltlite.plugins.modules._packages import Changes

from .installed import get_selections, list_holds, list_pkgs
from .offered import refresh_db

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

__risk__ = {"upgrade": "upgrade-all", "remove": "remove", "purge": "remove", "autoremove": "remove"}

SELECTIONS = ("install", "hold", "deinstall", "purge")
"""What can be wanted of a package."""


class _Upgrading(TypedDict, total=False):
    cache_valid_time: float
    force_conf_new: bool
    downloadonly: bool
    skip_verify: bool
    test: bool


class _Installing(TypedDict, total=False):
    cache_valid_time: float
    force_conf_new: bool
    downloadonly: bool
    skip_verify: bool
    test: bool
    version: str
    reinstall: bool
    only_upgrade: bool
    install_recommends: bool


def install(
    name: str | None = None,
    refresh: bool = False,
    fromrepo: str | None = None,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    **kwargs: Unpack[_Installing],
) -> Changes:
    """
    Install packages: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package, or several parted by commas; ``version`` wants that version of it. ``pkgs`` is
    a list of names or of ``{name: version}``; ``sources`` a list of ``{name: /path/to/file.deb}``, of the minion
    or of the file server. ``fromrepo`` names a release. Further keyword arguments:
    ``reinstall``, ``downloadonly``, ``skip_verify`` (do not check signatures), ``only_upgrade``,
    ``force_conf_new``, ``install_recommends`` (True) and ``cache_valid_time``. ``test=True`` tells what would
    change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install vim version=2:9.0.1378-2
        saltlite '*' pkg.install pkgs='[foo, {bar: 1.2.3}]'
        saltlite '*' pkg.install sources='[{foo: salt://foo.deb}]'
    """
    given = _packages.take(kwargs, *_Installing.__annotations__)
    if sources:
        targets = _packages.package_files(sources, __salt__["cp.cache_file"])
    else:
        targets = _apt.targets(name, pkgs, given["version"])
    if refresh and not given["test"]:
        refresh_db(given["cache_valid_time"] or 0)
    options = _apt.configuration_options(take_new=bool(given["force_conf_new"]))
    options += [option for key, option in _apt.OPTIONS.items() if given[key]]
    if given["install_recommends"] is False:
        options.append("--no-install-recommends")
    if fromrepo:
        options += ["-t", _apt.SPELLING.version(fromrepo)]
    return _change([*options, "--allow-downgrades", "install", "--", *targets], test=given["test"])


def upgrade(refresh: bool = True, dist_upgrade: bool = False, **kwargs: Unpack[_Upgrading]) -> Changes:
    """
    Upgrade all packages; ``dist_upgrade`` may also add and remove some.

    Returns what ``install`` returns. Further keyword arguments: ``downloadonly``, ``skip_verify``,
    ``force_conf_new`` and ``cache_valid_time``. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade dist_upgrade=True
    """
    given = _packages.take(kwargs, *_Upgrading.__annotations__)
    if refresh and not given["test"]:
        refresh_db(given["cache_valid_time"] or 0)
    options = _apt.configuration_options(take_new=bool(given["force_conf_new"]))
    options += [_apt.OPTIONS[key] for key in ("downloadonly", "skip_verify") if given[key]]
    return _change([*options, "dist-upgrade" if dist_upgrade else "upgrade"], test=given["test"])


def remove(name: str | None = None, pkgs: list[Any] | None = None, test: bool = False) -> Changes:
    """
    Remove packages and leave their configuration files; those that are not installed are skipped.
    ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", "bar"]'
    """
    installed = list_pkgs()
    targets = [each for each in _apt.SPELLING.wanted(name, pkgs) if each in installed]
    return _change(["remove", "--", *targets], test=test) if targets else {}


def purge(name: str | None = None, pkgs: list[Any] | None = None, test: bool = False) -> Changes:
    """
    Remove packages with their configuration files. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.purge vim
    """
    leftovers = list_pkgs(removed=True)
    known = {**leftovers, **list_pkgs()}
    targets = [each for each in _apt.SPELLING.wanted(name, pkgs) if each in known]
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


def hold(
    name: str | None = None, pkgs: list[Any] | None = None, sources: list[Any] | None = None, test: bool = False
) -> dict[str, dict[str, Any]]:
    """
    Keep packages at their version: ``{name: {name, changes, result, comment}}``.

    ``test=True`` tells what would change, and changes nothing.

    ``sources`` is a list as ``install`` takes it; the names in it are meant.

    CLI Example::

        saltlite '*' pkg.hold vim
        saltlite '*' pkg.hold pkgs='["foo", "bar"]'
    """
    return _mark(_named(name, pkgs, sources), "hold", test=test)


def unhold(
    name: str | None = None, pkgs: list[Any] | None = None, sources: list[Any] | None = None, test: bool = False
) -> dict[str, dict[str, Any]]:
    """
    Let packages be upgraded again: ``{name: {name, changes, result, comment}}``.

    ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.unhold vim
    """
    return _mark(_named(name, pkgs, sources), "unhold", test=test)


def set_selections(
    path: str | None = None,
    selection: dict[str, list[str]] | None = None,
    clear: bool = False,
    saltenv: str = "base",
    test: bool = False,
) -> Changes:
    """
    Say what is wanted of packages: ``{name: {"old": state, "new": state}}`` for what has changed.

    ``selection`` is ``{state: [names]}`` with the states install, hold, deinstall and purge; ``path`` names a file
    with lines of name and state instead. ``clear`` first wants all packages but the essential ones deinstalled;
    nothing is removed by this, only by who acts on it. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.set_selections selection='{"hold": ["openssh-server"]}'
        saltlite '*' pkg.set_selections salt://selections
    """
    if path and selection:
        raise SaltInvocationError("Say path or selection, not both: each is the whole of what is wanted.")
    wanted = _read_selections(path, saltenv) if path else _selections(selection or {})
    if not wanted:
        return {}
    now = {name: state for state, names in get_selections().items() for name in names}
    changes = {name: {"old": now.get(name, ""), "new": want} for name, want in wanted.items() if now.get(name) != want}
    if test:
        return changes
    if clear:
        _apt.checked(_apt.run(["dpkg", "--clear-selections"]))
    lines = "".join(f"{name} {state}\n" for name, state in wanted.items())
    _apt.checked(_apt.feed(["dpkg", "--set-selections"], lines))
    after = {name: state for state, names in get_selections().items() for name in names}
    return {name: change for name, change in changes.items() if after.get(name) == change["new"]}


def _change(argv: Sequence[str], *, test: bool) -> Changes:
    """Run apt-get and compare the installed packages before and after; for a test ask it what it would do."""
    return _apt.simulate(argv) if test else _packages.changed(list_pkgs, lambda: _apt.apt_get(argv))


def _named(name: Any, pkgs: Any, sources: Any) -> list[str]:
    if not (name or pkgs or sources):
        raise SaltInvocationError("Say which packages: name, pkgs or sources.")
    if not sources:
        return list(_apt.SPELLING.wanted(name, pkgs))
    if name or pkgs:
        raise SaltInvocationError("Say name, pkgs or sources, and one of them only.")
    return [_apt.SPELLING.name(key) for each in sources for key in (each if isinstance(each, Mapping) else [each])]


def _mark(names: Sequence[str], verb: str, *, test: bool) -> dict[str, dict[str, Any]]:
    held = set(list_holds())
    new = "hold" if verb == "hold" else "install"
    report: dict[str, dict[str, Any]] = {}
    for name in names:
        old = "hold" if name in held else "install"
        problem = ""
        if old != new and not test:
            done: subprocess.CompletedProcess[str] = _apt.run(["apt-mark", verb, "--", name])
            _apt.refuse_locked(done)
            problem = _apt.reason(done) if done.returncode else ""
        report[name] = _packages.mark_report(name, old, new, problem, test=test)
    return report


def _selections(selection: Any) -> dict[str, str]:
    if not isinstance(selection, Mapping) or not all(isinstance(names, list | tuple) for names in selection.values()):
        raise SaltInvocationError("A selection is {state: [names]}.")
    unknown = sorted(str(state) for state in selection if state not in SELECTIONS)
    if unknown:
        raise SaltInvocationError(f"{', '.join(unknown)}: what can be wanted of packages is {', '.join(SELECTIONS)}.")
    return {_apt.SPELLING.name(name): str(state) for state, names in selection.items() for name in names}


def _read_selections(path: str, saltenv: str) -> dict[str, str]:
    cached = __salt__["cp.cache_file"](path, saltenv)
    if not cached:
        raise SaltInvocationError(f"There is no file {path}.")
    selection: dict[str, list[str]] = {}
    with open(cached, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            name, _, state = line.strip().partition("\t" if "\t" in line else " ")
            if name and not name.startswith("#"):
                selection.setdefault(state.strip(), []).append(name)
    return _selections(selection)
