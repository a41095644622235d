"""Packages of SUSE and openSUSE, through zypper and rpm.

Every command is an argument list with ``--`` before names; no shell is involved. Names that zypper could take for an
option, or for an order to remove, are refused. With ``root`` all works on the system in that folder.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       zypper, rpm
:platform:      Suse
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

__virtualname__ = "pkg"

__parts__ = {
    "available": [
        "available_version",
        "diff",
        "download",
        "info_available",
        "latest_version",
        "list_downloaded",
        "list_installed_patches",
        "list_installed_patterns",
        "list_patches",
        "list_patterns",
        "list_products",
        "list_provides",
        "list_repo_pkgs",
        "list_updates",
        "list_upgrades",
        "refresh_db",
        "resolve_capabilities",
        "search",
        "services_need_restart",
        "upgrade_available",
    ],
    "changing": ["install", "purge", "remove", "upgrade"],
    "holding": ["clean_locks", "hold", "list_holds", "list_locks", "unhold"],
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
    if __grains__.get("os_family") != "Suse":
        return False, "The zypperpkg execution module cannot be loaded: only works on Suse family systems."
    if shutil.which("zypper") is None:
        return False, "The zypperpkg execution module cannot be loaded: zypper is not installed."
    return __virtualname__
