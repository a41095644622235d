"""Grains of the operating system, the kernel, the hardware, Python, and the minion's process."""

from __future__ import annotations

import grp
import os
import platform
import pwd
import re
import sys
import time
from typing import Any

import saltlite

_NAMES = {
    "almalinux": "AlmaLinux", "alpine": "Alpine", "amzn": "Amazon", "arch": "Arch", "centos": "CentOS",
    "debian": "Debian", "devuan": "Devuan", "fedora": "Fedora", "gentoo": "Gentoo", "kali": "Kali",
    "linuxmint": "Linuxmint", "manjaro": "Manjaro", "ol": "OEL", "opensuse-leap": "SUSE",
    "opensuse-tumbleweed": "SUSE", "pop": "Pop", "raspbian": "Raspbian", "rhel": "RedHat", "rocky": "Rocky",
    "sled": "SUSE", "sles": "SUSE", "ubuntu": "Ubuntu", "void": "Void",
}  # fmt: skip
"""ID of os-release -> the grain `os`."""

_FAMILIES = {
    "Debian": ("Debian", "Devuan", "Ubuntu", "Linuxmint", "Kali", "Pop", "Raspbian"),
    "RedHat": ("RedHat", "CentOS", "Fedora", "Rocky", "AlmaLinux", "OEL", "Amazon"),
    "Suse": ("SUSE",),
    "Arch": ("Arch", "Manjaro"),
    "Gentoo": ("Gentoo",),
    "Alpine": ("Alpine",),
    "Void": ("Void",),
}

_FAMILY_OF_ID = {"debian": "Debian", "ubuntu": "Debian", "rhel": "RedHat", "fedora": "RedHat", "suse": "Suse"}
"""ID_LIKE of an unknown distribution -> its family."""

_DEBIAN_ARCHITECTURES = {
    "x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf", "armv6l": "armel", "i386": "i386", "i586": "i386",
    "i686": "i386", "ppc64le": "ppc64el",
}  # fmt: skip

_SHORT_NAMED = ("Debian", "Raspbian")
"""Distributions whose `osfinger` starts with `os` instead of the full name."""

_INITS = {"init": "sysvinit", "openrc-init": "openrc"}
"""Command of process 1 -> the grain `init`, where they differ."""


def operating_system() -> dict[str, Any]:
    """Return the distribution: `os`, `os_family`, `osrelease` and the names derived from them."""
    release = _os_release()
    os_id = release.get("ID", "").lower()
    name = _NAMES.get(os_id) or release.get("NAME", "").split(" ")[0] or "Unknown"
    version = release.get("VERSION_ID", "")
    full_name = release.get("NAME", name)
    numbers = [int(part) for part in version.split(".") if part.isdecimal()]
    codename = release.get("VERSION_CODENAME", "")
    if not codename:
        bracketed = re.search(r"\(([^)]+)\)", release.get("VERSION", ""))
        codename = bracketed[1] if bracketed else release.get("PRETTY_NAME", "")
    grains: dict[str, Any] = {
        "os": name,
        "os_family": _family(name, release.get("ID_LIKE", "")),
        "osfullname": full_name,
        "osrelease": version,
        "osrelease_info": numbers,
        "oscodename": codename,
    }
    finger = full_name if name not in _SHORT_NAMED else name
    if numbers:
        grains["osmajorrelease"] = numbers[0]
        grains["osfinger"] = f"{finger}-{version if name == 'Ubuntu' else numbers[0]}"
    else:
        grains["osfinger"] = finger
    return grains


def kernel() -> dict[str, Any]:
    """Name, release and version of the kernel, its command line, and the architecture of the machine."""
    system = os.uname()
    family = operating_system()["os_family"]
    return {
        "kernel": system.sysname,
        "kernelrelease": system.release,
        "kernelversion": system.version,
        "kernelparams": [
            [name, value if equals else None]
            for name, equals, value in (word.partition("=") for word in read_text("/proc/cmdline").split())
        ],
        "cpuarch": system.machine,
        "osarch": _package_architecture(system.machine, family),
    }


def first_process() -> dict[str, Any]:
    """The init system, and systemd's version where it runs the machine."""
    if not os.path.isdir("/run/systemd/system"):
        command = read_text("/proc/1/comm").strip()
        return {"init": _INITS.get(command, command) or "unknown"}
    for folder in ("/usr/lib/systemd", "/lib/systemd", "/usr/lib/x86_64-linux-gnu/systemd"):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            match = re.fullmatch(r"libsystemd-shared-(\d+).*\.so", name)
            if match:
                return {"init": "systemd", "systemd": {"version": match[1]}}
    return {"init": "systemd"}


