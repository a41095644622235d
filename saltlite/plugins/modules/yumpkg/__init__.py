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

from saltlite.plugins.modules._rpm import (  # isort: skip
    file_dict, file_list, info_installed, modified, owner, parse_arch, verify, version_cmp,
)  # fmt: skip

from . import dnf

from .packages import (  # isort: skip
    autoremove, get_locked_packages, group_diff, group_info, group_install, group_list, groupinstall, hold, install,
    list_holds, list_installed, list_pkgs, normalize_name, purge, remove, unhold, update, upgrade, version,
)  # fmt: skip
from .repositories import (  # isort: skip
    available_version, clean_metadata, del_repo, diff, download, get_repo, latest_version, list_downloaded,
    list_installed_patches, list_patches, list_repo_pkgs, list_repos, list_updates, list_upgrades, mod_repo, refresh_db,
    services_need_restart, upgrade_available,
)  # fmt: skip

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

__virtualname__ = "pkg"

__all__ = [
    "autoremove", "available_version", "clean_metadata", "del_repo", "diff", "download", "file_dict", "file_list",
    "get_locked_packages", "get_repo", "group_diff", "group_info", "group_install", "group_list", "groupinstall",
    "hold", "info_installed", "install", "latest_version", "list_downloaded", "list_holds", "list_installed",
    "list_installed_patches", "list_patches", "list_pkgs", "list_repo_pkgs", "list_repos", "list_updates",
    "list_upgrades", "mod_repo", "modified", "normalize_name", "owner", "parse_arch", "purge", "refresh_db",
    "remove", "services_need_restart", "unhold", "update", "upgrade", "upgrade_available", "verify", "version",
    "version_cmp",
]  # fmt: skip


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "RedHat":
        return False, "The yumpkg execution module cannot be loaded: only works on RedHat family systems."
    if not any(shutil.which(name) for name in dnf.PROGRAMS):
        return False, "The yumpkg execution module cannot be loaded: neither dnf5, dnf nor yum is installed."
    return __virtualname__
