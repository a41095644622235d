"""Keeping packages at their version, through the plug-in `versionlock`."""

from __future__ import annotations

import re
from typing import Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _dnf, _packages, _rpm

_PATTERN = r"\w+(?:[.-][^-]+)*"
_LOCKS_OF_DNF5 = "/etc/dnf/versionlock.toml"
_LOCK = re.compile(r"^(?P<name>\S+?)-(?P<evr>(?:\d+:)?[^-\s]+-[^-\s]+)$")
_YUM_LOCK = re.compile(r"^(?P<epoch>\d+):(?P<name>\S+)-(?P<evr>[^-\s]+-[^-\s]+)$")


class _Place(TypedDict, total=False):
    root: str
    installroot: str


def hold(
    name: str | None = None,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    test: bool = False,
    **kwargs: Unpack[_Place],
) -> dict[str, dict[str, Any]]:
    """
    Keep packages at their version: ``{name: {name, changes, result, comment}}``. It needs the plug-in versionlock.

    ``sources`` is a list of ``{name: anything}``. ``test=True`` tells what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.hold vim
        saltlite '*' pkg.hold pkgs='["foo", "bar"]'
    """
    given = _packages.take(kwargs, "root", "installroot")
    names = list(_rpm.SPELLING.wanted(name, _names_of(sources) if sources else pkgs))
    held = set(_locks(given).values())
    asked = [] if test else [name for name in names if name not in held]
    problems = {each: _problem(given, ["versionlock", "add"], [each]) for each in asked}
    if not all(problems.values()):  # dnf does not call it a failure when there is no such package
        now = set(_locks(given).values())
        lost = [each for each, problem in problems.items() if not problem and each not in now]
        problems |= {each: f"Package {each} is neither installed nor offered, and cannot be held." for each in lost}
    report: dict[str, dict[str, Any]] = {}
    for each in names:
        old = "hold" if each in held else ""
        report[each] = _packages.mark_report(each, old, "hold", problems.get(each, ""), test=test)
    return report


def unhold(
    name: str | None = None,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    test: bool = False,
    **kwargs: Unpack[_Place],
) -> dict[str, dict[str, Any]]:
    """
    Let packages be upgraded again: ``{name: {name, changes, result, comment}}``.

    CLI Example::

        saltlite '*' pkg.unhold vim
    """
    given = _packages.take(kwargs, "root", "installroot")
    names = list(_rpm.SPELLING.wanted(name, _names_of(sources) if sources else pkgs))
    held = _locks(given)
    report: dict[str, dict[str, Any]] = {}
    for each in names:
        # yum removes a lock by its whole text alone, dnf by the name of the package, too.
        locks = [lock for lock, locked in held.items() if locked == each]
        asked = locks if _dnf.program() == "yum" else [each]
        problem = "" if not locks or test else _problem(given, ["versionlock", "delete"], asked)
        report[each] = _packages.mark_report(each, "hold" if locks else "", "", problem, test=test)
    return report


def list_holds(pattern: str | None = None, full: bool = True, **kwargs: Unpack[_Place]) -> list[str]:
    r"""
    The packages that are kept at their version, with the version, or with ``full=False`` their names alone.

    ``pattern`` is a regular expression for the name.

    CLI Example::

        saltlite '*' pkg.list_holds
        saltlite '*' pkg.list_holds full=False
    """
    try:
        wanted = re.compile(_PATTERN if pattern is None else pattern)
    except re.error as error:
        raise CommandExecutionError(f"{pattern!r} is not a regular expression: {error}.") from error
    locks = _locks(_packages.take(kwargs, "root", "installroot"))
    found = {lock: name for lock, name in locks.items() if wanted.fullmatch(name)}
    return list(found) if full else list(dict.fromkeys(found.values()))


def get_locked_packages(pattern: str | None = None, full: bool = True, **kwargs: Unpack[_Place]) -> list[str]:
    """
    The same as ``list_holds``.

    CLI Example::

        saltlite '*' pkg.get_locked_packages
    """
    return list_holds(pattern, full, **kwargs)


def _locks(given: dict[str, Any]) -> dict[str, str]:
    """Lock -> name of the package."""
    if _dnf.program() == "dnf5":
        return _locks_of_dnf5(_rpm.below(_dnf.root_of(given), _LOCKS_OF_DNF5))
    done = _dnf.run(given, ["versionlock", "list"])
    if done.returncode:
        if "versionlock" in done.stderr and re.search(r"[Nn]o such command", done.stderr):
            plugin = "yum-plugin-versionlock" if _dnf.program() == "yum" else "python3-dnf-plugin-versionlock"
            raise CommandExecutionError(f"Packages cannot be held without {plugin}: install it first.")
        raise _dnf.failed(done)
    found = {}
    for line in done.stdout.splitlines():
        bare = line.strip().removesuffix(".*").removeprefix("!")
        match = (_YUM_LOCK if _dnf.program() == "yum" else _LOCK).match(bare)
        if match:
            found[line.strip()] = match["name"]
    return found


def _locks_of_dnf5(path: str) -> dict[str, str]:
    """The locks that have one version; dnf5 can also lock ranges, which have no text of this kind."""
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


def _problem(given: dict[str, Any], command: list[str], names: list[str]) -> str:
    """Run it; why it failed, or an empty text."""
    done = _dnf.run(given, ["-y", *command], names)
    return str(_dnf.failed(done)) if done.returncode else ""


def _names_of(sources: list[Any]) -> list[str]:
    return [name for each in sources for name in (each if isinstance(each, dict) else [each])]
