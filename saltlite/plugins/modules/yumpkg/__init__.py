"""Packages of Fedora, Red Hat Enterprise Linux and their derivatives, through dnf5, dnf or yum, and rpm.

Every command is an argument list; no shell is involved. Names that a program could take for an option are refused. With
``root`` all works on the system in that folder: the repositories and the configuration are that system's own.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       dnf or yum, rpm
:platform:      RedHat
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from saltlite.plugins.modules import _dnf

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

__virtualname__ = "pkg"

__parts__ = {
    "available": [
        "available_version",
        "clean_metadata",
        "diff",
        "download",
        "latest_version",
        "list_downloaded",
        "list_installed_patches",
        "list_patches",
        "list_repo_pkgs",
        "list_updates",
        "list_upgrades",
        "refresh_db",
        "services_need_restart",
        "upgrade_available",
    ],
    "changing": ["autoremove", "install", "purge", "remove", "update", "upgrade"],
    "grouping": ["group_diff", "group_info", "group_install", "group_list", "groupinstall"],
    "holding": ["get_locked_packages", "hold", "list_holds", "unhold"],
    "installed": [
        "file_dict",
        "file_list",
        "info_installed",
        "list_installed",
        "list_pkgs",
        "modified",
        "normalize_name",
        "owner",
        "parse_arch",
        "verify",
        "version",
        "version_cmp",
    ],
    "repositories": ["del_repo", "get_repo", "list_repos", "mod_repo"],
}


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "RedHat":
        return False, "The yumpkg execution module cannot be loaded: only works on RedHat family systems."
    if not any(shutil.which(name) for name in _dnf.PROGRAMS):
        return False, "The yumpkg execution module cannot be loaded: neither dnf5, dnf nor yum is installed."
    return __virtualname__
