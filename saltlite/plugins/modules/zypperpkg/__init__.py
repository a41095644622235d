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

from saltlite.plugins.modules._rpm import (  # isort: skip
    file_dict, file_list, info_installed, modified, owner, parse_arch, verify, version_cmp,
)  # fmt: skip

from .packages import (  # isort: skip
    clean_locks, hold, install, list_holds, list_installed, list_locks, list_pkgs, normalize_name, purge, remove,
    unhold, upgrade, version,
)  # fmt: skip
from .repositories import (  # isort: skip
    available_version, del_repo, diff, download, get_repo, info_available, latest_version, list_downloaded,
    list_installed_patches, list_installed_patterns, list_patches, list_patterns, list_products, list_provides,
    list_repo_pkgs, list_repos, list_updates, list_upgrades, mod_repo, refresh_db, resolve_capabilities, search,
    services_need_restart, upgrade_available,
)  # fmt: skip

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

__virtualname__ = "pkg"

__all__ = [
    "available_version", "clean_locks", "del_repo", "diff", "download", "file_dict", "file_list", "get_repo",
    "hold", "info_available", "info_installed", "install", "latest_version", "list_downloaded", "list_holds",
    "list_installed", "list_installed_patches", "list_installed_patterns", "list_locks", "list_patches",
    "list_patterns", "list_pkgs", "list_products", "list_provides", "list_repo_pkgs", "list_repos", "list_updates",
    "list_upgrades", "mod_repo", "modified", "normalize_name", "owner", "parse_arch", "purge", "refresh_db",
    "remove", "resolve_capabilities", "search", "services_need_restart", "unhold", "upgrade", "upgrade_available",
    "verify", "version", "version_cmp",
]  # fmt: skip


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Suse":
        return False, "The zypperpkg execution module cannot be loaded: only works on Suse family systems."
    if shutil.which("zypper") is None:
        return False, "The zypperpkg execution module cannot be loaded: zypper is not installed."
    return __virtualname__
