"""What is installed: no question here asks a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.plugins.modules import _packages, _rpm, _rpm_reports

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__


def list_pkgs(
    versions_as_list: bool = False,
    removed: bool = False,
    purge_desired: bool = False,
    *,
    attr: str | list[str] | None = None,
    root: str | None = None,
) -> dict[str, Any]:
    """
    The installed packages: ``{name: version}``, or ``{name: [versions]}`` with ``versions_as_list``.

    Several versions of one package are parted by commas. What was built for another architecture than the machine's is
    named ``name.arch``. ``attr`` gives a list of attributes for each: some of epoch, version, release, arch,
    install_date and install_date_time_t, or all. ``root`` is a folder that holds another system. rpm knows no packages
    that are ``removed`` or ``purge_desired``.

    CLI Example::

        saltlite '*' pkg.list_pkgs
        saltlite '*' pkg.list_pkgs versions_as_list=True
        saltlite '*' pkg.list_pkgs attr=arch,install_date
    """
    if removed or purge_desired:
        return {}
    found = _rpm.installed(_rpm.native_architecture(__grains__), _rpm.root_folder(root))
    return _rpm_reports.list_pkgs(found, versions_as_list, attr)


def list_installed(*names: str, versions_as_list: bool = False, root: str | None = None) -> dict[str, Any]:
    """
    The installed packages and their versions, or only the named ones; globs work.

    CLI Example::

        saltlite '*' pkg.list_installed
        saltlite '*' pkg.list_installed openssl 'python3*'
    """
    return _packages.select(list_pkgs(versions_as_list, root=root), names)


def version(*names: str, versions_as_list: bool = False, root: str | None = None) -> Any:
    """
    The installed version of a package, or a dict of versions for several; an empty text for none. Globs work.

    CLI Example::

        saltlite '*' pkg.version openssl
        saltlite '*' pkg.version openssl curl 'glibc*'
    """
    if not names:
        return ""
    asked = [_rpm.normalised(str(name), _rpm.native_architecture(__grains__)) for name in names]
    return _packages.versions(list_pkgs(versions_as_list, root=root), asked)


def version_cmp(pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int:
    """
    Compare two versions as rpm does: -1, 0 or 1 when the first is older, equal or newer.

    CLI Example::

        saltlite '*' pkg.version_cmp '0.2-001' '0.2.0.1-002'
    """
    first, second = str(pkg1), str(pkg2)
    if ignore_epoch:
        first, second = first.rpartition(":")[2], second.rpartition(":")[2]
    return _rpm.compare(first, second)


def normalize_name(name: str) -> str:
    """
    The name of a package without the architecture, where that goes without saying on this machine.

    CLI Example::

        saltlite '*' pkg.normalize_name zsh.x86_64
    """
    return _rpm.normalised(str(name), _rpm.native_architecture(__grains__))


def parse_arch(name: str) -> dict[str, str | None]:
    """
    The name and the architecture that a package name holds: ``{"name": name, "arch": arch or None}``.

    CLI Example::

        saltlite '*' pkg.parse_arch zsh.x86_64
    """
    bare, arch = _rpm.split_architecture(str(name))
    return {"name": bare, "arch": arch}


def info_installed(
    *names: str,
    attr: str | list[str] | None = None,
    all_versions: bool = False,
    failhard: bool = True,
    root: str | None = None,
) -> dict[str, Any]:
    """
    What is known of the named packages, or of all installed ones.

    ``attr`` limits the answer to some of version, vendor, release, epoch, build_date, install_date, build_host, group,
    source_rpm, size, arch, license, signature, packager, url, summary and description. With ``all_versions`` each
    package has a list, the newest first. ``failhard=False`` leaves out packages that are not installed, where
    otherwise an error is raised.

    CLI Example::

        saltlite '*' pkg.info_installed bash
        saltlite '*' pkg.info_installed bash kernel all_versions=True
    """
    folder = _rpm.root_folder(root)
    return _rpm_reports.info_installed(names, failhard=failhard, root=folder, attr=attr, all_versions=all_versions)


def owner(*paths: str, root: str | None = None) -> str | dict[str, str]:
    """
    Which package a file belongs to, or a dict for several files; an empty text for none.

    CLI Example::

        saltlite '*' pkg.owner /usr/bin/rpm
        saltlite '*' pkg.owner /usr/bin/rpm /usr/bin/basename
    """
    return _rpm_reports.owner(paths, _rpm.root_folder(root))


def file_list(*packages: str, root: str | None = None) -> dict[str, Any]:
    """
    The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example::

        saltlite '*' pkg.file_list hostname
    """
    return _rpm_reports.file_list(packages, _rpm.root_folder(root))


def file_dict(*packages: str, root: str | None = None) -> dict[str, Any]:
    """
    The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example::

        saltlite '*' pkg.file_dict hostname
    """
    return _rpm_reports.file_dict(packages, _rpm.root_folder(root))


def verify(
    *names: str,
    ignore_types: str | list[str] | None = None,
    verify_options: str | list[str] | None = None,
    root: str | None = None,
) -> dict[str, Any]:
    """
    The files that are not as their packages brought them: ``{path: {"mismatch": [what], "type": kind}}``, or
    ``{path: {"missing": True}}``.

    ``ignore_types`` leaves out some of config, doc, ghost, license and readme; ``verify_options`` leaves out checks, as
    in ``nodeps,nofiles``.

    CLI Example::

        saltlite '*' pkg.verify
        saltlite '*' pkg.verify httpd ignore_types='[config, doc]'
    """
    folder = _rpm.root_folder(root)
    return _rpm_reports.verify(names, root=folder, ignore_types=ignore_types, verify_options=verify_options)


def modified(*packages: str, root: str | None = None, **flags: Any) -> dict[str, list[str]]:
    """
    The files of the named packages, or of all, that were changed: ``{path: [what changed]}``.

    Keyword arguments say which changes a file must have, or with False not have: size, mode, checksum, device, symlink,
    owner, group, time, capabilities, missing, config.

    CLI Example::

        saltlite '*' pkg.modified httpd
        saltlite '*' pkg.modified httpd checksum=True config=False
    """
    return _rpm_reports.modified(packages, root=_rpm.root_folder(root), **_rpm_reports.changes_asked(flags))
