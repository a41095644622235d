"""Packages of Debian and its derivatives, through apt and dpkg.

Every command is an argument list with ``--`` before names; no shell is involved. Names that start with a
hyphen are refused. Where apt keeps its files is what its own configuration says, ``APT_CONFIG`` included.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       apt-get, apt-cache, apt-config, apt-mark, dpkg
:platform:      Debian
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

__virtualname__ = "pkg"

__parts__ = {
    "changes": ["autoremove", "hold", "install", "purge", "remove", "set_selections", "unhold", "upgrade"],
    "installed": [
        "file_dict",
        "file_list",
        "get_selections",
        "info_installed",
        "list_holds",
        "list_installed",
        "list_pkgs",
        "normalize_name",
        "owner",
        "parse_arch",
        "services_need_restart",
        "version",
        "which",
    ],
    "keys": ["add_repo_key", "del_repo_key", "get_repo_keys"],
    "offered": [
        "available_version",
        "latest_version",
        "list_downloaded",
        "list_repo_pkgs",
        "list_upgrades",
        "refresh_db",
        "show",
        "upgrade_available",
        "version_cmp",
    ],
    "repos": ["del_repo", "get_repo", "list_repos", "mod_repo"],
}


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("os_family") != "Debian":
        return False, "The apt execution module cannot be loaded: only works on Debian family systems."
    if shutil.which("apt-get") is None:
        return False, "The apt execution module cannot be loaded: apt-get is not installed."
    return __virtualname__
