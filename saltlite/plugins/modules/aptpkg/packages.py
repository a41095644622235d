"""Runs apt and dpkg without a shell and without prompts; installed and available packages, and changes of them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages
from saltlite.plugins.modules._packages import Changes

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__


OPTIONS = {
    "reinstall": "--reinstall",
    "downloadonly": "--download-only",
    "skip_verify": "--allow-unauthenticated",
    "only_upgrade": "--only-upgrade",
}
"""Keyword argument of `pkg` functions -> option of apt-get."""

NAME_RULES = _packages.NameRules(
    # A trailing hyphen would remove the package, and `?`, `~` or `^` would start a search.
    names=re.compile(r"[a-z0-9][a-z0-9+.-]*(?<!-)(?::[a-z0-9-]+)?", re.ASCII),
    versions=re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~*-]*", re.ASCII),
)

_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "APT_LISTBUGS_FRONTEND": "none",
}
_PLANNED = r"^(?:Inst|Remv|Purg) (\S+)(?: \[([^\]]*)\])?(?: \((\S+))?"
_LOCKED = r"(?:Could not get lock|Unable to lock|locked by another process)"
_HOLDER = r"held by process (\d+)(?: \(([^)]+)\))?|lock was (?:held|locked) by.* pid (\d+)"


class Places(NamedTuple):
    """The files and folders that apt is configured to use."""

    lists: str
    archives: str
    source_list: str
    source_parts: str
    trusted: str
    trusted_file: str


def run(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one command without prompts, in the C locale, with `text` as its input. Raises CommandNotFoundError."""
    return _packages.run(argv, _ENVIRONMENT, text)


