"""The modules of a machine on this one: what they say is what the standard library says too."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.machine_in_namespaces import NAMES

INDEX = build_index(search_layers({}))
ROOT = Path(__file__).parents[2]


def outcome(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, {}), fun, args, kwargs)


def run(fun: str, *args: Any, **kwargs: Any) -> Any:
    done = outcome(fun, *args, **kwargs)
    assert done.retcode == 0, done.value
    return done.value


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process of a name that no other has."""
    program = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'slt-child;x'); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


# --- figures


def test_processors_memory_and_start_are_those_of_the_standard_library() -> None:
    assert run("ps.num_cpus") == os.cpu_count()
    assert run("status.nproc") == len(os.sched_getaffinity(0))
    assert run("ps.total_physical_memory") == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert run("ps.boot_time") == pytest.approx(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME), abs=3)
    assert run("ps.boot_time", "%Y") == time.strftime("%Y", time.localtime(run("ps.boot_time")))
    assert run("status.uptime")["seconds"] == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=3)
    assert run("status.time", "%Y") == time.strftime("%Y")


def test_the_room_of_a_file_system_is_that_of_the_standard_library(tmp_path: Path) -> None:
    there = shutil.disk_usage("/")
    assert run("ps.disk_usage", "/")["total"] == there.total
    assert run("status.diskusage", "/")["/"]["total"] == there.total
    shown = run("disk.usage")
    assert int(shown["/"]["1K-blocks"]) * 1024 == pytest.approx(there.total, rel=0.01)
    typed = run("disk.usage", "T")
    kind = run("mount.active")["/"]["fstype"]
    assert typed["/"]["filesystem"] == f"{shown['/']['filesystem']} {kind}"
    percents = [int(text.rstrip("%")) for text in (run("disk.percent", "/"), shown["/"]["capacity"])]
    assert percents[0] == pytest.approx(percents[1], abs=2)  # others write meanwhile
    assert run("mount.get_mount_from_path", str(tmp_path)) in run("mount.active")
    assert run("status.diskusage", "/no/such") == {}


def test_all_figures_come_in_one_answer() -> None:
    found = run("status.all_status")
    assert set(found) == {
        "cpuinfo", "cpustats", "diskstats", "diskusage", "loadavg", "meminfo", "netdev", "netstats", "uptime",
        "vmstats", "w",
    }  # fmt: skip
    assert 0 <= run("ps.cpu_percent", 0.01) <= 100
    assert len(run("ps.cpu_percent", 0.01, per_cpu=True)) == os.cpu_count()


def test_figures_that_the_configuration_asks_for_are_picked() -> None:
    opts = {"status.loadavg.custom": ["1-min", "nosuch"], "status.custom.custom": ["x"]}
    found = call(Loader(INDEX, opts, {}, {"status.nosuch.custom": ["x"]}), "status.custom", (), {}).value
    assert (sorted(found), found["nosuch"]) == (["1-min", "nosuch"], "UNKNOWN")


# --- processes


def test_this_process_is_described() -> None:
    found = run("ps.proc_info", os.getpid())
    assert found["ppid"] == os.getppid()
    assert found["cwd"] == os.getcwd()
    assert found["exe"] == os.readlink("/proc/self/exe")
    assert found["uids"] == [os.getuid(), os.geteuid(), os.getresuid()[2]]
    assert found["num_fds"] == pytest.approx(len(os.listdir("/proc/self/fd")), abs=2)
    assert found["memory_info"][0] > 1_000_000
    assert found["memory_full_info"][:2] == pytest.approx(found["memory_info"][:2], rel=0.2)
    assert os.getpid() in [row[0] for row in found["threads"]]  # sorted by number, which begins anew at pid_max
    assert found["create_time"] == pytest.approx(time.time(), abs=86400)
    assert run("ps.proc_info", os.getpid(), attrs=["pid"]) == {"pid": os.getpid()}
    assert os.getpid() in run("ps.get_pid_list")


