"""What repositories offer, and what apt has fetched from them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _apt, _packages

_ARCHIVE = re.compile(r"(?P<name>[^_]+)_(?P<version>[^_]+)_[^_]+\.deb")
"""How apt names what it downloads; the colon of a version is `%3a` there."""

_NAMED = re.compile(r"^ ?(Package|Version): (.*)$", re.MULTILINE)
_SHOWN = re.compile(r"^(?P<key>[A-Za-z0-9-]+):(?P<value>.*(?:\n[ \t].*)*)", re.MULTILINE)


class _Refreshing(TypedDict, total=False):
    cache_valid_time: float


class _Choice(_Refreshing, total=False):
    fromrepo: str


class _Latest(_Choice, total=False):
    refresh: bool


class _Shown(TypedDict, total=False):
    filter: str | list[str]
    refresh: bool


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
    options = _packages.take(kwargs, *_Choice.__annotations__)
    wanted = [_apt.SPELLING.name(name) for name in names]
    if not wanted:
        return ""
    if refresh:
        refresh_db(options["cache_valid_time"] or 0)
    release = ["-t", _apt.SPELLING.version(options["fromrepo"])] if options["fromrepo"] else []
    done = _apt.checked(_apt.run(["apt-cache", "-q", *release, "policy", "--", *wanted]))
    candidates: dict[str, tuple[str, str]] = {}
    for block in re.split(r"^(?=\S)", done.stdout, flags=re.MULTILINE):
        header, _, body = block.partition("\n")
        rows = dict(re.findall(r"^  (Installed|Candidate): (\S+)", body, re.MULTILINE))
        candidates[header.rstrip(":")] = (rows.get("Installed", "(none)"), rows.get("Candidate", "(none)"))
    latest = {name: _newer(*candidates.get(name, ("(none)", "(none)"))) for name in wanted}
    found: str | dict[str, str] = _packages.single(wanted, latest)
    return found


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
    options = _packages.take(kwargs, *_Refreshing.__annotations__)
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
    if cache_valid_time and time.time() - os.stat(_apt.places().lists).st_mtime < float(cache_valid_time):
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


def list_repo_pkgs(*args: str) -> dict[str, list[str]]:
    """
    The packages that repositories offer: ``{name: [versions]}``, the newest first. Names may be globs.

    Versions that are installed and offered no more are among them.

    CLI Example::

        saltlite '*' pkg.list_repo_pkgs bash
        saltlite '*' pkg.list_repo_pkgs 'python3*'
    """
    wanted = [_packages.path(each) for each in args]
    # The dump is 40 MB of text, so it is for all packages only.
    output = _shown(wanted) if wanted else _apt.checked(_apt.run(["apt-cache", "dump"])).stdout
    found: dict[str, list[str]] = {}
    name = ""
    for key, value in _NAMED.findall(output):
        if key == "Package":
            name = value.partition(":")[0]
        elif value not in found.setdefault(name, []):
            found[name].append(value)
    return found


def show(*names: str, **kwargs: Unpack[_Shown]) -> dict[str, dict[str, dict[str, str]]]:
    """
    What the package lists say of packages: ``{name: {version: {field: text}}}``. Names may be globs.

    ``filter`` limits the fields, as a list or a text with commas. ``refresh=True`` fetches the package lists before.

    CLI Example::

        saltlite '*' pkg.show gawk
        saltlite '*' pkg.show 'nginx-*' filter=description,provides
    """
    given = _packages.take(kwargs, *_Shown.__annotations__)
    wanted = [_packages.path(name) for name in names]
    if given["refresh"]:
        refresh_db()
    if not wanted:
        return {}
    asked = given["filter"] or []
    keys = {str(key).strip().lower() for key in (asked.split(",") if isinstance(asked, str) else asked)}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for fields in _stanzas(_shown(wanted)):
        name, version = fields.pop("Package", ""), fields.pop("Version", "")
        if name and version:
            kept = {key: value for key, value in fields.items() if not keys or key.lower() in keys}
            found.setdefault(name, {}).setdefault(version, {}).update(kept)
    return found


def list_downloaded() -> dict[str, dict[str, dict[str, Any]]]:
    """
    Packages that apt has downloaded: ``{name: {version: {path, size, creation_date_time, creation_date_time_t}}}``.

    Sizes are bytes; moments are in UTC, as ISO 8601 and as seconds since 1970.

    CLI Example::

        saltlite '*' pkg.list_downloaded
    """
    folder = _apt.places().archives
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        match = _ARCHIVE.fullmatch(entry)
        if match is None:
            continue
        path = os.path.join(folder, entry)
        known = os.stat(path)
        moment = int(known.st_ctime)
        found.setdefault(match["name"], {})[match["version"].replace("%3a", ":")] = {
            "path": path,
            "size": known.st_size,
            "creation_date_time_t": moment,
            "creation_date_time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)),
        }
    return found


def _shown(names: list[str]) -> str:
    done = _apt.run(["apt-cache", "show", "--all-versions", "--", *names])
    # A name that matches nothing is an answer, and no reason to forget the others.
    return done.stdout if "No packages found" in done.stderr or done.stdout else _apt.checked(done).stdout


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    for stanza in text.split("\n\n"):
        yield {match["key"]: match["value"].strip() for match in _SHOWN.finditer(stanza)}


def _newer(installed: str, candidate: str) -> str:
    if candidate in {"(none)", installed}:
        return ""
    if installed == "(none)" or _apt.compare_versions(candidate, installed) > 0:
        return candidate
    return ""
