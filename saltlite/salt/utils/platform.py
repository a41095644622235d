"""`salt.utils.platform`: which operating system this is."""

from __future__ import annotations

import functools
import os
import platform
import sys
from typing import Any

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


def linux_distribution(full_distribution_name: bool = True) -> tuple[str, str, str]:
    """The name (or the id), the version and the codename of the distribution; "" for what is not known."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    name = release.get("NAME" if full_distribution_name else "ID", "")
    version = release.get("VERSION_ID", "")
    if release.get("ID") == "debian":
        version = max(version, _text_of("/etc/debian_version"), key=lambda text: text.count("."))
    return name, version, release.get("VERSION_CODENAME", "")


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def is_windows() -> bool:
    return sys.platform.startswith("win")


def is_proxy() -> bool:
    """Whether this process is a proxy minion, as Salt sees it by the names of the program and its arguments."""
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    return program is not None and ("proxy" in program or any(word.startswith("--proxyid") for word in sys.argv))


def is_linux() -> bool:
    return sys.platform.startswith("linux")


def is_darwin() -> bool:
    return sys.platform.startswith("darwin")


def is_sunos() -> bool:
    return sys.platform.startswith("sunos")


def is_smartos() -> bool:
    return is_sunos() and os.uname().version.startswith("joyent_")


def is_smartos_globalzone() -> bool:
    return is_smartos() and _zone_name() == "global"


def is_smartos_zone() -> bool:
    return is_smartos() and _zone_name() not in ("", "global")


@functools.cache
def _zone_name() -> str:
    import subprocess

    try:
        done = subprocess.run(["zonename"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def is_junos() -> bool:
    return sys.platform.startswith("freebsd") and os.uname().release.startswith("JNPR")


def is_freebsd() -> bool:
    return sys.platform.startswith("freebsd")


def is_netbsd() -> bool:
    return sys.platform.startswith("netbsd")


def is_openbsd() -> bool:
    return sys.platform.startswith("openbsd")


def is_aix() -> bool:
    return sys.platform.startswith("aix")


def is_fedora() -> bool:
    return linux_distribution()[0].strip("\"'") == "Fedora"


def is_photonos() -> bool:
    return linux_distribution()[0].strip("\"'") in ("VMware Photon OS", "Photon OS")


def is_aarch64() -> bool:
    return platform.machine().startswith("arm64" if is_darwin() else "aarch64")


def spawning_platform() -> bool:
    """Whether a process of `multiprocessing` starts afresh, so that what it is given is pickled."""
    import multiprocessing

    return multiprocessing.get_start_method(allow_none=False) in ("spawn", "forkserver")


def get_machine_identifier() -> dict[str, Any]:
    """`{"machine_id": …}`; empty if the machine has none."""
    path = next((path for path in _MACHINE_IDS if os.path.exists(path)), None)
    return {} if path is None else {"machine_id": _text_of(path)}
