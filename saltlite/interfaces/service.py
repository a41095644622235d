"""`service`: services, whatever the init system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from saltlite.interfaces import Interface


class ServiceInterface(Interface):
    """Services and their start at boot."""

    __modulename__ = "service"
    __version__ = "1.0"
    __func_alias__: ClassVar[Mapping[str, str]] = {"list_": "list"}

    def start(self, name: str) -> bool:
        """Start the service; return whether it runs."""
        return False

    def stop(self, name: str) -> bool:
        """Stop the service; return whether it stopped."""
        return False

    def restart(self, name: str) -> bool:
        """Stop and start the service; return whether it runs."""
        return False

    def reload(self, name: str) -> bool:
        """Make the service reload its configuration."""
        return False

    def status(self, name: str, sig: str | None = None) -> bool | dict[str, bool]:
        """Whether the service runs; by name for a glob."""
        return False

    def available(self, name: str) -> bool:
        """Whether the service exists."""
        return False

    def missing(self, name: str) -> bool:
        """Whether the service does not exist."""
        return False

    def enable(self, name: str) -> bool:
        """Enable the service to start at boot."""
        return False

    def disable(self, name: str) -> bool:
        """Disable the service at boot."""
        return False

    def enabled(self, name: str) -> bool:
        """Whether the service starts at boot."""
        return False

    def disabled(self, name: str) -> bool:
        """Whether the service does not start at boot."""
        return False

    def get_all(self) -> list[str]:
        """All services."""
        return []

    def get_enabled(self) -> list[str]:
        """The services that start at boot."""
        return []

    def get_disabled(self) -> list[str]:
        """The services that do not start at boot."""
        return []

    @Interface.supported(os_family=["Debian"], init=["systemd", "upstart"])
    def force_reload(self, name: str) -> bool:
        """Make the service reload its configuration, or restart it if it cannot."""
        return False

    @Interface.supported(os_family=["Windows"], init=["sysvinit"])
    def delete(self, name: str) -> bool:
        """Remove the service."""
        return False

    @Interface.supported(os_family=["Solaris"], init=["systemd"])
    def get_running(self) -> list[str]:
        """The services that run."""
        return []

    @Interface.supported(os=["MacOS"], init=["systemd"])
    def show(self, name: str) -> dict[str, Any]:
        """The properties of the service."""
        return {}

    @Interface.supported(os_family=["Windows"])
    def create(
        self, name: str, bin_path: Any, exe_args: str | None = None, display_name: Any = None, description: Any = None
    ) -> bool:
        """Create a service that runs a program."""
        return False

    @Interface.supported(os_family=["Windows"])
    def create_win_salt_restart_task(self) -> bool:
        """Create the scheduled task that restarts the minion."""
        return False

    @Interface.supported(init=["systemd"])
    def execs(self) -> dict[str, Any]:
        """The programs of all services."""
        return {}

    @Interface.supported(os_family=["Windows"])
    def execute_salt_restart_task(self) -> bool:
        """Run the scheduled task that restarts the minion."""
        return False

    @Interface.supported(init=["systemd"])
    def firstboot(
        self,
        locale: Any = None,
        locale_message: Any = None,
        keymap: Any = None,
        timezone: Any = None,
        hostname: Any = None,
    ) -> Any:
        """Set what a new system asks at its first boot."""
        return None

    @Interface.supported(init=["upstart"])
    def full_restart(self, name: str) -> bool:
        """Stop and start the service with a reloaded configuration."""
        return False

    @Interface.supported(os_family=["Windows"])
    def get_service_name(self, *args: str) -> dict[str, Any]:
        """The names of services by their display names."""
        return {}

    @Interface.supported(init=["systemd"])
    def get_static(self) -> list[str]:
        """The services that only other units start."""
        return []

    @Interface.supported(os_family=["Solaris"])
    def get_stopped(self) -> list[str]:
        """The services that do not run."""
        return []

    @Interface.supported(os_family=["Windows"])
    def getsid(self, name: str) -> str | None:
        """The security identifier of the service."""
        return ""

    @Interface.supported(os_family=["Windows"])
    def info(self, name: str) -> dict[str, Any]:
        """The properties of the service."""
        return {}

    @Interface.supported(os=["MacOS"])
    def launchctl(self, sub_cmd: str, *args: str) -> Any:
        """Run a command of launchctl."""
        return None

    @Interface.supported(os=["MacOS"])
    def list_(self, name: str | None = None, runas: str | None = None) -> str:
        """The list of launchctl, of one service or of all."""
        return ""

    @Interface.supported(os=["MacOS"])
    def loaded(self, name: str, runas: str | None = None) -> bool:
        """Whether the service is loaded."""
        return False

    @Interface.supported(init=["systemd"])
    def mask(self, name: str, runtime: bool = False) -> bool:
        """Mask the service, so that it cannot start."""
        return False

    @Interface.supported(init=["systemd"])
    def masked(self, name: str, runtime: bool = False) -> bool:
        """Whether the service is masked."""
        return False

    @Interface.supported(os_family=["Windows"])
    def modify(
        self,
        name: str,
        bin_path: Any = None,
        exe_args: str | None = None,
        display_name: Any = None,
        description: Any = None,
    ) -> bool | dict[str, Any]:
        """Change the properties of the service."""
        return False

    @Interface.supported(init=["systemd"])
    def offline(self) -> bool:
        """Whether this is not a running system."""
        return False

    @Interface.supported(init=["sysvinit"])
    def run(self, name: str, action: str) -> bool:
        """Run any action of an init script."""
        return False

    @Interface.supported(init=["systemd"])
    def systemctl_reload(self) -> bool:
        """Make systemd reload its units."""
        return False

    @Interface.supported(init=["systemd"])
    def unmask(self, name: str, runtime: bool = False) -> bool:
        """Unmask the service."""
        return False