def python() -> dict[str, Any]:
    """The Python interpreter of the minion, and the versions of saltlite and of Salt's library."""
    return {
        "pythonversion": list(sys.version_info),
        "pythonexecutable": sys.executable,
        "pythonpath": list(sys.path),
        "saltlite_version": saltlite.__version__,
        "saltversion": saltlite.SALT_VERSION,
        "saltversioninfo": [int(part) for part in saltlite.SALT_VERSION.split(".")],
        "saltpath": os.path.dirname(os.path.abspath(saltlite.__file__)),
    }


def process() -> dict[str, Any]:
    """The user, paths and shell of the minion, and how to list processes."""
    uid, gid = os.geteuid(), os.getegid()
    path = os.environ.get("PATH", os.defpath)
    return {
        "uid": uid,
        "gid": gid,
        "username": _entry_name(pwd.getpwuid, uid),
        "groupname": _entry_name(grp.getgrgid, gid),
        "path": path,
        "systempath": path.split(os.pathsep),
        "shell": os.environ.get("SHELL", "/bin/sh"),
        "ps": "ps -efHww",
    }


def machine_id() -> dict[str, Any]:
    """The machine id that systemd or D-Bus assigned."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        text = read_text(path).strip()
        if text:
            return {"machine_id": text}
    return {}


def locale_info() -> dict[str, Any]:
    """Language, encodings and time zone."""
    language = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    name, _, encoding = language.partition(".")
    info = {
        "defaultlanguage": name if name not in {"", "C", "POSIX"} else None,
        "defaultencoding": encoding or _preferred_encoding(),
        "detectedencoding": sys.getdefaultencoding(),
        "timezone": time.tzname[0],
    }
    return {"locale_info": info, "timezone": _zone()}


def _preferred_encoding() -> str:
    import locale  # noqa: PLC0415 - most environments name an encoding

    return locale.getpreferredencoding(do_setlocale=False)


def _zone() -> str:
    """The name of the time zone, such as `Europe/Berlin`; empty when it is unknown."""
    try:
        _, found, name = os.readlink("/etc/localtime").partition("/zoneinfo/")
    except OSError:
        found, name = "", ""
    return name if found else read_text("/etc/timezone").strip()


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _family(name: str, id_like: str) -> str:
    for family, members in _FAMILIES.items():
        if name in members:
            return family
    for part in id_like.lower().split():
        if part in _FAMILY_OF_ID:
            return _FAMILY_OF_ID[part]
    return name


def _package_architecture(machine: str, family: str) -> str:
    if family != "Debian":
        return machine
    # The file exists where foreign architectures were added. Its first line is dpkg's native one.
    lines = read_text("/var/lib/dpkg/arch").split()
    if lines:
        return lines[0]
    if machine == "x86_64" and sys.maxsize < 2**32:
        return "i386"
    return _DEBIAN_ARCHITECTURES.get(machine, machine)


def _entry_name(lookup: Any, number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


# --- Hardware: processors, memory, graphics, firmware, virtualisation ---

_DMI = "/sys/class/dmi/id"

_FIRMWARE = {
    "manufacturer": "sys_vendor", "productname": "product_name", "serialnumber": "product_serial",
    "uuid": "product_uuid", "biosvendor": "bios_vendor", "biosversion": "bios_version",
    "biosreleasedate": "bios_date", "boardname": "board_name",
}  # fmt: skip
"""Grain -> file of the firmware's tables in /sys. Only root may read some of them."""

_PCI = "/sys/bus/pci/devices"
_PCI_IDS = "/usr/share/misc/pci.ids"
_GRAPHICS = frozenset({"0x0300", "0x0302", "0x0380"})
"""The first six characters of a PCI class: VGA, 3D and display controllers."""
_GPU_VENDORS = {
    "10de": "nvidia", "1002": "ati", "1022": "amd", "8086": "intel", "1013": "cirrus logic", "15ad": "vmware",
    "102b": "matrox", "1a03": "aspeed",
}  # fmt: skip

_HYPERVISORS = (
    ("vmware", "VMware"), ("virtualbox", "VirtualBox"), ("innotek", "VirtualBox"), ("parallels", "Parallels"),
    ("xen", "xen"), ("qemu", "kvm"), ("kvm", "kvm"), ("amazon ec2", "kvm"), ("google compute engine", "gce"),
    ("openstack", "kvm"), ("bochs", "kvm"), ("bhyve", "bhyve"),
)  # fmt: skip
"""Text in the firmware's vendor and product, in lower case -> `virtual`. The first match counts."""

