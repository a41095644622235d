"""The rpm database of this machine, or of a root folder: what is installed, which files it owns.

Reading only; ``pkg`` installs and removes.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       rpm
:platform:      RedHat, Suse
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages, _rpm

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

__virtualname__ = "lowpkg"

_PACKAGE_FILE = ("NAME", "EPOCH", "VERSION", "RELEASE", "ARCH")


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") not in ("RedHat", "Suse"):
        return False, "The rpm execution module cannot be loaded: only works on RedHat and Suse family systems."
    if shutil.which("rpm") is None:
        return False, "The rpm execution module cannot be loaded: rpm is not installed."
    return __virtualname__


def list_pkgs(*packages: str, root: str | None = None) -> dict[str, str]:
    """The installed packages and their versions without releases, or only the named ones; the names may be globs.

    ``root`` is the folder of another system.

    CLI Example::

        saltlite '*' lowpkg.list_pkgs
        saltlite '*' lowpkg.list_pkgs 'python3*'
    """
    found: dict[str, list[str]] = {}
    names = _rpm.checked_names(packages)
    for name, version in _rpm.query(["NAME", "VERSION"], names, _rpm.root_folder(root)):
        found.setdefault(name, []).append(version)
    return _packages.listed(found, versions_as_list=False)


def info(
    *packages: str, attr: str | list[str] | None = None, all_versions: bool = False, root: str | None = None
) -> dict[str, Any]:
    """Information about the named packages, or about all installed ones: version, arch, description and more.

    ``attr`` limits the result to some of version, vendor, release, epoch, build_date, build_date_time_t, install_date,
    install_date_time_t, build_host, group, source_rpm, size, arch, license, signature, packager, url, summary and
    description. With ``all_versions`` each package has a list, newest first.

    CLI Example::

        saltlite '*' lowpkg.info bash
        saltlite '*' lowpkg.info bash attr=version,build_date
    """
    return _rpm.info(packages, root=_rpm.root_folder(root), attr=attr, all_versions=all_versions)


def verify(
    *packages: str,
    ignore_types: str | list[str] | None = None,
    verify_options: str | list[str] | None = None,
    root: str | None = None,
) -> dict[str, dict[str, Any]]:
    """The files that differ from their packages: ``{path: {"mismatch": [what], "type": kind}}`` or ``{path: {"missing":
    True}}``.

    ``ignore_types`` skips some of config, doc, ghost, license and readme; ``verify_options`` skips checks, as in
    ``nodeps,nofiles``.

    CLI Example::

        saltlite '*' lowpkg.verify
        saltlite '*' lowpkg.verify httpd ignore_types='[config, doc]'
    """
    return _rpm.verify(*packages, ignore_types=ignore_types, verify_options=verify_options, root=root)


def modified(*packages: str, root: str | None = None, **flags: Any) -> dict[str, list[str]]:
    """The changed files of the named packages, or of all: ``{path: [what changed]}``.

    Keyword arguments select files by a change that they must have (True) or must not have (False): size, mode,
    checksum, device, symlink, owner, group, time, capabilities, missing, config.

    CLI Example::

        saltlite '*' lowpkg.modified httpd
        saltlite '*' lowpkg.modified httpd checksum=True config=False
    """
    return _rpm.modified(*packages, root=root, **flags)


def file_list(*packages: str, root: str | None = None) -> dict[str, list[str]]:
    """The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example: ``saltlite '*' lowpkg.file_list httpd``
    """
    return _rpm.file_list(*packages, root=root)


def file_dict(*packages: str, root: str | None = None) -> dict[str, Any]:
    """The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example: ``saltlite '*' lowpkg.file_dict httpd``
    """
    return _rpm.file_dict(*packages, root=root)


def owner(*paths: str, root: str | None = None) -> str | dict[str, str]:
    """The package that a file belongs to, or a dict for several files; an empty string for none.

    CLI Example::

        saltlite '*' lowpkg.owner /usr/bin/apachectl
        saltlite '*' lowpkg.owner /usr/bin/apachectl /etc/httpd/conf/httpd.conf
    """
    return _rpm.owner(*paths, root=root)


def diff(package_path: str, path: str, root: str | None = None) -> str:
    """How an installed file differs from the one in a package file; an empty string if they are equal.

    CLI Example: ``saltlite '*' lowpkg.diff /srv/httpd-2.4.57-5.x86_64.rpm /etc/httpd/conf/httpd.conf``
    """
    return _rpm.difference(package_path, path, _rpm.root_folder(root))


def version_cmp(ver1: str, ver2: str, ignore_epoch: bool = False) -> int:
    """Compare two versions as rpm does: -1, 0 or 1 when the first is older, equal or newer.

    CLI Example: ``saltlite '*' lowpkg.version_cmp '0.2-001' '0.2.0.1-002'``
    """
    return _rpm.version_cmp(ver1, ver2, ignore_epoch)


def bin_pkg_info(path: str, saltenv: str = "base") -> dict[str, Any]:
    """Name, version and arch of a package file. ``path`` is on the minion, or a URL such as ``salt://x.rpm``.

    CLI Example: ``saltlite '*' lowpkg.bin_pkg_info /srv/httpd-2.4.57-5.x86_64.rpm``
    """
    found = str(__salt__["cp.cache_file"](path, saltenv) or "") if "://" in path else _packages.path(path)
    if not os.path.isabs(found):
        raise SaltInvocationError(f"{path} is not the absolute path of a package file on this minion.")
    if not os.path.isfile(found):
        raise CommandExecutionError(f"There is no package file {path} on this minion.")
    name, epoch, version, release, arch = _rpm.of_package_file(found, _PACKAGE_FILE)
    return {
        "name": _rpm.shown_name(name, arch, _rpm.native_architecture(__grains__)),
        "version": _rpm.full_version(epoch, version, release),
        "arch": arch,
        "repoid": "none",
        "install_date": None,
        "install_date_time_t": None,
    }


def checksum(*paths: str, root: str | None = None) -> dict[str, bool]:
    """Whether the digests and signatures of package files are valid.

    CLI Example: ``saltlite '*' lowpkg.checksum /srv/httpd-2.4.57-5.x86_64.rpm``
    """
    if not paths:
        raise CommandExecutionError("No package files were given.")
    folder = _rpm.root_folder(root)
    return {path: _rpm.is_whole(_packages.path(path), folder) for path in paths}
