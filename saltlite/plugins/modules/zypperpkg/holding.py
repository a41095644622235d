"""Keeping packages at their version: zypper's locks."""

from __future__ import annotations

import re
from typing import Any

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _packages, _rpm, _rpm_reports, _zypper

_FILE = "/etc/zypp/locks"


def hold(
    name: str | None = None, pkgs: list[Any] | None = None, root: str | None = None, test: bool = False
) -> dict[str, dict[str, Any]]:
    """
    Keep packages at their version: ``{name: {name, changes, result, comment}}``.

    ``pkgs`` is a list of names or of ``{name: version}``, which locks that version alone. ``test=True`` tells what
    would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.hold vim
        saltlite '*' pkg.hold pkgs='["foo", "bar"]'
    """
    locks = list_locks(root)
    report: dict[str, dict[str, Any]] = {}
    for each, version in _rpm.SPELLING.wanted(name, pkgs).items():
        target = f"{each}={version.lstrip('=')}" if version else each
        problem = "" if each in locks or test else _problem(root, "addlock", target)
        report[each] = _packages.mark_report(each, "hold" if each in locks else "", "hold", problem, test=test)
    return report


def unhold(
    name: str | None = None, pkgs: list[Any] | None = None, root: str | None = None, test: bool = False
) -> dict[str, dict[str, Any]]:
    """
    Let packages be upgraded again: ``{name: {name, changes, result, comment}}``.

    CLI Example::

        saltlite '*' pkg.unhold vim
    """
    locks = list_locks(root)
    report: dict[str, dict[str, Any]] = {}
    for each, version in _rpm.SPELLING.wanted(name, pkgs).items():
        locked = str(locks.get(each, {}).get("version", "")).lstrip("= ")
        problem = ""
        if each in locks and version and locked != version:
            problem = f"Package {each} is held in version {locked or 'any'}, not in {version}."
        elif each in locks and not test:
            problem = _problem(root, "removelock", f"{each}={locked}" if locked else each)
        report[each] = _packages.mark_report(each, "hold" if each in locks else "", "", problem, test=test)
    return report


def list_holds(pattern: str | None = None, full: bool = True, root: str | None = None) -> list[str]:
    """
    The installed packages that are kept at their version, with the version, or with ``full=False`` their names alone.

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
    known = _rpm_reports.info([], root=_rpm.root_folder(root), attr="edition,epoch", all_versions=True)
    found = []
    for name, rows in _packages.select(known, locked).items():
        for row in rows:
            evr = row["edition"].rpartition(":")[2]
            shown = f"{name}-{row.get('epoch', '0')}:{evr}.*" if full else name
            if wanted.match(shown) and shown not in found:
                found.append(shown)
    return found


def list_locks(root: str | None = None) -> dict[str, dict[str, str]]:
    """
    The locks: ``{name: {type, match_type, case_sensitive, ...}}``; a name may be a glob.

    CLI Example::

        saltlite '*' pkg.list_locks
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
    """
    Remove locks that lock nothing: ``{"removed": count}``.

    CLI Example::

        saltlite '*' pkg.clean_locks
    """
    before = len(list_locks(root))
    if before:
        _zypper.run(root, ["cleanlocks"]).checked()
    return {"removed": before - len(list_locks(root))}


def _problem(root: str | None, command: str, target: str) -> str:
    """Run it; why it failed, or an empty text."""
    answer = _zypper.run(root, [command], [target])
    return str(answer.failed()) if answer.done.returncode else ""