def test_sockets_open_files_and_mappings_of_a_process_are_told(tmp_path: Path) -> None:
    server, other = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    port = server.getsockname()[1]
    path = tmp_path / "log"
    with server, other, socket.create_connection(("127.0.0.1", port)) as client, path.open("a") as log:
        other.bind(("::1", 0))
        log.write("four")
        log.flush()
        found = run("ps.proc_info", os.getpid(), ["net_connections", "connections", "open_files", "memory_maps"])
        assert [server.fileno(), 2, 1, ["127.0.0.1", port], [], "LISTEN"] in found["net_connections"]
        mine = client.getsockname()[1]
        assert [client.fileno(), 2, 1, ["127.0.0.1", mine], ["127.0.0.1", port], "ESTABLISHED"] in found["connections"]
        udp = ["::1", other.getsockname()[1]]
        assert [other.fileno(), 10, 2, udp, [], "NONE"] in found["net_connections"]
        rows = {row[0]: row[1:] for row in found["open_files"]}
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        assert rows[str(path)][:3] == [log.fileno(), 4, "a"]
        assert rows[str(path)][3] & flags == flags
    rows = {row[0]: row[1:] for row in found["memory_maps"]}
    assert {"[heap]", "[stack]"} <= set(rows)
    assert all(rss <= size for rss, size, *_ in rows.values())
    assert sum(row[0] for row in rows.values()) == pytest.approx(
        run("ps.proc_info", os.getpid())["memory_info"][0], rel=0.2
    )


@pytest.mark.parametrize("pid", [0, -1, "x", "1 2", 2**22 + 1, ""])
def test_what_is_no_process_is_described_by_a_sentence(pid: Any) -> None:
    assert outcome("ps.proc_info", pid).retcode == 1


def test_an_attribute_that_there_is_not_is_refused() -> None:
    assert "A process has no colour" in outcome("ps.proc_info", os.getpid(), ["colour"]).value


def test_a_process_is_found_by_its_name_whatever_it_holds(child: subprocess.Popen[bytes]) -> None:
    assert run("ps.pgrep", "slt-child;x") == [child.pid]
    assert run("ps.pgrep", "slt-child.x") is None
    assert run("ps.pgrep", "slt-child.x$", pattern_is_regex=True) == [child.pid]
    assert child.pid in run("ps.pgrep", "slt-child", full=True)
    assert run("ps.pgrep", "slt-child;x", user="nosuch") is None
    assert str(child.pid) in run("status.pid", "prctl").splitlines()
    assert "prctl" in run("status.procs")[str(child.pid)]["cmd"]
    assert run("ps.psaux", "prctl")[2].endswith("occurrence(s).")


def test_a_process_is_signalled_by_its_name(child: subprocess.Popen[bytes]) -> None:
    assert run("ps.pkill", "slt-child;x", user="nosuch") is None
    assert run("ps.pkill", "slt-child;x", signal=signal.SIGKILL) == {"killed": [child.pid]}
    assert child.wait(60) == -signal.SIGKILL
    assert run("ps.pkill", "slt-child;x") is None


def test_a_process_is_signalled_by_its_id(child: subprocess.Popen[bytes]) -> None:
    assert run("ps.kill_pid", child.pid, 9) is True
    assert child.wait(60) == -9
    assert outcome("ps.kill_pid", child.pid).value is False


@pytest.mark.parametrize(("fun", "args"), [("kill_pid", ["-1"]), ("kill_pid", [0]), ("pkill", [""])])
def test_what_would_signal_more_than_one_thing_is_refused(fun: str, args: list[Any]) -> None:
    assert outcome(f"ps.{fun}", *args).retcode == 1
    assert outcome("ps.kill_pid", os.getpid(), "KILL").retcode == 1


def test_the_processes_that_used_most_are_on_top(child: subprocess.Popen[bytes]) -> None:
    found = run("ps.top", num_processes=3, interval=0.01)
    assert len(found) == 3
    assert set(found[0]) == {"cmd", "user", "status", "pid", "create_time", "cpu", "mem"}


# --- network


def test_interfaces_and_addresses_are_those_of_the_kernel() -> None:
    assert set(run("network.interfaces")) == {name for _, name in socket.if_nameindex()}
    assert run("network.interface_ip", "lo") == "127.0.0.1"
    assert run("network.hwaddr", "lo") == run("network.hw_addr", "lo") == "00:00:00:00:00:00"
    assert "127.0.0.1" in run("network.ip_addrs", include_loopback=True)
    assert "127.0.0.1" not in run("network.ipaddrs")
    assert run("network.in_subnet", "127.0.0.0/8") is False
    assert run("network.ip_networks", "lo", include_loopback=True) == ["127.0.0.0/8"]
    assert run("network.get_hostname") == socket.gethostname()
    for route in run("network.default_route", "inet"):
        assert ipaddress.ip_address(route["gateway"])


