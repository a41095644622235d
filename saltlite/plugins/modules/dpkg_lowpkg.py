"""The dpkg database of this machine: what is installed, which files it owns.

It is read, and only ``unpurge`` changes it; ``pkg`` installs and removes.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       dpkg-query
:platform:      Debian
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__virtualname__ = "lowpkg"

_FIELDS = {
    "version": "Version", "arch": "Architecture", "description": "Description", "group": "Section",
    "packager": "Maintainer", "url": "Homepage", "source": "source:Package", "size": "Installed-Size",
    "status": "db:Status-Abbrev",
}  # fmt: skip
"""Name of an attribute in the result -> dpkg's field."""

_DOCUMENTS = "/usr/share/doc"

_UNIT, _RECORD = "\x1f", "\x1e"
"""Control characters that no field of a package contains; a description contains line breaks."""


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Debian":
        return False, "The dpkg execution module cannot be loaded: only works on Debian family systems."
    if shutil.which("dpkg-query") is None:
        return False, "The dpkg execution module cannot be loaded: dpkg-query is not installed."
    return __virtualname__


def list_pkgs(*packages: str, removed: bool = False, purge_desired: bool = False) -> dict[str, str]:
    """The installed packages and their versions, or only the named ones; the names may be globs.

    Packages of another architecture are named ``name:arch``. ``removed`` lists packages whose configuration files
    remain, ``purge_desired`` those that are marked to be purged.

    CLI Example::

        saltlite '*' lowpkg.list_pkgs
        saltlite '*' lowpkg.list_pkgs 'python3*'
    """
    native = _native_architecture()
    wanted = [_checked(name) for name in packages]
    found: dict[str, str] = {}
    for (name, arch), (want, status, version) in _database().items():
        if removed:
            matches = status == "config-files"
        else:
            # dpkg reports one of the other states until the triggers of an installed package have run.
            matches = status in {"installed", "triggers-pending", "triggers-awaited"}
            matches = matches and (want == "purge" or not purge_desired)
        full = f"{name}:{arch}"
        if matches and (any(_packages.matches(each, wanted) for each in (name, full))):
            found[name if arch in (native, "all") else full] = version
    return found


def info(*packages: str, failhard: bool = True) -> dict[str, dict[str, Any]]:
    """Information about the named packages (names may be globs), or about all installed ones: name, version, arch (and
    architecture), description, group, packager, url, source, size, license (the names in its file ``copyright``),
    install_date and install_date_time_t (seconds since 1970).

    An error is raised if none of the named packages is installed; ``failhard=False`` returns an empty dict.

    CLI Example::

        saltlite '*' lowpkg.info dpkg
        saltlite '*' lowpkg.info 'php5*' failhard=False
    """
    found: dict[str, dict[str, Any]] = {}
    for name, *values in _query(["binary:Package", *_FIELDS.values()], packages):
        row = dict(zip(_FIELDS, values, strict=True))
        if row.pop("status")[1:2] == "i":
            native = name.removesuffix(f":{_native_architecture()}")
            bare = name.partition(":")[0]
            filled = {key: text for key, text in row.items() if text}
            more = {**_licenses(bare), **_installed_at(bare, row["arch"])}
            found[native] = {"name": bare, **filled, "architecture": row["arch"], **more}
    if packages and not found and failhard:
        raise CommandExecutionError(f"Not installed: {', '.join(map(str, packages))}")
    return found


def file_list(*packages: str) -> dict[str, list[str]]:
    """The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example: ``saltlite '*' lowpkg.file_list hostname``
    """
    return _packages.file_list(file_dict(*packages))


def file_dict(*packages: str) -> dict[str, Any]:
    """The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example: ``saltlite '*' lowpkg.file_dict hostname``
    """
    installed = list_pkgs(*packages)
    errors = [f"Package {name} is not installed." for name in packages if not fnmatch.filter(installed, name)]
    if not installed:
        return {"errors": errors, "packages": {}}
    # The output has one block a name, in the order of the names, separated by empty lines.
    done = _packages.run(["dpkg-query", "-L", "--", *installed])
    blocks = done.stdout.split("\n\n")
    if done.returncode or len(blocks) != len(installed):
        raise CommandExecutionError(f"The dpkg database cannot be read: {done.stderr.strip()}")
    files = {
        name: [line for line in block.splitlines() if line.startswith("/")]
        for name, block in zip(installed, blocks, strict=True)
    }
    return {"errors": errors, "packages": files}


def owner(*paths: str) -> dict[str, str]:
    """The package that each path belongs to; an empty string for none. Several owners are separated by commas.

    CLI Example: ``saltlite '*' lowpkg.owner /usr/bin/apt-get``
    """
    found: dict[str, str] = {}
    for path in paths:
        done = _packages.run(["dpkg-query", "-S", "--", _checked(path)])
        owners = [
            line.rpartition(": ")[0]
            for line in done.stdout.splitlines()
            if not line.startswith("diversion ") and line.rpartition(": ")[2] == path
        ]
        found[path] = ",".join(owners)
    return found


def _installed_at(name: str, arch: str) -> dict[str, Any]:
    """When dpkg wrote the list of the package's files."""
    for stem in (name, f"{name}:{arch}"):
        with contextlib.suppress(OSError):
            seconds = int(os.stat(f"{_folder()}/info/{stem}.list").st_mtime)
            text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
            return {"install_date": text, "install_date_time_t": seconds}
    return {}


