"""`pkg`: packages of the system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypedDict

from saltlite.interfaces import Interface


class PackageChange(TypedDict):
    """The old and the new version of one package; empty if it was or is not installed."""

    old: str
    new: str


class _PkgElsewhere(Interface):
    """Functions of platforms other than Linux."""

    __func_alias__: ClassVar[Mapping[str, str]] = {"check_": "check"}

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def audit(self) -> Any:
        """Known vulnerabilities of installed packages."""
        return None

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def backup(self, file_name: str) -> Any:
        """Write the package database to a file."""
        return None

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def check_(
        self, depends: bool = False, recompute: bool = False, checksum: bool = False, checklibs: bool = False
    ) -> Any:
        """Check installed packages."""
        return None

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def clean(self, clean_all: bool = False, dryrun: bool = False) -> Any:
        """Remove downloaded packages."""
        return None

    @Interface.supported(os_family=["Windows"])
    def compare_versions(self, ver1: str = "", oper: str = "==", ver2: str = "") -> bool:
        """Whether a comparison of two versions holds."""
        return False

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def delete(
        self,
        name: str | None = None,
        pkgs: list[str] | None = None,
        all_installed: bool = False,
        force: bool = False,
        glob: bool = False,
    ) -> str:
        """The same as `remove`."""
        return ""

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def fetch(
        self, name: str, fetch_all: bool = False, quiet: bool = False, fromrepo: Any = None, glob: bool = True
    ) -> Any:
        """Download a package."""
        return None

    @Interface.supported(os_family=["Windows"])
    def genrepo(self) -> Any:
        """Generate the package lists again."""
        return None

    @Interface.supported(os_family=["Solaris"])
    def get_fmri(self, name: str) -> str:
        """The full name of a package."""
        return ""

    @Interface.supported(os_family=["Windows"])
    def get_package_info(self, name: str, saltenv: str | None = None) -> dict[str, Any]:
        """The entry of a package in the package lists."""
        return {}

    @Interface.supported(os_family=["Windows"])
    def get_repo_data(self, saltenv: str | None = None) -> dict[str, Any]:
        """The package lists."""
        return {}

    @Interface.supported(os=["MacOS"])
    def homebrew_prefix(self) -> str:
        """The folder of the package manager."""
        return ""

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def info(self, *names: str) -> dict[str, Any]:
        """Information about installed packages."""
        return {}

    @Interface.supported(os_family=["Solaris"])
    def is_installed(self, name: str) -> bool:
        """Whether a package is installed."""
        return False

    @Interface.supported(os_family=["Windows"])
    def list_available(self, *names: str) -> list[str]:
        """The versions of a package that can be installed."""
        return []

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def list_locked(self) -> list[str]:
        """The packages that are locked."""
        return []

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def lock(self, name: str) -> bool | dict[str, Any]:
        """Hold a package at its version."""
        return False

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def locked(self, name: str) -> bool:
        """Whether a package is locked."""
        return False

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def parse_config(self, file_name: str = "/usr/local/etc/pkg.conf") -> Any:
        """The configuration of the package manager."""
        return None

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def restore(self, file_name: str) -> Any:
        """Read the package database from a file."""
        return None

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def stats(self, local: bool = False, remote: bool = False, bytes: bool = False) -> Any:
        """Statistics about packages."""
        return None

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def unlock(self, name: str) -> bool | dict[str, Any]:
        """Release a held package."""
        return False

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def update_package_site(self, new_url: str) -> Any:
        """Fetch packages from another repository."""
        return None

    @Interface.supported(os=["DragonFly", "FreeBSD"])
    def updating(self, name: str, filedate: Any = None, filename: Any = None) -> Any:
        """Notes on the upgrade of a package."""
        return None


class PkgInterface(_PkgElsewhere):
    """Packages and their origins."""

    __modulename__ = "pkg"
    __version__ = "1.0"

    def version(self, *names: str) -> str | dict[str, str]:
        """The installed version of a package, or versions by name for several; an empty string for none."""
        return ""

    def latest_version(self, *names: str) -> str | dict[str, str]:
        """The version that an install would bring; an empty string if it is installed or unknown."""
        return ""

    def available_version(self, *names: str) -> str | dict[str, str]:
        """The same as `latest_version`."""
        return ""

    def list_pkgs(self, versions_as_list: bool = False) -> dict[str, str | list[Any]]:
        """The installed packages with their versions, lists of versions, or lists of attributes."""
        return {}

    def install(
        self,
        name: str | None = None,
        refresh: bool = False,
        *,
        pkgs: list[Any] | None = None,
        sources: list[Any] | None = None,
    ) -> dict[str, PackageChange]:
        """Install packages; return the changes."""
        return {}

    def remove(self, name: str | None = None, pkgs: list[Any] | None = None) -> dict[str, PackageChange]:
        """Remove packages; return the changes."""
        return {}

    def purge(self, name: str | None = None, pkgs: list[Any] | None = None) -> dict[str, PackageChange]:
        """Remove packages with their configuration; return the changes."""
        return {}

    def upgrade(self, *, refresh: bool = True) -> dict[str, PackageChange]:
        """Upgrade everything; return the changes."""
        return {}

    def list_upgrades(self, refresh: bool = True) -> dict[str, str]:
        """The packages that an upgrade would change, with their new versions."""
        return {}

    def upgrade_available(self, name: str) -> bool:
        """Whether an upgrade of the package is available."""
        return False

    def refresh_db(self) -> bool | dict[str, bool | None] | None:
        """Fetch the package lists; true on success, or by source. dnf and yum: null if there are no upgrades."""
        return False

    @Interface.supported(os_family=["Debian", "RedHat", "Solaris", "Suse", "Windows"], os=["NetBSD", "SmartOS"])
    def normalize_name(self, name: str) -> str:
        """The name of the package without defaults of the machine, such as its architecture."""
        return ""

    @Interface.supported(os_family=["Alpine", "Arch", "Debian", "RedHat", "Suse"], os=["NetBSD", "SmartOS"])
    def file_dict(self, *packages: str) -> dict[str, Any]:
        """The files of packages, by package."""
        return {}

    @Interface.supported(os_family=["Alpine", "Arch", "Debian", "RedHat", "Suse"], os=["NetBSD", "SmartOS"])
    def file_list(self, *packages: str) -> dict[str, Any]:
        """The files of packages, in one list."""
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"], os=["DragonFly", "FreeBSD", "MacOS"])
    def hold(self, name: str | None = None, pkgs: list[str] | None = None) -> dict[str, Any]:
        """Hold packages at their version."""
        return {}

    @Interface.supported(os_family=["Arch", "Debian", "RedHat", "Suse", "Windows"])
    def list_repo_pkgs(self, *args: str) -> dict[str, Any]:
        """The packages that repositories offer, with all their versions."""
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"], os=["DragonFly", "FreeBSD", "MacOS"])
    def unhold(self, name: str | None = None, pkgs: list[str] | None = None) -> dict[str, Any]:
        """Release held packages."""
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"], os=["MacOS"])
    def info_installed(self, *names: str) -> dict[str, Any]:
        """Information about installed packages."""
        return {}

    @Interface.supported(os_family=["Alpine", "Arch", "Debian", "RedHat", "Suse"])
    def owner(self, *paths: str) -> str | dict[str, str]:
        """The package that a file belongs to."""
        return ""

    @Interface.supported(os_family=["Solaris", "Suse"], os=["DragonFly", "FreeBSD", "NetBSD", "SmartOS"])
    def search(self, criteria: str) -> dict[str, Any]:
        """Packages that match."""
        return {}

    @Interface.supported(os_family=["Alpine", "Arch", "Debian", "RedHat", "Suse"], os=["DragonFly", "FreeBSD"])
    def version_cmp(self, pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int | None:
        """Compare two versions: -1, 0 or 1 if the first is older, equal or newer."""
        return 0

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def del_repo(self, repo: str) -> Any:
        """Remove a repository."""
        return None

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def get_repo(self, repo: str) -> dict[str, Any]:
        """The configuration of a repository."""
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def list_downloaded(self) -> Any:
        """Downloaded packages that are not installed yet."""
        return None

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def list_repos(self) -> dict[str, Any]:
        """The configured repositories."""
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def mod_repo(self, repo: str) -> dict[str, Any]:
        """Change or add a repository."""
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def parse_arch(self, name: str) -> dict[str, Any]:
        """The name and the architecture in a package name."""
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def services_need_restart(self) -> list[str]:
        """Services that still run replaced files."""
        return []

    @Interface.supported(os_family=["Debian", "RedHat"], os=["DragonFly", "FreeBSD"])
    def autoremove(self) -> Any:
        """Remove packages that are no longer needed."""
        return None

    @Interface.supported(os_family=["RedHat", "Suse"])
    def diff(self, *paths: str) -> Any:
        """The differences between installed files and their package."""
        return None

    @Interface.supported(os_family=["RedHat", "Suse"])
    def download(self, *packages: str) -> dict[str, Any]:
        """Download packages without installing them."""
        return {}

    @Interface.supported(os_family=["Arch", "RedHat"])
    def group_diff(self, name: str) -> dict[str, Any]:
        """Which packages of a group are installed, and which are not."""
        return {}

    @Interface.supported(os_family=["Arch", "RedHat"])
    def group_info(self, name: str) -> dict[str, Any]:
        """The packages of a group."""
        return {}

    @Interface.supported(os_family=["Arch", "RedHat"])
    def group_list(self) -> dict[str, Any]:
        """The groups of packages."""
        return {}

    @Interface.supported(os_family=["Debian", "RedHat", "Suse"])
    def list_holds(self) -> list[str]:
        """The held packages."""
        return []

    @Interface.supported(os_family=["RedHat", "Suse"])
    def list_installed_patches(self) -> dict[str, Any]:
        """The installed patches."""
        return {}

    @Interface.supported(os_family=["RedHat", "Suse"])
    def list_patches(self, refresh: bool = False) -> dict[str, Any]:
        """The available patches."""
        return {}

    @Interface.supported(os_family=["RedHat", "Suse"])
    def list_updates(self, refresh: bool = True) -> dict[str, str]:
        """The same as `list_upgrades`."""
        return {}

    @Interface.supported(os_family=["RedHat", "Suse"])
    def modified(self, *packages: str) -> dict[str, Any]:
        """Changed files of packages."""
        return {}

    @Interface.supported(os_family=["RedHat"], os=["DragonFly", "FreeBSD"])
    def update(self) -> dict[str, PackageChange]:
        """The same as `upgrade`."""
        return {}

    @Interface.supported(os_family=["RedHat", "Suse"])
    def verify(self, *names: str) -> dict[str, Any]:
        """Check the files of packages."""
        return {}

    @Interface.supported(os_family=["Debian"], os=["DragonFly", "FreeBSD"])
    def which(self, path: str) -> Any:
        """The package that a file belongs to."""
        return None

    @Interface.supported(os_family=["Debian"])
    def add_repo_key(
        self,
        path: str | None = None,
        text: str | None = None,
        keyserver: str | None = None,
        keyid: str | None = None,
        saltenv: str = "base",
    ) -> Any:
        """Trust a signing key of repositories."""
        return None

    @Interface.supported(os_family=["Suse"])
    def clean_locks(self) -> Any:
        """Remove all locks."""
        return None

    @Interface.supported(os_family=["RedHat"])
    def clean_metadata(self) -> Any:
        """Delete the package lists."""
        return None

    @Interface.supported(os=["NixOS"])
    def collect_garbage(self) -> Any:
        """Remove unreferenced data."""
        return None

    @Interface.supported(os_family=["Debian"])
    def del_repo_key(self, name: str | None = None, aptkey: bool = True, keydir: Any = None) -> Any:
        """Remove a trusted signing key."""
        return None

    @Interface.supported(os_family=["RedHat"])
    def get_locked_packages(self, pattern: str | None = None, full: bool = True) -> Any:
        """The same as `list_holds`."""
        return None

    @Interface.supported(os_family=["Debian"])
    def get_repo_keys(self, aptkey: bool = True, keydir: Any = None) -> dict[str, Any]:
        """The trusted signing keys of repositories."""
        return {}

    @Interface.supported(os_family=["Debian"])
    def get_selections(self, pattern: str | None = None, state: Any = None) -> dict[str, Any]:
        """The selection state of each package: install, hold, deinstall or purge."""
        return {}

    @Interface.supported(os_family=["RedHat"])
    def group_install(self, name: str, skip: Any = (), include: Any = ()) -> Any:
        """Install the packages of a group."""
        return None

    @Interface.supported(os_family=["RedHat"])
    def groupinstall(self, name: str, skip: Any = (), include: Any = ()) -> Any:
        """The same as `group_install`."""
        return None

    @Interface.supported(os_family=["Suse"])
    def info_available(self, *names: str) -> dict[str, Any]:
        """Information about packages that repositories offer."""
        return {}

    @Interface.supported(os_family=["Suse"])
    def list_installed_patterns(self) -> dict[str, Any]:
        """The installed patterns."""
        return {}

    @Interface.supported(os_family=["Suse"])
    def list_locks(self) -> dict[str, Any]:
        """The locks with their attributes."""
        return {}

    @Interface.supported(os_family=["Suse"])
    def list_patterns(self, refresh: bool = False) -> dict[str, Any]:
        """The available patterns."""
        return {}

    @Interface.supported(os_family=["Suse"])
    def list_products(self, all: bool = False, refresh: bool = False) -> list[dict[str, Any]]:
        """The available products."""
        return []

    @Interface.supported(os_family=["Suse"])
    def list_provides(self) -> dict[str, Any]:
        """The capabilities that packages provide."""
        return {}

    @Interface.supported(os_family=["Suse"])
    def resolve_capabilities(self, pkgs: list[str], refresh: bool = False) -> Any:
        """The packages that provide capabilities."""
        return None

    @Interface.supported(os_family=["Debian"])
    def set_selections(
        self, path: str | None = None, selection: Any = None, clear: bool = False, saltenv: str = "base"
    ) -> Any:
        """Set the selection states of packages."""
        return None

    @Interface.supported(os_family=["Debian"])
    def show(self, *names: str) -> dict[str, Any]:
        """The entries of packages in the package lists."""
        return {}

    @Interface.supported(os=["NixOS"])
    def uninstall(self, *pkgs: str) -> dict[str, PackageChange]:
        """The same as `remove`."""
        return {}

    @Interface.supported(os_family=["Alpine", "Arch", "Debian", "RedHat", "Suse"])
    def list_installed(self, *names: str) -> dict[str, str]:
        """The installed packages and their versions, or only the named ones."""
        return {}