def test_an_interface_that_there_is_not_is_named() -> None:
    assert 'Interface "no such" not in available interfaces' in outcome("network.interface", "no such").value
    assert outcome("network.get_bufsize", "no such").value["result"] is False
    assert outcome("network.get_bufsize", "x" * 16).retcode == 1


def test_a_port_of_this_process_is_listed_and_takes_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        rows = [row for row in run("network.netstat") if row["local-address"] == f"127.0.0.1:{port}"]
        assert [(row["state"], row["proto"], row["user"]) for row in rows] == [("LISTEN", "tcp", str(os.getuid()))]
        assert rows[0]["program"].startswith(f"{os.getpid()}/")
        assert run("network.connect", "127.0.0.1", port) == {
            "result": True,
            "comment": f"Successfully connected to 127.0.0.1 (127.0.0.1) on tcp port {port}",
        }
        with socket.create_connection(("127.0.0.1", port)):
            assert port in [row["remote_port"] for row in run("network.active_tcp").values()]
    refused = outcome("network.connect", "127.0.0.1", port, timeout=2)
    assert refused.value["comment"].startswith("Unable to connect to 127.0.0.1")


@pytest.mark.parametrize("mac", ["08-00-27-13-69-77", "08:00:27:13:69:77", "080027136977"])
def test_a_magic_packet_is_sent_to_the_network_of_a_machine(mac: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(60)
        assert run("network.wol", mac, "127.0.0.1", sock.getsockname()[1]) is True
        assert sock.recv(200) == b"\xff" * 6 + bytes.fromhex("080027136977") * 16


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["00:11:22"], "'00:11:22' is not a hardware address"),
        (["08:00-27:13:69:77"], "is not a hardware address"),
        (["080027136977", "a.example"], "'a.example' is not an IPv4 address."),
        (["080027136977", "127.0.0.1", 0], "0 is not a port."),
        (["080027136977", "127.0.0.1", 65536], "65536 is not a port."),
    ],
)
def test_what_no_machine_wakes_up_from_is_refused(args: list[Any], words: str) -> None:
    said = outcome("network.wol", *args)
    assert (said.retcode, words in said.value) == (1, True)


@pytest.mark.parametrize("host", ["", "-c 1", "--help", "a\nb", "a\0b"])
@pytest.mark.parametrize("fun", ["ping", "traceroute", "dig"])
def test_what_is_no_host_runs_nothing(fun: str, host: str) -> None:
    assert "cannot be a" in outcome(f"network.{fun}", host).value


@pytest.mark.parametrize(
    ("fun", "args", "value"),
    [
        ("calc_net", ["172.17.0.5", "255.255.255.240"], "172.17.0.0/28"),
        ("calc_net", ["2a02:f6e:a000:80:84d8:8332:7866:4e07/64"], "2a02:f6e:a000:80::/64"),
        ("iphexval", ["10.0.0.1"], "0A000001"),
        ("reverse_ip", ["172.17.0.4"], "4.0.17.172.in-addr.arpa"),
        ("is_private", ["10.0.0.3"], True),
        ("is_private", ["8.8.8.8"], False),
        ("is_loopback", ["::1"], True),
        ("ip_in_subnet", ["172.17.0.4", "172.16.0.0/12"], True),
        ("ip_in_subnet", ["172.17.0.4", "2001:db8::/32"], False),
    ],
)
def test_addresses_are_calculated(fun: str, args: list[str], value: Any) -> None:
    assert outcome(f"network.{fun}", *args).value == value


@pytest.mark.parametrize("fun", ["calc_net", "iphexval", "reverse_ip", "is_private", "get_route", "convert_cidr"])
def test_what_is_no_address_is_refused(fun: str) -> None:
    assert "is no" in outcome(f"network.{fun}", "300.1.1.1; id").value


# --- names and devices


@pytest.mark.parametrize("device", ["", "-a", "--help", "a\nb", "a\0b"])
@pytest.mark.parametrize("fun", ["wipe", "format", "resize2fs", "fstype", "tune", "dump"])
def test_what_is_no_device_runs_nothing(fun: str, device: str) -> None:
    kwargs = {"read-ahead": 1} if fun == "tune" else {}
    done = outcome(f"disk.{fun}", device, **kwargs)
    assert (done.retcode, "cannot be a device" in str(done.value) or done.value is False) == (1, True)


