"""Changes what only this process sees: mounts, network, name of the machine. Run in namespaces of its own; prints JSON.

Arguments: a folder that it may write in. Each step's answer stands under its name, a sentence where it failed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _machinefiles

INDEX = build_index(search_layers({}))
NAMES = ["plain", "with space", "quote'\"s", "semi;colon $(id)", "-leading", "ünï\tcode", "line\nend", "back\\slash"]


def made(fun: str, *args: Any, **kwargs: Any) -> Any:
    outcome = call(Loader(INDEX, {}, {}, {}), fun, args, kwargs)
    return {"value": outcome.value, "retcode": outcome.retcode}


def mounts(folder: Path) -> dict[str, Any]:
    """Mount and unmount a folder of each name."""
    found: dict[str, Any] = {}
    for name in NAMES:
        point = str(folder / name)
        found[name] = [
            made("mount.mount", point, "tmpfs", mkmnt=True, fstype="tmpfs", opts="size=64k"),
            made("mount.is_mounted", point),
            made("mount.active")["value"].get(point),
            made("mount.remount", point, "tmpfs", fstype="tmpfs", opts="ro,size=64k"),
            made("mount.active")["value"].get(point, {}).get("opts"),
            made("disk.get_fstype_from_path", point),
            made("mount.umount", point),
            made("mount.is_mounted", point),
        ]
    return found


def full_disk(folder: Path) -> dict[str, Any]:
    """Edit a file of a file system that has no room left."""
    folder.mkdir()
    made("mount.mount", str(folder), "tmpfs", fstype="tmpfs", opts="size=64k")
    (folder / "etc").mkdir()
    text = "".join(f"192.0.2.{number} name{number}\n" for number in range(200))
    (folder / "etc/hosts").write_text(text)
    with open(folder / "filling", "wb", buffering=0) as stream, contextlib.suppress(OSError):
        for _ in range(64):
            stream.write(b"x" * 4096)
    _machinefiles.ROOT = str(folder)
    done = made("hosts.add_host", "192.0.2.250", "new")
    _machinefiles.ROOT = "/"
    return {**done, "same": (folder / "etc/hosts").read_text() == text, "left": sorted(os.listdir(folder / "etc"))}


def network() -> dict[str, Any]:
    """An interface that is up, an address more, a parameter of the kernel."""
    before = made("network.interfaces")["value"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
        address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("10.9.8.7"))
        fcntl.ioctl(asked, 0x8916, address)  # SIOCSIFADDR
        mask = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("255.255.255.0"))
        fcntl.ioctl(asked, 0x891C, mask)  # SIOCSIFNETMASK
    return {
        "before": before,
        "interfaces": made("network.interfaces")["value"],
        "addresses": made("network.ip_addrs")["value"],
        "private": made("network.ip_addrs", type="private")["value"],
        "public": made("network.ip_addrs", type="public")["value"],
        "subnets": made("network.subnets")["value"],
        "in_subnet": [made("network.in_subnet", net)["value"] for net in ("10.9.8.0/24", "10.9.9.0/24")],
        "startswith": made("network.ifacestartswith", "10.9")["value"],
        "way": made("network.get_route", "10.9.8.9")["value"],
        "no way": made("network.get_route", "198.51.100.1"),
        "forward": made("sysctl.assign", "net.ipv4.ip_forward", 1),
        "forwarding": made("sysctl.get", "net/ipv4/ip_forward"),
        "no number": made("sysctl.assign", "net.ipv4.ip_forward", "many"),
    }


def name(folder: Path) -> dict[str, Any]:
    """Give the machine another name."""
    socket.sethostname("before")
    (folder / "etc").mkdir(parents=True)
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 before.example.org before # before\n")
    (folder / "etc/hostname").write_text("before\n")
    _machinefiles.ROOT = str(folder)
    found = {
        "test": made("network.mod_hostname", "other", test=True),
        "still": made("network.get_hostname")["value"],
        "done": made("network.mod_hostname", "after"),
        "refused": [made("network.mod_hostname", bad)["retcode"] for bad in ("-x", "a b", "a\n", "", "a..b", "x" * 65)],
    }
    _machinefiles.ROOT = "/"
    found["now"] = made("network.get_hostname")["value"]
    found["files"] = [(folder / "etc/hosts").read_text(), (folder / "etc/hostname").read_text()]
    return found


if __name__ == "__main__":
    place = Path(sys.argv[1])
    answers = {
        "mounts": mounts(place / "mounts"),
        "full disk": full_disk(place / "small"),
        "network": network(),
        "name": name(place / "name"),
    }
    print(json.dumps(answers))