def _licenses(name: str) -> dict[str, str]:
    """The license of the package, where its file `copyright` has Debian's form."""
    try:
        with open(f"{_DOCUMENTS}/{name}/copyright", encoding="utf-8", errors="replace") as file:
            found = {line.partition(":")[2].strip() for line in file if line.startswith("License:")}
    except OSError:
        return {}
    return {"license": ", ".join(sorted(found))} if found else {}


def _folder() -> str:
    return os.environ.get("DPKG_ADMINDIR") or f"{os.environ.get('DPKG_ROOT', '')}/var/lib/dpkg"


def unpurge(*packages: str) -> dict[str, dict[str, str]]:
    """Select packages for installation that are selected to be purged, without installing them. Return those that
    changed, with ``old`` and ``new``.

    CLI Example: ``saltlite '*' lowpkg.unpurge curl``
    """
    names = [_checked(name) for name in packages]
    if any(set(name) & set(" \t\n*?[") for name in names):
        raise SaltInvocationError("Packages are named one by one here, without globs.")
    if not names:
        return {}
    before = list_pkgs(purge_desired=True)
    done = _packages.run(["dpkg", "--set-selections"], text="".join(f"{name} install\n" for name in names))
    if done.returncode:
        raise CommandExecutionError(f"The selections could not be changed: {done.stderr.strip()}")
    after = list_pkgs(purge_desired=True)
    return {name: {"old": version, "new": ""} for name, version in before.items() if name not in after}


def bin_pkg_info(path: str, saltenv: str = "base") -> dict[str, str]:
    """Information about the file of a package: ``name``, ``version`` and ``arch``. It is on this minion, or is fetched
    from ``salt://`` or a web server.

    CLI Example::

        saltlite '*' lowpkg.bin_pkg_info /srv/foo-1.2.3-1_all.deb
        saltlite '*' lowpkg.bin_pkg_info salt://foo-1.2.3-1_all.deb
    """
    file = str(__salt__["cp.cache_file"](path, saltenv) if "://" in str(path) else path)
    if not os.path.isabs(file) or not os.path.exists(file):
        raise CommandExecutionError(f"{path} does not exist on minion")
    done = _packages.run(
        ["dpkg-deb", "--show", f"--showformat=${{Package}}{_UNIT}${{Version}}{_UNIT}${{Architecture}}", file]
    )
    if done.returncode:
        raise CommandExecutionError(f"Unable to get info for {path}: {done.stderr.strip()}")
    name, version, arch = done.stdout.split(_UNIT)
    foreign = arch != "all" and arch != _native_architecture() != ""
    return {"name": f"{name}:{arch}" if foreign else name, "version": version, "arch": arch}


def _database() -> dict[tuple[str, str], tuple[str, str, str]]:
    """Name and architecture -> selection, status and version of every package that dpkg knows.

    It is read from dpkg's own files, which is four times as fast as dpkg-query. While dpkg works, it writes numbered
    files to the folder `updates`, which override `status`.
    """
    folder = _folder()
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    try:
        # `status` is read last: updates that were merged into it meanwhile are then not lost.
        updates = sorted(filter(str.isdigit, os.listdir(f"{folder}/updates")))
        texts = []
        for name in updates:
            with contextlib.suppress(FileNotFoundError), open(f"{folder}/updates/{name}", "rb") as stream:
                texts.append(stream.read())
        with open(f"{folder}/status", "rb") as stream:
            texts.insert(0, stream.read())
    except OSError as error:
        raise CommandExecutionError(
            f"The dpkg database cannot be read: {error.strerror} ({error.filename})."
        ) from error
    for text in texts:
        for stanza in text.split(b"\n\n"):
            if stanza.strip():
                row = b"\n" + stanza.lstrip(b"\n")
                want, _, status = _value(row, b"\nStatus: ").partition(" ")
                key = _value(row, b"\nPackage: "), _value(row, b"\nArchitecture: ")
                found[key] = want, status.rpartition(" ")[2], _value(row, b"\nVersion: ")
    return found


def _value(stanza: bytes, name: bytes) -> str:
    start = stanza.find(name)
    if start < 0:
        return ""
    start += len(name)
    end = stanza.find(b"\n", start)
    return stanza[start : end if end >= 0 else None].decode("utf-8", "replace")


def _query(columns: list[str], packages: tuple[str, ...]) -> Iterator[list[str]]:
    form = _UNIT.join(f"${{{column}}}" for column in columns) + _RECORD
    names = [_checked(name) for name in packages]
    done = _packages.run(["dpkg-query", "--showformat", form, "-W", "--", *names])
    # 1 means that a name matched nothing; higher codes mean a damaged database.
    if done.returncode > 1:
        raise CommandExecutionError(f"The dpkg database cannot be read: {done.stderr.strip()}")
    for record in done.stdout.split(_RECORD)[:-1]:
        yield record.split(_UNIT)


def _checked(name: Any) -> str:
    text = str(name)
    if not text or text.startswith("-"):
        raise SaltInvocationError(f"{text!r} is not the name of a package or file.")
    return text


def _native_architecture() -> str:
    return str(__grains__.get("osarch", ""))