def test_a_file_system_is_made_known_and_wiped(tmp_path: Path) -> None:
    image = tmp_path / "a disk;x"
    image.write_bytes(b"\0" * 1024 * 1024)
    assert run("disk.format", str(image), fs_type="ext2", force=True) is True
    assert run("disk.blkid", str(image))[str(image)]["TYPE"] == "ext2"
    assert run("disk.wipe", str(image), test=True) is True
    assert run("disk.blkid", str(image)) != {}
    assert run("disk.wipe", str(image)) is True
    assert run("disk.blkid", str(image)) == {}
    assert "failed" in outcome("disk.wipe", str(tmp_path / "none")).value


def test_a_name_is_resolved() -> None:
    assert "127.0.0.1" in run("dnsutil.A", "localhost")
    assert run("dnsutil.A", "a..b") == "Unable to resolve a..b"
    assert run("dnsutil.check_ip", "127.0.0.1/8") is True
    assert outcome("dnsutil.A", "-x").retcode == 1


# --- in namespaces


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if os.geteuid() != 0:
        pytest.skip("only root has namespaces of its own here")
    folder = tmp_path_factory.mktemp("machine")
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "--net",
            "--uts",
            sys.executable,
            "-m",
            "tests.support.machine_in_namespaces",
            str(folder),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("name", NAMES)
def test_a_file_system_is_mounted_remounted_and_unmounted(inside: dict[str, Any], name: str) -> None:
    mounted, there, row, again, options, kind, unmounted, still = inside["mounts"][name]
    assert [mounted, there["value"], again] == [{"value": True, "retcode": 0}, True, {"value": True, "retcode": 0}]
    assert (row["fstype"], row["device"], "rw" in row["opts"], "size=64k" in row["opts"]) == ("tmpfs",) * 2 + (
        True,
    ) * 2
    assert "ro" in options
    assert kind["value"] == "tmpfs"
    assert [unmounted["value"], still["value"]] == [True, False]


def test_a_file_of_a_full_disk_is_as_it_was(inside: dict[str, Any]) -> None:
    found = inside["full disk"]
    assert (found["retcode"], found["same"], found["left"]) == (1, True, ["hosts"])
    assert found["value"] == "ERROR: /etc/hosts cannot be written, and is unchanged: No space left on device."


def test_an_interface_that_comes_up_is_seen(inside: dict[str, Any]) -> None:
    found = inside["network"]
    assert found["before"] == {"lo": {"up": False, "hwaddr": "00:00:00:00:00:00"}}
    lo = found["interfaces"]["lo"]
    assert lo["up"] is True
    assert {"address": "10.9.8.7", "netmask": "255.255.255.0", "label": "lo:1"}.items() <= lo["inet"][-1].items()
    assert found["addresses"] == found["private"] == ["10.9.8.7"]
    assert (found["public"], found["subnets"]) == ([], ["10.9.8.0/24"])
    assert (found["in_subnet"], found["startswith"]) == ([True, False], ["lo:1"])


def test_the_way_to_an_address_is_the_kernel_s(inside: dict[str, Any]) -> None:
    way = {"destination": "10.9.8.9", "gateway": None, "interface": "lo", "source": "10.9.8.7"}
    assert inside["network"]["way"] == way | {"source": inside["network"]["way"]["source"]}
    assert "Network is unreachable" in inside["network"]["no way"]["value"]


def test_a_parameter_of_the_kernel_is_set(inside: dict[str, Any]) -> None:
    found = inside["network"]
    assert found["forward"]["value"] == {"net.ipv4.ip_forward": "1"}
    assert found["forwarding"]["value"] == "1"
    assert "cannot be set to 'many': Invalid argument" in found["no number"]["value"]


def test_a_machine_is_given_another_name(inside: dict[str, Any]) -> None:
    found = inside["name"]
    assert (found["test"]["value"], found["still"]) == (True, "before")
    assert (found["done"]["value"], found["now"], set(found["refused"])) == (True, "after", {1})
    assert found["files"] == [
        "127.0.0.1 localhost\n127.0.1.1 before.example.org after # before\n",
        "after\n",
    ]
