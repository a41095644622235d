"""Packages of Alpine Linux, through apk.

Installed packages are read from apk's own database. Most functions take ``root``, the absolute path of another root
folder to work on.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       apk
:platform:      Alpine Linux
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages
from saltlite.plugins.modules._packages import Changes

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__


NAME_RULES = _packages.NameRules(
    names=re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(?:@[A-Za-z0-9._-]+)?", re.ASCII),
    versions=re.compile(r"(?:[<>]=?|[=~])?[0-9][A-Za-z0-9._~-]*", re.ASCII),
)
"""A version may begin with a comparison; a name may end with the tag of a repository."""

_DATABASES = ("lib/apk/db", "usr/lib/apk/db")
"""Where apk 2, and apk 3 on a system with one `/usr`, keeps what is installed, below the root."""

_STEP = re.compile(
    r"^\(\s*\d+/\d+\) (?P<verb>\w+) (?P<name>[^\s@]+)(?:@\S+)? \((?P<old>[^\s)]+)(?: -> (?P<new>[^\s)]+))?\)",
    re.MULTILINE,
)
_COMPARED = {"<": -1, "=": 0, ">": 1}


class _Installed(NamedTuple):
    """The entry of a package in the database; paths begin with a slash."""

    name: str
    version: str
    files: list[str]


def _apk(arguments: Sequence[str], root: str | None) -> subprocess.CompletedProcess[str]:
    """Run apk. Raises SaltInvocationError for an invalid root, CommandNotFoundError, and CommandExecutionError."""
    place = ["--root", _packages.root_folder(root)] if root is not None else []
    done = _packages.run(["apk", "--no-progress", *place, *arguments])
    if done.returncode == 0:
        return done
    output = f"{done.stderr}\n{done.stdout}"
    if "database" in output and ("lock" in output or "open" in output):
        if "Permission denied" in output:
            raise _packages.not_root()
        if "temporarily unavailable" in output:
            holders = (_packages.lock_holder(f"{folder}/lock") for folder in _databases(root))
            raise _packages.database_locked(next(filter(None, holders), ""))
    raise _packages.failure(done, _reasons(output))


def _steps(output: str) -> _packages.Changes:
    """The changes of a transaction, parsed from what apk prints of each step."""
    found: _packages.Changes = {}
    for verb, name, old, new in _STEP.findall(output):
        if verb == "Purging":
            found[name] = {"old": old, "new": ""}
        elif verb == "Installing":
            found[name] = {"old": "", "new": old}
        elif new and new != old:
            found[name] = {"old": old, "new": new}
    return found


def _targets(wanted: dict[str, str]) -> list[str]:
    """The arguments for the requested packages: `name`, or `name` with a condition on its version."""
    return [
        f"{name}{version}" if version[:1] in ("<", ">", "=", "~") else f"{name}={version}" if version else name
        for name, version in wanted.items()
    ]


def _compare(first: str, second: str) -> int:
    """-1, 0 or 1 if the first version is older, equal or newer."""
    sign = _apk(["version", "-t", NAME_RULES.version(first), NAME_RULES.version(second)], None).stdout.strip()
    if sign not in _COMPARED:
        raise SaltInvocationError(f"apk cannot compare {first!r} with {second!r}.")
    return _COMPARED[sign]


def _installed(root: str | None) -> Iterator[_Installed]:
    """The installed packages. Raises CommandExecutionError if the database is missing or cannot be read."""
    folders = _databases(root)
    path = next((f"{folder}/installed" for folder in folders if os.path.isfile(f"{folder}/installed")), "")
    try:
        with open(path or f"{folders[0]}/installed", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError as error:
        raise CommandExecutionError(f"The apk database cannot be read: {error.strerror} ({error.filename}).") from error
    for record in text.split("\n\n"):
        name = version = folder = ""
        files: list[str] = []
        for line in record.splitlines():
            key, _, value = line.partition(":")
            if key == "P":
                name = value
            elif key == "V":
                version = value
            elif key == "F":
                folder = f"/{value}" if value else ""
            elif key == "R":
                files.append(f"{folder}/{value}")
        if name:
            yield _Installed(name, version, files)


def _databases(root: str | None) -> list[str]:
    above = "" if root is None else _packages.root_folder(root).rstrip("/")
    return [f"{above}/{folder}" for folder in _DATABASES]


def _reasons(output: str) -> list[str]:
    """The lines that begin with ERROR, with the indented lines that follow each."""
    found: list[str] = []
    for line in output.splitlines():
        if line.startswith("ERROR: "):
            found.append(line.removeprefix("ERROR: "))
        elif found and line.startswith(" "):
            found[-1] += f" {line.strip()}"
    return found


__virtualname__ = "pkg"

__risk__ = {"upgrade": "upgrade-all", "remove": "remove", "purge": "remove"}


class _Rooted(TypedDict, total=False):
    root: str | None


class _Listing(_Rooted, total=False):
    removed: bool
    purge_desired: bool


class _Latest(_Rooted, total=False):
    refresh: bool


class _Installing(_Rooted, total=False):
    version: str
    skip_verify: bool
    test: bool


class _Changing(_Rooted, total=False):
    test: bool


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Alpine":
        return False, "The apk execution module cannot be loaded: only works on Alpine Linux."
    if shutil.which("apk") is None:
        return False, "The apk execution module cannot be loaded: apk is not installed."
    return __virtualname__


def list_pkgs(versions_as_list: bool = False, **kwargs: Unpack[_Listing]) -> dict[str, Any]:
    """The installed packages: ``{name: version}``, or ``{name: [versions]}`` with ``versions_as_list``.

    apk keeps no record of removed packages: ``removed`` and ``purge_desired`` give an empty dict.

    CLI Example::

        saltlite '*' pkg.list_pkgs
        saltlite '*' pkg.list_pkgs versions_as_list=True
    """
    given = _packages.take(kwargs, *_Listing.__annotations__)
    if given["removed"] or given["purge_desired"]:
        return {}
    return _packages.listed({one.name: [one.version] for one in _installed(given["root"])}, versions_as_list)


def list_installed(*names: str, **kwargs: Unpack[_Rooted]) -> dict[str, str]:
    """The installed packages and their versions, or only the named ones; globs work.

    CLI Example::

        saltlite '*' pkg.list_installed
        saltlite '*' pkg.list_installed openssl 'py3-*'
    """
    return _packages.select(list_pkgs(**_rooted(kwargs)), names)


def version(*names: str, **kwargs: Unpack[_Rooted]) -> Any:
    """The installed version of a package, or a dict of versions for several; an empty string for none. Globs work.

    CLI Example::

        saltlite '*' pkg.version openssl
        saltlite '*' pkg.version openssl curl 'lib*'
    """
    return _packages.versions(list_pkgs(**_rooted(kwargs)), names)


def latest_version(*names: str, refresh: bool = True, root: str | None = None) -> Any:
    """The version that an install or upgrade would bring; an empty string if the package is up to date or unknown.

    Several names give a dict. ``refresh=False`` uses the package lists as they are. Versions that only tagged
    repositories offer are ignored.

    CLI Example::

        saltlite '*' pkg.latest_version openssl
        saltlite '*' pkg.latest_version openssl curl refresh=False
        saltlite '*' pkg.available_version openssl
    """
    wanted = [NAME_RULES.name(name) for name in names]
    if not wanted:
        return ""
    if refresh:
        refresh_db(root=root)
    installed = list_pkgs(root=root)
    offers = _offers(_apk(["policy", *wanted], root).stdout)
    latest = {name: _newest(installed.get(name, ""), offers.get(name, [])) for name in wanted}
    return _packages.single(wanted, latest)


available_version = latest_version


def upgrade_available(name: str, **kwargs: Unpack[_Latest]) -> bool:
    """Whether an upgrade of the package is available.

    CLI Example: ``saltlite '*' pkg.upgrade_available openssl``
    """
    given = _packages.take(kwargs, *_Latest.__annotations__)
    return bool(latest_version(name, refresh=given["refresh"] is not False, root=given["root"]))


def list_upgrades(refresh: bool = True, root: str | None = None) -> dict[str, str]:
    """The packages that an upgrade would change, with their new versions.

    CLI Example::

        saltlite '*' pkg.list_upgrades
        saltlite '*' pkg.list_upgrades refresh=False
    """
    if refresh:
        refresh_db(root=root)
    steps = _steps(_apk(["upgrade", "--simulate"], root).stdout)
    return {name: change["new"] for name, change in steps.items() if change["new"]}


def version_cmp(pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int:
    """Compare two versions as apk does: -1, 0 or 1 when the first is older, equal or newer.

    Versions of Alpine Linux have no epoch, so ``ignore_epoch`` has no effect.

    CLI Example: ``saltlite '*' pkg.version_cmp 1.2.4-r1 1.2.4-r10``
    """
    del ignore_epoch
    return _compare(str(pkg1), str(pkg2))


def refresh_db(root: str | None = None) -> bool:
    """Fetch the package lists; True, or an error that lists what was not fetched.

    CLI Example: ``saltlite '*' pkg.refresh_db``
    """
    _apk(["update"], root)
    return True


def install(
    name: str | None = None,
    refresh: bool = False,
    pkgs: list[Any] | None = None,
    sources: list[Any] | None = None,
    **kwargs: Unpack[_Installing],
) -> Changes:
    """Install or upgrade packages: ``{name: {"old": version, "new": version}}`` for everything that changed.

    ``name`` is one package, or several separated by commas; ``version`` selects its version. ``pkgs`` is a list of
    names or of ``{name: version}``; a version may begin with ``<``, ``<=``, ``>=``, ``>`` or ``~``. ``sources`` is a
    list of ``{name: /path/to/file.apk}``, with paths of the minion or URLs of the file server; ``skip_verify=True``
    accepts unsigned files. ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.install vim
        saltlite '*' pkg.install pkgs='["foo", {"bar": "~1.2"}]'
        saltlite '*' pkg.install sources='[{"foo": "salt://foo-1.0-r0.apk"}]' skip_verify=True
    """
    given = _packages.take(kwargs, *_Installing.__annotations__)
    _packages.require_target(name, pkgs, sources)
    options = ["--allow-untrusted"] if given["skip_verify"] else []
    if sources:
        targets = _packages.package_files(sources, __salt__["cp.cache_file"])
    else:
        targets = _targets(NAME_RULES.requested(name, pkgs, given["version"]))
    if not targets:
        return {}
    if refresh and not given["test"]:
        refresh_db(root=given["root"])
    return _change(["add", "--upgrade", *options], targets, root=given["root"], test=given["test"])


def upgrade(
    name: str | None = None, pkgs: list[Any] | None = None, refresh: bool = True, **kwargs: Unpack[_Changing]
) -> Changes:
    """Upgrade all packages, or the named ones. Returns what ``install`` returns.

    ``refresh=False`` uses the package lists as they are. ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.upgrade
        saltlite '*' pkg.upgrade vim refresh=False
    """
    given = _packages.take(kwargs, *_Changing.__annotations__)
    targets = _targets(NAME_RULES.requested(name, pkgs))
    if refresh and not given["test"]:
        refresh_db(root=given["root"])
    argv = ["add", "--upgrade"] if targets else ["upgrade"]
    return _change(argv, targets, root=given["root"], test=given["test"])


def remove(name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Changing]) -> Changes:
    """Remove packages and their unneeded dependencies; those that are not installed are skipped.

    Changed configuration files stay. ``test=True`` reports what would change, and changes nothing.

    CLI Example::

        saltlite '*' pkg.remove vim
        saltlite '*' pkg.remove pkgs='["foo", "bar"]'
    """
    return _remove(["del"], NAME_RULES.requested(name, pkgs), kwargs)


def purge(name: str | None = None, pkgs: list[Any] | None = None, **kwargs: Unpack[_Changing]) -> Changes:
    """Remove packages with their configuration files. ``test=True`` reports what would change, and changes nothing.

    CLI Example: ``saltlite '*' pkg.purge vim``
    """
    return _remove(["del", "--purge"], NAME_RULES.requested(name, pkgs), kwargs)


def file_list(*packages: str, **kwargs: Unpack[_Rooted]) -> dict[str, Any]:
    """The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example: ``saltlite '*' pkg.file_list busybox``
    """
    return _packages.file_list(file_dict(*packages, **kwargs))


def file_dict(*packages: str, **kwargs: Unpack[_Rooted]) -> dict[str, Any]:
    """The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example: ``saltlite '*' pkg.file_dict busybox``
    """
    wanted = [NAME_RULES.name(name) for name in packages]
    every = {one.name: one.files for one in _installed(_rooted(kwargs)["root"])}
    errors = [f"Package {name} is not installed." for name in wanted if name not in every]
    found = {name: files for name, files in every.items() if not wanted or name in wanted}
    return {"errors": errors, "packages": found}


def owner(*paths: str, **kwargs: Unpack[_Rooted]) -> Any:
    """The package that a file belongs to, or a dict for several files; an empty string for none.

    CLI Example::

        saltlite '*' pkg.owner /bin/busybox
        saltlite '*' pkg.owner /bin/busybox /etc/passwd
    """
    wanted = [_packages.path(path) for path in paths]
    owners = {path: one.name for one in _installed(_rooted(kwargs)["root"]) for path in one.files}
    found = {path: owners.get(path, "") for path in wanted}
    return found[wanted[0]] if len(wanted) == 1 else found if wanted else ""


def _change(argv: Sequence[str], targets: Sequence[str], *, root: str | None, test: Any) -> Changes:
    """Run a transaction and compare the installed packages before and after; for a test simulate it."""
    if test:
        return _steps(_apk([argv[0], "--simulate", *argv[1:], "--", *targets], root).stdout)
    return _packages.changed(lambda: list_pkgs(root=root), lambda: _apk([*argv, "--", *targets], root))


def _remove(argv: Sequence[str], wanted: dict[str, str], kwargs: _Changing) -> Changes:
    given = _packages.take(kwargs, *_Changing.__annotations__)
    installed = list_pkgs(root=given["root"])
    there = [name for name in wanted if name in installed]
    return _change(argv, there, root=given["root"], test=given["test"]) if there else {}


def _rooted(kwargs: _Rooted) -> dict[str, Any]:
    return _packages.take(kwargs, "root")


def _offers(policy: str) -> dict[str, list[str]]:
    """The versions of each package in repositories without a tag."""
    found: dict[str, list[str]] = {}
    name = version = ""
    for line in policy.splitlines():
        if line.endswith(" policy:") and not line.startswith(" "):
            name = line.removesuffix(" policy:")
        elif line.startswith("    "):
            place = line.strip()
            is_repository = not place.startswith("@") and not re.search(r"(^|/)apk/db/installed$", place)
            if is_repository and version not in found.setdefault(name, []):
                found[name].append(version)
        elif line.startswith("  "):
            version = line.strip().removesuffix(":")
    return found


def _newest(installed: str, offers: list[str]) -> str:
    best = installed
    for offer in offers:
        if not best or (offer not in (best, installed) and _compare(offer, best) > 0):
            best = offer
    return best if best != installed else ""