def apt_get(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run apt-get without prompts. Raises CommandExecutionError with its reason if it fails."""
    return checked(run(["apt-get", "-q", "-y", *arguments]))


def simulate(arguments: Sequence[str]) -> _packages.Changes:
    """What apt-get would change, as ``{name: {"old": version, "new": version}}``. Raises as `apt_get`."""
    done = apt_get(["--simulate", *arguments])
    return {name: {"old": old, "new": new} for name, old, new in re.findall(_PLANNED, done.stdout, re.MULTILINE)}


def checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """`done` if it succeeded; otherwise raises CommandExecutionError."""
    if done.returncode:
        refuse_locked(done)
        raise _packages.failure(done, _errors(done))
    return done


def refuse_locked(done: subprocess.CompletedProcess[str]) -> None:
    """Raise CommandExecutionError if the database is locked, or the minion may not open it."""
    if "Permission denied" in done.stderr and "lock" in done.stderr:
        raise _packages.not_root()
    if not re.search(_LOCKED, done.stderr):
        return
    match = re.search(_HOLDER, done.stderr)
    holder = ""
    if match:
        holder = f" (process {match[1] or match[3]}" + (f", {match[2]})" if match[2] else ")")
    raise _packages.database_locked(holder)


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """The reason in the output of a failed command, in one line."""
    return "; ".join(_errors(done)) or done.stderr.strip().replace("\n", "; ") or "it gave no reason"


def places() -> Places:
    """The files and folders of apt. Raises CommandExecutionError if its configuration is invalid."""
    asked = {
        "lists": "Dir::State::lists/d",
        "archives": "Dir::Cache::archives/d",
        "source_list": "Dir::Etc::sourcelist/f",
        "source_parts": "Dir::Etc::sourceparts/d",
        "trusted": "Dir::Etc::trustedparts/d",
        "trusted_file": "Dir::Etc::trusted/f",
    }
    words = [word for pair in asked.items() for word in pair]
    done = checked(run(["apt-config", "shell", *words]))
    values = dict(word.partition("=")[::2] for word in shlex.split(done.stdout))
    return Places(**{name: values.get(name, "") for name in asked})


def configuration_options(*, take_new: bool) -> list[str]:
    """Options for changed configuration files: keep the local version, or take the new one."""
    kinds = ("--force-confnew",) if take_new else ("--force-confold", "--force-confdef")
    return [part for kind in kinds for part in ("-o", f"DPkg::Options::={kind}")]


def compare_versions(first: str, second: str) -> int:
    """-1, 0 or 1 if the first version is older, equal or newer. Raises SaltInvocationError."""
    one, other = NAME_RULES.version(first), NAME_RULES.version(second)
    for sign, result in (("lt", -1), ("eq", 0), ("gt", 1)):
        done = run(["dpkg", "--compare-versions", one, sign, other])
        if done.returncode == 0:
            return result
    raise SaltInvocationError(f"dpkg cannot compare {first!r} with {second!r}: {done.stderr.strip()}")


def targets_of(one: Any, several: Any, version: Any = None) -> list[str]:
    """The arguments `name` or `name=version` for the requested packages; see `NameRules.requested`."""
    wanted = NAME_RULES.requested(one, several, version)
    return [f"{name}={exact}" if exact else name for name, exact in wanted.items()]


def _errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    lines = [line.strip() for line in done.stderr.splitlines()]
    return [line.removeprefix("E: ") for line in lines if line.startswith(("E: ", "dpkg: error"))]


class _Listing(TypedDict, total=False):
    versions_as_list: bool
    removed: bool
    purge_desired: bool


class _Info(TypedDict, total=False):
    attr: str | list[str]
    failhard: bool


def list_pkgs(versions_as_list: bool = False, removed: bool = False, purge_desired: bool = False) -> dict[str, Any]:
    """The installed packages: ``{name: version}``, or ``{name: [versions]}`` with ``versions_as_list``.

    ``removed`` lists packages that were removed but not purged, ``purge_desired`` those marked to be purged.

    CLI Example::

        saltlite '*' pkg.list_pkgs
        saltlite '*' pkg.list_pkgs versions_as_list=True
    """
    found: dict[str, Any] = __salt__["lowpkg.list_pkgs"](removed=removed, purge_desired=purge_desired)
    return {name: [version] for name, version in found.items()} if versions_as_list else found


def list_installed(*names: str, **kwargs: Unpack[_Listing]) -> dict[str, str]:
    """The installed packages and their versions, or only the named ones; globs work.

    CLI Example::

        saltlite '*' pkg.list_installed
        saltlite '*' pkg.list_installed openssl 'python3*'
    """
    return _packages.select(list_pkgs(**_packages.take(kwargs, *_Listing.__annotations__)), names)


def version(*names: str, **kwargs: Unpack[_Listing]) -> Any:
    """The installed version of a package, or a dict of versions for several; an empty string for none. Globs work.

    CLI Example::

        saltlite '*' pkg.version openssl
        saltlite '*' pkg.version openssl curl 'libc*'
    """
    installed = list_pkgs(**_packages.take(kwargs, *_Listing.__annotations__))
    return _packages.versions(installed, names)


def list_holds() -> list[str]:
    """The packages that are held.

    CLI Example: ``saltlite '*' pkg.list_holds``
    """
    return get_selections(state="hold")["hold"]


def get_selections(pattern: str | None = None, state: str | None = None) -> dict[str, list[str]]:
    """The selection states of the packages that dpkg knows: ``{"install": [names], "hold": …, "deinstall": …, "purge":
    …}``.

    ``pattern`` is a name or a glob; ``state`` limits the result to one state.

    CLI Example::

        saltlite '*' pkg.get_selections
        saltlite '*' pkg.get_selections 'openssh*' state=hold
    """
    asked = [_packages.path(pattern)] if pattern else []
    done = checked(_packages.run(["dpkg", "--get-selections", "--", *asked]))
    found: dict[str, list[str]] = {}
    for name, want in (line.split() for line in done.stdout.splitlines()):
        found.setdefault(want, []).append(name)
    return {state: found.get(state, [])} if state else found


def owner(*paths: str) -> str | dict[str, str]:
    """The package that a file belongs to, or a dict for several files; an empty string for none.

    CLI Example::

        saltlite '*' pkg.owner /usr/bin/apt-get
        saltlite '*' pkg.owner /usr/bin/apt-get /usr/bin/basename
    """
    if not paths:
        return ""
    found: dict[str, str] = __salt__["lowpkg.owner"](*paths)
    return found[paths[0]] if len(paths) == 1 else found


def which(path: str) -> str | bool | None:
    """The package that a file belongs to: its name, None if no package has it, False if the path does not exist.

    CLI Example: ``saltlite '*' pkg.which /usr/bin/apt-get``
    """
    place = _packages.path(path)
    if not os.path.isabs(place) or not os.path.lexists(place):
        return False
    found = owner(place)
    return str(found) if found else None


def file_list(*packages: str) -> dict[str, Any]:
    """The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example: ``saltlite '*' pkg.file_list hostname``
    """
    return dict(__salt__["lowpkg.file_list"](*packages))


def file_dict(*packages: str) -> dict[str, Any]:
    """The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example: ``saltlite '*' pkg.file_dict hostname``
    """
    return dict(__salt__["lowpkg.file_dict"](*packages))


def info_installed(*names: str, **kwargs: Unpack[_Info]) -> dict[str, dict[str, Any]]:
    """Information about the named packages, or about all installed ones.

    ``attr`` limits the result to some of name, version, arch, architecture, description, group, packager, url, source,
    size, license, install_date and install_date_time_t. ``failhard=False`` skips packages that are not installed
    instead of raising an error.

    CLI Example::

        saltlite '*' pkg.info_installed dpkg
        saltlite '*' pkg.info_installed dpkg openssl attr=version,arch
    """
    given = _packages.take(kwargs, *_Info.__annotations__)
    found: dict[str, dict[str, Any]] = __salt__["lowpkg.info"](*names, failhard=False)
    missing = [name for name in names if not _packages.select(found, [name])]
    if missing and given["failhard"] is not False:
        raise CommandExecutionError(f"Not installed: {', '.join(missing)}")
    return _packages.some_attributes(found, given["attr"])


def parse_arch(name: str) -> dict[str, str | None]:
    """The name and the architecture in a package name: ``{"name": …, "arch": …}``, None for no architecture.

    CLI Example: ``saltlite '*' pkg.parse_arch zsh:amd64``
    """
    bare, colon, arch = str(name).rpartition(":")
    return {"name": bare, "arch": arch} if colon else {"name": arch, "arch": None}


def normalize_name(name: str) -> str:
    """The name of a package without its architecture, if that is the architecture of this machine.

    CLI Example: ``saltlite '*' pkg.normalize_name zsh:amd64``
    """
    parts = parse_arch(name)
    own = (None, __grains__.get("osarch"), "all", "any")
    return str(parts["name"]) if parts["arch"] in own else str(name)


def services_need_restart() -> list[str]:
    """The services whose processes still run programs or libraries that an upgrade has replaced.

    CLI Example: ``saltlite '*' pkg.services_need_restart``
    """
    return _packages.services_running_replaced_files()


# --- available packages


_ARCHIVE = r"(?P<name>[^_]+)_(?P<version>[^_]+)_[^_]+\.deb"
"""How apt names what it downloads; the colon of a version is `%3a` there."""

_NAMED = r"^ ?(Package|Version): (.*)$"
_SHOWN = r"^(?P<key>[A-Za-z0-9-]+):(?P<value>.*(?:\n[ \t].*)*)"


class _Refreshing(TypedDict, total=False):
    cache_valid_time: float


class _Choice(_Refreshing, total=False):
    fromrepo: str


class _Latest(_Choice, total=False):
    refresh: bool


class _Showing(TypedDict, total=False):
    filter: str | list[str]
    refresh: bool


def latest_version(*names: str, refresh: bool = True, **kwargs: Unpack[_Choice]) -> Any:
    """The version that an install or upgrade would bring; an empty string if the package is up to date or unknown.

    Several names give a dict. ``refresh=False`` uses the package lists as they are; ``cache_valid_time=SECONDS``
    refreshes only older ones; ``fromrepo`` is the name of a release.

    CLI Example::

        saltlite '*' pkg.latest_version openssl
        saltlite '*' pkg.latest_version openssl curl refresh=False
        saltlite '*' pkg.available_version openssl
    """
    options = _packages.take(kwargs, *_Choice.__annotations__)
    wanted = [NAME_RULES.name(name) for name in names]
    if not wanted:
        return ""
    if refresh:
        refresh_db(options["cache_valid_time"] or 0)
    release = ["-t", NAME_RULES.version(options["fromrepo"])] if options["fromrepo"] else []
    done = checked(run(["apt-cache", "-q", *release, "policy", "--", *wanted]))
    candidates: dict[str, tuple[str, str]] = {}
    for block in re.split(r"^(?=\S)", done.stdout, flags=re.MULTILINE):
        header, _, body = block.partition("\n")
        rows = dict(re.findall(r"^  (Installed|Candidate): (\S+)", body, re.MULTILINE))
        candidates[header.rstrip(":")] = (rows.get("Installed", "(none)"), rows.get("Candidate", "(none)"))
    latest = {name: _newer(*candidates.get(name, ("(none)", "(none)"))) for name in wanted}
    return _packages.single(wanted, latest)


available_version = latest_version


def upgrade_available(name: str, **kwargs: Unpack[_Latest]) -> bool:
    """Whether an upgrade of the package is available.

    CLI Example: ``saltlite '*' pkg.upgrade_available openssl``
    """
    return bool(latest_version(name, **kwargs))


def version_cmp(pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int:
    """Compare two versions as dpkg does: -1, 0 or 1 when the first is older, equal or newer.

    CLI Example: ``saltlite '*' pkg.version_cmp '0.2.4-0ubuntu1' '0.2.4.1-0ubuntu1'``
    """
    return _packages.compare(compare_versions, pkg1, pkg2, ignore_epoch)


def list_upgrades(refresh: bool = True, dist_upgrade: bool = True, **kwargs: Unpack[_Refreshing]) -> dict[str, str]:
    """The packages that an upgrade would change, with their new versions.

    CLI Example::

        saltlite '*' pkg.list_upgrades
        saltlite '*' pkg.list_upgrades refresh=False
    """
    options = _packages.take(kwargs, *_Refreshing.__annotations__)
    if refresh:
        refresh_db(options["cache_valid_time"] or 0)
    done = apt_get(["--simulate", "dist-upgrade" if dist_upgrade else "upgrade"])
    return dict(re.findall(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+)", done.stdout, re.MULTILINE))


def refresh_db(cache_valid_time: float = 0, failhard: bool = False) -> dict[str, bool | None]:
    """Fetch the package lists: ``{source: True}`` for a new list, None for an unchanged one, False for a failure.

    Nothing is fetched if the lists are younger than ``cache_valid_time`` seconds; the result is then empty.
    ``failhard`` raises an error if a source fails.

    CLI Example: ``saltlite '*' pkg.refresh_db``
    """
    if cache_valid_time and time.time() - os.stat(places().lists).st_mtime < float(cache_valid_time):
        return {}
    done = run(["apt-get", "-q", "update"])
    refuse_locked(done)
    states: dict[str, bool | None] = {"Get": True, "Hit": None, "Ign": False, "Err": False}
    lines = re.findall(r"^(Get|Hit|Ign|Err):\d+ (.+?)(?: \[[^\]]*\])?$", done.stdout, re.MULTILINE)
    sources = {source: states[word] for word, source in lines}
    failed = [source for word, source in lines if word == "Err"]
    if failhard and (failed or done.returncode):
        raise CommandExecutionError(f"Some package lists were not fetched: {', '.join(failed) or reason(done)}")
    if done.returncode and not sources:
        raise CommandExecutionError(f"The package lists were not fetched: {reason(done)}")
    return sources


def list_repo_pkgs(*args: str) -> dict[str, list[str]]:
    """The packages that repositories offer: ``{name: [versions]}``, newest first. Names may be globs.

    Installed versions that are no longer offered are included.

    CLI Example::

        saltlite '*' pkg.list_repo_pkgs bash
        saltlite '*' pkg.list_repo_pkgs 'python3*'
    """
    wanted = [_packages.path(each) for each in args]
    # The dump has 40 MB, so it is used only for all packages.
    output = _apt_cache_show(wanted) if wanted else checked(run(["apt-cache", "dump"])).stdout
    found: dict[str, list[str]] = {}
    name = ""
    for key, value in re.findall(_NAMED, output, re.MULTILINE):
        if key == "Package":
            name = value.partition(":")[0]
        elif value not in found.setdefault(name, []):
            found[name].append(value)
    return found


def show(*names: str, **kwargs: Unpack[_Showing]) -> dict[str, dict[str, dict[str, str]]]:
    """The records of packages in the package lists: ``{name: {version: {field: text}}}``. Names may be globs.

    ``filter`` selects fields, as a list or a comma-separated string. ``refresh=True`` fetches the package lists first.

    CLI Example::

        saltlite '*' pkg.show gawk
        saltlite '*' pkg.show 'nginx-*' filter=description,provides
    """
    given = _packages.take(kwargs, *_Showing.__annotations__)
    wanted = [_packages.path(name) for name in names]
    if given["refresh"]:
        refresh_db()
    if not wanted:
        return {}
    keys = {key.lower() for key in _packages.words(given["filter"])}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for fields in _stanzas(_apt_cache_show(wanted)):
        name, version = fields.pop("Package", ""), fields.pop("Version", "")
        if name and version:
            kept = {key: value for key, value in fields.items() if not keys or key.lower() in keys}
            found.setdefault(name, {}).setdefault(version, {}).update(kept)
    return found


def list_downloaded() -> dict[str, dict[str, dict[str, Any]]]:
    """Packages that apt has downloaded: ``{name: {version: {path, size, creation_date_time, creation_date_time_t}}}``.

    Sizes are in bytes; times are in UTC, as ISO 8601 and as seconds since 1970.

    CLI Example: ``saltlite '*' pkg.list_downloaded``
    """
    folder = places().archives
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        match = re.fullmatch(_ARCHIVE, entry)
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


def _apt_cache_show(names: list[str]) -> str:
    done = run(["apt-cache", "show", "--all-versions", "--", *names])
    # A name that matches nothing is not a failure.
    return done.stdout if "No packages found" in done.stderr or done.stdout else checked(done).stdout


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    for stanza in text.split("\n\n"):
        yield {match["key"]: match["value"].strip() for match in re.finditer(_SHOWN, stanza, re.MULTILINE)}


def _newer(installed: str, candidate: str) -> str:
    if candidate in {"(none)", installed}:
        return ""
    if installed == "(none)" or compare_versions(candidate, installed) > 0:
        return candidate
    return ""


# --- changes


__risk__ = {"upgrade": "upgrade-all", "remove": "remove", "purge": "remove", "autoremove": "remove"}

SELECTIONS = ("install", "hold", "deinstall", "purge")
"""What can be wanted of a package."""


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


def install(
    name: str | None = None, refresh: bool = False, fromrepo: str | None = None, pkgs: list[Any] | None = None,
    sources: list[Any] | None = None, **kwargs: Unpack[_Installing],
) -> Changes:  # fmt: skip
    """Install packages: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package, or several separated by commas; ``version`` selects its version. ``pkgs`` is a list of
    names or of ``{name: version}``; ``sources`` is a list of ``{name: /path/to/file.deb}``, with paths of the minion or
    URLs of the file server. ``fromrepo`` is the name of a release. Further keyword arguments: ``reinstall``,
    ``downloadonly``, ``skip_verify`` (do not check signatures), ``only_upgrade``, ``force_conf_new``,
    ``install_recommends`` (True) and ``cache_valid_time``. ``test=True`` reports what would change, and changes
    nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install vim version=2:9.0.1378-2
        saltlite '*' pkg.install pkgs='[foo, {bar: 1.2.3}]'
        saltlite '*' pkg.install sources='[{foo: salt://foo.deb}]'
    """
    given = _packages.take(kwargs, *_Installing.__annotations__)
    _packages.require_target(name, pkgs, sources)
    if sources:
        targets = _packages.package_files(sources, __salt__["cp.cache_file"])
    else:
        targets = targets_of(name, pkgs, given["version"])
    if refresh and not given["test"]:
        refresh_db(given["cache_valid_time"] or 0)
    options = configuration_options(take_new=bool(given["force_conf_new"]))
    options += [option for key, option in OPTIONS.items() if given[key]]
    if given["install_recommends"] is False:
        options.append("--no-install-recommends")
    if fromrepo:
        options += ["-t", NAME_RULES.version(fromrepo)]
    return _change([*options, "--allow-downgrades", "install", "--", *targets], test=given["test"])


def upgrade(refresh: bool = True, dist_upgrade: bool = False, **kwargs: Unpack[_Upgrading]) -> Changes:
    """Upgrade all packages; ``dist_upgrade`` may also add and remove some. Returns what ``install`` returns.

    Further keyword arguments: ``downloadonly``, ``skip_verify``, ``force_conf_new`` and ``cache_valid_time``.
    ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade dist_upgrade=True
    """
    given = _packages.take(kwargs, *_Upgrading.__annotations__)
    if refresh and not given["test"]:
        refresh_db(given["cache_valid_time"] or 0)
    options = configuration_options(take_new=bool(given["force_conf_new"]))
    options += [OPTIONS[key] for key in ("downloadonly", "skip_verify") if given[key]]
    return _change([*options, "dist-upgrade" if dist_upgrade else "upgrade"], test=given["test"])


def remove(name: str | None = None, pkgs: list[Any] | None = None, test: bool = False) -> Changes:
    """Remove packages and leave their configuration files; those that are not installed are skipped. ``test=True``
    reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", "bar"]'
    """
    installed = list_pkgs()
    targets = [each for each in NAME_RULES.requested(name, pkgs) if each in installed]
    return _change(["remove", "--", *targets], test=test) if targets else {}


def purge(name: str | None = None, pkgs: list[Any] | None = None, test: bool = False) -> Changes:
    """Remove packages with their configuration files. ``test=True`` reports what would change, and changes nothing.

    CLI Example: ``saltlite '*' pkg.purge vim``
    """
    leftovers = list_pkgs(removed=True)
    known = {**leftovers, **list_pkgs()}
    targets = [each for each in NAME_RULES.requested(name, pkgs) if each in known]
    if not targets:
        return {}
    changes = _change(["purge", "--", *targets], test=test)
    gone = {each: {"old": leftovers[each], "new": ""} for each in targets if each in leftovers}
    return {**gone, **changes}


def autoremove(list_only: bool = False, purge: bool = False, test: bool = False) -> Any:
    """Remove packages that are no longer needed. ``list_only`` only returns their names, ``test=True`` the changes.

    CLI Example::

        saltlite '*' pkg.autoremove
        saltlite '*' pkg.autoremove list_only=True
    """
    options = ["--purge"] if purge else []
    if list_only:
        done = apt_get(["--simulate", *options, "autoremove"])
        return re.findall(r"^(?:Remv|Purg) (\S+)", done.stdout, re.MULTILINE)
    return _change([*options, "autoremove"], test=test)


def hold(
    name: str | None = None, pkgs: list[Any] | None = None, sources: list[Any] | None = None, test: bool = False
) -> dict[str, dict[str, Any]]:
    """Hold packages at their current version: ``{name: {name, changes, result, comment}}``.

    ``sources`` is a list as for ``install``, of which only the names are used. ``test=True`` reports what would change,
    and changes nothing.

    CLI Example::

        saltlite '*' pkg.hold vim
        saltlite '*' pkg.hold pkgs='["foo", "bar"]'
    """
    return _mark(_named(name, pkgs, sources), "hold", test=test)


def unhold(
    name: str | None = None, pkgs: list[Any] | None = None, sources: list[Any] | None = None, test: bool = False
) -> dict[str, dict[str, Any]]:
    """Release held packages, so that upgrades change them again: ``{name: {name, changes, result, comment}}``.

    The arguments are those of ``hold``.

    CLI Example: ``saltlite '*' pkg.unhold vim``
    """
    return _mark(_named(name, pkgs, sources), "unhold", test=test)


def set_selections(
    path: str | None = None,
    selection: dict[str, list[str]] | None = None,
    clear: bool = False,
    saltenv: str = "base",
    test: bool = False,
) -> Changes:
    """Set the selection states of packages: ``{name: {"old": state, "new": state}}`` for what has changed.

    ``selection`` is ``{state: [names]}`` with the states install, hold, deinstall and purge; ``path`` is a file with
    lines of name and state. ``clear`` first sets all packages except essential ones to deinstall. This does not remove
    packages; a later run of dselect or apt does. ``test=True`` reports what would change, and changes nothing.

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
        checked(run(["dpkg", "--clear-selections"]))
    lines = "".join(f"{name} {state}\n" for name, state in wanted.items())
    checked(run(["dpkg", "--set-selections"], lines))
    after = {name: state for state, names in get_selections().items() for name in names}
    return {name: change for name, change in changes.items() if after.get(name) == change["new"]}


def _change(argv: Sequence[str], *, test: bool) -> Changes:
    """Run apt-get and compare the installed packages before and after; for a test simulate it."""
    return simulate(argv) if test else _packages.changed(list_pkgs, lambda: apt_get(argv))


def _named(name: Any, pkgs: Any, sources: Any) -> list[str]:
    if not (name or pkgs or sources):
        raise SaltInvocationError("Say which packages: name, pkgs or sources.")
    if not sources:
        return list(NAME_RULES.requested(name, pkgs))
    if name or pkgs:
        raise SaltInvocationError("Say name, pkgs or sources, and one of them only.")
    return [NAME_RULES.name(key) for each in sources for key in (each if isinstance(each, Mapping) else [each])]


def _mark(names: Sequence[str], verb: str, *, test: bool) -> dict[str, dict[str, Any]]:
    held = set(list_holds())
    new = "hold" if verb == "hold" else "install"
    report: dict[str, dict[str, Any]] = {}
    for name in names:
        old = "hold" if name in held else "install"
        problem = ""
        if old != new and not test:
            done: subprocess.CompletedProcess[str] = run(["apt-mark", verb, "--", name])
            refuse_locked(done)
            problem = reason(done) if done.returncode else ""
        report[name] = _packages.hold_report(name, old, new, problem, test=test)
    return report


def _selections(selection: Any) -> dict[str, str]:
    if not isinstance(selection, Mapping) or not all(isinstance(names, list | tuple) for names in selection.values()):
        raise SaltInvocationError("A selection is {state: [names]}.")
    unknown = sorted(str(state) for state in selection if state not in SELECTIONS)
    if unknown:
        raise SaltInvocationError(f"{', '.join(unknown)}: what can be wanted of packages is {', '.join(SELECTIONS)}.")
    return {NAME_RULES.name(name): str(state) for state, names in selection.items() for name in names}


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
