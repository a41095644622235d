"""Collecting grains: precedence, failures, speed, and the readers of odd files."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import saltlite
from saltlite.loader.encode import decode_return, encode_return
from saltlite.plugins.grains import core, network
from saltlite.plugins.grains.collect import collect, shipped_sources
from saltlite.salt.version import __version__ as salt_version


def with_files(monkeypatch: pytest.MonkeyPatch, module: Any, files: dict[str, str]) -> None:
    """Let a grains module see these files and no others."""
    monkeypatch.setattr(module, "read_text", lambda path: files.get(path, ""))


def with_os_release(monkeypatch: pytest.MonkeyPatch, **fields: str) -> dict[str, Any]:
    monkeypatch.setattr(core, "_os_release", lambda: fields)
    return core.operating_system()


def test_the_configuration_wins_over_what_the_machine_says() -> None:
    grains = collect({"id": "web1", "grains": {"os": "Mine", "role": "db"}})
    assert (grains["id"], grains["os"], grains["role"]) == ("web1", "Mine", "db")


def test_a_source_that_fails_costs_its_own_grains_only(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> dict[str, Any]:
        raise OSError("odd file")

    grains = collect({}, sources=(lambda: {"a": 1}, broken, lambda: {"b": 2}))
    assert grains == {"a": 1, "b": 2}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_the_names_that_modules_rely_on_are_there() -> None:
    expected = [
        "cpu_flags",
        "cpu_model",
        "cpuarch",
        "domain",
        "fqdn",
        "fqdns",
        "gid",
        "gpus",
        "groupname",
        "host",
        "hwaddr_interfaces",
        "init",
        "ip4_gw",
        "ip4_interfaces",
        "ip6_interfaces",
        "ip_interfaces",
        "ipv4",
        "ipv6",
        "kernel",
        "kernelparams",
        "kernelrelease",
        "kernelversion",
        "locale_info",
        "localhost",
        "mem_total",
        "nodename",
        "num_cpus",
        "num_gpus",
        "os",
        "os_family",
        "osarch",
        "oscodename",
        "osfinger",
        "osfullname",
        "osrelease",
        "osrelease_info",
        "path",
        "ps",
        "pythonexecutable",
        "pythonpath",
        "pythonversion",
        "saltlite_version",
        "saltversion",
        "saltversioninfo",
        "shell",
        "swap_total",
        "systempath",
        "timezone",
        "uid",
        "username",
        "virtual",
    ]
    assert set(expected) - set(collect({})) == set()


def test_grains_are_plain_data() -> None:
    grains = collect({})
    assert decode_return(encode_return(grains)) == grains
    json.dumps(grains)


def test_no_source_fails_or_starts_a_program_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("grains start no program and ask no resolver")

    for owner, name in ((subprocess, "Popen"), (os, "posix_spawn"), (os, "system"), (socket, "getaddrinfo")):
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr(socket, "gethostbyname", refuse)
    monkeypatch.setattr(socket, "getfqdn", refuse)
    collect({})
    assert caplog.records == []


def test_collecting_takes_little_time() -> None:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        collect({})
        times.append(time.perf_counter() - began)
    assert min(times) < 0.030


def test_every_public_source_has_a_docstring() -> None:
    assert [source.__name__ for source in shipped_sources() if not source.__doc__] == []


# --- the operating system


def test_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {
        "ID": "debian",
        "NAME": "Debian GNU/Linux",
        "VERSION_ID": "12",
        "VERSION": "12 (bookworm)",
        "VERSION_CODENAME": "bookworm",
    }
    assert with_os_release(monkeypatch, **fields) == {
        "os": "Debian",
        "os_family": "Debian",
        "osfullname": "Debian GNU/Linux",
        "osrelease": "12",
        "osrelease_info": [12],
        "osmajorrelease": 12,
        "oscodename": "bookworm",
        "osfinger": "Debian-12",
    }


def test_ubuntu_keeps_its_full_release_in_osfinger(monkeypatch: pytest.MonkeyPatch) -> None:
    grains = with_os_release(monkeypatch, ID="ubuntu", NAME="Ubuntu", VERSION_ID="24.04", VERSION_CODENAME="noble")
    assert (grains["osfinger"], grains["osmajorrelease"], grains["osrelease_info"]) == (
        "Ubuntu-24.04",
        24,
        [24, 4],
    )


def test_rocky_belongs_to_the_redhat_family(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"ID": "rocky", "NAME": "Rocky Linux", "VERSION_ID": "9.3", "VERSION": "9.3 (Blue Onyx)"}
    grains = with_os_release(monkeypatch, **fields)
    assert [grains[name] for name in ("os", "os_family", "osfinger", "oscodename")] == [
        "Rocky",
        "RedHat",
        "Rocky Linux-9",
        "Blue Onyx",
    ]


def test_an_unknown_distribution_belongs_to_the_family_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    grains = with_os_release(monkeypatch, ID="newos", NAME="NewOS Linux", ID_LIKE="ubuntu debian", VERSION_ID="3")
    assert (grains["os"], grains["os_family"]) == ("NewOS", "Debian")


def test_a_rolling_release_has_no_major_release(monkeypatch: pytest.MonkeyPatch) -> None:
    grains = with_os_release(monkeypatch, ID="arch", NAME="Arch Linux", PRETTY_NAME="Arch Linux")
    assert (grains["os"], grains["osfinger"], "osmajorrelease" in grains) == ("Arch", "Arch Linux", False)


def test_a_machine_without_os_release_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_os_release(monkeypatch)["os"] == "Unknown"


def test_the_architecture_of_packages_is_dpkgs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_os_release", lambda: {"ID": "debian"})
    with_files(monkeypatch, core, {"/var/lib/dpkg/arch": "armhf\narm64\n"})
    assert core.kernel()["osarch"] == "armhf"


def test_kernel_parameters_are_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    with_files(monkeypatch, core, {"/proc/cmdline": "root=/dev/sda1 quiet a=b=c\n"})
    assert core.kernel()["kernelparams"] == [["root", "/dev/sda1"], ["quiet", None], ["a", "b=c"]]


def test_python_and_saltlite_name_themselves() -> None:
    grains = core.python()
    assert grains["pythonversion"] == list(sys.version_info)
    assert grains["saltlite_version"] == saltlite.__version__
    assert grains["saltversion"] == salt_version, "what plug-in files compare with"
    assert ".".join(map(str, grains["saltversioninfo"])) == salt_version


# --- hardware


CPUINFO = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Fast CPU\nflags\t\t: fpu vme {}\n"


def test_processor_and_memory_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/cpuinfo": CPUINFO.format("sse"),
        "/proc/meminfo": "MemTotal:  4096 kB\nSwapTotal:  2048 kB\n",
    }
    with_files(monkeypatch, core, files)
    processors = core.processors()
    assert (processors["cpu_model"], processors["cpu_flags"]) == ("Fast CPU", ["fpu", "vme", "sse"])
    assert core.memory() == {"mem_total": 4, "swap_total": 2}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {"virtual": "physical"}),
        ({"/proc/cpuinfo": CPUINFO.format("hypervisor")}, {"virtual": "kvm"}),
        ({"/sys/class/dmi/id/sys_vendor": "VMware, Inc."}, {"virtual": "VMware"}),
        ({"/sys/class/dmi/id/sys_vendor": "innotek GmbH"}, {"virtual": "VirtualBox"}),
        ({"/sys/class/dmi/id/sys_vendor": "QEMU"}, {"virtual": "kvm"}),
        (
            {
                "/sys/class/dmi/id/sys_vendor": "Microsoft Corporation",
                "/sys/class/dmi/id/product_name": "Virtual Machine",
            },
            {"virtual": "HyperV"},
        ),
        ({"/sys/class/dmi/id/sys_vendor": "Microsoft Corporation"}, {"virtual": "physical"}),
        ({"/run/systemd/container": "lxc\n"}, {"virtual": "container", "virtual_subtype": "LXC"}),
        (
            {"/proc/1/environ": "A=1\0container=systemd-nspawn\0"},
            {"virtual": "container", "virtual_subtype": "systemd-nspawn"},
        ),
        ({"/proc/1/cgroup": "0::/docker/abc\n"}, {"virtual": "container", "virtual_subtype": "Docker"}),
    ],
)
def test_what_the_machine_runs_inside_of(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: dict[str, str]
) -> None:
    with_files(monkeypatch, core, files)
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    monkeypatch.setattr(os.path, "isdir", lambda _: False)
    assert core.virtual() == expected


def test_firmware_that_says_nothing_gives_no_grains(monkeypatch: pytest.MonkeyPatch) -> None:
    with_files(monkeypatch, core, {"/sys/class/dmi/id/sys_vendor": "Acme\n"})
    assert core.firmware() == {"manufacturer": "Acme"}


# --- network


def test_the_full_name_comes_from_the_hosts_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "web1")
    with_files(monkeypatch, network, {"/etc/hosts": "127.0.0.1 localhost\n127.0.1.1 web1.example.org web1 # me\n"})
    assert network.names() == {
        "nodename": "web1",
        "localhost": "web1",
        "fqdn": "web1.example.org",
        "host": "web1",
        "domain": "example.org",
    }


@pytest.mark.parametrize(
    ("hostname", "hosts", "fqdn"),
    [
        ("web1.example.org", "", "web1.example.org"),
        ("web1", "", "web1"),
        ("web1", "# 10.0.0.1 web1.wrong.org web1\n", "web1"),
        ("web1", "10.0.0.1 other.example.org web1\n", "web1"),
    ],
)
def test_a_name_that_nothing_completes_stays_short(
    monkeypatch: pytest.MonkeyPatch, hostname: str, hosts: str, fqdn: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: hostname)
    with_files(monkeypatch, network, {"/etc/hosts": hosts})
    assert network.names()["fqdn"] == fqdn


def test_interfaces_of_this_machine_include_the_loopback() -> None:
    grains = network.interfaces()
    assert "127.0.0.1" in grains["ip4_interfaces"]["lo"]
    assert "127.0.0.1" in grains["ipv4"]
    assert set(grains["ip_interfaces"]) == {name for _, name in socket.if_nameindex()}
    assert all(ipaddress.ip_address(text) for text in grains["ipv4"] + grains["ipv6"])


def test_ipv6_addresses_are_those_of_the_kernel() -> None:
    with open("/proc/net/if_inet6") as stream:
        rows = [line.split() for line in stream]
    expected = {(row[5], str(ipaddress.IPv6Address(int(row[0], 16)))) for row in rows}
    found = network.interfaces()["ip6_interfaces"]
    assert {(name, address) for name, addresses in found.items() for address in addresses} == expected


@pytest.mark.parametrize(
    ("route4", "route6", "expected"),
    [
        ("", "", {"ip4_gw": False, "ip6_gw": False, "ip_gw": False}),
        (
            "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
            "",
            {"ip4_gw": "192.0.2.1", "ip6_gw": False, "ip_gw": True},
        ),
        (
            "ppp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n",
            f"{'0' * 32} 00 {'0' * 32} 00 fe80{'0' * 27}1 00000400 00000001 00000000 00000003 eth0\n",
            {"ip4_gw": True, "ip6_gw": "fe80::1", "ip_gw": True},
        ),
        (
            "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
            f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200 lo\n",
            {"ip4_gw": False, "ip6_gw": False, "ip_gw": False},
        ),
    ],
    ids=["none", "gateway", "link", "no default"],
)
def test_default_gateways(monkeypatch: pytest.MonkeyPatch, route4: str, route6: str, expected: dict[str, Any]) -> None:
    with_files(
        monkeypatch,
        network,
        {"/proc/net/route": "Iface\tDestination\n" + route4, "/proc/net/ipv6_route": route6},
    )
    assert network.gateways() == expected


def test_the_resolver_configuration_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# comment\nnameserver 192.0.2.53\nnameserver 2001:db8::53 ; six\n"
    text += "search a.org b.org\noptions ndots:2\n\n"
    with_files(monkeypatch, network, {"/etc/resolv.conf": text})
    assert network.resolver()["dns"] == {
        "nameservers": ["192.0.2.53", "2001:db8::53"],
        "ip4_nameservers": ["192.0.2.53"],
        "ip6_nameservers": ["2001:db8::53"],
        "domain": "",
        "search": ["a.org", "b.org"],
        "options": ["ndots:2"],
        "sortlist": [],
    }


def test_graphics_adapters_are_found_on_pci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices, ids = tmp_path / "devices", tmp_path / "pci.ids"
    monkeypatch.setattr(core, "_PCI", str(devices))
    monkeypatch.setattr(core, "_PCI_IDS", str(ids))
    assert core.graphics() == {"num_gpus": 0, "gpus": []}
    found = [("0x030000", "0x10de", "0x1eb8"), ("0x010802", "0x144d", "0xa808"), ("0x030200", "0xabcd", "0x0001")]
    for number, texts in enumerate(found):
        for name, text in zip(("class", "vendor", "device"), texts, strict=True):
            path = devices / f"0000:00:0{number}.0" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
    unknown = {"vendor": "unknown", "model": "abcd:0001"}
    assert core.graphics() == {"num_gpus": 2, "gpus": [{"vendor": "nvidia", "model": "10de:1eb8"}, unknown]}
    ids.write_text("10dd  Other\n\t1eb8  Wrong\n10de  NVIDIA\n\t1eb7  Wrong\n\t\t1eb8 0001  Wrong\n\t1eb8  Tesla T4\n")
    assert core.graphics()["gpus"] == [{"vendor": "nvidia", "model": "Tesla T4"}, unknown]


def test_full_names_of_the_addresses_come_from_the_file_of_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = "127.0.0.1 localhost.localdomain\n203.0.113.1 web.example.org web www.example.org # a.b\n203.0.113.2 b.c\n"
    with_files(monkeypatch, network, {"/etc/hosts": hosts})
    assert network._names_of({"203.0.113.1"}) == ["web.example.org", "www.example.org"]
    assert network._names_of(set()) == network.interfaces()["fqdns"] == []
