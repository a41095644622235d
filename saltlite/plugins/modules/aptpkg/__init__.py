"""Packages of Debian and its derivatives, through apt and dpkg.

Every command is an argument list with ``--`` before names; no shell is involved. Names that start with a hyphen are
refused. The folders are those that apt is configured to use, also by ``APT_CONFIG``.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       apt-get, apt-cache, apt-config, apt-mark, dpkg
:platform:      Debian
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from .packages import (  # isort: skip
    autoremove, available_version, file_dict, file_list, get_selections, hold, info_installed, install, latest_version,
    list_downloaded, list_holds, list_installed, list_pkgs, list_repo_pkgs, list_upgrades, normalize_name, owner,
    parse_arch, purge, refresh_db, remove, services_need_restart, set_selections, show, unhold, upgrade,
    upgrade_available, version, version_cmp, which,
)  # fmt: skip
from .repositories import add_repo_key, del_repo, del_repo_key, get_repo, get_repo_keys, list_repos, mod_repo

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

__virtualname__ = "pkg"

__all__ = [
    "add_repo_key", "autoremove", "available_version", "del_repo", "del_repo_key", "file_dict", "file_list",
    "get_repo", "get_repo_keys", "get_selections", "hold", "info_installed", "install", "latest_version",
    "list_downloaded", "list_holds", "list_installed", "list_pkgs", "list_repo_pkgs", "list_repos", "list_upgrades",
    "mod_repo", "normalize_name", "owner", "parse_arch", "purge", "refresh_db", "remove", "services_need_restart",
    "set_selections", "show", "unhold", "upgrade", "upgrade_available", "version", "version_cmp", "which",
]  # fmt: skip


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Debian":
        return False, "The apt execution module cannot be loaded: only works on Debian family systems."
    if shutil.which("apt-get") is None:
        return False, "The apt execution module cannot be loaded: apt-get is not installed."
    return __virtualname__
