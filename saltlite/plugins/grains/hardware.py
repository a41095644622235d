"""Grains of the hardware, real or virtual: processors, memory, firmware, and what it runs inside of."""

from __future__ import annotations

import os
import re
from typing import Any

_DMI = "/sys/class/dmi/id"

_FIRMWARE = {
    "manufacturer": "sys_vendor",
    "productname": "product_name",
    "serialnumber": "product_serial",
    "uuid": "product_uuid",
    "biosvendor": "bios_vendor",
    "biosversion": "bios_version",
    "biosreleasedate": "bios_date",
    "boardname": "board_name",
}
"""Grain -> file of the firmware's tables in /sys; some are readable by root only."""

_HYPERVISORS = (
    ("vmware", "VMware"),
    ("virtualbox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("parallels", "Parallels"),
    ("xen", "xen"),
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("amazon ec2", "kvm"),
    ("google compute engine", "gce"),
    ("openstack", "kvm"),
    ("bochs", "kvm"),
    ("bhyve", "bhyve"),
)
"""What the firmware's vendor and product say, in lower case -> `virtual`; the first match counts."""

_MODEL_KEYS = ("model name", "Model", "Processor", "cpu model", "vendor_id")
"""Where architectures name the processor in /proc/cpuinfo, the most telling one first."""

_CONTAINERS = {
    "docker": "Docker",
    "lxc": "LXC",
    "lxc-libvirt": "LXC",
    "podman": "Podman",
    "systemd-nspawn": "systemd-nspawn",
    "rkt": "rkt",
    "wsl": "WSL",
}
"""What the container manager calls itself -> the grain `virtual_subtype`."""


def processors() -> dict[str, Any]:
    """Number, model and flags of the processors."""
    text = _read("/proc/cpuinfo")
    models = (re.search(rf"^{key}\s*:\s*(.*)$", text, re.MULTILINE) for key in _MODEL_KEYS)
    model = next((match[1].strip() for match in models if match), "Unknown")
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return {
        "num_cpus": os.cpu_count() or 1,
        "cpu_model": model,
        "cpu_flags": flags[1].split() if flags else [],
    }


def memory() -> dict[str, Any]:
    """Memory and swap in MiB."""
    kib = dict(re.findall(r"^(\w+):\s+(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE))
    return {
        "mem_total": int(kib.get("MemTotal", 0)) // 1024,
        "swap_total": int(kib.get("SwapTotal", 0)) // 1024,
    }


def firmware() -> dict[str, Any]:
    """Manufacturer, product, serial number and BIOS, as far as the firmware names them to this user."""
    found = {grain: _read(os.path.join(_DMI, name)).strip() for grain, name in _FIRMWARE.items()}
    return {grain: text for grain, text in found.items() if text}


def virtual() -> dict[str, Any]:
    """`virtual`: container, kvm, VMware, … or physical; `virtual_subtype` names the kind of container."""
    container = _container()
    if container:
        return {"virtual": "container", "virtual_subtype": container}
    described = f"{_read(f'{_DMI}/sys_vendor')} {_read(f'{_DMI}/product_name')}".lower()
    if "microsoft corporation" in described and "virtual machine" in described:
        return {"virtual": "HyperV"}
    for sign, name in _HYPERVISORS:
        if sign in described:
            return {"virtual": name}
    if os.path.isdir("/proc/xen") or "xen" in _read("/sys/hypervisor/type"):
        return {"virtual": "xen"}
    # The processor itself says that there is a hypervisor, and nothing says which.
    return {"virtual": "kvm" if re.search(r"^flags.*\bhypervisor\b", _read("/proc/cpuinfo"), re.M) else "physical"}


def _container() -> str:
    """The kind of container that this process runs in, or nothing."""
    name = _read("/run/systemd/container").strip()
    if not name:
        match = re.search(r"(?:^|\0)container=([^\0]+)", _read("/proc/1/environ"))
        name = match[1] if match else ""
    if not name and os.path.exists("/.dockerenv"):
        name = "docker"
    if not name and os.path.exists("/run/.containerenv"):
        name = "podman"
    if not name:
        match = re.search(r"/(docker|lxc|kubepods|libpod)[/.-]", _read("/proc/1/cgroup"))
        name = {"kubepods": "docker", "libpod": "podman"}.get(match[1], match[1]) if match else ""
    return _CONTAINERS.get(name.lower(), name)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