_MODEL_KEYS = ("model name", "Model", "Processor", "cpu model", "vendor_id")
"""Names of the processor in /proc/cpuinfo, by architecture, most specific first."""

_CONTAINERS = {
    "docker": "Docker", "lxc": "LXC", "lxc-libvirt": "LXC", "podman": "Podman", "systemd-nspawn": "systemd-nspawn",
    "rkt": "rkt", "wsl": "WSL",
}  # fmt: skip
"""Name that the container manager uses -> the grain `virtual_subtype`."""


def processors() -> dict[str, Any]:
    """Number, model and flags of the processors."""
    text = read_text("/proc/cpuinfo")
    models = (re.search(rf"^{key}\s*:\s*(.*)$", text, re.MULTILINE) for key in _MODEL_KEYS)
    model = next((match[1].strip() for match in models if match), "Unknown")
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return {"num_cpus": os.cpu_count() or 1, "cpu_model": model, "cpu_flags": flags[1].split() if flags else []}


def memory() -> dict[str, Any]:
    """Memory and swap in MiB."""
    kib = dict(re.findall(r"^(\w+):\s+(\d+) kB$", read_text("/proc/meminfo"), re.MULTILINE))
    return {"mem_total": int(kib.get("MemTotal", 0)) // 1024, "swap_total": int(kib.get("SwapTotal", 0)) // 1024}


def graphics() -> dict[str, Any]:
    """The graphics adapters on PCI: `num_gpus`, and in `gpus` the vendor and the model of each."""
    gpus = []
    for folder in sorted(os.listdir(_PCI)) if os.path.isdir(_PCI) else ():
        kind = read_text(os.path.join(_PCI, folder, "class"))[:6]
        if kind in _GRAPHICS:
            vendor, device = (read_text(os.path.join(_PCI, folder, name)).strip()[2:] for name in ("vendor", "device"))
            gpus.append({"vendor": _GPU_VENDORS.get(vendor, "unknown"), "model": _pci_model(vendor, device)})
    return {"num_gpus": len(gpus), "gpus": gpus}


def _pci_model(vendor: str, device: str) -> str:
    """The name of a device in the machine's list of PCI ids, or its numbers."""
    of_vendor = re.search(rf"^{vendor}  .*\n((?:[\t#].*\n)*)", read_text(_PCI_IDS), re.MULTILINE)
    found = re.search(rf"^\t{device}  (.*)$", of_vendor[1], re.MULTILINE) if of_vendor else None
    return found[1].strip() if found else f"{vendor}:{device}"


def firmware() -> dict[str, Any]:
    """Manufacturer, product, serial number and BIOS, as far as the firmware shows them to this user."""
    found = {grain: read_text(os.path.join(_DMI, name)).strip() for grain, name in _FIRMWARE.items()}
    return {grain: text for grain, text in found.items() if text}


def virtual() -> dict[str, Any]:
    """`virtual`: container, kvm, VMware, … or physical; `virtual_subtype` names the kind of container."""
    container = _container()
    if container:
        return {"virtual": "container", "virtual_subtype": container}
    described = f"{read_text(f'{_DMI}/sys_vendor')} {read_text(f'{_DMI}/product_name')}".lower()
    if "microsoft corporation" in described and "virtual machine" in described:
        return {"virtual": "HyperV"}
    for sign, name in _HYPERVISORS:
        if sign in described:
            return {"virtual": name}
    if os.path.isdir("/proc/xen") or "xen" in read_text("/sys/hypervisor/type"):
        return {"virtual": "xen"}
    # The processor flag shows a hypervisor, but not which one.
    return {"virtual": "kvm" if re.search(r"^flags.*\bhypervisor\b", read_text("/proc/cpuinfo"), re.M) else "physical"}


def _container() -> str:
    """The kind of container that this process runs in; empty outside a container."""
    name = read_text("/run/systemd/container").strip()
    if not name:
        match = re.search(r"(?:^|\0)container=([^\0]+)", read_text("/proc/1/environ"))
        name = match[1] if match else ""
    if not name and os.path.exists("/.dockerenv"):
        name = "docker"
    if not name and os.path.exists("/run/.containerenv"):
        name = "podman"
    if not name:
        match = re.search(r"/(docker|lxc|kubepods|libpod)[/.-]", read_text("/proc/1/cgroup"))
        name = {"kubepods": "docker", "libpod": "podman"}.get(match[1], match[1]) if match else ""
    return _CONTAINERS.get(name.lower(), name)
